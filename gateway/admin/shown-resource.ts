/** Resources as operators see them: without secrets. Another thread converts a large one. */
import { conversions, type Projection } from '../../authorities/index.js';
import { preparing, resourceFromJson, redactedJson } from '../../protos/json-resources.js';
import { LARGE_RESOURCE } from '../../protos/large-resource.js';
import { bodyOf } from '../../protos/resource-field.js';

type Form = 'json' | 'body';

/** Large resources that the other thread converts: several operators may look at one. */
const underWay: Readonly<Record<Form, Map<Projection, Promise<Uint8Array | Error>>>> = {
  json: new Map(),
  body: new Map(),
};

/** @returns proto3 JSON with `@type` and snake_case names, as `redactedJson` makes it */
export async function shownJson(projection: Projection): Promise<string> {
  const { typeUrl, field } = projection;
  if (field.bodyLength <= LARGE_RESOURCE) {
    await prepareInTurns(typeUrl);
    return JSON.stringify(redactedJson(typeUrl, bodyOf(field)));
  }
  const shown = await shownElsewhere(projection, 'json');
  if (!(shown instanceof Error))
    return Buffer.from(shown.buffer, shown.byteOffset, shown.length).toString();
  return JSON.stringify({ '@type': typeUrl, bytes: field.bodyLength, error: shown.message });
}

/**
 * @returns the bytes of the message; undefined for a Secret, for a resource that cannot be read, and where the text that
 * stands for a secret does not fit into its field
 */
export async function shownBody(projection: Projection): Promise<Uint8Array | undefined> {
  const { typeUrl, field } = projection;
  if (field.bodyLength <= LARGE_RESOURCE) {
    await prepareInTurns(typeUrl);
    const read = resourceFromJson(redactedJson(typeUrl, bodyOf(field)));
    return read.ok ? read.body : undefined;
  }
  const shown = await shownElsewhere(projection, 'body');
  return shown instanceof Error ? undefined : shown;
}

/** The first resource of a type: the types that it may contain are read one file in each turn of the event loop. */
async function prepareInTurns(typeUrl: string): Promise<void> {
  const steps = preparing(typeUrl);
  while (steps.next().done === false) await new Promise(setImmediate);
}

async function shownElsewhere(projection: Projection, as: Form): Promise<Uint8Array | Error> {
  const known = underWay[as].get(projection);
  if (known) return known;
  const { typeUrl, field } = projection;
  const result = new Promise<Uint8Array | Error>((resolve) => {
    conversions.show({ typeUrl, body: bodyOf(field), as }, (shown) => {
      underWay[as].delete(projection);
      resolve(shown.ok ? shown.value : new Error(shown.reason));
    });
  });
  underWay[as].set(projection, result);
  return result;
}

/** @returns the JSON of an object with one more field, whose value is JSON already */
export function withJson(fields: object, key: string, json: string): string {
  const head = JSON.stringify(fields).slice(0, -1);
  return `${head}${head === '{' ? '' : ','}${JSON.stringify(key)}:${json}}`;
}

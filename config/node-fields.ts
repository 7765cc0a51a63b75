/** Reads fields of a client's Node in the authority map: `differ_by`, `forward_node` and `for`. */
import type { NodeField } from '../protos/node-scope.js';
import type { Cursor } from './cursor.js';
import type { NodeCondition } from './model.js';
import { didYouMean, nearestWord } from './nearest.js';

const FIELDS = ['id', 'cluster', 'locality'] as const;
const METADATA = 'metadata.';
const FIELDS_REMEDY = `write ${FIELDS.join(', ')} or ${METADATA}<key>`;

/** `all`, or a list of fields. Fields with problems are reported and left out. */
export function readNodeFields(at: Cursor, setting: string): readonly NodeField[] | 'all' {
  const text = at.string();
  if (text === 'all') return text;
  if (text !== undefined) {
    at.problem(`${JSON.stringify(text)} is not a list of Node fields`, 'write all, or a list');
  }
  const fields: NodeField[] = [];
  for (const item of at.items()) {
    const written = item.string();
    if (written === undefined) continue;
    const field = nodeFieldOf(written);
    if (field === undefined) {
      const isNear = nearestWord(written, FIELDS) !== undefined;
      const remedy = isNear ? didYouMean(written, FIELDS) : remedyFor(written);
      item.problem(
        `${JSON.stringify(written)} is not a Node field that ${setting} supports`,
        remedy,
      );
    } else if (fields.includes(field)) item.problem(`${JSON.stringify(written)} is listed twice`);
    else fields.push(field);
  }
  return fields;
}

const remedyFor = (written: string): string =>
  written === 'all' ? 'write all instead of the list' : FIELDS_REMEDY;

function nodeFieldOf(text: string): NodeField | undefined {
  const field = FIELDS.find((one) => one === text);
  if (field !== undefined) return field;
  const key = text.startsWith(METADATA) ? text.slice(METADATA.length) : '';
  return key === '' ? undefined : `${METADATA}${key}`;
}

const CONDITIONS: ReadonlyMap<string, Pick<NodeCondition, 'field' | 'part'>> = new Map([
  ['id', { field: 'id' }],
  ['cluster', { field: 'cluster' }],
  ['locality.region', { field: 'locality', part: 'region' }],
  ['locality.zone', { field: 'locality', part: 'zone' }],
  ['locality.sub_zone', { field: 'locality', part: 'subZone' }],
]);

/** `for: { metadata.MESH_ID: prod, cluster: web }`. Conditions with problems are reported and left out. */
export function readConditions(at: Cursor): readonly NodeCondition[] {
  const entries = at.entries();
  if (at.object() !== undefined && entries.length === 0) {
    at.problem('must not be empty', 'leave it out: the entry then applies to every client', 'key');
  }
  return entries.flatMap(([key, value]) => {
    const equals = value.string() ?? value.number() ?? value.boolean();
    const isMetadata = key.startsWith(METADATA) && key.length > METADATA.length;
    const condition = isMetadata ? { field: key as NodeField } : CONDITIONS.get(key);
    if (condition === undefined) {
      const known = [...CONDITIONS.keys()];
      const isNear = nearestWord(key, known) !== undefined;
      const remedy = isNear
        ? didYouMean(key, known)
        : `write ${known.join(', ')} or ${METADATA}<key>`;
      value.problem('is not a Node field that for supports', remedy, 'key');
      return [];
    }
    if (equals === undefined) return [];
    if (!isMetadata && typeof equals !== 'string') {
      value.problem('must be text', `write ${JSON.stringify(String(equals))}`);
      return [];
    }
    return [{ ...condition, equals }];
  });
}

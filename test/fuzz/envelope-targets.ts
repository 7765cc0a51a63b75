/**
 * Decoders of protocol messages; a share of the results is compared with an independent decoder.
 */
import assert from 'node:assert/strict';
import {
  decodeDeltaRequest,
  decodeDeltaResponse,
  encodeDeltaRequest,
} from '../../protos/delta-codec.js';
import type { Decoded } from '../../protos/discovery.js';
import { readResource } from '../../authorities/core/projection.js';
import { bodyOf } from '../../protos/resource-field.js';
import { parseResourceName } from '../../protos/resource-name.js';
import { decodeSotwRequest } from '../../protos/sotw-codec.js';
import {
  DELTA_REQUESTS,
  DELTA_RESPONSES,
  LISTS,
  LOCATORS,
  SOTW_REQUESTS,
} from './envelope-seeds.js';
import { compare, type MessageShape, REQUEST, RESPONSE, SOTW_REQUEST } from './reference.js';
import type { Prepared, Target } from './target.js';
import { mutateWire } from './wire-mutator.js';
import { concat, fieldBytes, spansOf } from './wire.js';
import { ALL_WORD_BYTES, name, THING } from './words.js';
import { REDIRECT } from '../support/collection-messages.js';

const MILLION = 1_000_000;
/** Low, so that messages reach it. */
const MAX_ENTRIES = 12;
/** Of 256 messages this many also go to the independent decoder, slower than all the rest. */
const COMPARED = 26;

function wirePrepared(
  seeds: readonly Uint8Array[],
  words: readonly Uint8Array[],
  rough: number,
  take: (message: Uint8Array, dice: number) => boolean,
): Prepared {
  return {
    seeds: seeds.map((seed) => new Uint8Array(seed)),
    mutate: (random, known) => mutateWire(random, { seeds: known, words }, rough),
    open: () => ({ take }),
  };
}

function decoderOf<T>(
  shape: MessageShape,
  decode: (bytes: Uint8Array, most: number) => Decoded<T>,
  plain: (message: T) => unknown,
  check: (message: T) => void,
  /** Did the decoder leave nothing out? */
  isWhole: (message: T) => boolean = () => true,
) {
  return (message: Uint8Array, dice: number): boolean => {
    // As a Buffer, like gRPC, or as a plain Uint8Array, like other callers.
    const bytes = dice % 2 === 0 ? Buffer.from(message) : new Uint8Array(message);
    const decoded = decode(bytes, MAX_ENTRIES);
    if (dice < COMPARED && (!decoded.ok || isWhole(decoded.message)))
      compare(shape, bytes, decoded, plain);
    if (!decoded.ok) return false;
    check(decoded.message);
    return true;
  };
}

const withoutEmptyNode = <T extends { readonly node: Uint8Array | undefined }>(message: T): T => ({
  ...message,
  node: message.node?.length === 0 ? undefined : message.node,
});

const deltaRequest = decoderOf(
  REQUEST,
  decodeDeltaRequest,
  (message) => ({
    ...withoutEmptyNode(message),
    initialVersions: Object.fromEntries(message.initialVersions),
  }),
  ({ locators, versionsLeftOut = 0, ...message }) => {
    const { subscribe, unsubscribe, initialVersions } = message;
    const { subscribe: asked, unsubscribe: left } = locators ?? { subscribe: [], unsubscribe: [] };
    const names = [subscribe, unsubscribe, asked, left].reduce(
      (sum, { length }) => sum + length,
      0,
    );
    assert.ok(names <= MAX_ENTRIES);
    assert.ok(initialVersions.size <= MAX_ENTRIES);
    assert.ok(versionsLeftOut === 0 || initialVersions.size === MAX_ENTRIES);
    const all = locators ? { ...message, locators } : message;
    const again = decodeDeltaRequest(encodeDeltaRequest(all), MAX_ENTRIES);
    assert.deepEqual(again, {
      ok: true,
      message: { ...all, node: again.ok ? again.message.node : undefined },
    });
  },
  ({ versionsLeftOut }) => versionsLeftOut === undefined,
);

const sotwRequest = decoderOf(
  SOTW_REQUEST,
  decodeSotwRequest,
  (message) => {
    const plain: Record<string, unknown> = { ...withoutEmptyNode(message) };
    delete plain['encodedNames'];
    return plain;
  },
  ({ names, encodedNames }) => {
    assert.ok(names.length <= MAX_ENTRIES);
    if (!encodedNames) return;
    const again = decodeSotwRequest(encodedNames, MAX_ENTRIES);
    assert.ok(again.ok, 'the encoded names can be decoded');
    assert.deepEqual(again.message.names, names);
  },
);

const deltaResponse = decoderOf(
  RESPONSE,
  decodeDeltaResponse,
  (message) => message,
  ({ resources, removed, errors }) => {
    assert.ok(resources.length + removed.length + errors.length <= MAX_ENTRIES);
    for (const { ttlMs = 0 } of resources) assert.ok(!Number.isNaN(ttlMs));
  },
);

/** Each mutated envelope is the only entry of an otherwise valid response. */
function resource(message: Uint8Array): boolean {
  const response = Buffer.from(concat(fieldBytes(2, message), fieldBytes(4, Buffer.from(THING))));
  const decoded = decodeDeltaResponse(response, MAX_ENTRIES);
  const [entry] = decoded.ok ? decoded.message.resources : [];
  if (!entry?.body) return false;
  const parsed = parseResourceName(entry.name);
  if (!parsed.ok) return false;
  const read = readResource(parsed.value, THING, entry.typeUrl, entry.body);
  if (!read.ok) return false;
  const { projection } = read;
  // Clients must get exactly this content.
  const sent = decodeDeltaResponse(projection.field.bytes, 1);
  assert.ok(sent.ok, 'the re-encoded resource can be decoded');
  const [piece] = sent.message.resources;
  assert.equal(piece?.name, parsed.value.key);
  assert.equal(piece.version, projection.version);
  assert.equal(piece.typeUrl, projection.redirect ? REDIRECT : THING);
  assert.ok(Buffer.from(bodyOf(projection.field)).equals(piece.body ?? Buffer.alloc(0)));
  return true;
}

const resourceSeeds: readonly Uint8Array[] = DELTA_RESPONSES.flatMap((response) =>
  spansOf(response)
    .filter((span) => span.parent === -1 && span.number === 2)
    .map((span) => response.slice(span.valueStart, span.end)),
);

const words = [...ALL_WORD_BYTES, ...LOCATORS, ...LISTS];
const target = (targetName: string, cost: number, prepare: () => Prepared): Target => ({
  name: targetName,
  messages: MILLION,
  perCase: 1,
  valid: 0,
  cost,
  prepare,
});

export const ENVELOPE_TARGETS: readonly Target[] = [
  target('delta-request', 8, () => wirePrepared(DELTA_REQUESTS, words, 0.3, deltaRequest)),
  target('sotw-request', 8, () => wirePrepared(SOTW_REQUESTS, words, 0.3, sotwRequest)),
  target('delta-response', 9, () => wirePrepared(DELTA_RESPONSES, words, 0.3, deltaResponse)),
  target('resource', 10, () =>
    wirePrepared(resourceSeeds, [...words, Buffer.from(name('a', 'new'))], 0.1, resource),
  ),
];

export { target as wireTarget, wirePrepared };

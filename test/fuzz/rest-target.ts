/** Requests of REST: JSON that becomes a binary request. */
import assert from 'node:assert/strict';
import { requestFromJson } from '../../protos/rest-client-json.js';
import { decodeSotwRequest } from '../../protos/sotw-codec.js';
import { JSON_TOKENS } from './text-mutator.js';
import { stateless, textPrepared } from './text-prepared.js';
import type { Target } from './target.js';
import { ALL_WORDS, NAMES } from './words.js';

const SEEDS: readonly string[] = [
  { node: { id: 'n', cluster: 'c', metadata: { zone: 'x', list: [1, null, { deep: true }] } } },
  { versionInfo: 'v', resourceNames: NAMES.slice(0, 4), typeUrl: 'type.googleapis.com/a.B' },
  { version_info: 'v', resource_names: ['*'], response_nonce: '1', error_detail: { code: 3 } },
  { node: { extensions: [{ name: 'e', typeDescriptor: 'd' }], clientFeatures: ['f'] } },
].map((json) => JSON.stringify(json));

const MAX_NAMES = 1_000;

function readRequest(text: string): boolean {
  const read = requestFromJson(Buffer.from(text), MAX_NAMES);
  if (!read.ok) {
    assert.ok(read.reason.length > 0, 'a refused request has a reason');
    return false;
  }
  const decoded = decodeSotwRequest(read.value, MAX_NAMES);
  // The library writes what the codec reads.
  assert.ok(decoded.ok || decoded.code === 'too_many');
  return true;
}

export const REST_TARGETS: readonly Target[] = [
  {
    name: 'rest-request',
    messages: 100_000,
    perCase: 1,
    valid: 0,
    cost: 100,
    prepare: () => textPrepared(SEEDS, ALL_WORDS, JSON_TOKENS, stateless(readRequest)),
  },
];

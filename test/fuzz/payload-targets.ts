/** Readers of resource contents: names, lists, locators, Nodes, and dumps for humans. */
import assert from 'node:assert/strict';
import { scopeOf } from '../../protos/node-scope.js';
import { hasClientFeature, readClientNode } from '../../protos/node-codec.js';
import { readList } from '../../protos/list-collection.js';
import { readLocatorField, readResourceLocator } from '../../protos/locator-codec.js';
import { ownNameTypes } from '../../protos/payload-name-table.js';
import { rewritePayloadNames, ownNameOf } from '../../protos/payload-names.js';
import { redactedJson } from '../../protos/json-resources.js';
import {
  formatResourceLocator,
  maxLocatorBytes,
  parseResourceLocator,
  type ResourceLocator,
} from '../../protos/resource-locator.js';
import { TYPE_URL_PREFIX } from '../../protos/type-urls.js';
import { LISTS, LOCATORS, NODES } from './envelope-seeds.js';
import type { Prepared, Target } from './target.js';
import { wirePrepared, wireTarget } from './envelope-targets.js';
import { ALL_WORD_BYTES, bytesOf, name, THING } from './words.js';

const MAX_ENTRIES = 12;

/** A locator's target is requested by its text, so the text must parse to the same locator. */
function checkLocator(locator: ResourceLocator): void {
  const text = formatResourceLocator(locator);
  if (text.length > maxLocatorBytes) return;
  const again = parseResourceLocator(text);
  assert.ok(again.ok, `${text} parses again`);
  assert.equal(formatResourceLocator(again.value), text);
}

function list(message: Uint8Array): boolean {
  const read = readList(message, MAX_ENTRIES);
  if (!read.ok) return false;
  assert.ok(read.entries.length <= MAX_ENTRIES);
  const names = new Set<string>();
  const entries = [...read.entries];
  assert.equal(entries.length, read.entries.length);
  for (const entry of entries) {
    if (entry.kind === 'locator') checkLocator(entry.locator);
    if (entry.kind !== 'inline' || entry.name === '') continue;
    assert.ok(!names.has(entry.name), 'names of entries are unique');
    names.add(entry.name);
  }
  return entries.some(({ kind }) => kind !== 'refused');
}

function locator(message: Uint8Array): boolean {
  const [whole, field] = [
    readResourceLocator(message),
    readLocatorField(message, 0, message.length),
  ];
  for (const read of [whole, field]) if (read.ok) checkLocator(read.locator);
  return whole.ok || field.ok;
}

const SCOPE_FIELDS = ['id', 'cluster', 'locality', 'metadata.group', 'metadata.other'] as const;

function node(message: Uint8Array, dice: number): boolean {
  hasClientFeature(message, 'xds.config.resource-in-sotw');
  const read = readClientNode(message, ['group', 'other', '__proto__']);
  const scope = scopeOf(read, SCOPE_FIELDS);
  assert.ok(!scope.includes('\n'), 'a scope has no line break');
  // A readable scope is JSON; a longer one is a prefix and a hash.
  if (!scope.endsWith('}')) assert.match(scope, /#[0-9a-f]{64}$/);
  else if (dice < 32) assert.equal(scopeOf(JSON.parse(scope) as typeof read, SCOPE_FIELDS), scope);
  return !read.malformed;
}

const OWN_NAME = name('own', 'new?a=b', 'T');

function rewriter(typeName: string) {
  const typeUrl = TYPE_URL_PREFIX + typeName;
  const reference = (text: string): string => {
    assert.ok(text.startsWith('xdstp:'));
    const parsed = parseResourceLocator(text);
    return parsed.ok ? parsed.value.name.key : text;
  };
  const rewrite = { ownName: OWN_NAME, reference };
  return (message: Uint8Array): boolean => {
    const done = rewritePayloadNames(typeUrl, message, rewrite);
    if (!done.ok) return false;
    const { value, ownName } = done.value;
    if (!ownNameTypes.has(typeName)) return true;
    assert.equal(ownName, OWN_NAME);
    assert.equal(ownNameOf(typeUrl, value), OWN_NAME);
    // Rewriting is idempotent: canonical content stays, byte for byte.
    const again = rewritePayloadNames(typeUrl, value, rewrite);
    assert.ok(
      again.ok && Buffer.compare(again.value.value, value) === 0,
      'rewriting is idempotent',
    );
    return true;
  };
}

/** The messages of the unit tests: at least one for each field that contains a name. */
async function payloadsOf(typeName: string): Promise<readonly Uint8Array[]> {
  const { cases } = await import('../unit/protos/payload-name-cases.js');
  const { encode } = await import('../unit/protos/envoy-messages.js');
  const refTo = (type: string): string => `${name('a', '6%2fx', type)}#alt=${name('b', '1', type)}`;
  const of = cases
    .filter(({ type }) => type === typeName)
    .map((one) => encode(typeName, one.fields(refTo)));
  const field = typeName.endsWith('ClusterLoadAssignment') ? 'cluster_name' : 'name';
  return [...of, encode(typeName, { [field]: name('a', '1', typeName) })].map(
    (one) => new Uint8Array(one),
  );
}

const SCHEMES = [bytesOf('xdstp:'), bytesOf('xdstp://a/T/x%2'), bytesOf(`${name('a', '1')}#alt=`)];
const words = [...ALL_WORD_BYTES, ...SCHEMES];

const rewriteTargets = [...ownNameTypes].map((typeName): Target => ({
  ...wireTarget(`names-in-${typeName.slice(typeName.lastIndexOf('.') + 1)}`, 10, unprepared),
  prepare: async () => wirePrepared(await payloadsOf(typeName), words, 0.1, rewriter(typeName)),
}));

function unprepared(): Prepared {
  throw new Error('prepared by the row');
}

/**
 * The admin side decodes complete bodies with a library, which is slow beside the hand-written
 * decoders.
 */
const dump: Target = {
  ...wireTarget('dump', 150, unprepared),
  messages: 50_000,
  prepare: async () => {
    const all: Uint8Array[] = [];
    for (const typeName of ownNameTypes) all.push(...(await payloadsOf(typeName)));
    return wirePrepared(all, words, 0.1, (message, dice) => {
      const typeName = [...ownNameTypes][dice % ownNameTypes.size]!;
      return !('error' in redactedJson(TYPE_URL_PREFIX + typeName, message));
    });
  },
};

export const PAYLOAD_TARGETS: readonly Target[] = [
  wireTarget('list', 9, () =>
    wirePrepared(LISTS, [...words, ...LOCATORS, bytesOf(THING)], 0.1, list),
  ),
  wireTarget('locator', 9, () => wirePrepared(LOCATORS, words, 0.1, locator)),
  wireTarget('node', 9, () => wirePrepared(NODES, words, 0.2, node)),
  ...rewriteTargets,
  dump,
];

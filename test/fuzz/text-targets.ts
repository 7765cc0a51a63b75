/** Readers of text: names, messages of other instances, the state file, the authority map. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { parseAuthorityMap } from '../../config/authority-map.js';
import { readAskedName } from '../../gateway/core/session/asked-name.js';
import { encodePeerMessage } from '../../gateway/core/peers/peer-message.js';
import { ResourceCache } from '../../gateway/core/cache/resource-cache.js';
import {
  decodeCollections,
  encodeCollections,
  withDigest,
} from '../../gateway/state-file/collection-file.js';
import {
  escapedDirectivesOf,
  formatResourceLocator,
  parseResourceLocator,
} from '../../protos/resource-locator.js';
import { makeResourceName, nameOfKey, parseResourceName } from '../../protos/resource-name.js';
import { FakeDirectory } from '../support/fake-directory.js';
import { HintsDriver } from '../support/hints-driver.js';
import { nameOf } from '../support/fake-directory.js';
import type { Target } from './target.js';
import { JSON_TOKENS, WORDS, YAML_TOKENS } from './text-mutator.js';
import { stateless, textPrepared } from './text-prepared.js';
import { ALL_WORDS, name, NAMES, THING, THINGS } from './words.js';

const MILLION = 1_000_000;

// ---- names ------------------------------------------------------------------------------------

const NAME_WORDS = [
  ...NAMES,
  ...[
    '#',
    '#alt=',
    '#entry=',
    ',',
    '%23',
    '%2F',
    '%2f',
    '%',
    '%zz',
    '%00',
    '%c0%af',
    '%E2%82',
    '*',
    '/',
    '//',
    '?',
    '&',
    '=',
    'a=b',
    '+',
  ],
  'xdstp://',
  'XDSTP://',
];

function readName(text: string): boolean {
  const parsed = parseResourceName(text);
  if (parsed.ok) {
    const { value } = parsed;
    const again = parseResourceName(value.key);
    assert.ok(again.ok, `the key of ${text} parses`);
    assert.deepEqual(again.value, value, 'the key stands for the same name');
    const made = makeResourceName(value);
    assert.ok(made.ok && made.value.key === value.key, 'the parts make the same name');
    assert.equal(nameOfKey(value.key)?.key, value.key);
    escapedDirectivesOf(value);
  }
  const locator = parseResourceLocator(text);
  if (locator.ok) {
    const canonical = formatResourceLocator(locator.value);
    const again = parseResourceLocator(canonical);
    if (again.ok) assert.equal(formatResourceLocator(again.value), canonical);
    else assert.equal(again.error.code, 'too-long');
  }
  for (const typeUrl of [THING, THINGS]) {
    const asked = readAskedName(typeUrl, text, () => ({ kind: 'scope', scope: '{"id":"n"}' }));
    if (asked.ok) assert.ok(asked.name.key.length > 0);
  }
  return locator.ok;
}

// ---- messages of other instances ----------------------------------------------------------------

const held = ['1', '2', 'dir/4', '*'].map((id) => nameOf(name('a', id)));
const peerSeeds: readonly string[] = [
  encodePeerMessage('other', {
    kind: 'changes',
    hints: [
      { typeUrl: THING, name: held[0]!, version: 'abc' },
      { typeUrl: THING, name: held[1]!, version: null },
      { typeUrl: THING, name: nameOf('\n{"id":"n"}\nold'), version: '' },
    ],
  }),
  encodePeerMessage('other', { kind: 'switched', group: 'a', to: 'onprem' }),
  encodePeerMessage('other', { kind: 'invalidate', typeUrl: THING, name: held[3]! }),
  encodePeerMessage('other', { kind: 'invalidate_authority', authority: 'a' }),
  encodePeerMessage('other', {
    kind: 'digest',
    isQuestion: true,
    rows: [{ typeUrl: THING, authority: 'a', count: 2, hash: 'AAAA' }],
  }),
  encodePeerMessage('me', { kind: 'invalidate_authority', authority: 'a' }),
].map((bytes) => Buffer.from(bytes).toString());

const JSON_WORDS = [
  ...ALL_WORDS.map((word) => JSON.stringify(word)),
  ...[
    'null',
    'true',
    '{}',
    '[]',
    '[[',
    ']]',
    '{',
    '}',
    '-0',
    '1e999',
    '-1e999',
    '0.5',
    '1e21',
    '"\\ud800"',
    '"\\u0000"',
    ',',
    ':',
  ],
  ...[
    '"v":2',
    '"__proto__":{}',
    '"changes":',
    '"digest":',
    '"switched":',
    '"version":1',
    '"removed":',
  ],
];

/** Per second, as limited by the core; a second's worth may come at once. */
const QUESTIONS_PER_SECOND = 100;

function hints() {
  const driver = new HintsDriver();
  for (const one of held)
    driver.holds(one, { version: 'held', inCollection: one.id === 'dir/4' }, THING);
  const startedMs = driver.nowMs;
  let asked = 0;
  const settle = (): void => {
    for (const effect of driver.take()) {
      if (effect.kind === 'publish') assert.ok(effect.bytes.length <= 16 * 1_024);
      if (effect.kind === 'revalidate' || effect.kind === 'nudge_sources_of') {
        assert.ok(
          held.some(({ key }) => key === effect.name.key),
          'only held names are requested again',
        );
      }
      if (!['publish', 'ignored', 'not_told'].includes(effect.kind)) asked++;
    }
  };
  return {
    take: (text: string, dice: number): boolean => {
      driver.hearsBytes(Buffer.from(text));
      const ignored = driver.did.length;
      if (dice < 10) driver.sees(held[dice % held.length]!, `v${dice}`, { typeUrl: THING });
      driver.after(dice < 20 ? 1_500 : 5);
      const effects = driver.hints.takeEffects();
      const used = !effects.some(({ kind }) => kind === 'ignored') && ignored === 0;
      driver.did.push(...effects);
      settle();
      return used;
    },
    end: (): void => {
      driver.after(120_000);
      settle();
      const seconds = (driver.nowMs - startedMs) / 1_000;
      assert.ok(asked <= QUESTIONS_PER_SECOND * (seconds + 1), `${asked} questions`);
      assert.deepEqual(
        driver.hints.digest().length,
        new Set(driver.hints.digest().map(({ authority }) => authority)).size,
      );
    },
  };
}

// ---- the state file -------------------------------------------------------------------------------

const NOW_MS = 10_000_000;
const same = (atMs: number): number => Math.min(NOW_MS, atMs);
const stateFiles: readonly string[] = [
  [...encodeCollections([], same)].join(''),
  [
    ...encodeCollections(
      [
        {
          typeUrl: THING,
          glob: held[3]!,
          members: [held[0]!.key, held[1]!.key],
          removed: [{ key: name('a', '3'), removedAtMs: NOW_MS - 5_000 }],
          knownAtMs: NOW_MS - 100,
        },
        {
          typeUrl: THINGS,
          glob: { ...nameOf(name('a', 'list', 'test.v1.ThingCollection')), isGlob: true },
          members: [name('b', '1')],
          removed: [],
          knownAtMs: NOW_MS,
        },
        {
          typeUrl: THING,
          glob: nameOf('\n{"id":"n"}\n*'),
          members: ['\n{"id":"n"}\nx'],
          removed: [],
          knownAtMs: NOW_MS,
        },
      ],
      same,
    ),
  ].join(''),
];

function stateFile(text: string): boolean {
  // With a valid digest; without one the reader would reject the file before reading the rest.
  const end = text.lastIndexOf(',"sha');
  const sealed = end === -1 ? text : [...withDigest([text.slice(0, end)])].join('');
  const decoded = decodeCollections(sealed, same);
  if (!decoded.ok) return false;
  const cache = new ResourceCache(new FakeDirectory(), {
    tombstonesPerCollection: 10,
    tombstoneMaxAgeMs: 3_600_000,
    unsubscribedLingerMs: 30_000,
    maxUnsubscribedNames: 1_000,
  });
  cache.restoreCollections(decoded.collections, NOW_MS);
  const written = [...encodeCollections(cache.collectionNames(NOW_MS), (atMs) => atMs)].join('');
  const again = decodeCollections(written, same);
  assert.ok(
    again.ok,
    `a state file that was read can be written and read again: ${again.ok ? '' : again.reason}`,
  );
  cache.handleTimer(NOW_MS + 4_000_000);
  return true;
}

// ---- the authority map ----------------------------------------------------------------------------

const EXAMPLES = ['quickstart', 'grpc', 'lists', 'old-beside-new', 'two-instances'];
const exampleMaps = (): readonly string[] =>
  EXAMPLES.flatMap((folder) => {
    try {
      return [
        readFileSync(
          new URL(`../../../examples/${folder}/authority-map.yaml`, import.meta.url),
          'utf8',
        ),
      ];
    } catch {
      return [];
    }
  }).map((text) => text.replace(/^ *#.*\n/gm, ''));

const YAML_WORDS = [
  ...[
    'sources',
    'authorities',
    'old_style_names',
    'clusters',
    'served_by',
    'differ_by',
    'alternative',
    'failover',
    'target',
    'path',
  ],
  ...[
    '{',
    '}',
    '[',
    ']',
    '&a',
    '*a',
    '<<: *a',
    '- ',
    ': ',
    '|',
    '>',
    '? ',
    '!!binary',
    '!!set',
    '"',
    "'",
    '---',
    '...',
    '%YAML 1.1',
    '\t',
  ],
  ...['null', '~', '1e9', '.inf', '-1', '30s', '0x10', 'yes', '__proto__: 1', 'constructor'],
];

function authorityMap(text: string): boolean {
  const read = parseAuthorityMap(text, { file: '/etc/map.yaml' });
  if (read.ok) assert.ok(read.map.authorities.size > 0 || read.map.oldStyle !== undefined);
  else assert.ok(read.problems.length > 0, 'a refused map has problems');
  return read.ok;
}

export const TEXT_TARGETS: readonly Target[] = [
  {
    name: 'name',
    messages: MILLION,
    perCase: 1,
    valid: 0,
    cost: 9,
    prepare: () => textPrepared(NAMES, NAME_WORDS, WORDS, stateless(readName)),
  },
  {
    name: 'peer-message',
    messages: MILLION,
    perCase: 100,
    valid: 0.2,
    cost: 8,
    prepare: () => textPrepared(peerSeeds, JSON_WORDS, JSON_TOKENS, hints),
  },
  {
    name: 'state-file',
    messages: MILLION,
    perCase: 1,
    valid: 0,
    cost: 12,
    prepare: () => textPrepared(stateFiles, JSON_WORDS, JSON_TOKENS, stateless(stateFile)),
  },
  {
    // The YAML library and the schema take a millisecond per message.
    name: 'authority-map',
    messages: 10_000,
    perCase: 1,
    valid: 0,
    cost: 1_500,
    prepare: () => textPrepared(exampleMaps(), YAML_WORDS, YAML_TOKENS, stateless(authorityMap)),
  },
];

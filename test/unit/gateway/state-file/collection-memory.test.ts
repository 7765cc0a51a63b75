/**
 * Goal: names of collections outlive the process, and no fault of the file or the disk keeps the
 * gateway from serving.
 * Method: real files in a scratch directory; one cache writes, another one reads; both with manual
 * clocks.
 */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import t, { type Test } from 'tap';
import {
  CollectionMemory,
  type MemoryEvent,
} from '../../../../gateway/state-file/collection-memory.js';
import { encodeCollections, withDigest } from '../../../../gateway/state-file/collection-file.js';
import type { CollectionNames } from '../../../../gateway/core/cache/collection.js';
import { nameOfKey, oldStyleName, type ResourceName } from '../../../../protos/resource-name.js';
import { nameOf } from '../../../support/fake-directory.js';
import { CDS, cds } from '../../../support/mesh-names.js';

const DAY_MS = 86_400_000;
const LIST = 'xdstp://a/envoy.config.cluster.v3.ClusterCollection/all';
const GLOB = nameOf(cds('g/*'));

const named = (members: readonly string[], glob: ResourceName = GLOB): CollectionNames => ({
  typeUrl: CDS,
  glob,
  members,
  removed: [],
  knownAtMs: 0,
});

class FakeCache {
  collectionChanges = 0;
  collections: CollectionNames[] = [];
  restored: readonly CollectionNames[] = [];
  reads = 0;
  *collectionNames(): IterableIterator<CollectionNames> {
    this.reads++;
    yield* this.collections;
  }
  restoreCollections(all: readonly CollectionNames[]): void {
    this.restored = all;
  }
  holds(...collections: CollectionNames[]): void {
    this.collections = collections;
    this.collectionChanges++;
  }
}

interface Clocks {
  nowMs: number;
  wallMs: number;
}

function start(t: Test, file: string, clocks: Clocks, maxBytes?: number) {
  const cache = new FakeCache();
  const events: MemoryEvent[] = [];
  const memory = new CollectionMemory({
    file,
    cache,
    maxAgeMs: DAY_MS,
    clock: () => clocks.nowMs,
    wallClock: () => clocks.wallMs,
    ...(maxBytes === undefined ? {} : { maxBytes }),
    onEvent: (event) => events.push(event),
  });
  memory.start();
  t.teardown(() => {
    memory.close();
  });
  return { cache, memory, events };
}

const fileIn = (t: Test): string => join(t.testdir({}), 'state.json');
const kinds = (events: readonly MemoryEvent[]): readonly string[] => events.map(({ kind }) => kind);

t.test(
  'names that one process wrote are known to the next one, on its own clock (invariant 18)',
  async (t) => {
    const file = fileIn(t);
    const one = start(t, file, { nowMs: 5_000, wallMs: 1_000_000 });
    t.strictSame(one.events, [], 'no file at the first start');
    const list = { ...nameOf(LIST), isGlob: true, key: `${LIST}#alt=xdstp://b/T/x` };
    const wildcard = oldStyleName('edge', '*');
    const broken = oldStyleName('edge', 'a\nb').key;
    // As the NameTable of Istio.
    const nameless = oldStyleName('edge', '').key;
    const many = Array.from({ length: 2_500 }, (_, at) => cds(`g/${at}`));
    one.cache.holds(
      { ...named(many), removed: [{ key: cds('g/gone'), removedAtMs: 1_000 }], knownAtMs: 5_000 },
      { ...named([broken, nameless], wildcard), knownAtMs: 2_000 },
      { ...named([cds('any', 'elsewhere')], list), knownAtMs: 5_000 },
      named([], nameOf(cds('empty/*'))),
    );
    await one.memory.writeIfDue();
    t.strictSame(kinds(one.events), ['written']);

    const two = start(t, file, { nowMs: 100, wallMs: 1_060_000 });
    t.strictSame(two.events, [{ kind: 'loaded', collections: 3, names: 2_504 }]);
    const [globs, old, lists] = two.cache.restored;
    t.strictSame(globs, {
      ...named(many),
      removed: [{ key: cds('g/gone'), removedAtMs: 100 - 64_000 }],
      knownAtMs: 100 - 60_000,
    });
    t.strictSame(lists?.glob, list);
    t.strictSame(old, { ...named([broken, nameless], wildcard), knownAtMs: 100 - 63_000 });
    t.strictSame(readdirSync(join(file, '..')), ['state.json'], 'no draft remains');
  },
);

t.test('a wall clock that was set back leads to no future time', async (t) => {
  const file = fileIn(t);
  const one = start(t, file, { nowMs: 0, wallMs: 1_000_000 });
  one.cache.holds(named([cds('g/a')]));
  await one.memory.writeIfDue();
  const two = start(t, file, { nowMs: 50, wallMs: 500_000 });
  t.equal(two.cache.restored[0]?.knownAtMs, 50);
});

t.test('nothing is read or written without a change, except to keep the file fresh', async (t) => {
  const clocks = { nowMs: 0, wallMs: 0 };
  const { cache, memory, events } = start(t, fileIn(t), clocks);
  await memory.writeIfDue();
  t.equal(cache.reads, 0);
  cache.holds(named([cds('g/a')]));
  await memory.writeIfDue();
  await memory.writeIfDue();
  await memory.flush();
  t.equal(cache.reads, 1);
  clocks.nowMs = DAY_MS / 10;
  await memory.writeIfDue();
  t.equal(cache.reads, 2, 'otherwise it would count as a day old when it is needed');
  t.strictSame(kinds(events), ['written', 'written']);
});

t.test('a change during a write is written next', async (t) => {
  const file = fileIn(t);
  const { cache, memory } = start(t, file, { nowMs: 0, wallMs: 0 });
  cache.holds(named([cds('g/a')]));
  const writing = memory.writeIfDue();
  cache.holds(named([cds('g/b')]));
  await memory.writeIfDue();
  await memory.flush();
  await writing;
  t.match(readFileSync(file, 'utf8'), cds('g/b'));
});

const digested = (content: object): string =>
  [...withDigest([JSON.stringify(content).slice(0, -1)])].join('');

const oneMember = { type: CDS, glob: GLOB.key, known_at: 1, members: [cds('g/a')], removed: [] };

const BAD_FILES: Readonly<Record<string, string>> = {
  'is torn': '{"version":1,"collections":[\n{"type":"T","gl',
  'is empty': '',
  'has zeros alone, after a power loss': '\0'.repeat(4_096),
  'is of a later version': '{"version":2,"collections":[]}',
  'has no digest': JSON.stringify({ version: 1, collections: [] }),
  'has one flipped bit': digested({ version: 1, collections: [oneMember] }).replace('g/a', 'g/c'),
  'has no list': digested({ version: 1, collections: {} }),
  'has no glob': digested({ version: 1, collections: [{ type: 'T', glob: 'xdstp://a/T/x' }] }),
  'has an invalid type': digested({
    version: 1,
    collections: [{ type: 3, glob: GLOB.key, known_at: 1, members: [], removed: [] }],
  }),
  'has an invalid time': digested({
    version: 1,
    collections: [{ type: CDS, glob: GLOB.key, known_at: '1', members: [], removed: [] }],
  }),
  'names a non-member': digested({
    version: 1,
    collections: [{ ...oneMember, members: [cds('h/a')] }],
  }),
  'is too large': `{"version":1,${' '.repeat(200_000)}`,
};

for (const [what, text] of Object.entries(BAD_FILES)) {
  t.test(
    `a file that ${what} is set aside with one warning, and a new one is written`,
    async (t) => {
      const file = fileIn(t);
      writeFileSync(file, text);
      const { cache, memory, events } = start(t, file, { nowMs: 0, wallMs: 0 }, 100_000);
      t.match(events, [{ kind: 'refused', reason: /./, setAside: `${file}.refused` }]);
      t.equal(events.length, 1);
      t.strictSame(cache.restored, []);
      t.equal(readFileSync(`${file}.refused`, 'utf8'), text);
      cache.holds(named([cds('g/a')]));
      await memory.writeIfDue();
      t.strictSame(kinds(events), ['refused', 'written']);
    },
  );
}

t.test('a file that is not a state file is left alone', async (t) => {
  const file = fileIn(t);
  const text = 'sources: { s: { path: ./s } }\n';
  writeFileSync(file, text);
  const { cache, memory, events } = start(t, file, { nowMs: 0, wallMs: 0 });
  cache.holds(named([cds('g/a')]));
  await memory.flush();
  t.match(events, [{ kind: 'refused', reason: /^is not a state file/, setAside: undefined }]);
  t.equal(events.length, 1);
  t.equal(readFileSync(file, 'utf8'), text);
});

t.test(
  'a file over the size limit, or a path that is not a regular file (a pipe, a device), is left alone',
  async (t) => {
    const file = fileIn(t);
    const large = 'x'.repeat(2_000);
    writeFileSync(file, large);
    const pipe = `${file}.pipe`;
    const { execFileSync } = await import('node:child_process');
    execFileSync('mkfifo', [pipe]);
    for (const path of [file, pipe]) {
      const { cache, memory, events } = start(t, path, { nowMs: 0, wallMs: 0 }, 1_000);
      cache.holds(named([cds('g/a')]));
      await memory.flush();
      t.match(events, [{ kind: 'refused', setAside: undefined }]);
      t.equal(events.length, 1, 'and nothing is written');
    }
    t.equal(readFileSync(file, 'utf8'), large);
    t.ok(statSync(pipe).isFIFO());
  },
);

t.test('a file behind a symbolic link is written in place', async (t) => {
  const directory = t.testdir({ volume: {} });
  const file = join(directory, 'volume', 'names.json');
  const link = join(directory, 'state.json');
  writeFileSync(file, digested({ version: 1, collections: [] }));
  symlinkSync(file, link);
  const { cache, memory } = start(t, link, { nowMs: 0, wallMs: 0 });
  cache.holds(named([cds('g/a')]));
  await memory.flush();
  t.equal(readlinkSync(link), file);
  t.match(readFileSync(file, 'utf8'), cds('g/a'));
});

t.test('a link to no file yet leads to the file that the first write creates', async (t) => {
  const directory = t.testdir({ volume: {} });
  const link = join(directory, 'state.json');
  symlinkSync(join('volume', 'names.json'), link);
  const { cache, memory } = start(t, link, { nowMs: 0, wallMs: 0 });
  cache.holds(named([cds('g/a')]));
  await memory.flush();
  t.equal(readlinkSync(link), join('volume', 'names.json'));
  t.match(readFileSync(join(directory, 'volume', 'names.json'), 'utf8'), cds('g/a'));
});

t.test('a directory in which the file cannot be created is reported at the start', (t) => {
  const directory = t.testdir({ plain: '' });
  const reasons = ['plain', 'none'].map((name) => {
    const { events } = start(t, join(directory, name, 'names.json'), { nowMs: 0, wallMs: 0 });
    return events;
  });
  t.match(reasons, [
    [{ kind: 'refused', reason: `${directory}/plain is a file, not a directory, ENOTDIR` }],
    [{ kind: 'write_failed', reason: `there is no directory ${directory}/none (create it)` }],
  ]);
  t.end();
});

t.test('a failed write stops nothing and is retried later, and the old file stays', async (t) => {
  const directory = t.testdir({ state: {} });
  const file = join(directory, 'state', 'names.json');
  const clocks = { nowMs: 0, wallMs: 0 };
  const { cache, memory, events } = start(t, file, clocks);
  rmSync(join(directory, 'state'), { recursive: true });
  cache.holds(named([cds('g/a')]));
  await memory.writeIfDue();
  await memory.writeIfDue();
  t.match(events, [
    { kind: 'write_failed', file, reason: `there is no directory ${directory}/state (create it)` },
  ]);
  mkdirSync(join(directory, 'state'));
  clocks.nowMs = 30_000;
  await memory.writeIfDue();
  t.strictSame(kinds(events), ['write_failed', 'written']);
  t.ok(existsSync(file));
});

t.test(
  'a write never opens what another user put beside the file, and keeps no mode',
  async (t) => {
    const file = fileIn(t);
    const directory = join(file, '..');
    const victim = join(directory, 'victim');
    writeFileSync(victim, 'untouched');
    symlinkSync(victim, `${file}.draft`);
    execFileSync('mkfifo', [`${file}.0123456789abcdef`]);
    writeFileSync(file, '', { mode: 0o666 });
    chmodSync(file, 0o666);
    const { cache, memory, events } = start(t, file, { nowMs: 0, wallMs: 0 });
    cache.holds(named([cds('g/a')]));
    await memory.writeIfDue();
    t.match(kinds(events).at(-1), 'written');
    t.equal(readFileSync(victim, 'utf8'), 'untouched');
    t.equal(statSync(file).mode & 0o777, 0o600);
  },
);

t.test('the draft of a process that was killed is deleted, and no other file', async (t) => {
  const file = fileIn(t);
  const directory = join(file, '..');
  const [draft, link, other] = ['0123456789abcdef', 'fedcba9876543210', 'other'].map(
    (part) => `${file}.${part}.draft`,
  ) as [string, string, string];
  writeFileSync(other, 'untouched');
  writeFileSync(draft, 'half');
  symlinkSync(other, link);
  const { cache, memory } = start(t, file, { nowMs: 0, wallMs: 0 });
  cache.holds(named([cds('g/a')]));
  await memory.writeIfDue();
  t.strictSame(readdirSync(directory).sort(), [basename(file), basename(other)].sort());
  t.equal(readFileSync(other, 'utf8'), 'untouched');
});

t.test('5,000 collections with one name each are few pieces, and each piece is small', (t) => {
  const collections = Array.from({ length: 5_000 }, (_, at) =>
    named([cds(`g${at}/one`)], nameOf(cds(`g${at}/*`))),
  );
  const pieces = [...encodeCollections(collections, (atMs) => atMs)];
  t.ok(pieces.length <= 50, `${pieces.length} pieces`);
  t.ok(
    pieces.every(({ length }) => length < 65_536),
    'at most 64 KB each',
  );
  t.end();
});

t.test('more names than the bound are not written, and the old file stays', async (t) => {
  const file = fileIn(t);
  const { cache, memory, events } = start(t, file, { nowMs: 0, wallMs: 0 }, 1_000);
  cache.holds(named([cds('g/old')]));
  await memory.writeIfDue();
  cache.holds(named(Array.from({ length: 100 }, (_, at) => cds(`g/${at}`))));
  await memory.writeIfDue();
  t.match(events, [{ kind: 'written' }, { kind: 'write_failed', reason: /1000 bytes/ }]);
  t.match(readFileSync(file, 'utf8'), cds('g/old'));
  t.strictSame(readdirSync(join(file, '..')), [basename(file)], 'no draft is left behind');
});

t.test('a directory at the path is left alone', (t) => {
  const { events } = start(t, t.testdir({}), { nowMs: 0, wallMs: 0 });
  t.match(events, [{ kind: 'refused', setAside: undefined }]);
  t.end();
});

t.test('the key of a name leads back to the name', (t) => {
  for (const name of [
    GLOB,
    nameOf(cds('a?x=1')),
    oldStyleName('', '*'),
    oldStyleName('s', '\n'),
    oldStyleName('s', ''),
  ]) {
    t.strictSame(nameOfKey(name.key), name);
  }
  for (const text of ['', '\n', '\nscope', 'plain', 'xdstp://a/T/%41']) {
    t.equal(nameOfKey(text), undefined, JSON.stringify(text));
  }
  t.end();
});

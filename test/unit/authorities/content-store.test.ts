/**
 * Goal: content on disk is found again by the next process, as long as it is young, of the same source and undamaged; and
 * nothing that goes wrong with the disk is more than an event.
 * Method: one store after the other on a real LevelDB database in a scratch directory, with a manual clock.
 */
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { ClassicLevel } from 'classic-level';
import t, { type Test } from 'tap';
import {
  ContentStore,
  type ContentStoreEvent,
  type ContentStoreOptions,
} from '../../../authorities/content-store.js';
import { readResource, type Projection } from '../../../authorities/core/projection.js';
import { readConstraints } from '../../../protos/parameter-constraints.js';
import { formatResourceLocator, parseResourceLocator } from '../../../protos/resource-name.js';
import { bodyOf } from '../../../protos/resource-field.js';
import { TYPE_URL } from '../../../protos/type-urls.js';
import { THING, thing } from '../../support/federation-driver.js';
import { encodeConstraints, onlyFor } from '../../support/discovery-messages.js';
import { nameOf } from '../../support/fake-directory.js';

type Database = ClassicLevel<string, Buffer>;
type Put = (this: Database, key: string, value: Buffer) => Promise<void>;

const DAY_MS = 86_400_000;
const glob = thing('cloud', 'x/*');
const member = (id: number | string): string => thing('cloud', `x/${id}`);

function content(name: string, body: string): Projection {
  const read = readResource(nameOf(name), THING, THING, Buffer.from(body));
  if (!read.ok) throw new Error(read.reason);
  return read.projection;
}

async function setUp(t: Test) {
  const directory = await mkdtemp(join(tmpdir(), 'tributary-content-'));
  t.teardown(() => rm(directory, { recursive: true }));
  const world = { nowMs: 1_000_000_000, targets: { c: 'cloud:443' } as Record<string, string> };
  const events: ContentStoreEvent[] = [];
  const served = new Set<string>();
  const start = async (options: Partial<ContentStoreOptions> = {}): Promise<ContentStore> => {
    const store = new ContentStore({
      directory: join(directory, 'content'),
      maxAgeMs: DAY_MS,
      sourceOf: (id) => world.targets[id],
      isServed: (typeUrl, { key }) => typeUrl === THING && served.has(key),
      onEvent: (event) => events.push(event),
      wallClock: () => world.nowMs,
      ...options,
    });
    await store.start();
    t.teardown(() => store.close());
    return store;
  };
  const found = (store: ContentStore, name: string): readonly string[] =>
    [...store.find(THING, nameOf(name), ['c'])].map(({ field }) => bodyOf(field).toString());
  return { directory, world, events, served, start, found };
}

t.test('a later process finds names and the members of a collection, as they were', async (t) => {
  const { directory, events, start, found } = await setUp(t);
  const first = await start();
  for (let at = 0; at < 120; at++) first.keep(content(member(at), `m${at}`), 'c');
  first.keep(content(thing('cloud', 'y/1'), 'y1'), 'c');
  first.keep(content(member(0), 'changed'), 'c');
  first.drop(THING, nameOf(member(1)));
  await first.close();
  const second = await start();
  t.match(events, [
    { kind: 'opened', resources: 0 },
    { kind: 'opened', resources: 120 },
  ]);
  t.equal(found(second, glob).length, 119, 'the members only');
  t.strictSame(found(second, member(0)), ['changed']);
  t.strictSame(found(second, member(1)), []);
  t.strictSame(found(second, member('never')), []);
  const [one] = second.find(THING, nameOf(member(2)), ['c']);
  t.strictSame(one, content(member(2), 'm2'), 'with the same version');
  const { mode } = await stat(join(directory, 'content'));
  t.equal(mode & 0o777, 0o700);
});

t.test('the alternatives of references are kept, too', async (t) => {
  const { start } = await setUp(t);
  const first = await start();
  const parsed = parseResourceLocator(`${member('e')}#alt=xdstp://spare/test.v1.Thing/e`);
  const alternatives = parsed.ok ? [parsed.value] : [];
  first.keep({ ...content(member('a'), 'a'), alternatives }, 'c');
  await first.close();
  const second = await start();
  const [referring] = second.find(THING, nameOf(member('a')), ['c']);
  t.strictSame(
    referring?.alternatives?.map(formatResourceLocator),
    alternatives.map(formatResourceLocator),
  );
});

t.test('variants are kept with their parameters and constraints (TP2)', async (t) => {
  const { start } = await setUp(t);
  const first = await start();
  const name = nameOf(`\tenv=prod\t${member('v')}`);
  const constraints = readConstraints(encodeConstraints(onlyFor('env', 'prod')));
  if (typeof constraints !== 'object') throw new Error('no constraints');
  const body = Buffer.from('P');
  const read = readResource(name, THING, THING, body, undefined, constraints);
  if (!read.ok) throw new Error(read.reason);
  first.keep(read.projection, 'c');
  await first.close();
  const second = await start();
  const [one] = second.find(THING, name, ['c']);
  t.equal(one?.version, read.projection.version);
  t.equal(one?.constraints?.text, 'env=prod');
  t.strictSame(one?.field.bytes, read.projection.field.bytes);
  t.strictSame([...second.find(THING, nameOf(member('v')), ['c'])], []);
});

t.test(
  'a collection is whole if an earlier process had it whole from a source that the group has',
  async (t) => {
    const { start, found } = await setUp(t);
    const collection = nameOf(glob);
    const first = await start();
    first.keep(content(member(1), 'm1'), 'c');
    first.noteWhole(THING, collection.key, 'c', true);
    first.noteWhole(THING, collection.key, 'files', true);
    t.notOk(first.isWhole(THING, collection, ['c']), 'not written yet');
    await first.close();
    const second = await start();
    t.ok(second.isWhole(THING, collection, ['d', 'c']));
    t.notOk(second.isWhole(THING, collection, ['d', 'files']));
    t.notOk(second.isWhole(TYPE_URL.cluster, collection, ['c']));
    t.strictSame(found(second, glob), ['m1'], 'the sign is no member');
    second.noteWhole(THING, collection.key, 'c', true);
    await second.flush();
    t.notOk(second.isWhole(THING, collection, ['c']), 'what this process adds to it is not found');
    second.noteWhole(THING, collection.key, 'c', false);
    await second.close();
    const third = await start();
    t.notOk(third.isWhole(THING, collection, ['c']), 'not all of it was kept');
  },
);

t.test(
  'content that the source of a later process lacks is not found by the one after it',
  async (t) => {
    const { world, served, start, found } = await setUp(t);
    const other = thing('cloud', 'y/1');
    const first = await start();
    for (const id of [1, 2, 3]) first.keep(content(member(id), `m${id}`), 'c');
    first.keep(content(other, 'y1'), 'c');
    first.noteWhole(THING, nameOf(glob).key, 'c', true);
    await first.close();
    const second = await start();
    second.keep(content(member(1), 'm1'), 'c');
    served.add(nameOf(member(2)).key);
    second.dropEarlier(THING, nameOf(glob));
    second.noteWhole(THING, nameOf(glob).key, 'c', true);
    second.dropEarlier(THING, nameOf(member('never')));
    world.nowMs += 59_999;
    await second.sweep();
    t.strictSame(found(second, member(3)), ['m3'], 'the source may have just started');
    world.nowMs += 1;
    await second.sweep();
    t.strictSame(found(second, member(3)), []);
    t.strictSame(found(second, member(2)), ['m2'], 'the guard keeps it');
    await second.close();
    const third = await start();
    served.add(nameOf(member(1)).key);
    t.strictSame(found(third, glob).toSorted(), ['m1', 'm2']);
    t.ok(third.isWhole(THING, nameOf(glob), ['c']));
    t.strictSame(found(third, other), ['y1'], 'of another collection');
    for (const name of [other, member(1)]) third.dropEarlier(THING, nameOf(name));
    third.keep(content(member(1), 'again'), 'c');
    world.nowMs += 60_000;
    await third.sweep();
    third.dropEarlier(THING, nameOf(member(1)));
    await third.close();
    const fourth = await start();
    t.strictSame(found(fourth, other), []);
    t.strictSame(found(fourth, glob).toSorted(), ['again', 'm2']);
  },
);

t.test(
  'content of another source is not found, and that of a source without a target is not kept',
  async (t) => {
    const { world, start, found } = await setUp(t);
    const first = await start();
    first.keep(content(member(1), 'm1'), 'c');
    first.keep(content(member(2), 'm2'), 'files');
    await first.close();
    const second = await start();
    t.strictSame(found(second, glob), ['m1']);
    world.targets['c'] = 'elsewhere:443';
    t.strictSame(found(second, glob), []);
    world.targets['renamed'] = 'cloud:443';
    t.equal([...second.find(THING, nameOf(glob), ['renamed'])].length, 1);
  },
);

t.test(
  'content ages from the end of the process that last kept it, and is then dropped',
  async (t) => {
    const { world, events, start, found } = await setUp(t);
    const first = await start();
    first.keep(content(member(1), 'm1'), 'c');
    world.nowMs += 10 * DAY_MS;
    await first.close();
    world.nowMs += DAY_MS;
    const second = await start();
    t.strictSame(found(second, member(1)), ['m1'], 'one day after the end');
    await second.close();
    world.nowMs += 1;
    const third = await start();
    t.strictSame(found(third, member(1)), [], 'a later process did not have it from a source');
    await third.sweep();
    await third.close();
    events.length = 0;
    await start();
    t.match(events, [{ kind: 'opened', resources: 0 }]);
  },
);

t.test(
  'heartbeats are written one after the other: the last one says when the process ended',
  async (t) => {
    const { start } = await setUp(t);
    const prototype = ClassicLevel.prototype as Database;
    const put: Put = Reflect.get<Database, 'put'>(prototype, 'put');
    const order: string[] = [];
    const recorded: Put = async function (this: Database, key, value) {
      order.push('begins');
      await setImmediate();
      await put.call(this, key, value);
      order.push('ends');
    };
    t.intercept(prototype, 'put', { value: recorded });
    const store = await start();
    await store.close();
    t.strictSame(order, ['begins', 'ends', 'begins', 'ends']);
  },
);

t.test(
  'what the gateway no longer serves is dropped by the sweep, what earlier processes kept is not',
  async (t) => {
    const { served, start, found } = await setUp(t);
    const first = await start();
    for (let at = 0; at < 60; at++) first.keep(content(member(at), `m${at}`), 'c');
    await first.close();
    const second = await start();
    second.keep(content(member(1), 'm1'), 'c');
    second.keep(content(member(2), 'm2'), 'c');
    await second.flush();
    served.add(member(1));
    await second.sweep();
    await second.flush();
    t.strictSame(found(second, member(1)), ['m1']);
    t.strictSame(found(second, member(2)), []);
    t.equal(found(second, glob).length, 59);
  },
);

t.test('what is being removed is not found any more', async (t) => {
  const { start, found } = await setUp(t);
  const first = await start();
  for (let at = 0; at < 400; at++) first.keep(content(member(at), 'old'), 'c');
  await first.close();
  const second = await start();
  for (let at = 0; at < 400; at++) second.drop(THING, nameOf(member(at)));
  const written = second.flush();
  // The write begins in a later tick.
  for (let tick = 0; tick < 6; tick++) {
    t.strictSame(found(second, member(399)), [], 'while it waits, and while it is written');
    await Promise.resolve();
  }
  await written;
  t.strictSame(found(second, member(399)), []);
});

t.test('content that is kept again during a sweep stays', async (t) => {
  const { world, start, found, served } = await setUp(t);
  const first = await start();
  for (let at = 0; at < 1_000; at++) first.keep(content(member(at), 'old'), 'c');
  await first.close();
  world.nowMs += 2 * DAY_MS;
  const second = await start();
  const swept = second.sweep();
  for (let at = 0; at < 1_000; at++) {
    served.add(nameOf(member(at)).key);
    second.keep(content(member(at), 'new'), 'c');
  }
  await second.flush();
  await swept;
  await second.close();
  const third = await start();
  t.equal(found(third, glob).length, 1_000);
});

t.test('a frozen store stays as it is', async (t) => {
  const { start, found } = await setUp(t);
  const first = await start();
  first.keep(content(member(1), 'm1'), 'c');
  await first.flush();
  first.freeze();
  first.drop(THING, nameOf(member(1)));
  first.keep(content(member(2), 'm2'), 'c');
  await first.sweep();
  await first.close();
  t.strictSame([...first.find(THING, nameOf(glob), ['c'])], [], 'nor is it read after its end');
  t.strictSame(found(await start(), glob), ['m1']);
});

t.test('a damaged entry is not served', async (t) => {
  const { directory, start, found } = await setUp(t);
  const first = await start();
  first.keep(content(member(1), 'm1'), 'c');
  first.keep(content(member(2), 'm2'), 'c');
  await first.close();
  const database = new ClassicLevel<string, Buffer>(join(directory, 'content'), {
    valueEncoding: 'buffer',
  });
  for await (const [key, value] of database.iterator({ lt: '~' })) {
    if (value.includes('m1')) await database.put(key, Buffer.from(value.with(-1, 0x39)));
  }
  await database.close();
  t.strictSame(found(await start(), glob), ['m2']);
});

t.test('a directory that cannot be used is told, and the gateway goes on without it', async (t) => {
  const { directory, events, start, found } = await setUp(t);
  await writeFile(join(directory, 'file'), '');
  const store = await start({ directory: join(directory, 'file') });
  t.match(events, [{ kind: 'refused', directory: join(directory, 'file'), reason: /EEXIST/ }]);
  store.keep(content(member(1), 'm1'), 'c');
  store.drop(THING, nameOf(member(1)));
  t.strictSame(found(store, glob), []);
  await store.sweep();
  await store.flush();
});

t.test('two gateways do not share a directory', async (t) => {
  const { events, start, found } = await setUp(t);
  const first = await start();
  const second = await start();
  t.match(events.at(-1), { kind: 'refused', reason: /already held/ });
  first.keep(content(member(1), 'm1'), 'c');
  second.keep(content(member(2), 'm2'), 'c');
  await Promise.all([first.close(), second.close()]);
  t.strictSame(found(await start(), glob), ['m1']);
});

t.test('a damaged database is told, and begins anew', async (t) => {
  const { directory, events, start, found } = await setUp(t);
  const first = await start();
  first.keep(content(member(1), 'm1'), 'c');
  await first.close();
  await writeFile(join(directory, 'content', 'CURRENT'), 'garbage');
  events.length = 0;
  const second = await start();
  t.match(events, [{ kind: 'damaged' }, { kind: 'opened', resources: 0 }]);
  second.keep(content(member(2), 'm2'), 'c');
  await second.close();
  t.strictSame(found(await start(), glob), ['m2']);
});

t.test('a write that fails is told once, tried again, and told when it works', async (t) => {
  const { events, start, found } = await setUp(t);
  const store = await start();
  const failing = () => Promise.reject(new Error('no space left'));
  const intercepted = t.intercept(ClassicLevel.prototype, 'batch', { value: failing });
  for (const at of [1, 2]) {
    store.keep(content(member(at), 'm'), 'c');
    await store.flush();
  }
  t.match(events, [{ kind: 'opened' }, { kind: 'write_failed', reason: 'no space left' }]);
  t.equal(events.length, 2);
  store.keep(content(member(1), 'later'), 'c');
  intercepted.restore();
  await store.close();
  t.equal(events.at(-1)?.kind, 'recovered');
  t.strictSame(
    found(await start(), glob).toSorted(),
    ['later', 'm'],
    'it is written when it can be',
  );
});

t.test(
  'after a write that failed the database is opened again: what LevelDB writes behind half a record would be lost',
  async (t) => {
    const { start } = await setUp(t);
    const store = await start();
    const fail = () => Promise.reject(new Error('no space left'));
    const batch = t.intercept(ClassicLevel.prototype, 'batch', { value: fail });
    const prototype = ClassicLevel.prototype as ClassicLevel;
    const open = Reflect.get<ClassicLevel, 'open'>(prototype, 'open');
    const reopened = t.capture(prototype, 'open', open);
    store.keep(content(member(1), 'm'), 'c');
    await store.flush();
    t.equal(reopened().length, 0, 'not at once');
    batch.restore();
    await store.flush();
    t.equal(reopened().length, 1);
    await store.flush();
    t.equal(reopened().length, 0, 'once');
  },
);

t.test('a database that cannot be opened again is told once, and finds nothing', async (t) => {
  const { events, start, found } = await setUp(t);
  const before = await start();
  before.keep(content(member(1), 'm'), 'c');
  await before.close();
  const store = await start();
  events.length = 0;
  const fail = () => Promise.reject(new Error('no space left'));
  const intercepted = [
    t.intercept(ClassicLevel.prototype, 'batch', { value: fail }),
    t.intercept(ClassicLevel.prototype, 'open', { value: fail }),
  ];
  store.keep(content(member(2), 'm'), 'c');
  await store.flush();
  await store.flush();
  t.strictSame(found(store, member(1)), []);
  for (const one of intercepted) one.restore();
  await store.flush();
  t.strictSame(found(store, member(1)), ['m']);
  t.match(events, [{ kind: 'write_failed' }, { kind: 'recovered' }]);
  t.equal(events.length, 2);
});

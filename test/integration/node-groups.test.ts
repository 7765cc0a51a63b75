/**
 * Goal: hundreds of node groups share a few connections to their source, start at a bounded pace, and fail
 * alone unless their connection is lost.
 * Method: the upstream side over real sockets, and a source on node:http2 that the test controls.
 */
import t, { type Test } from 'tap';
import { FederatedClient, sourceTransport } from '../../authorities/index.js';
import { DEFAULT_RESOLUTION } from '../../config/limits.js';
import { encodeNode } from '../../protos/node-codec.js';
import { STATUS_CODE } from '../../protos/discovery.js';
import { mapOf, nameOf, RecordingWatcher, THING } from '../support/federation-driver.js';
import { GroupsSource } from '../support/groups-source.js';
import { at } from '../support/node-groups.js';
import { until } from '../support/until.js';

/** 100 streams of a connection, less one for the probe; each group may have one of load reports too. */
const GROUPS_OF_ONE_CONNECTION = 49;

async function start(t: Test, maxConcurrentStreams?: number) {
  const source = await GroupsSource.start(maxConcurrentStreams);
  t.teardown(() => {
    source.stop();
  });
  const oldStyle = { differBy: ['id' as const], servedBy: [{ sources: ['s'] }] };
  const targets = { s: `127.0.0.1:${source.port}` };
  const timers = { backoffBaseMs: 50, backoffMaxMs: 100, minStableMs: 0 };
  const dials: string[] = [];
  const clock: { stoppedAtMs: number | undefined } = { stoppedAtMs: undefined };
  const client = new FederatedClient({
    map: mapOf({ authorities: {}, oldStyle, targets, timers }),
    nodeFor: (_source, { id = '' }) =>
      encodeNode({ id, cluster: '', userAgentName: 'tributary', userAgentVersion: '1' }),
    maxResourcesPerResponse: 100,
    bounds: DEFAULT_RESOLUTION,
    transport: sourceTransport,
    onEffect: (effect) => {
      if (effect.kind === 'server' && effect.effect.kind === 'dial') dials.push(effect.source);
    },
    onFileProblems: () => undefined,
    onError: (error) => {
      t.fail(String(error));
    },
    clock: () => clock.stoppedAtMs ?? performance.now(),
  });
  t.teardown(() => {
    client.close();
  });
  client.start();
  const watchers = new Map<string, RecordingWatcher>();
  const watch = (id: string): void => {
    const watcher = new RecordingWatcher();
    watchers.set(id, watcher);
    client.watch(THING, nameOf(at(id, '*')), watcher);
  };
  const heldBy = (id: string): string | undefined => watchers.get(id)?.held.get(at(id, 'x'));
  const haveAll = (body: string): boolean =>
    [...watchers.keys()].every((id) => heldBy(id) === body);
  /** No watcher was told that its resource is gone. */
  const lostNothing = (): boolean =>
    [...watchers.values()].every(({ told }) => told.every((line) => !line.startsWith('removed')));
  return { source, client, watch, watchers, heldBy, haveAll, lostNothing, dials, clock };
}

const idsOf = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, i) => `group-${i}`);

t.test('300 groups share the connections to their source', async (t) => {
  const { source, watch, haveAll } = await start(t);
  for (const id of idsOf(300)) watch(id);
  await until('all are served', () => haveAll('v1'));
  const enough = Math.ceil(300 / GROUPS_OF_ONE_CONNECTION);
  t.ok(source.sessions.length <= enough, `${source.sessions.length} of at most ${enough}`);
  t.equal(source.streams.size, 300, 'each group has a stream of its own (invariant 8)');
  t.ok(source.mostOfOneConnection <= GROUPS_OF_ONE_CONNECTION);
});

t.test('no connection has more streams than the source allows', async (t) => {
  const { source, watch, haveAll } = await start(t, 10);
  for (const id of idsOf(40)) watch(id);
  await until('all are served', () => haveAll('v1'));
  t.equal(source.streams.size, 40);
  t.ok(source.mostOfOneConnection < 10, 'there is room for the probe');
});

t.test('100 streams start at once, the others when these were answered', async (t) => {
  const { watch, haveAll, dials, clock } = await start(t);
  // A slow machine must not pass for a source that takes long.
  clock.stoppedAtMs = performance.now();
  for (const id of idsOf(250)) watch(id);
  await Promise.resolve();
  t.equal(dials.length, 100);
  clock.stoppedAtMs = undefined;
  await until('all are served', () => haveAll('v1'));
  t.equal(new Set(dials).size, 250);
});

t.test('the refusal of one group leaves the others on its connection alone', async (t) => {
  const { source, watch, haveAll, heldBy, watchers } = await start(t);
  source.refused.set('refused', STATUS_CODE.unauthenticated);
  for (const id of [...idsOf(20), 'refused']) watch(id);
  const others = (): boolean => idsOf(20).every((id) => heldBy(id) === 'v1');
  await until('the others are served, and the one is told', () => {
    return others() && (watchers.get('refused')?.told.length ?? 0) > 0;
  });
  watch('late');
  await until('a later group is served', () => heldBy('late') === 'v1');
  t.equal(source.sessions.length, 1);
  t.equal(source.streams.size, 21);
  t.notOk(haveAll('v1'));
});

t.test(
  'all groups survive a GOAWAY: open streams go on, new ones take a new connection',
  async (t) => {
    const { source, watch, haveAll, heldBy, lostNothing } = await start(t);
    for (const id of idsOf(60)) watch(id);
    await until('all are served', () => haveAll('v1'));
    const before = [...source.sessions];
    source.body = 'v2';
    for (const session of before) session.goaway();
    // A GOAWAY is followed by what the source sends next: its answer to a PING.
    await Promise.all(before.map((session) => new Promise((done) => session.ping(done))));
    watch('late');
    await until('the late group is served', () => heldBy('late') === 'v2');
    t.equal(heldBy('group-0'), 'v1');
    t.notOk(before.includes([...source.streams].find(({ nodeId }) => nodeId === 'late')!.session));
    for (const stream of source.streams) {
      if (before.includes(stream.session)) stream.end(STATUS_CODE.unavailable);
    }
    await until('all have the new content', () => haveAll('v2'));
    t.ok(lostNothing(), 'no client loses a resource meanwhile (invariant 1)');
    t.ok(source.openSessions.length <= 3, `${source.openSessions.length} connections`);
  },
);

t.test(
  'a lost connection ends the streams on it, and each group comes back with its content',
  async (t) => {
    const { source, watch, haveAll, lostNothing, dials } = await start(t);
    for (const id of idsOf(120)) watch(id);
    await until('all are served', () => haveAll('v1'));
    source.body = 'v2';
    for (const session of [...source.sessions]) session.destroy();
    await until('all have the new content', () => haveAll('v2'));
    t.ok(lostNothing());
    const enough = Math.ceil(120 / GROUPS_OF_ONE_CONNECTION);
    t.equal(
      source.openSessions.length,
      enough,
      'a lost connection does not connect again by itself',
    );
    t.equal(dials.length, 2 * 120, 'no attempt fails on a connection that is lost meanwhile');
  },
);

t.test('a group that starts while its connection is being lost shares the next one', async (t) => {
  const { source, watch, haveAll, dials } = await start(t);
  for (const id of idsOf(20)) watch(id);
  await until('all are served', () => haveAll('v1'));
  source.body = 'v2';
  for (const session of [...source.sessions]) session.destroy();
  // The gateway does not know yet that the connection is lost: the stream starts on it.
  watch('late');
  await until('all have the new content', () => haveAll('v2'));
  t.equal(source.sessions.length, 2);
  t.equal(dials.length, 2 * 20 + 1, 'that is no failed attempt, so no group changes its source');
});

t.test('a connection is closed with its last group', async (t) => {
  const { source, client, watch, haveAll } = await start(t);
  for (const id of idsOf(5)) watch(id);
  await until('all are served', () => haveAll('v1'));
  client.close();
  await until('no connection is open', () => source.openSessions.length === 0);
  t.equal(source.sessions.length, 1);
});

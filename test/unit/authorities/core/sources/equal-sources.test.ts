/**
 * Goal: equal ConfigSources are one source, whatever their keys in the map (invariant 8).
 * Method: the state machine against fake servers, and for reloads the shell over a transport of
 * arrays, since a reload may rename a source while its stream continues.
 */
import t, { type Test } from 'tap';
import { FederatedClient } from '../../../../../authorities/federated-client.js';
import type { AttemptHandlers } from '../../../../../authorities/transport.js';
import { DEFAULT_RESOLUTION } from '../../../../../config/limits.js';
import type { AuthorityMap } from '../../../../../config/model.js';
import { encodeResponse } from '../../../../support/discovery-messages.js';
import {
  FederationDriver,
  mapOf,
  nameOf,
  RecordingWatcher,
  THING,
  thing,
  type MapSketch,
} from '../../../../support/federation-driver.js';
import { at, driverOf, heldBy } from '../../../../support/node-groups.js';

/**
 * Authority `x` at source a, `y` at b; both sources have the same target unless `targets` differs.
 */
const twins = (targets: MapSketch['targets'] = {}, order: readonly string[] = ['x', 'y']) => {
  const sources: Record<string, string> = { x: 'a', y: 'b' };
  return mapOf({
    authorities: Object.fromEntries(order.map((name) => [name, { sources: [sources[name]!] }])),
    targets: { a: 'same:1', b: 'same:1', ...targets },
    timers: { probeIntervalMs: 0 },
  });
};

t.test(
  'two equal sources share one stream, and may publish the names of both (invariant 8)',
  (t) => {
    const driver = new FederationDriver(twins());
    driver.server('a').set(THING, thing('x', '1'), 'x');
    driver.server('a').set(THING, thing('y', '1'), 'y');
    const watcher = driver.watching(thing('x', '1'), thing('y', '1'));
    t.strictSame([...watcher.held.values()].sort(), ['x', 'y']);
    t.strictSame(
      driver.dials.map(({ source }) => source),
      ['a'],
      'the first of them in the map gives the name',
    );
    t.equal(driver.federation.source('b'), driver.federation.source('a'));
    t.strictSame(
      driver.federation.groups.map(({ candidates }) => candidates.map(({ source }) => source.name)),
      [['a'], ['a']],
    );
    t.ok(driver.server('a').stream.acks.every(({ error }) => error === undefined));
    t.end();
  },
);

t.test('sources that differ in anything but their key have a stream each', (t) => {
  const map = twins();
  const driver = new FederationDriver({
    ...map,
    sources: new Map(
      [...map.sources].map(([name, spec]) => [
        name,
        name === 'b' && spec.kind === 'grpc' ? { ...spec, maxReceiveBytes: 1_024 * 1_024 } : spec,
      ]),
    ),
  });
  driver.watching(thing('x', '1'), thing('y', '1'));
  t.equal(driver.dials.length, 2);
  t.end();
});

t.test('a source does not fail over to itself under another key', (t) => {
  const sources = ['a', 'b'];
  const targets = { a: 'same:1', b: 'same:1' };
  const driver = new FederationDriver(mapOf({ authorities: { x: { sources } }, targets }));
  driver.watching(thing('x', '1'));
  t.equal(driver.group('x').candidates.length, 1);
  const old = driverOf([{ sources: ['a', 'b'] }], { targets });
  old.server('a').set(THING, 'n', '1');
  const watcher = old.watching(at('id', 'n'));
  t.strictSame(heldBy(watcher), { n: '1' });
  t.ok(old.federation.groups.every(({ candidates }) => candidates.length === 1));
  t.end();
});

t.test('the order of settings in the map does not matter for equality', (t) => {
  const map = twins();
  const sources = new Map(
    [...map.sources].map(([name, spec]) => [
      name,
      name === 'b' ? Object.fromEntries(Object.entries(spec).reverse()) : spec,
    ]),
  ) as unknown as AuthorityMap['sources'];
  const driver = new FederationDriver({ ...map, sources });
  t.equal(driver.federation.source('b'), driver.federation.source('a'));
  t.end();
});

interface Dialled {
  readonly source: string;
  readonly target: string;
  readonly handlers: AttemptHandlers;
  cancelled: boolean;
}

function start(t: Test, map: AuthorityMap) {
  const dials: Dialled[] = [];
  const client = new FederatedClient({
    map,
    nodeFor: () => new Uint8Array(),
    maxResourcesPerResponse: 100,
    bounds: DEFAULT_RESOLUTION,
    transport: {
      dial: ({ name, target }, _identity, handlers) => {
        const dialled: Dialled = { source: name, target, handlers, cancelled: false };
        dials.push(dialled);
        return {
          send: () => undefined,
          probe: () => Promise.resolve(true),
          cancel: () => (dialled.cancelled = true),
        };
      },
    },
    onEffect: () => undefined,
    onFileProblems: () => undefined,
    onError: (error) => t.fail(String(error)),
    clock: () => performance.now(),
  });
  t.teardown(() => {
    client.close();
  });
  client.start();
  const say = ({ handlers }: Dialled, name: string, body: string): void => {
    const resources = [{ name, version: body, body: Buffer.from(body) }];
    handlers.onMessage(encodeResponse({ typeUrl: THING, nonce: body, resources }));
  };
  return { client, dials, say };
}

t.test(
  'a reload that adds, removes or changes an equal source does not end the stream',
  async (t) => {
    const { client, dials, say } = start(t, twins({}, ['x']));
    const watcher = new RecordingWatcher();
    const [x, y] = [thing('x', '1'), thing('y', '1')];
    client.watch(THING, nameOf(x), watcher);
    client.watch(THING, nameOf(y), watcher);
    await Promise.resolve();
    const [stream] = dials;
    say(stream!, x, 'x1');
    t.equal(watcher.held.get(x), 'x1');
    client.reload(twins());
    say(stream!, y, 'y1');
    t.equal(watcher.held.get(y), 'y1', 'an equal source was added: its authority is served');
    t.equal(client.breakerState('b'), 'closed');
    client.reload(twins({}, ['y', 'x']));
    say(stream!, y, 'y2');
    t.equal(watcher.held.get(y), 'y2', 'the other one comes first');
    t.equal(client.view.source('a')?.name, 'b');
    client.reload(twins({}, ['y']));
    say(stream!, y, 'y3');
    t.equal(watcher.held.get(y), 'y3', 'an equal source was removed');
    t.equal(dials.length, 1);
    client.reload(twins({ a: 'other:1' }));
    await Promise.resolve();
    say(stream!, y, 'y4');
    t.equal(watcher.held.get(y), 'y4', 'one of them has another target now');
    t.strictSame(
      dials.map(({ target, cancelled }) => [target, cancelled]),
      [
        ['same:1', false],
        ['other:1', false],
      ],
    );
  },
);

t.test('two sources that swap targets keep their streams', async (t) => {
  const { client, dials, say } = start(t, twins({ b: 'other:1' }));
  const watcher = new RecordingWatcher();
  const [x, y] = [thing('x', '1'), thing('y', '1')];
  client.watch(THING, nameOf(x), watcher);
  client.watch(THING, nameOf(y), watcher);
  await Promise.resolve();
  const [same, other] = dials;
  say(same!, x, 'x0');
  say(other!, y, 'y0');
  client.reload(twins({ a: 'other:1' }));
  say(other!, x, 'x1');
  say(same!, y, 'y1');
  t.strictSame([...watcher.held.values()].sort(), ['x1', 'y1']);
  t.strictSame(
    dials.map(({ target, cancelled }) => [target, cancelled]),
    [
      ['same:1', false],
      ['other:1', false],
    ],
  );
  client.reload(twins({ a: 'same:1', b: 'third:1' }));
  await Promise.resolve();
  say(same!, x, 'x2');
  t.equal(watcher.held.get(x), 'x2', 'it takes the name of the removed source');
  t.strictSame(
    dials.map(({ target, cancelled }) => [target, cancelled]),
    [
      ['same:1', false],
      ['other:1', true],
      ['third:1', false],
    ],
  );
});

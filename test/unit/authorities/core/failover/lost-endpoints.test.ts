/**
 * Goal: a control plane that restarts, and sends assignments before it has found the endpoints again, takes no endpoints from
 * clients (docs/FAILOVER.md, "Deletion guard").
 */
import protobuf from 'protobufjs/minimal.js';
import t from 'tap';
import type { AuthorityMap } from '../../../../../config/model.js';
import { hasEndpoints } from '../../../../../protos/load-assignment.js';
import { bodyOf } from '../../../../../protos/resource-field.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import { alt, ID, kindOf, pair, TRIP_MS } from '../../../../support/authority-pair.js';
import {
  FederationDriver,
  mapOf,
  RecordingWatcher,
  type AuthoritySketch,
  type FederationDriverOptions,
} from '../../../../support/federation-driver.js';
import { KeptContent } from '../../../../support/kept-content.js';

const EDS = TYPE_URL.clusterLoadAssignment;
const nameOf = (id: string): string =>
  `xdstp://cloud/envoy.config.endpoint.v3.ClusterLoadAssignment/x/${id}`;

const assignment = (name: string): protobuf.Writer =>
  protobuf.Writer.create().uint32(0x0a).string(name);
const empty = (name: string): Uint8Array => assignment(name).finish();
const emptyWithPolicy = (name: string): Uint8Array =>
  assignment(name).uint32(0x22).fork().ldelim().finish();
/** In one locality. */
const withEndpoints = (name: string, count = 1): Uint8Array => {
  const writer = assignment(name).uint32(0x12).fork();
  for (let at = 0; at < count; at++) writer.uint32(0x12).fork().ldelim();
  return writer.ldelim().finish();
};

const holdsEndpoints = ({ projections }: RecordingWatcher, name: string): boolean =>
  hasEndpoints(bodyOf(projections.get(name)!.field));

/** Clients have assignments with endpoints. */
function start(
  count: number,
  sketch: Partial<AuthoritySketch> = {},
  options: FederationDriverOptions = {},
) {
  const names = Array.from({ length: count }, (_, at) => nameOf(`${at}`));
  const driver = pair({}, {}, sketch, options);
  for (const name of names) driver.server('c').set(EDS, name, withEndpoints(name));
  const watcher = driver.watching();
  for (const name of names) driver.watch(name, watcher, EDS);
  const left = (): number => names.filter((name) => holdsEndpoints(watcher, name)).length;
  /** The source restarts without the endpoints of these. */
  const restartWithout = (lost: readonly string[]): void => {
    for (const name of lost) driver.server('c').set(EDS, name, empty(name));
    driver.cut('c');
  };
  return { driver, watcher, names, left, restartWithout };
}

t.test(
  'endpoints that a source finds again soon after its restart are never lost (invariant 3)',
  (t) => {
    const { driver, watcher, names, left, restartWithout } = start(3);
    restartWithout(names);
    driver.advance(30_000);
    t.equal(driver.group(ID).guardedCount, 3);
    t.equal(left(), 3);
    const told = watcher.told.length;
    for (const name of names) driver.publish('c', name, withEndpoints(name, 2), EDS);
    t.equal(watcher.told.length, told + 3, 'the new endpoints reach clients at once');
    driver.advance(120_000);
    t.equal(left(), 3);
    t.end();
  },
);

t.test('content that the gateway rejects confirms nothing (seed 141083)', (t) => {
  const { driver, left, names, restartWithout } = start(3);
  driver.advance(40_000);
  const [rejected = '', ...lost] = names;
  driver.server('c').set(EDS, rejected, Buffer.from('no assignment'));
  restartWithout(lost.slice(0, 1));
  for (const name of lost.slice(1)) driver.server('c').delete(EDS, name);
  driver.advance(30_000);
  t.equal(left(), 3, 'its source has confirmed none');
  t.end();
});

t.test('endpoints that the guard holds survive a reload of the map (invariant 3)', (t) => {
  const map = (coldWaitMs: number): AuthorityMap =>
    mapOf({ authorities: { cloud: { sources: ['c'], failover: { coldWaitMs } } } });
  const driver = new FederationDriver(map(10_000));
  const names = ['0', '1', '2'].map(nameOf);
  for (const name of names) driver.server('c').set(EDS, name, withEndpoints(name));
  const watcher = driver.watching();
  for (const name of names) driver.watch(name, watcher, EDS);
  driver.advance(40_000);
  for (const name of names) driver.server('c').set(EDS, name, empty(name));
  driver.cut('c');
  driver.advance(20_000);
  const left = (): number => names.filter((name) => holdsEndpoints(watcher, name)).length;
  t.equal(left(), 3);
  driver.reload(map(9_000));
  t.equal(left(), 3);
  driver.advance(120_000);
  t.equal(left(), 0, 'the guard of the new group judges them again, and lets go in the end');
  t.end();
});

t.test('an alternative that has just started takes no endpoints (invariant 3)', (t) => {
  const { driver, names, left } = start(12);
  for (const name of names) driver.server('o').set(EDS, alt(name), empty(alt(name)));
  driver.advance(60_000);
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(kindOf(driver), 'alt');
  t.equal(left(), 12);
  t.equal(driver.group(ID).guardedCount, 12);
  for (const name of names) driver.publish('o', alt(name), withEndpoints(alt(name), 2), EDS);
  driver.advance(120_000);
  t.equal(left(), 12);
  t.end();
});

t.test('endpoints that this process had itself are not looked up on disk', (t) => {
  const lastKnown = new KeptContent();
  const { driver, watcher, names } = start(2, {}, { lastKnown });
  const [name = ''] = names;
  driver.advance(40_000);
  driver.unwatch(name, watcher, EDS);
  driver.publish('c', name, empty(name), EDS);
  const late = new RecordingWatcher();
  driver.watch(name, late, EDS);
  driver.advance(100);
  t.notOk(holdsEndpoints(late, name));
  t.end();
});

t.test('an assignment that is empty after a restart is served after `switch_wait`', (t) => {
  const { driver, left, names, restartWithout } = start(3);
  restartWithout(names.slice(2));
  while (!driver.isConnected('c')) driver.advance(10);
  driver.advance(1_900);
  t.equal(left(), 3);
  driver.advance(1_000);
  t.equal(left(), 2);
  t.equal(driver.group(ID).guardedCount, 0);
  t.end();
});

t.test('if all of them stay empty, the deletion guard waits 60 s', (t) => {
  const { driver, left, names, restartWithout } = start(12);
  restartWithout(names);
  driver.advance(58_000);
  t.equal(left(), 12);
  t.match(
    driver.takeGroupEvents().filter(({ kind }) => kind === 'guarded'),
    [{ names: 12 }],
  );
  driver.advance(10_000);
  t.equal(left(), 0);
  t.end();
});

t.test(
  'what never had endpoints of its own does not show that the source has found others',
  (t) => {
    for (const isRedirect of [false, true]) {
      const { driver, watcher, left, names, restartWithout } = start(2);
      const other = nameOf('other');
      if (isRedirect) driver.redirect('c', other, names[0]!, EDS);
      else driver.server('c').set(EDS, other, empty(other));
      driver.watch(other, watcher, EDS);
      driver.advance(10_000);
      restartWithout(names);
      driver.advance(30_000);
      t.equal(left(), 2, isRedirect ? 'a redirect' : 'an assignment without endpoints');
    }
    t.end();
  },
);

t.test(
  'on a live stream it is served at once: the operator of the control plane intends it',
  (t) => {
    const { driver, left, names } = start(2);
    for (const name of names) driver.publish('c', name, empty(name), EDS);
    t.equal(left(), 0);
    t.end();
  },
);

t.test('a client that subscribes while the guard waits gets the endpoints', (t) => {
  const { driver, names, restartWithout } = start(2);
  restartWithout(names);
  driver.advance(10_000);
  const late = driver.watching();
  driver.watch(nameOf('*'), late, EDS);
  driver.advance(1_000);
  for (const name of names) t.ok(holdsEndpoints(late, name));
  t.end();
});

t.test(
  'with `keep`, endpoints that the guard held back stay until the source sends others',
  (t) => {
    const deletionGuard = { share: 0.5, count: 10, waitMs: 60_000, then: 'keep' } as const;
    const { driver, left, names, restartWithout } = start(2, { failover: { deletionGuard } });
    restartWithout(names);
    driver.advance(3_600_000);
    for (const name of names) driver.publish('c', name, emptyWithPolicy(name), EDS);
    driver.cut('c');
    driver.advance(3_600_000);
    t.equal(left(), 2);
    for (const name of names) driver.publish('c', name, withEndpoints(name, 2), EDS);
    for (const name of names) driver.publish('c', name, empty(name), EDS);
    t.equal(left(), 0);
    t.end();
  },
);

/** The alternative is in use, and the primary, which returns, has assignments without endpoints. */
function startAtAlternative() {
  const names = ['1', '2'].map(nameOf);
  const driver = pair({}, {});
  for (const name of names) {
    driver.server('o').set(EDS, alt(name), withEndpoints(alt(name)));
    driver.server('c').set(EDS, name, empty(name));
  }
  driver.server('c').reachability = 'refuse';
  const watcher = driver.watching();
  for (const name of names) driver.watch(name, watcher, EDS);
  driver.advance(TRIP_MS);
  const left = (): number => names.filter((name) => holdsEndpoints(watcher, name)).length;
  const failBack = (): void => {
    driver.revive('c');
    while (kindOf(driver) !== 'primary') driver.advance(1_000);
  };
  return { driver, watcher, names, left, failBack };
}

t.test('a failback that would empty all assignments waits, too', (t) => {
  const { driver, left, failBack } = startAtAlternative();
  t.equal(left(), 2);
  failBack();
  driver.advance(30_000);
  t.equal(left(), 2);
  driver.advance(40_000);
  t.equal(left(), 0);
  t.end();
});

t.test(
  'what is kept from the primary does not show that the alternative has loaded the rest',
  (t) => {
    const { driver, left, names } = start(2);
    const [shared = ''] = names.map(alt);
    driver.server('o').set(EDS, shared, withEndpoints(shared, 2));
    driver.kill('c');
    driver.advance(TRIP_MS);
    t.equal(kindOf(driver), 'alt');
    driver.server('o').set(EDS, shared, empty(shared));
    driver.cut('o');
    driver.advance(30_000);
    t.equal(left(), 2);
    t.end();
  },
);

t.test('endpoints of another source that are held back go with their TTL (seed 4783)', (t) => {
  const { driver, watcher, names, left, failBack } = startAtAlternative();
  driver.send('o', {
    typeUrl: EDS,
    nonce: 'short',
    resources: names.map((name) => ({
      name: alt(name),
      version: 'short',
      ttl: { seconds: 60, nanos: 0 },
      body: Buffer.from(withEndpoints(alt(name), 2)),
    })),
  });
  failBack();
  t.equal(left(), 2);
  driver.advance(59_000);
  t.equal(left(), 0);
  t.equal(watcher.held.size, 2, 'what the primary has takes their place');
  t.end();
});

t.test(
  'a new process takes lost endpoints from the disk, and judges their loss in the same way',
  (t) => {
    for (const [lost, left] of [
      [[0, 1, 2], 3],
      [[1], 2],
    ] as const) {
      const lastKnown = new KeptContent();
      const { names } = start(3, {}, { lastKnown });
      lastKnown.restart();
      const driver = pair({}, {}, {}, { lastKnown });
      for (const [at, name] of names.entries()) {
        const isLost = lost.some((one) => one === at);
        driver.server('c').set(EDS, name, isLost ? empty(name) : withEndpoints(name));
      }
      const watcher = driver.watching();
      for (const name of names) driver.watch(name, watcher, EDS);
      const having = (): number => names.filter((name) => holdsEndpoints(watcher, name)).length;
      driver.advance(1_000);
      t.equal(having(), 3, 'at first all count as lost');
      driver.advance(30_000);
      t.equal(having(), left);
      driver.advance(60_000);
      t.equal(having(), 3 - lost.length);
    }
    t.end();
  },
);

t.test('what this process knows to be absent is not looked up on disk', (t) => {
  for (const asked of [nameOf('0'), nameOf('*')]) {
    const lastKnown = new KeptContent();
    const [name = ''] = start(1, {}, { lastKnown }).names;
    lastKnown.restart();
    const driver = pair({}, {}, {}, { lastKnown });
    const watcher = driver.watching();
    driver.watch(asked, watcher, EDS);
    // A collection is known once nothing has followed for `switch_wait`.
    driver.advance(10_000);
    driver.server('c').set(EDS, name, empty(name));
    driver.cut('c');
    driver.advance(1_000);
    t.notOk(holdsEndpoints(watcher, name), asked);
  }
  t.end();
});

t.test('an assignment that never had endpoints is served at once, also by a new process', (t) => {
  const lastKnown = new KeptContent();
  const name = nameOf('1');
  for (const [at, body] of [empty(name), emptyWithPolicy(name)].entries()) {
    const driver = pair({}, {}, {}, { lastKnown });
    driver.server('c').set(EDS, name, body);
    const watcher = driver.watching();
    driver.watch(name, watcher, EDS);
    driver.advance(100);
    t.equal(watcher.told.length, 1, `process ${at}`);
    t.notOk(holdsEndpoints(watcher, name));
  }
  t.end();
});

t.test('an assignment without endpoints takes the place of a redirect at once', (t) => {
  const [name, target] = [nameOf('1'), nameOf('2')];
  const driver = pair({}, {});
  driver.server('c').set(EDS, target, withEndpoints(target));
  driver.redirect('c', name, target, EDS);
  const watcher = driver.watching();
  driver.watch(name, watcher, EDS);
  driver.advance(1_000);
  t.ok(holdsEndpoints(watcher, name));
  driver.server('c').set(EDS, name, empty(name));
  driver.cut('c');
  driver.advance(1_000);
  t.notOk(holdsEndpoints(watcher, name));
  t.end();
});

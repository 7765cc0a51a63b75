/**
 * Goal: a collection that a server sends in several responses is not complete before the last one
 * (invariant 3).
 * Method: a Federation against a fake server whose responses the test sends itself, in simulated
 * time.
 */
import t from 'tap';
import type { GrpcSourceSpec } from '../../../../../config/model.js';
import { wholeOf } from '../../../../../protos/discovery-fields.js';
import { encodeSotwResponse } from '../../../../../protos/sotw-codec.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import { DEFAULT_FAILOVER } from '../../../../../config/defaults.js';
import { a, alt, glob, ID, member, pair, TRIP_MS } from '../../../../support/authority-pair.js';
import {
  FederationDriver,
  mapOf,
  RecordingWatcher,
  THING,
  thing,
  WHOLE_MS,
} from '../../../../support/federation-driver.js';
import { at, driverOf, heldBy } from '../../../../support/node-groups.js';
import { bare } from '../../../../support/sotw-stream-rig.js';
import { completions, getsCompleteAfter, piece, silent } from '../../../../support/pieces.js';

const OTHER = 'type.googleapis.com/test.v1.Other';
const otherName = 'xdstp://cloud/test.v1.Other/1';
const otherGlob = thing('cloud', 'y/*');

/** Old-style names of a source that speaks state of the world. It answers nothing by itself. */
function sotwDriver(): FederationDriver {
  const map = mapOf({
    authorities: {},
    oldStyle: { differBy: ['id'], servedBy: [{ sources: ['c'] }] },
  });
  const spec = map.sources.get('c') as GrpcSourceSpec;
  const sources = new Map([['c', { ...spec, apiType: 'AGGREGATED_GRPC' as const }]]);
  const driver = new FederationDriver({ ...map, sources });
  driver.server('c').isDeaf = true;
  return driver;
}

function sendSet(driver: FederationDriver, typeUrl: string, names: readonly string[]): void {
  const resources = names.map((name) => bare(typeUrl, name));
  const parts = { typeUrl, versionInfo: '1', nonce: typeUrl, resources, errors: [] };
  driver.sendBytes('c', wholeOf(encodeSotwResponse(parts)));
}

// ---- when a collection is complete --------------------------------------------------------------

t.test(
  'a collection in several responses is complete after a pause without members (invariant 3)',
  (t) => {
    const oldStyle = driverOf([{ sources: ['c'] }]);
    oldStyle.server('c').stalled.add('*');
    for (const { driver, asked, name } of [
      { driver: silent(glob), asked: glob, name: member },
      { driver: oldStyle, asked: at('n', '*'), name: (id: string) => id },
    ]) {
      const watcher = driver.watching(asked);
      for (const [index, gapMs] of [20, 200, 1_000, 2_000].entries()) {
        piece(driver, 'c', name(`${index}`));
        driver.advance(gapMs);
      }
      piece(driver, 'c', name('last'));
      t.equal(watcher.held.size, 5, 'received members are notified at once');
      getsCompleteAfter(t, driver, watcher, WHOLE_MS);
      t.strictSame([...watcher.proven.values()], [true]);
    }
    t.end();
  },
);

t.test(
  'a set of clusters or listeners is complete at once (xDS protocol, "Grouping Resources into Responses")',
  (t) => {
    for (const [typeUrl, isWhole] of [
      [TYPE_URL.cluster, true],
      [TYPE_URL.listener, true],
      [TYPE_URL.clusterLoadAssignment, false],
    ] as const) {
      const driver = sotwDriver();
      const watcher = new RecordingWatcher();
      driver.watch(at('n', '*'), watcher, typeUrl);
      sendSet(driver, typeUrl, ['a', 'b']);
      t.strictSame(Object.keys(heldBy(watcher)), ['a', 'b']);
      t.equal(completions(watcher), isWhole ? 1 : 0, typeUrl);
      driver.advance(WHOLE_MS);
      t.equal(completions(watcher), 1, typeUrl);
    }
    t.end();
  },
);

t.test('only a new member delays completion', (t) => {
  const driver = silent(glob);
  const watcher = driver.watching(glob);
  piece(driver, 'c', member('1'));
  driver.advance(2_000);
  piece(driver, 'c', member('2'));
  driver.advance(2_000);
  const changed = { name: member('1'), version: '2', body: Buffer.from('2') };
  driver.send('c', { typeUrl: THING, nonce: 'changed', resources: [changed] });
  piece(driver, 'c', thing('cloud', 'z/not-asked'));
  t.equal(watcher.held.get(member('1')), '2');
  getsCompleteAfter(t, driver, watcher, WHOLE_MS - 2_000);
  piece(driver, 'c', member('3'));
  driver.advance(60_000);
  t.equal(
    completions(watcher),
    1,
    'a member that joins later is a change of a complete collection',
  );
  t.end();
});

t.test(
  'a member that is held already and comes again is part of the answer: others may follow',
  (t) => {
    const driver = silent(glob);
    driver.watching(member('1'));
    piece(driver, 'c', member('1'));
    const watcher = driver.watching(glob);
    piece(driver, 'c', member('2'));
    driver.advance(2_000);
    piece(driver, 'c', member('1'));
    driver.advance(2_000);
    t.equal(completions(watcher), 0);
    piece(driver, 'c', member('3'));
    getsCompleteAfter(t, driver, watcher, WHOLE_MS);
    t.equal(watcher.held.size, 3);
    t.end();
  },
);

t.test(
  'when a server may be silent about a collection and is, the collection is complete with the members that are held (seed 135963)',
  (t) => {
    for (const [answersWholly, expected] of [
      [true, []],
      [false, [false]],
    ] as const) {
      const driver = silent(glob);
      driver.publish('c', member('1'), '1');
      driver.watching(member('1'));
      const [server] = driver.federation.servers;
      // As of endpoints at a state-of-the-world server.
      Object.assign(server!.contents, { answersWholly: () => answersWholly });
      const watcher = driver.watching(glob);
      driver.advance(60_000);
      t.equal(watcher.held.size, 1);
      t.strictSame([...watcher.proven.values()], expected);
    }
    t.end();
  },
);

t.test('what a source sent may have further members while it waits to be read', (t) => {
  const driver = pair({}, {}, {}, { portionBytes: 1 });
  driver.server('c').stalled.add(glob);
  const watcher = driver.watching(glob);
  const resources = ['1', '2'].map((id) => {
    return { name: member(id), version: '1', body: Buffer.from('1') };
  });
  driver.send('c', { typeUrl: THING, nonce: 'first', resources });
  driver.advance(WHOLE_MS / 2);
  // Three portions, and the first one comes after the wait for further members.
  driver.send('c', { typeUrl: OTHER, nonce: 'other', resources });
  driver.nowMs += WHOLE_MS;
  driver.turn();
  t.equal(completions(watcher), 0);
  driver.advance(WHOLE_MS);
  t.equal(completions(watcher), 1);
  t.end();
});

t.test(
  'collections of one type wait for one another: one answer may span responses for each of them',
  (t) => {
    const driver = silent(glob, otherGlob);
    const [first, second] = [driver.watching(glob), driver.watching(otherGlob)];
    piece(driver, 'c', member('1'));
    driver.advance(2_000);
    piece(driver, 'c', thing('cloud', 'y/1'));
    driver.advance(2_000);
    piece(driver, 'c', member('2'));
    getsCompleteAfter(t, driver, first, WHOLE_MS);
    t.equal(completions(second), 1);
    t.end();
  },
);

t.test('where members keep coming, a collection is complete after 30 s', (t) => {
  const driver = silent(glob);
  const watcher = driver.watching(glob);
  for (let second = 0; second < 30; second++) {
    piece(driver, 'c', member(`${second}`));
    driver.advance(999);
    t.equal(completions(watcher), 0);
    driver.advance(1);
  }
  t.equal(completions(watcher), 1);
  piece(driver, 'c', member('late'));
  driver.advance(60_000);
  t.equal(completions(watcher), 1);
  t.equal(watcher.held.size, 31);
  t.end();
});

t.test('a stream that is cut between two responses restarts the wait', (t) => {
  // The first wait would end on the new stream, before a connect attempt, or while connecting
  // fails.
  for (const { cutMs, downMs, next } of [
    { cutMs: 500, downMs: 0, next: '1' },
    { cutMs: 500, downMs: 0, next: '2' },
    { cutMs: 2_400, downMs: 0, next: '2' },
    { cutMs: 500, downMs: 10_000, next: '2' },
  ]) {
    const driver = pair({}, {}, { alternatives: [] });
    driver.server('c').stalled.add(glob);
    const watcher = driver.watching(glob);
    piece(driver, 'c', member('1'));
    driver.advance(cutMs);
    driver.kill('c');
    driver.advance(downMs);
    driver.revive('c');
    while (!driver.isConnected('c')) driver.advance(50);
    t.equal(completions(watcher), 0, 'a lost stream completes nothing');
    piece(driver, 'c', member(next));
    getsCompleteAfter(t, driver, watcher, WHOLE_MS);
    t.ok(watcher.held.has(member('1')));
    t.notMatch(watcher.told.join(), /removed/);
  }
  t.end();
});

t.test('a new stream that has not answered yet completes nothing', (t) => {
  const driver = silent(glob);
  const watcher = driver.watching(glob);
  driver.watch(otherName, watcher, OTHER);
  piece(driver, 'c', member('1'));
  driver.advance(500);
  driver.cut('c');
  // A response of another type makes the source live; the collection is still unanswered.
  driver.advance(WHOLE_MS + 1_000);
  t.equal(driver.group(ID).failover.kind, 'primary');
  t.equal(completions(watcher), 0);
  piece(driver, 'c', member('2'));
  getsCompleteAfter(t, driver, watcher, WHOLE_MS);
  t.end();
});

t.test('a switch restarts the wait', (t) => {
  const driver = silent(glob);
  const watcher = driver.watching(glob);
  piece(driver, 'c', member('1'));
  driver.advance(2_000);
  // The alternative is empty.
  driver.force(ID, 1);
  t.equal(driver.group(ID).failover.active, 1);
  getsCompleteAfter(t, driver, watcher, WHOLE_MS);
  t.equal(watcher.proven.get(glob), false);
  t.end();
});

t.test(
  'an alternative that sends the primary’s members in several responses is not complete early either',
  (t) => {
    const driver = silent(glob);
    driver.server('o').stalled.add(alt(glob));
    const watcher = driver.watching(glob);
    piece(driver, 'c', member('1'), member('2'));
    driver.force(ID, 1);
    piece(driver, 'o', alt(member('1')));
    driver.advance(2_000);
    piece(driver, 'o', alt(member('2')));
    getsCompleteAfter(t, driver, watcher, WHOLE_MS);
    t.end();
  },
);

t.test('a directory is complete at once: the gateway reads it as one', (t) => {
  const driver = new FederationDriver(
    mapOf({ authorities: { cloud: { sources: ['f'] } }, paths: ['f'] }),
  );
  const resources = [{ name: member('1'), typeUrl: THING, body: Buffer.from('1') }];
  const watcher = driver.watching(glob);
  driver.federation.handleLoaded('f', { resources, nowMs: driver.nowMs });
  driver.pump();
  t.strictSame(watcher.take(), [`changed ${member('1')} 1`, `complete ${glob}`]);
  t.equal(watcher.proven.get(glob), true);
  t.end();
});

t.test(
  'a directory that is read late removes at once the additional members of a lower source',
  (t) => {
    const driver = new FederationDriver(
      mapOf({ authorities: { cloud: { sources: ['f', 'o'] } }, paths: ['f'] }),
    );
    for (const id of ['1', '2']) driver.server('o').set(THING, member(id), 'o');
    const watcher = driver.watching(glob);
    driver.federation.handleUnreadable('f', driver.nowMs);
    driver.pump();
    driver.advance(TRIP_MS);
    t.equal(watcher.held.size, 2);
    const resources = [{ name: member('1'), typeUrl: THING, body: Buffer.from('1') }];
    driver.federation.handleLoaded('f', { resources, nowMs: driver.nowMs });
    driver.pump();
    watcher.take();
    while (driver.group('cloud').failover.active !== 0) driver.advance(100);
    t.strictSame(watcher.take(), [`changed ${member('1')} 1`, `complete ${glob}`]);
    driver.advance(DEFAULT_FAILOVER.switchWaitMs);
    t.strictSame(watcher.take(), [`removed ${member('2')}`]);
    t.end();
  },
);

// ---- watchers -----------------------------------------------------------------------------------

t.test(
  'a second watcher gets received members at once, and completion together with the first',
  (t) => {
    const driver = silent(glob);
    const first = driver.watching(glob);
    piece(driver, 'c', member('1'));
    driver.advance(2_000);
    const second = driver.watching(glob);
    t.strictSame(second.told, [`changed ${member('1')} 1`]);
    getsCompleteAfter(t, driver, first, WHOLE_MS - 2_000);
    t.equal(completions(second), 1);
    t.strictSame(driver.watching(glob).told, [`changed ${member('1')} 1`, `complete ${glob}`]);
    t.end();
  },
);

t.test('new watchers do not delay completion', (t) => {
  const driver = silent(glob);
  const first = driver.watching(glob);
  piece(driver, 'c', member('1'));
  for (let second = 0; second < 3; second++) {
    t.equal(completions(first), 0);
    driver.watching(glob);
    driver.advance(1_000);
  }
  t.equal(completions(first), 1);
  t.end();
});

t.test('a member that is unsubscribed by name does not end the wait of its collection', (t) => {
  const driver = silent(glob);
  const watcher = driver.watching(glob);
  const other = driver.watching(member('1'));
  piece(driver, 'c', member('1'));
  piece(driver, 'c', member('2'));
  driver.advance(1_000);
  driver.unwatch(member('1'), other);
  getsCompleteAfter(t, driver, watcher, WHOLE_MS - 1_000);
  t.end();
});

t.test(
  'a collection that is unsubscribed before it is complete, and subscribed again, waits anew',
  (t) => {
    const driver = silent(glob);
    const first = driver.watching(glob, a);
    piece(driver, 'c', member('1'));
    driver.advance(1_000);
    driver.unwatch(glob, first);
    driver.advance(1_000);
    const again = driver.watching(glob);
    driver.advance(WHOLE_MS);
    t.equal(completions(again), 0, 'no response to the new subscription yet');
    piece(driver, 'c', member('1'));
    // For 30 s, a member may be a late response to the old subscription.
    getsCompleteAfter(t, driver, again, 30_000 + WHOLE_MS);
    t.equal(completions(first), 0);
    t.end();
  },
);

t.test('a collection that was empty at the alternative is complete with its first member', (t) => {
  const driver = pair({}, {});
  driver.server('c').reachability = 'refuse';
  const watcher = driver.watching(glob);
  driver.advance(20_000);
  t.equal(driver.group(ID).failover.kind, 'alt');
  watcher.take();
  driver.publish('o', alt(member('0')), '1');
  t.strictSame(watcher.take(), [`changed ${member('0')} 1`, `complete ${glob}`]);
  driver.publish('o', alt(member('1')), '1');
  t.strictSame(watcher.take(), [`changed ${member('1')} 1`], 'once');
  t.end();
});

import fc from 'fast-check';
import t from 'tap';
import { Expiries } from '../../../../../authorities/core/sources/expiries.js';
import {
  SourceContents,
  type Listener,
} from '../../../../../authorities/core/sources/source-contents.js';
import { projectionOf } from '../../../../support/fake-directory.js';
import { a, alt, b, glob, member, pair, TRIP_MS } from '../../../../support/authority-pair.js';
import {
  mapOf,
  nameOf,
  THING,
  WHOLE_MS,
  type FederationDriver,
} from '../../../../support/federation-driver.js';

let nonces = 0;

/** A resource with a TTL of `seconds`; without a body it is a heartbeat. */
function send(
  driver: FederationDriver,
  source: string,
  name: string,
  seconds: number | undefined,
  body?: string,
  version = '1',
): void {
  driver.send(source, {
    typeUrl: THING,
    nonce: `ttl-${++nonces}`,
    resources: [
      {
        name,
        version,
        ...(body !== undefined && { body: Buffer.from(body) }),
        ...(seconds !== undefined && { ttl: { seconds, nanos: 0 } }),
      },
    ],
  });
}

const lastError = (driver: FederationDriver, source: string): string | undefined =>
  driver.server(source).stream.acks.at(-1)?.error;

t.test('a resource is removed when its TTL ends, and not before (invariant 20)', (t) => {
  const driver = pair({ [a]: '0' }, {});
  const watcher = driver.watching(a);
  send(driver, 'c', a, 10, 'short');
  watcher.take();
  driver.advance(9_999);
  t.strictSame(watcher.take(), []);
  driver.advance(1);
  t.strictSame(watcher.take(), [`removed ${a}`]);
  send(driver, 'c', a, undefined, 'for ever', '2');
  driver.advance(600_000);
  t.strictSame(watcher.take(), [`changed ${a} for ever`]);
  t.end();
});

t.test('content kept after a deletion is kept no longer than its TTL (invariant 20)', (t) => {
  const driver = pair({ [a]: '0', [b]: '0' }, {}, { ignoreDeletion: true });
  const watcher = driver.watching(a, b);
  send(driver, 'c', a, 10, 'short');
  send(driver, 'c', b, 10, 'short');
  driver.send('c', { typeUrl: THING, nonce: 'gone', resources: [], removed: [a, b] });
  send(driver, 'c', b, undefined, 'back', '2');
  watcher.take();
  driver.advance(9_999);
  t.equal(watcher.held.get(a), 'short');
  driver.advance(1);
  t.strictSame(watcher.take(), [`removed ${a}`]);
  driver.advance(60_000);
  t.equal(watcher.held.get(b), 'back', 'content that came back without a TTL stays');
  t.end();
});

t.test(
  'kept content does not outlive its TTL when many other resources come and go (invariant 20)',
  (t) => {
    const driver = pair({ [glob]: '0' }, {}, { ignoreDeletion: true });
    const watcher = driver.watching(glob);
    send(driver, 'c', member('held'), 10, 'short');
    driver.send('c', { typeUrl: THING, nonce: 'gone', resources: [], removed: [member('held')] });
    for (let at = 0; at < 300; at++) send(driver, 'c', member(String(at)), 3_600, 'x');
    driver.advance(9_999);
    t.ok(watcher.held.has(member('held')));
    driver.advance(1);
    t.notOk(watcher.held.has(member('held')));
    t.equal(watcher.held.size, 300);
    t.end();
  },
);

t.test('a resource that an unused source removed and sent again has its latest TTL', (t) => {
  const driver = pair({ [a]: '0' }, {});
  const watcher = driver.watching(a);
  send(driver, 'c', a, 60, 'kept');
  driver.kill('c');
  driver.advance(TRIP_MS);
  driver.server('c').delete(THING, a);
  driver.revive('c');
  driver.advance(10_000);
  send(driver, 'c', a, undefined, 'again', '2');
  driver.kill('c');
  driver.advance(3_600_000);
  t.equal(watcher.held.get(a), 'kept');
  t.end();
});

t.test('content that its source removed while unused is removed when its TTL ends', (t) => {
  const driver = pair({ [a]: '0', [b]: '0' }, { [b]: 'alternative' });
  const watcher = driver.watching(a, b);
  send(driver, 'c', a, 60, 'kept');
  driver.kill('c');
  driver.advance(TRIP_MS);
  driver.server('c').delete(THING, a);
  driver.revive('c');
  driver.advance(10_000);
  t.equal(watcher.held.get(a), 'kept', 'the primary is not stable yet');
  driver.kill('c');
  driver.advance(60_000);
  t.notOk(watcher.held.has(a));
  t.end();
});

t.test(
  'content kept over a reload is removed when its TTL ends, its source unreachable or deleted',
  (t) => {
    for (const source of ['c', 'd']) {
      const driver = pair({ [a]: '0', [b]: '0' }, {});
      const watcher = driver.watching(a, b);
      send(driver, 'c', a, 60, 'short');
      send(driver, 'c', b, 60, 'short');
      driver.kill('c');
      driver.server('d').reachability = 'refuse';
      driver.reload(mapOf({ authorities: { cloud: { sources: [source] } } }));
      watcher.take();
      driver.unwatch(b, watcher);
      driver.advance(50_000);
      t.equal(watcher.held.get(a), 'short', source);
      driver.advance(10_000);
      t.strictSame(
        watcher.take().filter((what) => what.startsWith('removed')),
        [`removed ${a}`],
        source,
      );
    }
    t.end();
  },
);

t.test('content that another source renews stays', (t) => {
  const driver = pair({ [a]: '0' }, {});
  const watcher = driver.watching(a);
  send(driver, 'c', a, 20, 'short');
  driver.kill('c');
  driver.server('d').set(THING, a, 'for ever');
  driver.reload(mapOf({ authorities: { cloud: { sources: ['d'] } } }));
  driver.advance(60_000);
  t.equal(watcher.held.get(a), 'for ever');
  t.end();
});

t.test('of two TTLs of kept content the later one counts', (t) => {
  const driver = pair({ [a]: '0' }, {});
  const watcher = driver.watching(a);
  send(driver, 'c', a, 600, 'short');
  driver.kill('c');
  driver.server('d').reachability = 'refuse';
  const spec = { sources: ['d', 'e'], ignoreDeletion: true };
  driver.reload(mapOf({ authorities: { cloud: spec } }));
  driver.advance(TRIP_MS);
  send(driver, 'e', a, 900, 'longer', '2');
  driver.revive('d');
  driver.advance(120_000);
  t.equal(
    driver.group('cloud').failover.kind,
    'primary',
    'and the source of the content is unused',
  );
  driver.advance(700_000);
  t.equal(watcher.held.get(a), 'longer');
  driver.advance(100_000);
  t.notOk(watcher.held.has(a));
  t.end();
});

t.test('heartbeats renew a resource without an update; each sets the TTL anew', (t) => {
  const driver = pair({ [a]: '0' }, {});
  const watcher = driver.watching(a);
  send(driver, 'c', a, 10, 'x');
  watcher.take();
  for (let beats = 0; beats < 5; beats++) {
    driver.advance(9_000);
    send(driver, 'c', a, 10);
  }
  t.strictSame(watcher.take(), []);
  t.equal(lastError(driver, 'c'), undefined);
  driver.advance(10_000);
  t.strictSame(watcher.take(), [`removed ${a}`]);
  send(driver, 'c', a, 10, 'x', '2');
  send(driver, 'c', a, undefined, undefined, '2');
  driver.advance(600_000);
  t.strictSame(watcher.take(), [`changed ${a} x`], 'a heartbeat without a TTL clears it');
  t.end();
});

t.test('members of a glob expire one by one', (t) => {
  const driver = pair({ [member('1')]: '1', [member('2')]: '2' }, {});
  const watcher = driver.watching(glob);
  driver.advance(WHOLE_MS);
  send(driver, 'c', member('1'), 5, 'short');
  watcher.take();
  driver.advance(5_000);
  t.strictSame(watcher.take(), [`removed ${member('1')}`]);
  t.ok(watcher.held.has(member('2')));
  t.end();
});

t.test('a disconnect does not extend a TTL: without contact it still ends', (t) => {
  const driver = pair({ [a]: '0', [b]: '0' }, {});
  const watcher = driver.watching(a, b);
  send(driver, 'c', a, 20, 'x');
  watcher.take();
  driver.kill('c');
  driver.advance(20_000);
  t.strictSame(watcher.take(), [`removed ${a}`]);
  t.ok(watcher.held.has(b), 'content without a TTL is kept (invariant 3)');
  t.end();
});

t.test('kept content of an unused source expires too', (t) => {
  const driver = pair({ [a]: '0', [b]: '0' }, { [b]: 'alternative' });
  const watcher = driver.watching(a, b);
  send(driver, 'c', a, 60, 'kept');
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(watcher.held.get(a), 'kept', 'the alternative lacks it');
  t.equal(watcher.held.get(b), 'alternative');
  driver.advance(60_000);
  t.notOk(watcher.held.has(a));
  t.end();
});

t.test('an expiry at the primary removes nothing while the alternative is served', (t) => {
  const driver = pair({ [a]: '0' }, { [a]: 'alternative' });
  const watcher = driver.watching(a);
  send(driver, 'c', a, 60, 'short');
  driver.kill('c');
  driver.advance(TRIP_MS);
  watcher.take();
  driver.advance(60_000);
  t.strictSame(watcher.take(), []);
  t.equal(watcher.held.get(a), 'alternative');
  t.end();
});

t.test('content of an alternative expires by its own TTL, under the subscribed name', (t) => {
  const driver = pair({}, { [a]: '0' });
  driver.server('c').reachability = 'refuse';
  const watcher = driver.watching(a);
  driver.advance(20_000);
  send(driver, 'o', alt(a), 10, 'x');
  t.equal(watcher.held.get(a), 'x');
  driver.advance(10_000);
  t.notOk(watcher.held.has(a));
  t.end();
});

t.test('content of an unused source expires without notification', (t) => {
  const driver = pair({}, {}, { failover: { prewarm: 'subscribed' } });
  const watcher = driver.watching(a);
  send(driver, 'o', alt(a), 10, 'x');
  watcher.take();
  driver.advance(10_000);
  t.strictSame(watcher.take(), []);
  t.end();
});

t.test('a heartbeat with another version is refused, and changes nothing (xDS protocol)', (t) => {
  const driver = pair({ [a]: '0' }, {});
  const watcher = driver.watching(a);
  send(driver, 'c', a, 10, 'x');
  send(driver, 'c', a, 600, undefined, 'other');
  t.match(lastError(driver, 'c'), /has no content, and its version other/);
  driver.advance(10_000);
  t.notOk(watcher.held.has(a));
  t.end();
});

t.test('a heartbeat of expired content makes the gateway request the full resource', (t) => {
  const driver = pair({ [a]: 'whole' }, {});
  const watcher = driver.watching(a);
  send(driver, 'c', a, 10, 'x');
  driver.advance(10_000);
  t.notOk(watcher.held.has(a));
  send(driver, 'c', a, 10);
  t.equal(watcher.held.get(a), 'whole');
  send(driver, 'c', member('stray'), 10);
  t.equal(
    lastError(driver, 'c'),
    undefined,
    'a heartbeat for an unsubscribed name: no error, no effect',
  );
  t.end();
});

t.test('a heartbeat of a member that is not held adds nothing', (t) => {
  const driver = pair({ [member('1')]: '1' }, {});
  const watcher = driver.watching(glob);
  watcher.take();
  send(driver, 'c', member('2'), 10);
  t.strictSame(watcher.take(), []);
  t.end();
});

t.test('a heartbeat of an expired member makes the gateway request its glob again, once', (t) => {
  for (const others of [{}, { [member('2')]: '2' }]) {
    const driver = pair({ [member('1')]: '1', ...others }, {});
    const watcher = driver.watching(glob);
    send(driver, 'c', member('1'), 5, 'short');
    driver.advance(5_000);
    t.notOk(watcher.held.has(member('1')));
    watcher.take();
    const asked = (): number =>
      driver.server('c').stream.requests.filter(({ subscribe }) => subscribe.includes(glob)).length;
    const before = asked();
    send(driver, 'c', member('1'), 5);
    t.strictSame(watcher.take(), [`changed ${member('1')} 1`]);
    send(driver, 'c', member('never'), 5);
    t.equal(asked() - before, 1, 'and not for a member that was never held');
  }
  t.end();
});

t.test('heartbeats of a long TTL cost no memory', (t) => {
  let endsMs = 0;
  const expiries = new Expiries(() => endsMs);
  const add = (atMs: number): void => {
    endsMs = atMs;
    expiries.add({ atMs, typeUrl: THING, name: nameOf(a) });
  };
  for (let atMs = 1_000_000; atMs < 1_010_000; atMs++) add(atMs);
  t.equal(expiries.size, 1);
  add(500);
  t.equal(expiries.nextMs, 500, 'a shorter one counts at once');
  t.equal(expiries.takeDue(500)?.atMs, 500);
  add(2_000_000);
  t.equal(expiries.nextMs, 1_000_000);
  t.equal(expiries.takeDue(1_000_000), undefined, 'its deadline has moved to a later time');
  t.equal(expiries.takeDue(2_000_000)?.atMs, 2_000_000);
  t.end();
});

t.test('the TTL of an unsubscribed name notifies nothing', (t) => {
  const driver = pair({ [a]: '0' }, {});
  const watcher = driver.watching(a);
  send(driver, 'c', a, 10, 'x');
  driver.unwatch(a, watcher);
  watcher.take();
  driver.advance(60_000);
  t.strictSame(watcher.take(), []);
  t.end();
});

t.test('a practically infinite TTL leaves no timer after the name is unsubscribed', (t) => {
  const driver = pair({ [a]: '0' }, {});
  const watcher = driver.watching(a);
  send(driver, 'c', a, 315_576_000_000, 'x');
  driver.unwatch(a, watcher);
  driver.advance(3_600_000);
  t.equal(driver.federation.nextDeadlineMs(driver.nowMs), undefined);
  t.end();
});

t.test('resources that come and go with practically infinite TTLs cost no memory', (t) => {
  const contents = new SourceContents();
  const listener = { handleSourceChanges: () => undefined } as unknown as Listener;
  contents.subscribe(THING, nameOf(glob), listener);
  for (let at = 0; at < 10_000; at++) {
    const name = nameOf(member(String(at % 3 === 0 ? 0 : at)));
    const projection = projectionOf(THING, name.key, 'x');
    contents.put({ projection, upstreamVersion: '1', expiresAtMs: 1e15 - at });
    if (at % 3 !== 0) contents.remove(THING, name, false);
  }
  t.ok(contents.expiryCount < 200, `${contents.expiryCount} are remembered`);
  t.equal(contents.nextExpiryMs, 1e15 - 9_999, 'including the one that is held');
  t.end();
});

// Hypothesis: in whatever order deadlines are added, all due ones come out, sorted by time.
t.test('expiries come in order, and none is lost', (t) => {
  fc.assert(
    fc.property(fc.array(fc.nat(50)), fc.nat(60), (times, nowMs) => {
      const expiries = new Expiries((_, { key }) => times[Number(key.split('/').at(-1))]);
      for (const [at, atMs] of times.entries()) {
        expiries.add({ atMs, typeUrl: THING, name: nameOf(member(String(at))) });
      }
      const taken: number[] = [];
      for (let due = expiries.takeDue(nowMs); due; due = expiries.takeDue(nowMs)) {
        taken.push(due.atMs);
      }
      const sorted = [...times].sort((x, y) => x - y);
      const expected = sorted.filter((atMs) => atMs <= nowMs);
      t.strictSame(taken, expected);
      t.equal(expiries.nextMs, sorted[expected.length]);
    }),
  );
  t.end();
});

t.test('a TTL that ends at an unused source removes nothing', (t) => {
  const driver = pair({ [a]: '0' }, { [a]: 'alt' });
  const watcher = driver.watching(a);
  send(driver, 'c', a, 30, 'short');
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(watcher.held.get(a), 'alt');
  driver.advance(60_000);
  t.equal(watcher.held.get(a), 'alt');
  t.end();
});

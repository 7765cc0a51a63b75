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

/** A resource with a TTL of so many seconds; without a body it is a heartbeat. */
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

t.test('a resource is gone when its TTL is over, and not before (invariant 20)', (t) => {
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

t.test('what is held back or not passed on is kept no longer than its TTL (invariant 20)', (t) => {
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
  t.equal(watcher.held.get(b), 'back', 'what came back without a TTL stays');
  t.end();
});

t.test(
  'what is held back outlives its TTL no more when many others come and go (invariant 20)',
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

t.test(
  'what a source has again that it had removed while another is in use lasts as it says now',
  (t) => {
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
  },
);

t.test('what a source removed while another is in use goes when its TTL is over', (t) => {
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

t.test('what is kept over a reload goes when its TTL is over, its source away or gone', (t) => {
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
});

t.test('what is renewed by another source than the one it was kept from stays', (t) => {
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

t.test('of what is kept once more the later end counts', (t) => {
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
  t.equal(driver.group('cloud').failover.kind, 'primary', 'and the source of it was left');
  driver.advance(700_000);
  t.equal(watcher.held.get(a), 'longer');
  driver.advance(100_000);
  t.notOk(watcher.held.has(a));
  t.end();
});

t.test('heartbeats renew it and are no update; each sets the TTL anew', (t) => {
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
  t.strictSame(watcher.take(), [`changed ${a} x`], 'a heartbeat without a TTL ends it');
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

t.test('a disconnect does not extend a TTL: contact that is lost is contact that is lost', (t) => {
  const driver = pair({ [a]: '0', [b]: '0' }, {});
  const watcher = driver.watching(a, b);
  send(driver, 'c', a, 20, 'x');
  watcher.take();
  driver.kill('c');
  driver.advance(20_000);
  t.strictSame(watcher.take(), [`removed ${a}`]);
  t.ok(watcher.held.has(b), 'what has none is kept (invariant 3)');
  t.end();
});

t.test('what is kept from a side that is not in use expires too', (t) => {
  const driver = pair({ [a]: '0', [b]: '0' }, { [b]: 'alternative' });
  const watcher = driver.watching(a, b);
  send(driver, 'c', a, 60, 'kept');
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(watcher.held.get(a), 'kept', 'the alternative has none');
  t.equal(watcher.held.get(b), 'alternative');
  driver.advance(60_000);
  t.notOk(watcher.held.has(a));
  t.end();
});

t.test('what expires at the primary while the alternative’s is served takes nothing away', (t) => {
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

t.test('content of an alternative expires as it says, under the asked name', (t) => {
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

t.test('what a side that is not in use had alone expires unheard', (t) => {
  const driver = pair({}, {}, { failover: { prewarm: 'subscribed' } });
  const watcher = driver.watching(a);
  send(driver, 'o', alt(a), 10, 'x');
  watcher.take();
  driver.advance(10_000);
  t.strictSame(watcher.take(), []);
  t.end();
});

t.test('a heartbeat of another version is refused, and changes nothing (xDS protocol)', (t) => {
  const driver = pair({ [a]: '0' }, {});
  const watcher = driver.watching(a);
  send(driver, 'c', a, 10, 'x');
  send(driver, 'c', a, 600, undefined, 'other');
  t.match(lastError(driver, 'c'), /has no content, and its version other/);
  driver.advance(10_000);
  t.notOk(watcher.held.has(a));
  t.end();
});

t.test('a heartbeat of what expired here has it sent again, whole', (t) => {
  const driver = pair({ [a]: 'whole' }, {});
  const watcher = driver.watching(a);
  send(driver, 'c', a, 10, 'x');
  driver.advance(10_000);
  t.notOk(watcher.held.has(a));
  send(driver, 'c', a, 10);
  t.equal(watcher.held.get(a), 'whole');
  send(driver, 'c', member('stray'), 10);
  t.equal(lastError(driver, 'c'), undefined, 'of a name that nobody asked for: no fault, no use');
  t.end();
});

t.test('a heartbeat of a member that is not held brings nothing', (t) => {
  const driver = pair({ [member('1')]: '1' }, {});
  const watcher = driver.watching(glob);
  watcher.take();
  send(driver, 'c', member('2'), 10);
  t.strictSame(watcher.take(), []);
  t.end();
});

t.test('a heartbeat of a member that expired here has its glob asked again, once', (t) => {
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
    t.equal(asked() - before, 1, 'and not for what was never held');
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
  t.equal(expiries.takeDue(1_000_000), undefined, 'by now it is later');
  t.equal(expiries.takeDue(2_000_000)?.atMs, 2_000_000);
  t.end();
});

t.test('what nobody asks for any more has no TTL left to tell of', (t) => {
  const driver = pair({ [a]: '0' }, {});
  const watcher = driver.watching(a);
  send(driver, 'c', a, 10, 'x');
  driver.unwatch(a, watcher);
  watcher.take();
  driver.advance(60_000);
  t.strictSame(watcher.take(), []);
  t.end();
});

t.test('a TTL without an end leaves no timer when nobody asks any more', (t) => {
  const driver = pair({ [a]: '0' }, {});
  const watcher = driver.watching(a);
  send(driver, 'c', a, 315_576_000_000, 'x');
  driver.unwatch(a, watcher);
  driver.advance(3_600_000);
  t.equal(driver.federation.nextDeadlineMs(driver.nowMs), undefined);
  t.end();
});

t.test('resources that come and go with TTLs without an end cost no memory', (t) => {
  const contents = new SourceContents();
  const listener = { handleSourceChanges: () => undefined } as unknown as Listener;
  contents.subscribe(THING, nameOf(glob), listener);
  for (let at = 0; at < 10_000; at++) {
    const name = nameOf(member(String(at % 3 === 0 ? 0 : at)));
    const projection = projectionOf(THING, name.key, 'x');
    contents.put({ projection, upstreamVersion: '1', expiresAtMs: 1e15 - at }, false);
    if (at % 3 !== 0) contents.remove(THING, name, false);
  }
  t.ok(contents.expiryCount < 200, `${contents.expiryCount} are remembered`);
  t.equal(contents.nextExpiryMs, 1e15 - 9_999, 'and the one that is held');
  t.end();
});

// Hypothesis: whatever is added in whatever order, what is due comes in order of time, all of it.
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

t.test('a TTL that ends where nobody is served from takes nothing', (t) => {
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

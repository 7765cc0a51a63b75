/**
 * Goal: the streams of many node groups start at a bounded pace at their source, and each of them starts.
 * Method: a federation with a source that answers only when the test says so.
 */
import t from 'tap';
import { mapOf, RecordingWatcher, THING } from '../../../../support/federation-driver.js';
import { at, driverOf, heldBy } from '../../../../support/node-groups.js';

const AT_ONCE = 100;
const COUNTS_FOR_MS = 250;

function crowd(count: number) {
  const driver = driverOf([{ sources: ['c'] }]);
  driver.server('c').set(THING, 'x', 'v1');
  driver.server('c').isDeaf = true;
  const watchers = Array.from({ length: count }, () => new RecordingWatcher());
  for (const [i, watcher] of watchers.entries()) driver.watch(at(`${i}`, '*'), watcher);
  return { driver, watchers };
}

t.test(
  '100 streams of a source start at once; a silent source delays the others by 250 ms',
  (t) => {
    const { driver } = crowd(220);
    t.equal(driver.dials.length, AT_ONCE);
    driver.advance(COUNTS_FOR_MS - 2);
    t.equal(driver.dials.length, AT_ONCE);
    driver.advance(2);
    t.equal(driver.dials.length, 2 * AT_ONCE);
    driver.advance(COUNTS_FOR_MS);
    t.equal(driver.dials.length, 220);
    t.end();
  },
);

t.test('a source that answers lets the next streams start at once', (t) => {
  const { driver, watchers } = crowd(150);
  driver.server('c').isDeaf = false;
  for (const stream of driver.server('c').streams.slice(0, 50)) stream.push(THING, ['x'], []);
  driver.pump();
  t.equal(driver.dials.length, 150);
  t.strictSame(Object.values(heldBy(watchers[149]!)), ['v1']);
  t.end();
});

t.test('a queued stream has no deadline, is not down, and leaves with its last client', (t) => {
  const { driver, watchers } = crowd(101);
  const queued = driver.federation.servers.find(({ health }) => health.kind === 'queued')!;
  t.strictSame(queued.facts(), { live: false, liveSinceMs: 0, wellSinceMs: null, tripped: false });
  driver.unwatch(at('100', '*'), watchers[100]!);
  t.equal(queued.health.kind, 'idle');
  driver.advance(COUNTS_FOR_MS);
  t.equal(driver.dials.length, AT_ONCE);
  t.end();
});

t.test('a reload without the source forgets the streams that wait for their turn', (t) => {
  const { driver } = crowd(150);
  driver.reload(mapOf({ authorities: {} }));
  driver.advance(60_000);
  t.equal(driver.dials.length, AT_ONCE);
  t.end();
});

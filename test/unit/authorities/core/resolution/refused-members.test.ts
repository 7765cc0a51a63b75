/**
 * Goal: what a source has in a form that cannot be taken is not taken for absent, so nobody who holds
 * an earlier version of it loses it (invariant 3).
 */
import t from 'tap';
import { a, FAILBACK_MS, glob, member, pair, TRIP_MS } from '../../../../support/authority-pair.js';
import { THING, WHOLE_MS, type FederationDriver } from '../../../../support/federation-driver.js';

const OTHER = 'type.googleapis.com/test.v1.Other';
const [one, two] = [member('1'), member('2')];

function announce(driver: FederationDriver, ...names: readonly string[]): void {
  driver.server('c').announce(THING, ...names);
  driver.pump();
}

t.test(
  'a collection with a member that is refused is no proof of what is not in it (invariant 3)',
  (t) => {
    const driver = pair({ [one]: '1' }, {});
    driver.server('c').set(THING, two, 'x', OTHER);
    const watcher = driver.watching(glob);
    driver.advance(WHOLE_MS);
    t.strictSame(watcher.take(), [`changed ${one} 1`, `complete ${glob}`]);
    t.equal(watcher.proven.get(glob), false);
    driver.server('c').set(THING, two, '2');
    announce(driver, two);
    driver.advance(WHOLE_MS);
    t.strictSame(watcher.take(), [`changed ${two} 2`, `complete ${glob}`], 'until it is mended');
    t.equal(watcher.proven.get(glob), true);
    t.end();
  },
);

t.test('a member that was refused and is gone is gone', (t) => {
  const driver = pair({ [one]: '1' }, {});
  for (const name of [two, member('3')]) driver.server('c').set(THING, name, 'x', OTHER);
  const watcher = driver.watching(glob);
  driver.server('c').delete(THING, two);
  announce(driver, two);
  driver.advance(WHOLE_MS);
  t.equal(watcher.proven.get(glob), false, 'there is another one');
  driver.server('c').delete(THING, member('3'));
  announce(driver, member('3'));
  driver.advance(WHOLE_MS);
  t.equal(watcher.proven.get(glob), true);
  t.end();
});

t.test('a member that the primary has in a bad form is kept on the way back to it', (t) => {
  const driver = pair({ [one]: '1' }, { [one]: 'alt', [two]: 'alt' });
  const watcher = driver.watching(glob);
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(watcher.held.get(two), 'alt');
  driver.server('c').set(THING, two, 'x', OTHER);
  driver.revive('c');
  driver.advance(FAILBACK_MS);
  t.equal(watcher.held.get(one), '1', 'it is the primary again');
  t.equal(watcher.held.get(two), 'alt');
  driver.server('c').delete(THING, two);
  announce(driver, two);
  t.notOk(watcher.held.has(two), 'and goes when that goes');
  t.end();
});

t.test('what is left while it is refused, alone or with its glob, leaves no trace', (t) => {
  const driver = pair({ [one]: '1' }, {});
  driver.server('c').set(THING, two, 'x', OTHER);
  const alone = driver.watching(two, a);
  driver.unwatch(two, alone);
  // What was left a moment ago would leave a doubt of its own.
  driver.advance(35_000);
  const watcher = driver.watching(glob, one);
  driver.advance(WHOLE_MS);
  t.equal(watcher.proven.get(glob), false);
  driver.unwatch(glob, watcher);
  driver.server('c').delete(THING, two);
  const later = driver.watching(glob);
  // Its one member is asked for by itself, and does not answer for it.
  driver.advance(35_000);
  t.equal(later.proven.get(glob), true);
  t.end();
});

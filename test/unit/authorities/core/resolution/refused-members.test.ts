/**
 * Goal: a resource that the gateway refuses does not count as absent, so no client loses an earlier
 * version of it (invariant 3).
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

t.test('a collection with a refused member does not prove absence (invariant 3)', (t) => {
  const driver = pair({ [one]: '1' }, {});
  driver.server('c').set(THING, two, 'x', OTHER);
  const watcher = driver.watching(glob);
  driver.advance(WHOLE_MS);
  t.strictSame(watcher.take(), [`changed ${one} 1`, `complete ${glob}`]);
  t.equal(watcher.proven.get(glob), false);
  driver.server('c').set(THING, two, '2');
  announce(driver, two);
  driver.advance(WHOLE_MS);
  t.strictSame(watcher.take(), [`changed ${two} 2`, `complete ${glob}`], 'until it is corrected');
  t.equal(watcher.proven.get(glob), true);
  t.end();
});

t.test('a refused member that is deleted no longer counts', (t) => {
  const driver = pair({ [one]: '1' }, {});
  for (const name of [two, member('3')]) driver.server('c').set(THING, name, 'x', OTHER);
  const watcher = driver.watching(glob);
  driver.server('c').delete(THING, two);
  announce(driver, two);
  driver.advance(WHOLE_MS);
  t.equal(watcher.proven.get(glob), false, 'another refused member remains');
  driver.server('c').delete(THING, member('3'));
  announce(driver, member('3'));
  driver.advance(WHOLE_MS);
  t.equal(watcher.proven.get(glob), true);
  t.end();
});

t.test('a member that the primary has in an unreadable form is kept at failback', (t) => {
  const driver = pair({ [one]: '1' }, { [one]: 'alt', [two]: 'alt' });
  const watcher = driver.watching(glob);
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.equal(watcher.held.get(two), 'alt');
  driver.server('c').set(THING, two, 'x', OTHER);
  driver.revive('c');
  driver.advance(FAILBACK_MS);
  t.equal(watcher.held.get(one), '1', 'the primary is in use again');
  t.equal(watcher.held.get(two), 'alt');
  driver.server('c').delete(THING, two);
  announce(driver, two);
  t.notOk(watcher.held.has(two), 'and is removed when the source deletes it');
  t.end();
});

t.test('a name unsubscribed while refused, alone or with its glob, leaves no trace', (t) => {
  const driver = pair({ [one]: '1' }, {});
  driver.server('c').set(THING, two, 'x', OTHER);
  const alone = driver.watching(two, a);
  driver.unwatch(two, alone);
  // A recent unsubscription would cast doubt of its own on the glob.
  driver.advance(35_000);
  const watcher = driver.watching(glob, one);
  driver.advance(WHOLE_MS);
  t.equal(watcher.proven.get(glob), false);
  driver.unwatch(glob, watcher);
  driver.server('c').delete(THING, two);
  const later = driver.watching(glob);
  // The only member is also subscribed by name, so it does not answer for the glob.
  driver.advance(35_000);
  t.equal(later.proven.get(glob), true);
  t.end();
});

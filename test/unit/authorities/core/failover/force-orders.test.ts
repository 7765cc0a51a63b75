/**
 * Goal: what an operator forces for an authority holds for groups that begin later, such as those of new proxies, until the order
 * ends.
 */
import t from 'tap';
import { at } from '../../../../support/node-groups.js';
import { FederationDriver, mapOf, THING, thing } from '../../../../support/federation-driver.js';

const a = thing('cloud', 'a');
const edge = thing('cloud', 'e/one');
const there = thing('onprem', 'a');
const LASTS_MS = 600_000;
/** Longer than the hold. */
const LONG_MS = 120_000;

/** The groups `cloud` and `cloud/e/*`, each with the primary `c` and the alternative `o`; a client of `onprem` keeps `o` connected. */
function started(): FederationDriver {
  const alternatives = [
    { authority: 'onprem', fromPrefix: 'e/', toPrefix: 'e/' },
    { authority: 'onprem' },
  ];
  const authorities = { cloud: { sources: ['c'], alternatives }, onprem: { sources: ['o'] } };
  const driver = new FederationDriver(mapOf({ authorities }));
  for (const name of [a, edge]) {
    driver.server('c').set(THING, name, 'c');
    driver.server('o').set(THING, name.replace('cloud', 'onprem'), 'o');
  }
  driver.watching(there);
  return driver;
}

const orderOf = (driver: FederationDriver, source: string): void => {
  driver.federation.forceOrders.give('cloud', { source, untilMs: driver.nowMs + LASTS_MS });
};

t.test('a group that begins while an order lasts begins at the forced source (FAILOVER)', (t) => {
  const driver = started();
  orderOf(driver, 'o');
  const watcher = driver.watching(edge);
  t.strictSame(
    watcher.told.filter((what) => what.includes(edge)),
    [`changed ${edge} o`],
    'never the content of the primary',
  );
  t.equal(driver.group('cloud/e/*').failover.kind, 'forced');
  driver.advance(LASTS_MS - 1);
  t.equal(watcher.held.get(edge), 'o');
  driver.advance(LONG_MS);
  t.equal(watcher.held.get(edge), 'c', 'it ends with the order');
  t.equal(driver.watching(a).held.get(a), 'c', 'and so does the order');
  t.end();
});

t.test('while the forced source is down, a group that begins is served by its primary', (t) => {
  const driver = started();
  driver.kill('o');
  driver.advance(10_000);
  orderOf(driver, 'o');
  const watcher = driver.watching(a);
  t.equal(watcher.held.get(a), 'c');
  driver.revive('o');
  driver.advance(60_000);
  t.equal(watcher.held.get(a), 'o');
  t.end();
});

t.test(
  'a node group that begins under an order waits for its own stream to the forced source',
  (t) => {
    const driver = new FederationDriver(
      mapOf({
        authorities: {},
        oldStyle: { differBy: ['id'], servedBy: [{ sources: ['c', 'o'] }] },
      }),
    );
    driver.server('c').set(THING, 'x', 'c');
    driver.server('o').set(THING, 'x', 'o');
    const [before, later] = [at('proxy-1', 'x'), at('proxy-2', 'x')];
    t.equal(driver.watching(before).held.get(before), 'c');
    const entry = driver.federation.groups[0]?.spec.name ?? '';
    driver.federation.forceOrders.give(entry, { source: 'o', untilMs: driver.nowMs + LASTS_MS });
    const watcher = driver.watching(later);
    driver.advance(1_000);
    t.strictSame(watcher.told, [`changed ${later} o`], 'never the content of the primary');
    t.end();
  },
);

t.test(
  'a group that begins at a forced source which turns out to be down gets its primary',
  (t) => {
    const authorities = {
      cloud: { sources: ['c'], alternatives: [{ authority: 'onprem' }] },
      onprem: { sources: ['o'] },
    };
    const driver = new FederationDriver(mapOf({ authorities }));
    driver.server('c').set(THING, a, 'c');
    driver.server('o').set(THING, there, 'o');
    driver.kill('o');
    orderOf(driver, 'o');
    const watcher = driver.watching(a);
    t.strictSame([...watcher.held], [], 'nobody knows yet that it is down');
    driver.advance(10_000);
    t.equal(watcher.held.get(a), 'c');
    t.equal(driver.group('cloud/*').failover.kind, 'forced');
    driver.revive('o');
    driver.advance(60_000);
    t.equal(watcher.held.get(a), 'o');
    driver.kill('o');
    driver.advance(60_000);
    t.equal(
      watcher.held.get(a),
      'o',
      'a group with content keeps it: a forced source does not fail over',
    );
    t.end();
  },
);

t.test('an order concerns neither other authorities nor groups without its source', (t) => {
  const driver = started();
  orderOf(driver, 'elsewhere');
  t.equal(driver.watching(a).held.get(a), 'c');
  t.equal(driver.group('onprem').failover.kind, 'primary');
  t.end();
});

t.test('an operator ends an order once', (t) => {
  const { forceOrders } = started().federation;
  forceOrders.give('cloud', { source: 'o', untilMs: 10 });
  t.equal(forceOrders.end('cloud', 9), true);
  t.equal(forceOrders.end('cloud', 9), false);
  forceOrders.give('cloud', { source: 'o', untilMs: 10 });
  t.equal(forceOrders.end('cloud', 10), false, 'it has ended by itself');
  t.end();
});

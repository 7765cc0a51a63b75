/**
 * Goal: no directive (`#alt=`, `#entry=`) reaches a source. Where a type has no entries, a name
 * with `#entry=` does not resolve: subscribed, redirected to, as an alternative or in a list.
 */
import t from 'tap';
import {
  inlineEntry,
  listBytes,
  REDIRECT,
  textEntry,
  textLocatorBytes,
} from '../../../../support/collection-messages.js';
import {
  askedName,
  FederationDriver,
  mapOf,
  RecordingWatcher,
  THING,
  thing,
} from '../../../../support/federation-driver.js';
import { nameOfLocator, parseResourceLocator } from '../../../../../protos/resource-name.js';
import { explainName } from '../../../../../gateway/admin/explain.js';

const LISTS = `${THING}Collection`;
const [a, b] = [thing('cloud', 'a'), thing('onprem', 'b')];
const list = 'xdstp://cloud/test.v1.ThingCollection/l';

const two = (): FederationDriver =>
  new FederationDriver(
    mapOf({
      authorities: {
        cloud: { sources: ['c'], mayLeadTo: ['onprem'] },
        onprem: { sources: ['o'] },
      },
    }),
  );

/** All names that both sources have subscriptions for. */
const asked = (driver: FederationDriver, types: readonly string[] = [THING, LISTS]) =>
  ['c', 'o'].flatMap((source) =>
    driver.isConnected(source)
      ? types.flatMap((typeUrl) => driver.server(source).stream.subscribed(typeUrl))
      : [],
  );

t.test('a type that is not a list has no entries, with or without an alternative', (t) => {
  const driver = two();
  for (const text of [`${a}#entry=x`, `${a}#alt=${b},entry=x`]) {
    const locator = parseResourceLocator(text);
    if (!locator.ok) throw new Error('it is a locator');
    const watcher = new RecordingWatcher();
    const name = nameOfLocator(locator.value);
    driver.federation.watch(THING, name, watcher, driver.nowMs);
    driver.pump();
    t.strictSame(watcher.take(), [`error 5 ${text}`]);
    driver.federation.unwatch(THING, name, watcher, driver.nowMs);
  }
  t.strictSame(asked(driver), []);
  t.end();
});

t.test('a redirect to an entry of a list type that nothing subscribes does not resolve', (t) => {
  const driver = two();
  // Names may be of another type than the subscription.
  const named = 'xdstp://cloud/test.v1.Other/x';
  const entry = 'xdstp://cloud/test.v1.OtherCollection/l#entry=e';
  driver.server('c').set(THING, named, textLocatorBytes(entry), REDIRECT);
  const watcher = driver.watching(named);
  t.strictSame(watcher.take(), [`error 5 ${named}`]);
  t.strictSame(asked(driver), [named]);
  t.end();
});

t.test('an alternative that is an entry of a non-list type is not used, and explained', (t) => {
  const driver = two();
  const name = `${a}#alt=${b}%23entry=x`;
  driver.publish('c', a, '1');
  const watcher = driver.watching(name);
  t.equal(watcher.held.get(name), '1');
  t.match(driver.federation.hops(THING, askedName(name)), [
    { to: b, problem: 'leads to an entry of test.v1.Thing, which is not a list' },
  ]);
  t.equal(driver.federation.groupFor(askedName(name))?.candidates.length, 1);
  t.end();
});

t.test('a list entry that is an entry of a glob is left out, and explained', (t) => {
  const driver = two();
  const glob = thing('cloud', 'g/*');
  driver.publish('c', list, listBytes(textEntry(`${glob}#entry=x`)), LISTS);
  t.strictSame(driver.watching(list).take(), [`complete ${list}`]);
  t.match(driver.federation.hops(THING, askedName(list)), [
    { to: `${glob}#entry=x`, problem: 'leads to another type, entry of test.v1.Thing' },
  ]);
  t.strictSame(asked(driver), [list]);
  t.end();
});

t.test('explain shows that an entry is requested as its list', (t) => {
  const driver = two();
  driver.publish('c', list, listBytes(inlineEntry('e', THING, '1')), LISTS);
  for (const text of [
    `${list}#entry=e`,
    `${list}#alt=${list.replace('cloud', 'onprem')},entry=e`,
  ]) {
    const told = explainName(driver.federation, askedName(text), () => ({}));
    t.equal(told?.name, text);
    t.equal(told?.candidates[0]?.asks, list);
    t.notOk(told?.candidates.some(({ asks }) => asks.includes('#')));
  }
  t.end();
});

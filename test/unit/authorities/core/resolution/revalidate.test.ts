/**
 * Goal: a name can be requested again at any time, and watchers are notified only if the response
 * differs (docs/INSTANCES.md).
 */
import t from 'tap';
import {
  INITIAL_HEALTH,
  stepHealth,
  type HealthEvent,
  type SourceHealth,
} from '../../../../../authorities/core/sources/source-health.js';
import { DEFAULT_TIMERS } from '../../../../../config/defaults.js';
import { listBytes, textEntry } from '../../../../support/collection-messages.js';
import {
  askedName,
  FederationDriver,
  mapOf,
  nameOf,
  RecordingWatcher,
  THING,
  thing,
  WHOLE_MS,
} from '../../../../support/federation-driver.js';

const a = thing('cloud', 'a');
const glob = thing('cloud', 'x/*');
const member = thing('cloud', 'x/1');

function started(published: Readonly<Record<string, string>> = {}): FederationDriver {
  const driver = new FederationDriver(mapOf({ authorities: { cloud: { sources: ['s'] } } }));
  for (const [name, body] of Object.entries(published)) driver.server('s').set(THING, name, body);
  return driver;
}

function revalidate(driver: FederationDriver, text: string): boolean {
  const watched = driver.federation.revalidate(THING, nameOf(text), driver.nowMs);
  driver.pump();
  return watched;
}

/** Subscriptions and unsubscriptions of each request after the first `skip`, without ACKs. */
function asked(driver: FederationDriver, skip: number): readonly string[] {
  return driver
    .server('s')
    .stream.requests.slice(skip)
    .filter(({ subscribe, unsubscribe }) => subscribe.length + unsubscribe.length > 0)
    .map(({ subscribe, unsubscribe }) => `+${subscribe.join()} -${unsubscribe.join()}`);
}
const requestCount = (driver: FederationDriver): number =>
  driver.server('s').stream.requests.length;

t.test(
  'a held name is requested again without unsubscribing, and the same content is not a change',
  (t) => {
    const driver = started({ [a]: '1' });
    const watcher = driver.watching(a);
    watcher.take();
    const before = requestCount(driver);
    t.equal(revalidate(driver, a), true);
    t.strictSame(asked(driver, before), [`+${a} -`]);
    t.strictSame(watcher.take(), []);
    driver.server('s').set(THING, a, '2');
    revalidate(driver, a);
    t.strictSame(watcher.take(), [`changed ${a} 2`]);
    driver.server('s').delete(THING, a);
    revalidate(driver, a);
    t.strictSame(watcher.take(), [`removed ${a}`]);
    t.end();
  },
);

t.test(
  'an absent name is unsubscribed and subscribed in two requests: some servers answer only then',
  (t) => {
    const driver = started();
    const watcher = driver.watching(a);
    t.strictSame(watcher.take(), [`absent ${a}`]);
    driver.server('s').set(THING, a, '1');
    const before = requestCount(driver);
    revalidate(driver, a);
    t.strictSame(asked(driver, before), [`+ -${a}`, `+${a} -`]);
    t.strictSame(watcher.take(), [`changed ${a} 1`]);
    t.end();
  },
);

t.test('a name that timed out is requested again; a pending one keeps its deadline', (t) => {
  const driver = started({ [a]: '1' });
  driver.server('s').stalled.add(a);
  driver.watching(thing('cloud', 'other'));
  const watcher = driver.watching(a);
  driver.advance(20_000);
  const before = requestCount(driver);
  revalidate(driver, a);
  t.strictSame(asked(driver, before), [], 'it is requested already');
  driver.advance(10_000);
  t.strictSame(watcher.take(), [`error 14 ${a}`], 'still UNAVAILABLE after 30 s');
  driver.server('s').stalled.clear();
  revalidate(driver, a);
  t.strictSame(watcher.take(), [`changed ${a} 1`]);
  t.end();
});

t.test('a glob is requested again as a glob, empty or not', (t) => {
  const driver = started();
  const watcher = driver.watching(glob);
  driver.advance(WHOLE_MS);
  t.strictSame(watcher.take(), [`complete ${glob}`]);
  driver.server('s').set(THING, member, '1');
  revalidate(driver, glob);
  t.strictSame(watcher.take(), [`changed ${member} 1`]);
  const before = requestCount(driver);
  revalidate(driver, glob);
  t.strictSame(asked(driver, before), [`+${glob} -`]);
  driver.advance(WHOLE_MS);
  t.strictSame(watcher.take(), []);
  t.end();
});

t.test('a name that is revalidated and unsubscribed at once is unsubscribed', (t) => {
  const driver = started({ [a]: '1' });
  driver.watching(thing('cloud', 'other'));
  const watcher = new RecordingWatcher();
  driver.watch(a, watcher);
  driver.federation.revalidate(THING, nameOf(a), driver.nowMs);
  driver.unwatch(a, watcher);
  t.notOk(driver.server('s').stream.subscribed(THING).includes(a));
  t.end();
});

t.test('a source that is not connected is tried at once, and held content stays', (t) => {
  const driver = started({ [a]: '1' });
  const watcher = driver.watching(a);
  driver.kill('s');
  driver.advance(120_000);
  watcher.take();
  driver.revive('s');
  driver.server('s').set(THING, a, '2');
  t.equal(driver.isConnected('s'), false);
  revalidate(driver, a);
  t.equal(driver.isConnected('s'), true);
  t.strictSame(watcher.take(), [`changed ${a} 2`]);
  t.end();
});

t.test('a group is nudged and revalidated as a whole', (t) => {
  const driver = started({ [a]: '1', [member]: '1' });
  driver.watching(a, glob);
  t.equal(driver.group('cloud').revalidateAll(driver.nowMs), 2);
  driver.pump();
  driver.kill('s');
  driver.advance(120_000);
  driver.revive('s');
  driver.group('cloud').nudge(driver.nowMs);
  driver.pump();
  t.equal(driver.isConnected('s'), true);
  t.end();
});

t.test('a name without watchers or without a source is not requested', (t) => {
  const driver = started({ [a]: '1' });
  t.equal(revalidate(driver, a), false);
  driver.watching(thing('unmapped', 'a'));
  t.equal(revalidate(driver, thing('unmapped', 'a')), false);
  driver.watching(thing('cloud', 'b'));
  const before = requestCount(driver);
  driver.federation.source('s')?.askAgain(THING, nameOf(a), driver.nowMs);
  driver.pump();
  t.equal(requestCount(driver), before);
  t.end();
});

t.test('revalidating a directory does nothing: it reports changes by itself', (t) => {
  const map = mapOf({ authorities: { cloud: { sources: ['s'] } }, paths: ['s'] });
  const driver = new FederationDriver(map);
  driver.watching(a);
  t.equal(revalidate(driver, a), true);
  driver.group('cloud').nudge(driver.nowMs);
  t.end();
});

t.test('a nudge skips the rest of a backoff, once in 5 s, if the source is wanted', (t) => {
  const ended: HealthEvent = {
    kind: 'ended',
    end: { code: 14, message: '', detectedBy: 'stream' },
  };
  let state: SourceHealth = INITIAL_HEALTH;
  let nowMs = 0;
  const on = (event: HealthEvent): SourceHealth['kind'] => {
    const timers = DEFAULT_TIMERS;
    ({ state } = stepHealth(state, event, {
      timers,
      nowMs,
      random: () => 1,
      owesResponse: () => true,
      hasSubscriptions: () => true,
      mayStart: () => true,
    }));
    return state.kind;
  };
  on({ kind: 'want', wanted: true });
  on(ended);
  t.equal(on({ kind: 'nudge' }), 'connecting');
  t.equal(on(ended), 'waiting');
  nowMs = 4_999;
  t.equal(on({ kind: 'nudge' }), 'waiting', 'a hint may be wrong or forged');
  nowMs = 5_000;
  t.equal(on({ kind: 'nudge' }), 'connecting');
  on(ended);
  on({ kind: 'want', wanted: false });
  nowMs = 10_000;
  t.equal(on({ kind: 'nudge' }), 'waiting');
  t.end();
});

t.test(
  'revalidating a redirected name covers its whole chain: unannounced changes anywhere are found',
  (t) => {
    const map = mapOf({ authorities: { cloud: { sources: ['s'] } } });
    const driver = new FederationDriver(map);
    const b = thing('cloud', 'b');
    driver.redirect('s', a, b);
    driver.publish('s', b, '1');
    const watcher = driver.watching(a);
    t.strictSame(watcher.take(), [`changed ${a} 1`]);
    driver.server('s').set(THING, b, '2');
    revalidate(driver, a);
    t.strictSame(watcher.take(), [`changed ${a} 2`]);
    driver.server('s').set(THING, a, 'here');
    revalidate(driver, a);
    t.strictSame(watcher.take(), [`changed ${a} here`], 'the redirect itself is gone');
    t.end();
  },
);

t.test('a list is revalidated as a list', (t) => {
  const driver = started({ [a]: '1', [member]: '1' });
  const all = 'xdstp://cloud/test.v1.ThingCollection/all';
  const lists = `${THING}Collection`;
  driver.publish('s', all, listBytes(textEntry(a)), lists);
  const watcher = driver.watching(all);
  watcher.take();
  driver.server('s').set(lists, all, listBytes(textEntry(a), textEntry(member)));
  driver.federation.revalidate(THING, askedName(all), driver.nowMs);
  driver.pump();
  t.strictSame(watcher.take(), [`member ${member} 1 of ${all}`]);
  t.end();
});

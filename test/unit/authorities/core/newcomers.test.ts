/**
 * Goal: a new watcher gets the whole state of what it watches, alone and once; no other watcher is
 * notified again (ResourceWatcher, `authorities/core/watcher.ts`).
 * Method: for each kind of state, one watcher settles, then a second one comes.
 */
import t from 'tap';
import { inlineEntry, listBytes, textEntry } from '../../../support/collection-messages.js';
import { encodeResponse } from '../../../support/discovery-messages.js';
import {
  FederationDriver,
  mapOf,
  nameOf,
  RecordingWatcher,
  THING,
  thing,
  type MapSketch,
} from '../../../support/federation-driver.js';
import { at, driverOf } from '../../../support/node-groups.js';

const a = thing('cloud', 'a');
const far = thing('onprem', 'far');
const [glob, x, y] = ['g/*', 'g/x', 'g/y'].map((id) => thing('cloud', id)) as [
  string,
  string,
  string,
];
const list = 'xdstp://cloud/test.v1.ThingCollection/l';
const SETTLED_MS = 60_000;

const authorities = {
  cloud: { sources: ['c'], mayLeadTo: ['onprem'] },
  onprem: { sources: ['o'] },
} as const satisfies MapSketch['authorities'];

interface Case {
  readonly what: string;
  readonly watched: string;
  readonly told: readonly string[];
  readonly given: (driver: FederationDriver) => void;
  /** Happens while the first watcher is there. */
  readonly then?: (driver: FederationDriver) => void;
  readonly made?: () => FederationDriver;
}

const publishList = (driver: FederationDriver, ...entries: Uint8Array[]): void => {
  driver.publish('c', list, listBytes(...entries), `${THING}Collection`);
};

const CASES: readonly Case[] = [
  {
    what: 'content',
    watched: a,
    told: [`changed ${a} 1`],
    given: (driver) => {
      driver.publish('c', a, '1');
    },
  },
  { what: 'an absence', watched: a, told: [`absent ${a}`], given: () => undefined },
  {
    what: 'an unreachable source',
    watched: a,
    told: [`error 14 ${a}`],
    given: (driver) => {
      driver.server('c').reachability = 'refuse';
    },
  },
  {
    what: 'an absence at a source that is unreachable now',
    watched: a,
    told: [`error 14 ${a}`],
    given: () => undefined,
    then: (driver) => {
      driver.kill('c');
    },
  },
  {
    what: 'a source that does not answer a name',
    watched: a,
    told: [`error 14 ${a}`],
    given: (driver) => {
      driver.server('c').stalled.add(a);
    },
  },
  {
    what: 'a name without a route',
    watched: thing('nobody', 'x'),
    told: [`error 5 ${thing('nobody', 'x')}`],
    given: () => undefined,
  },
  {
    what: 'a collection with a redirected member',
    watched: glob,
    told: [`changed ${x} 1`, `changed ${y} 2`, `complete ${glob}`],
    given: (driver) => {
      driver.publish('c', x, '1');
      driver.redirect('c', y, far);
      driver.publish('o', far, '2');
    },
  },
  {
    what: 'a redirect to nothing',
    watched: a,
    told: [`absent ${a}`],
    given: (driver) => {
      driver.redirect('c', a, far);
    },
  },
  {
    what: 'a redirect to an unreachable authority',
    watched: a,
    told: [`error 14 ${a}`],
    given: (driver) => {
      driver.redirect('c', a, far);
      driver.server('o').reachability = 'refuse';
    },
  },
  {
    what: 'a redirect in a cycle',
    watched: a,
    told: [`error 5 ${a}`],
    given: (driver) => {
      driver.redirect('c', a, x);
      driver.redirect('c', x, a);
    },
  },
  {
    what: 'a list',
    watched: list,
    told: [`member ${thing('cloud', 'l/i')} 1 of ${list}`, `complete ${list}`],
    given: (driver) => {
      publishList(driver, inlineEntry('i', THING, '1'), textEntry(far));
    },
  },
  {
    what: 'a list that cannot be read',
    watched: list,
    told: [`error 13 ${list}`],
    given: (driver) => {
      driver.publish('c', list, Buffer.from([0xff]), `${THING}Collection`);
    },
  },
  {
    what: 'a wildcard of two entries',
    watched: at('a', '*'),
    told: [`changed ${at('a', 'x')} 1`, `changed ${at('a', 'y')} 2`, `complete ${at('a', '*')}`],
    given: (driver) => {
      driver.publish('s', 'x', '1');
      driver.publish('t', 'x', 'shadowed');
      driver.publish('t', 'y', '2');
    },
    made: () => driverOf([{ sources: ['s'] }, { sources: ['t'] }]),
  },
];

for (const { what, watched, told, given, then, made } of CASES) {
  t.test(`a new watcher gets the whole state alone: ${what}`, (t) => {
    const driver = made?.() ?? new FederationDriver(mapOf({ authorities }));
    given(driver);
    const first = driver.watching(watched);
    driver.advance(SETTLED_MS);
    then?.(driver);
    driver.advance(SETTLED_MS);
    first.take();
    driver.takeEffects();
    const second = driver.watching(watched);
    t.strictSame(second.take(), told);
    driver.advance(SETTLED_MS);
    t.strictSame(second.take(), [], 'once');
    t.strictSame(first.told, [], 'no other watcher is notified again');
    const shadowed = driver.takeGroupEvents().filter(({ kind }) => kind === 'shadowed');
    t.strictSame(shadowed, [], 'nor are observers');
    t.end();
  });
}

t.test('a redirect that comes again with the same target notifies no watcher', (t) => {
  const driver = new FederationDriver(mapOf({ authorities }));
  driver.redirect('c', a, far);
  driver.publish('o', far, '1');
  const watcher = driver.watching(a);
  watcher.take();
  driver.redirect('c', a, far.replace('far', 'f%61r'));
  t.strictSame(watcher.take(), []);
  driver.publish('o', far, '2');
  t.strictSame(watcher.take(), [`changed ${a} 2`]);
  t.end();
});

t.test('a new watcher of a member is notified, the watchers of its collection are not', (t) => {
  const driver = new FederationDriver(mapOf({ authorities }));
  driver.publish('c', x, '1');
  const first = driver.watching(glob);
  driver.advance(SETTLED_MS);
  first.take();
  t.strictSame(driver.watching(x).told, [`changed ${x} 1`]);
  t.strictSame(first.told, []);
  t.end();
});

t.test(
  'a change that comes together with a new watcher reaches it once, as part of the state',
  (t) => {
    const driver = new FederationDriver(mapOf({ authorities }));
    driver.publish('c', a, '1');
    const first = driver.watching(a);
    first.take();
    const second = new RecordingWatcher();
    driver.federation.watch(THING, nameOf(a), second, driver.nowMs);
    const change = { name: a, version: '2', body: Buffer.from('2') };
    const bytes = encodeResponse({ typeUrl: THING, nonce: 'n', resources: [change] });
    driver.federation.handleMessage('c', 1, bytes, driver.nowMs);
    driver.pump();
    t.strictSame(first.take(), [`changed ${a} 2`]);
    t.strictSame(second.take(), [`changed ${a} 2`]);
    driver.publish('c', a, '3');
    t.strictSame([first.take(), second.take()], [[`changed ${a} 3`], [`changed ${a} 3`]]);
    t.end();
  },
);

t.test('a watcher that leaves before it was notified gets nothing', (t) => {
  const driver = new FederationDriver(mapOf({ authorities }));
  driver.publish('c', a, '1');
  const first = driver.watching(a);
  first.take();
  const second = new RecordingWatcher();
  driver.federation.watch(THING, nameOf(a), second, driver.nowMs);
  driver.unwatch(a, second);
  driver.publish('c', a, '2');
  t.strictSame([first.take(), second.take()], [[`changed ${a} 2`], []]);
  t.end();
});

t.test('a watcher that watches a name again is told nothing twice', (t) => {
  const driver = new FederationDriver(mapOf({ authorities }));
  driver.publish('c', a, '1');
  const watcher = driver.watching(a);
  t.strictSame(watcher.take(), [`changed ${a} 1`]);
  driver.watch(a, watcher);
  t.strictSame(watcher.take(), []);
  t.end();
});

t.test('a new watcher that leaves at its first event gets no other', (t) => {
  const driver = new FederationDriver(mapOf({ authorities }));
  driver.publish('c', x, '1');
  driver.publish('c', y, '2');
  driver.watching(glob);
  const watcher = new RecordingWatcher();
  const names: string[] = [];
  watcher.onChanged = ({ name }): void => {
    names.push(name.key);
    driver.federation.unwatch(THING, nameOf(glob), watcher, driver.nowMs);
  };
  driver.watch(glob, watcher);
  t.strictSame(names, [x]);
  t.strictSame(watcher.told, []);
  t.end();
});

t.test('the error of a list reaches a new watcher only while the list cannot be read', (t) => {
  const driver = new FederationDriver(mapOf({ authorities }));
  driver.publish('c', list, Buffer.from([0xff]), `${THING}Collection`);
  driver.watching(list);
  publishList(driver);
  t.strictSame(driver.watching(list).told, [`complete ${list}`]);
  driver.publish('c', list, Buffer.from([0xff]), `${THING}Collection`);
  driver.delete('c', list, `${THING}Collection`);
  t.strictSame(driver.watching(list).told, [`complete ${list}`]);
  t.end();
});

/**
 * Goal: a comparison tells what a forced source would change for clients, and changes nothing itself.
 * Method: a Federation against fake servers, and steps of the comparison as the shell makes them.
 */
import t from 'tap';
import {
  Comparison,
  type ComparisonOutcome,
} from '../../../../../authorities/core/failover/comparison.js';
import { Differences, MAX_ROWS } from '../../../../../authorities/core/failover/differences.js';
import { wireText } from '../../../../../protos/resource-name.js';
import { a, alt, b, glob, ID, kindOf, member, pair } from '../../../../support/authority-pair.js';
import {
  FederationDriver,
  mapOf,
  nameOf,
  RecordingWatcher,
  scopeOfId,
  THING,
  thing,
  WHOLE_MS,
} from '../../../../support/federation-driver.js';
import { misnamedContent } from '../../../../support/misnamed-content.js';
import { at, driverOf } from '../../../../support/node-groups.js';

const WAIT_MS = 10_000;

interface Asked {
  readonly from?: number;
  readonly to?: number;
  readonly id?: string;
  readonly waitMs?: number;
  /** Called before each step. */
  readonly onStep?: (step: number) => void;
}

/** Runs a comparison as the shell does. `tookMs`: how long it waited. */
function run(driver: FederationDriver, asked: Asked = {}) {
  const { from, to = 1, id = ID, waitMs = WAIT_MS, onStep } = asked;
  const sinceMs = driver.nowMs;
  const sides = { from, to, deadlineMs: sinceMs + waitMs };
  const comparison = driver.federation.comparison(id, sides);
  if (!comparison) throw new Error(`no group ${id}`);
  for (let steps = 0; ; steps++) {
    onStep?.(steps);
    const step = comparison.step(driver.nowMs);
    driver.pump();
    if (step.kind === 'waiting') driver.advance(50);
    else if (step.kind !== 'more') {
      const tookMs = driver.nowMs - sinceMs;
      let closes = 1;
      while (!comparison.close(driver.nowMs)) closes++;
      driver.pump();
      return { outcome: step, tookMs, steps, closes };
    }
  }
}

/** `changed a`, in order; with the number of equal names at the end. */
function told(outcome: ComparisonOutcome): readonly string[] {
  if (outcome.kind !== 'compared') return [outcome.kind];
  const rows = outcome.differences
    .rows()
    .map(({ kind, name }) => `${kind} ${wireText(name.key).replace(/^.*Thing\//, '')}`);
  return [...rows, `${outcome.same} same`];
}

const differences = (driver: FederationDriver, asked?: Asked): readonly string[] =>
  told(run(driver, asked).outcome);

t.test('it tells changed, added, kept and equal names of another source', (t) => {
  const [c, d] = [thing('cloud', 'c'), thing('cloud', 'd')];
  const driver = pair({ [a]: '1', [b]: '1', [c]: '1' }, { [a]: '2', [b]: '1', [d]: '9' });
  const watcher = driver.watching(a, b, c, d);
  watcher.take();
  driver.takeGroupEvents();
  const { outcome } = run(driver);
  t.strictSame(told(outcome), ['added d', 'changed a', 'kept c', '1 same']);
  t.match(outcome.kind === 'compared' && outcome.differences.rows()[1], {
    typeUrl: THING,
    before: watcher.projections.get(a)?.version,
    after: /^\S{22}$/,
  });
  t.strictSame(watcher.take(), [], 'clients hear nothing');
  t.strictSame(driver.takeGroupEvents(), [], 'and no group does');
  t.equal(kindOf(driver), 'primary');
  t.strictSame(driver.server('o').stream.subscribed(THING), []);
  driver.advance(60_000);
  t.equal(driver.isConnected('o'), false, 'the connection ends after its linger');
  driver.force(ID, 1);
  driver.advance(WHOLE_MS);
  t.strictSame(
    watcher.take().map((line) => line.split('/').at(-1)),
    ['a 2', 'd 9'],
    'as told',
  );
  t.end();
});

t.test('a source with the same content makes no difference', (t) => {
  const driver = pair({ [a]: '1', [b]: '1' }, { [a]: '1', [b]: '1' });
  driver.watching(a, b);
  t.strictSame(differences(driver), ['2 same']);
  t.end();
});

t.test('what the primary lacks is removed, except with ignore_deletion (FAILOVER)', (t) => {
  for (const ignoreDeletion of [false, true]) {
    const driver = pair({ [a]: '1' }, { [a]: '1', [b]: '2' }, { ignoreDeletion });
    const watcher = driver.watching(a, b);
    driver.force(ID, 1);
    driver.advance(WHOLE_MS);
    t.equal(watcher.held.get(b), '2');
    const gone = ignoreDeletion ? 'kept b' : 'removed b';
    t.strictSame(differences(driver, { to: 0 }), [gone, '1 same']);
  }
  t.end();
});

t.test('two sources are compared with each other, whatever is served', (t) => {
  const driver = new FederationDriver(
    mapOf({ authorities: { cloud: { sources: ['c', 'o', 'p'] } } }),
  );
  driver.server('c').set(THING, a, 'served');
  driver.server('o').set(THING, a, '1');
  driver.server('o').set(THING, b, '1');
  driver.server('p').set(THING, a, '2');
  driver.watching(a, b);
  t.strictSame(differences(driver, { id: 'cloud', from: 1, to: 2 }), [
    'changed a',
    'kept b',
    '0 same',
  ]);
  t.strictSame(differences(driver, { id: 'cloud', from: 2, to: 1 }), [
    'added b',
    'changed a',
    '0 same',
  ]);
  driver.server('p').set(THING, b, '2');
  driver.server('p').stalled.add(b);
  const silent = differences(driver, { id: 'cloud', from: 2, to: 1 });
  t.strictSame(silent, ['changed a', 'unanswered b', '0 same'], 'perhaps not added');
  const none = { from: undefined, to: 3, deadlineMs: 0 };
  t.throws(() => driver.federation.comparison('cloud', none), /no candidate 3/);
  t.equal(driver.federation.comparison('gone', { ...none, to: 0 }), undefined);
  t.end();
});

t.test('a source that refuses connections is unreachable as soon as it counts as down', (t) => {
  const driver = pair({ [a]: '1' }, { [a]: '2' });
  driver.server('o').reachability = 'refuse';
  driver.watching(a);
  const first = run(driver);
  t.match(first.outcome, { kind: 'unreachable', source: { name: 'o' } });
  t.ok(first.tookMs < 2_000, `${first.tookMs} ms`);
  const { tookMs } = run(driver);
  t.ok(tookMs < 2_000, `${tookMs} ms the second time`);
  driver.revive('o');
  driver.advance(5_000);
  t.strictSame(differences(driver), ['changed a', '0 same'], 'and it is tried again');
  t.end();
});

t.test('a source that hangs is unreachable at the deadline', (t) => {
  const driver = pair({ [a]: '1' }, { [a]: '2' });
  driver.server('o').reachability = 'black_hole';
  driver.watching(a);
  t.match(run(driver), { outcome: { kind: 'unreachable' }, tookMs: WAIT_MS });
  t.end();
});

t.test('a source that is lost while others are awaited is unreachable', (t) => {
  const driver = pair({ [a]: '1' }, { [a]: '2', [member('1')]: '1' });
  driver.watching(a, glob);
  const onStep = (step: number): void => {
    if (step === 5) driver.kill('o');
  };
  const { outcome, tookMs } = run(driver, { onStep });
  t.equal(outcome.kind, 'unreachable');
  t.ok(tookMs < 5_000, `${tookMs} ms`);
  t.end();
});

t.test('a source that loses its stream and comes back in time is compared', (t) => {
  for (const isAgain of [false, true]) {
    const driver = pair({ [a]: '1', [member('1')]: '1' }, { [a]: '1', [member('1')]: '2' });
    driver.watching(a, glob);
    driver.advance(WHOLE_MS);
    if (isAgain) run(driver);
    const onStep = (step: number): void => {
      if (step === 5) {
        driver.server('o').reachability = 'black_hole';
        driver.cut('o');
      }
      if (step === 80) driver.revive('o');
      if (step === 100) driver.publish('o', alt(member('2')), '2');
    };
    const expected = ['added x/2', 'changed x/1', '1 same'];
    t.strictSame(differences(driver, { onStep }), expected, 'with all that its new stream sends');
  }
  t.end();
});

t.test('a name without an answer is unanswered, neither kept nor removed', (t) => {
  const c = thing('cloud', 'c');
  const driver = pair({ [a]: '1', [b]: '1' }, { [a]: '1', [b]: '1' });
  for (const name of [b, c]) driver.server('o').stalled.add(alt(name));
  driver.watching(a, b, c);
  const { outcome, tookMs } = run(driver);
  t.strictSame(told(outcome), ['unanswered b', 'unanswered c', '1 same']);
  t.equal(tookMs, WAIT_MS);
  t.end();
});

t.test('members of a collection are compared once no more come (switch_wait)', (t) => {
  const driver = pair(
    { [member('1')]: '1', [member('2')]: '1', [member('3')]: '1' },
    { [member('1')]: '2', [member('3')]: '1', [member('4')]: '1' },
  );
  driver.watching(glob);
  driver.advance(WHOLE_MS);
  const onStep = (step: number): void => {
    if (step === 10) driver.publish('o', alt(member('5')), '5');
  };
  const { outcome, tookMs } = run(driver, { onStep });
  const expected = ['added x/4', 'added x/5', 'changed x/1', 'kept x/2', '1 same'];
  t.strictSame(told(outcome), expected);
  t.ok(tookMs >= WHOLE_MS + 400, `it waits ${tookMs} ms, since a member came late`);
  t.end();
});

t.test(
  'a collection that was left a moment ago is compared as soon as no more members come',
  (t) => {
    const driver = pair(
      { [member('1')]: '1', [member('2')]: '1' },
      { [member('1')]: '2', [member('3')]: '1' },
    );
    driver.watching(glob);
    driver.advance(WHOLE_MS);
    const first = run(driver);
    const second = run(driver);
    t.strictSame(told(second.outcome), ['added x/3', 'changed x/1', 'kept x/2', '0 same']);
    t.strictSame(told(second.outcome), told(first.outcome));
    t.ok(second.tookMs <= WHOLE_MS + 100, `${second.tookMs} ms`);
    const onStep = (step: number): void => {
      if (step === 10) driver.publish('o', alt(member('4')), '4');
    };
    const third = run(driver, { onStep });
    t.ok(third.tookMs >= WHOLE_MS + 400, `${third.tookMs} ms, since a member came late`);
    t.end();
  },
);

t.test(
  'of a collection without more members, a name that is also requested by itself needs its own answer',
  (t) => {
    const driver = pair({ [member('1')]: '1', [member('2')]: '1' }, { [member('1')]: '1' });
    driver.watching(glob, member('2'));
    driver.advance(WHOLE_MS);
    run(driver);
    driver.server('o').stalled.add(alt(member('2')));
    t.strictSame(differences(driver), ['unanswered x/2', '1 same']);
    t.end();
  },
);

t.test('a collection without members that is not answered is unanswered', (t) => {
  const driver = pair({ [a]: '1', [member('1')]: '1' }, { [a]: '1' });
  driver.server('o').stalled.add(alt(glob));
  driver.watching(a, glob);
  driver.advance(WHOLE_MS);
  const { outcome, tookMs } = run(driver);
  t.strictSame(told(outcome), ['unanswered x/*', 'unanswered x/1', '1 same']);
  t.equal(tookMs, WAIT_MS);
  t.end();
});

t.test('a collection that is answered already is not awaited', (t) => {
  const driver = pair(
    { [member('1')]: '1' },
    { [member('1')]: '2' },
    { failover: { prewarm: 'subscribed' } },
  );
  driver.watching(glob);
  driver.advance(WHOLE_MS);
  const { outcome, tookMs } = run(driver);
  t.strictSame(told(outcome), ['changed x/1', '0 same']);
  t.equal(tookMs, 0);
  t.strictSame(driver.server('o').stream.subscribed(THING), [alt(glob)], 'the group keeps it');
  t.end();
});

t.test(
  'a collection that is cut short by the deadline is unanswered, with its missing members',
  (t) => {
    const driver = pair({ [member('1')]: '1', [member('2')]: '1' }, { [member('1')]: '1' });
    driver.watching(glob);
    const { outcome, tookMs } = run(driver, { waitMs: 1_000 });
    t.strictSame(told(outcome), ['unanswered x/*', 'unanswered x/2', '1 same']);
    t.equal(tookMs, 1_000);
    t.end();
  },
);

t.test('a member that is also requested by its own name counts once', (t) => {
  const driver = pair(
    { [member('1')]: '1', [member('2')]: '1' },
    { [member('1')]: '2', [member('3')]: '1' },
  );
  driver.watching(glob, member('1'), member('2'));
  driver.advance(WHOLE_MS);
  t.strictSame(differences(driver), ['added x/3', 'changed x/1', 'kept x/2', '0 same']);
  t.end();
});

t.test('a directory answers at once', (t) => {
  const driver = new FederationDriver(
    mapOf({ authorities: { cloud: { sources: ['c', 'f'] } }, paths: ['f'] }),
  );
  driver.server('c').set(THING, member('1'), '1');
  driver.watching(glob);
  const resources = [{ name: member('1'), typeUrl: THING, body: Buffer.from('2') }];
  driver.federation.handleLoaded('f', { resources, nowMs: driver.nowMs });
  driver.pump();
  const { outcome, tookMs } = run(driver, { id: 'cloud' });
  t.strictSame(told(outcome), ['changed x/1', '0 same']);
  t.equal(tookMs, 0);
  t.end();
});

t.test('it works in steps of 1,000 names, and forgets names whose last client left', (t) => {
  const names = Array.from({ length: 2_400 }, (_, n) => thing('cloud', `n${n}`));
  const all = Object.fromEntries(names.map((name) => [name, '1']));
  const driver = pair(all, { [names[0]!]: '2' });
  const watcher = new RecordingWatcher();
  for (const name of names) driver.watch(name, watcher);
  let largest = 0;
  const { contents } = driver.federation.source('o')!;
  let before = 0;
  const onStep = (): void => {
    largest = Math.max(largest, contents.subscriptionCount - before);
    before = contents.subscriptionCount;
    if (before === 2_400) driver.unwatch(names[0]!, watcher);
  };
  const { outcome, steps, closes } = run(driver, { onStep });
  t.equal(largest, 1_000);
  t.ok(steps > 24, `${steps} steps`);
  t.equal(closes, 3);
  t.equal(contents.subscriptionCount, 0);
  if (outcome.kind !== 'compared') throw new Error(outcome.kind);
  t.equal(outcome.differences.count('kept'), 2_399);
  t.equal(outcome.differences.count('added'), 0, 'no client requests the first name any more');
  const rows = outcome.differences.rows();
  t.equal(rows.length, MAX_ROWS, 'the first ones are kept');
  const sorted = names.slice(1).sort().slice(0, MAX_ROWS);
  t.strictSame(
    rows.map(({ name }) => name.key),
    sorted,
  );
  t.end();
});

t.test('it ends when a reload replaces the group', (t) => {
  const driver = pair({ [a]: '1' }, { [a]: '2' });
  driver.server('o').stalled.add(alt(a));
  driver.watching(a);
  const onStep = (step: number): void => {
    if (step === 3) driver.reload(mapOf({ authorities: { cloud: { sources: ['p'] } } }));
  };
  t.match(run(driver, { onStep }), { outcome: { kind: 'group_gone' } });
  t.end();
});

t.test('old-style names: what another entry serves decides too', (t) => {
  const driver = driverOf([{ sources: ['first', 'other'] }, { sources: ['second', 'spare'] }]);
  const serve = (source: string, resources: Readonly<Record<string, string>>): void => {
    for (const [name, body] of Object.entries(resources))
      driver.server(source).set(THING, name, body);
  };
  serve('first', { x: '1', y: '1', v: '1' });
  serve('second', { x: 'shadowed', y: 'second', z: 'second', v: '1' });
  serve('other', { z: 'other' });
  serve('spare', { x: 'spare', z: 'second' });
  driver.watching(at('n', '*'));
  driver.advance(WHOLE_MS);
  const id = (entry: number): string => `old-style/${entry} ${scopeOfId('n')}`;
  t.strictSame(
    differences(driver, { id: id(1) }),
    ['4 same'],
    'the first entry serves x, y and v in any case',
  );
  t.strictSame(differences(driver, { id: id(0) }), [
    'changed z',
    'kept v',
    'kept x',
    'kept y',
    '0 same',
  ]);
  driver.force(id(0), 1);
  driver.advance(WHOLE_MS);
  driver.delete('first', 'y');
  driver.delete('first', 'v');
  const back = differences(driver, { id: id(0), to: 0 });
  t.strictSame(
    back,
    ['changed y', 'changed z', '2 same'],
    'the second entry takes over y, v and z',
  );
  t.end();
});

t.test(
  'content that cannot be served under the name of the group does not count as an answer',
  (t) => {
    const { group } = misnamedContent();
    const comparison = new Comparison({
      ...{ group, from: undefined, to: 0, deadlineMs: 1 },
      isInUse: () => true,
      beside: () => undefined,
    });
    const step = comparison.step(0);
    t.strictSame(step.kind === 'compared' && step.differences.rows().map(({ kind }) => kind), [
      'unanswered',
    ]);
    t.end();
  },
);

t.test('differences are counted all, and the first of each kind are kept in order', (t) => {
  const found = new Differences();
  const add = (typeUrl: string, id: string): void => {
    found.add({ kind: 'added', typeUrl, name: nameOf(thing('cloud', id)), after: 'v' });
  };
  for (const id of ['b', 'a', 'c']) add('t2', id);
  add('t1', 'z');
  t.equal(found.count('added'), 4);
  t.strictSame(
    found.rows().map(({ typeUrl, name }) => `${typeUrl} ${name.key.at(-1) ?? ''}`),
    ['t1 z', 't2 a', 't2 b', 't2 c'],
  );
  t.end();
});

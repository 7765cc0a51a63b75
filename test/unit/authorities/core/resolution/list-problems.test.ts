import t from 'tap';
import type { ResolutionBounds } from '../../../../../config/limits.js';
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
  WHOLE_MS,
} from '../../../../support/federation-driver.js';

const LISTS = `${THING}Collection`;
const listName = (authority: string, id: string): string =>
  `xdstp://${authority}/test.v1.ThingCollection/${id}`;
const all = listName('cloud', 'all');
const a = thing('cloud', 'a');
const far = thing('onprem', 'far');

function two(
  mayLeadTo: readonly string[] = ['onprem'],
  bounds: Partial<ResolutionBounds> = {},
): FederationDriver {
  return new FederationDriver(
    mapOf({
      authorities: { cloud: { sources: ['c'], mayLeadTo }, onprem: { sources: ['o'] } },
    }),
    { bounds },
  );
}

function publishList(driver: FederationDriver, name: string, ...entries: Uint8Array[]): void {
  driver.publish('c', name, listBytes(...entries), LISTS);
}

t.test('an entry that cannot be used is left out, and explained', (t) => {
  const driver = two([]);
  driver.publish('c', a, '1');
  publishList(
    driver,
    all,
    textEntry(far),
    textEntry('xdstp://cloud/test.v1.Other/x'),
    textEntry('xdstp:bad'),
    inlineEntry('x', 'type.googleapis.com/test.v1.Other', 'x'),
    inlineEntry('once', THING, '1'),
    new Uint8Array(0),
    textEntry(a),
  );
  const watcher = driver.watching(all);
  t.strictSame(
    [...watcher.held],
    [
      [thing('cloud', 'all/once'), '1'],
      [a, '1'],
    ],
  );
  const problems = driver.federation.hops(THING, askedName(all)).map(({ problem }) => problem);
  const expected = [
    /may_lead_to of "cloud"/,
    /another type, test.v1.Other/,
    /not lead to a valid resource name/,
    /carries type.googleapis.com\/test.v1.Other/,
    /is empty/,
  ];
  t.match(
    problems.filter((problem) => problem !== undefined),
    expected,
  );
  driver.reload(two().federation.map);
  t.equal(watcher.held.get(far), undefined, 'absent, but subscribed now');
  driver.publish('o', far, 'allowed');
  t.equal(watcher.held.get(far), 'allowed');
  t.end();
});

t.test('a list that is unreadable or too long is an error; held content stays', (t) => {
  const driver = two();
  driver.publish('c', all, Buffer.from([0xff]), LISTS);
  const watcher = driver.watching(all);
  t.strictSame(watcher.take(), [`error 13 ${all}`]);
  publishList(driver, all, inlineEntry('x', THING, '1'));
  watcher.take();
  const long = Array.from({ length: 10_001 }, () => new Uint8Array(0));
  driver.publish('c', all, listBytes(...long), LISTS);
  t.strictSame(watcher.take(), []);
  t.match(driver.federation.hops(THING, askedName(all)), [{ problem: /more than 10000 entries/ }]);
  t.equal(watcher.held.size, 1);
  t.end();
});

// Seed 1111: the entry stayed unknown, so its client got no listeners any more.
t.test('the next answer ends an error, also if it is the same as before (invariant 19)', (t) => {
  const driver = two();
  const entry = `${all}#entry=x`;
  publishList(driver, all);
  const watcher = driver.watching(entry, all);
  const newcomer = (): readonly string[] => driver.watching(entry).take();
  const absent = [`absent ${entry}`];
  t.strictSame([watcher.take(), newcomer()], [[...absent, `complete ${all}`], absent]);
  driver.publish('c', all, Buffer.from([0xff]), LISTS);
  const error = `error 13 ${entry}`;
  t.strictSame([watcher.take(), newcomer()], [[error, `error 13 ${all}`], [error]]);
  publishList(driver, all);
  t.strictSame([watcher.take(), newcomer()], [[...absent, `complete ${all}`], absent]);
  t.end();
});

t.test(
  'lists that lead to themselves, and lists nested too deep, are left out (four hops)',
  (t) => {
    const driver = two();
    const names = ['all', 'l1', 'l2', 'l3', 'l4', 'l5'].map((id) => listName('cloud', id));
    publishList(driver, names[0]!, textEntry(names[0]!), inlineEntry('x', THING, '0'));
    const selfish = driver.watching(names[0]!);
    t.equal(selfish.held.size, 1);
    for (const [at, name] of names.entries()) {
      const next = names[at + 1];
      const deeper = next === undefined ? [] : [textEntry(next)];
      publishList(driver, name, inlineEntry('x', THING, String(at)), ...deeper);
    }
    t.strictSame([...driver.watching(names[0]!).held.values()].sort(), ['0', '1', '2', '3', '4']);
    publishList(driver, names[2]!, textEntry(names[0]!), inlineEntry('x', THING, 'round'));
    t.strictSame([...selfish.held.values()].sort(), ['0', '1', 'round']);
    t.end();
  },
);

t.test('nested lists share one bound', (t) => {
  const driver = two();
  const inner = listName('cloud', 'inner');
  const many = (prefix: string, count: number): readonly Uint8Array[] =>
    Array.from({ length: count }, (_, at) => inlineEntry(`${prefix}${at}`, THING, 'x'));
  publishList(driver, inner, ...many('i', 6_000));
  driver.watching(inner);
  driver.advance(0);
  publishList(driver, all, ...many('a', 5_000), textEntry(inner));
  const watcher = driver.watching(all);
  driver.advance(0);
  t.equal(watcher.held.size, 5_000, 'the inner list does not fit');
  publishList(driver, all, ...many('a', 4_000), textEntry(inner));
  driver.advance(1_000);
  t.equal(watcher.held.size, 10_000 - 1 + 1);
  publishList(driver, inner, ...many('i', 7_000));
  driver.advance(1_000);
  t.equal(watcher.held.size, 10_000, 'it may not grow out of bounds either');
  const lists = Array.from({ length: 101 }, (_, at) => textEntry(listName('cloud', `n${at}`)));
  const directory = listName('cloud', 'directory');
  publishList(driver, directory, ...lists);
  driver.watching(directory);
  driver.advance(0);
  const problems = driver.federation
    .hops(THING, askedName(directory))
    .filter(({ problem }) => problem !== undefined);
  t.match(problems, [{ problem: /the limit of 100 lists nested/ }]);
  t.end();
});

t.test('`resolution` bounds a list, alone and with its nested lists', (t) => {
  const driver = two(undefined, { maxListEntries: 3, maxNestedLists: 1, maxHops: 1 });
  const names = ['all', 'l1', 'l2', 'l3'].map((id) => listName('cloud', id));
  const problemsOf = (name: string): readonly (string | undefined)[] =>
    driver.federation.hops(THING, askedName(name)).flatMap(({ problem }) => problem ?? []);
  const entries = (count: number): readonly Uint8Array[] =>
    Array.from({ length: count }, (_, at) => inlineEntry(`x${at}`, THING, 'x'));
  publishList(driver, names[1]!, ...entries(4));
  driver.watching(names[1]!);
  t.strictSame(problemsOf(names[1]!), ['has more than 3 entries']);
  publishList(driver, names[1]!, ...entries(3));
  publishList(driver, names[0]!, ...entries(1), textEntry(names[1]!));
  driver.watching(names[0]!);
  t.strictSame(problemsOf(names[0]!), ['would exceed the limit of 3 entries']);
  publishList(driver, names[1]!, textEntry(names[2]!));
  t.strictSame(problemsOf(names[0]!), ['exceeds the limit of 1 levels of nested lists']);
  publishList(driver, names[0]!, textEntry(names[2]!), textEntry(names[3]!));
  t.strictSame(problemsOf(names[0]!), ['exceeds the limit of 1 lists nested in one list']);
  t.end();
});

t.test('a list that is no longer nested does not count for the list that nested it', (t) => {
  const driver = two(undefined, { maxListEntries: 4 });
  const [outer, inner] = ['outer', 'inner'].map((id) => listName('cloud', id));
  const entries = (count: number): readonly Uint8Array[] =>
    Array.from({ length: count }, (_, at) => inlineEntry(`x${at}`, THING, 'x'));
  publishList(driver, outer!, textEntry(inner!));
  publishList(driver, inner!, ...entries(1));
  const watcher = driver.watching(outer!);
  driver.watching(inner!);
  publishList(driver, outer!, ...entries(1));
  publishList(driver, inner!, ...entries(4));
  publishList(driver, outer!, ...entries(4));
  t.equal(watcher.held.size, 4);
  t.end();
});

t.test('a long list is read once a second at most, and then with its latest content', (t) => {
  const driver = two();
  const long = (body: string): Uint8Array => inlineEntry('x', THING, body.padEnd(130 * 1_024));
  const contentOf = (watcher: RecordingWatcher): readonly string[] =>
    [...watcher.held.values()].map((body) => body.trim());
  publishList(driver, all, long('1'));
  const watcher = driver.watching(all);
  t.strictSame(contentOf(watcher), [], 'not in the turn that took it from its source');
  driver.advance(0);
  publishList(driver, all, long('2'));
  publishList(driver, all, inlineEntry('x', THING, '3'));
  driver.advance(999);
  t.strictSame(
    contentOf(watcher),
    ['1'],
    'the first content counts in the next turn, the next ones wait',
  );
  driver.advance(1);
  t.strictSame(contentOf(watcher), ['3']);
  publishList(driver, all, long('4'));
  driver.advance(0);
  t.strictSame(contentOf(watcher), ['4'], 'after a short content there is no pause');
  publishList(driver, all, long('5'));
  driver.delete('c', all, LISTS);
  driver.advance(1_000);
  t.strictSame(contentOf(watcher), [], 'a removal counts at once, and ends the wait');
  publishList(driver, all, long('6'));
  publishList(driver, all, long('7'));
  driver.reload(driver.federation.map);
  driver.advance(0);
  t.strictSame(contentOf(watcher), ['7'], 'a new map ends the pause');
  publishList(driver, all, long('8'));
  driver.unwatch(all, watcher);
  driver.advance(1_000);
  t.strictSame(contentOf(watcher), ['7'], 'no watcher asks any more');
  t.end();
});

/** Of all lists. */
const ENTRIES_PER_TURN = 50;

const manyEntries = (count: number, prefix = 'm'): readonly string[] =>
  Array.from({ length: count }, (_, at) => thing('cloud', `${prefix}${at}`));

/** Runs one turn of the timer. */
function turn(driver: FederationDriver): void {
  driver.federation.handleTimer(driver.nowMs);
  driver.pump();
}

const isDue = ({ federation, nowMs }: FederationDriver): boolean =>
  (federation.nextDeadlineMs(nowMs) ?? Infinity) <= nowMs;

t.test('a list of many entries is read in several turns, and is complete after the last', (t) => {
  const driver = two();
  const names = manyEntries(2 * ENTRIES_PER_TURN + 3);
  for (const name of names) driver.publish('c', name, 'x');
  publishList(driver, all, ...names.map(textEntry));
  const watcher = driver.watching(all);
  t.equal(watcher.held.size, ENTRIES_PER_TURN, 'the first turn');
  t.notOk(watcher.proven.has(all));
  turn(driver);
  t.equal(watcher.held.size, 2 * ENTRIES_PER_TURN);
  t.notOk(watcher.proven.has(all));
  turn(driver);
  t.equal(watcher.held.size, names.length);
  t.equal(watcher.proven.get(all), true);
  t.notOk(isDue(driver), 'nothing is left');

  publishList(driver, all, textEntry(names[0]!));
  driver.advance(1_000);
  t.equal(watcher.held.size, 1, 'and left in several turns');
  t.end();
});

t.test('a list that changes or goes while it is read leaves no member behind', (t) => {
  const driver = two();
  const [many, others] = [manyEntries(600), manyEntries(600, 'o')];
  for (const name of [...many, ...others]) driver.publish('c', name, 'x');
  publishList(driver, all, ...many.map(textEntry));
  const watcher = driver.watching(all);
  t.ok(isDue(driver), 'a part is left');
  // Reading takes longer than the pause between two contents.
  driver.nowMs += 2_000;
  publishList(driver, all, ...others.map(textEntry));
  t.notOk(watcher.held.has(others[0]!), 'the next content waits');
  // A new map does not wait until a long list may be read again.
  driver.reload(driver.federation.map);
  driver.advance(1_000);
  t.strictSame([...watcher.held.keys()].sort(), [...others].sort());
  publishList(driver, all, ...many.map(textEntry));
  driver.advance(999);
  driver.reload(driver.federation.map);
  driver.delete('c', all, LISTS);
  driver.advance(0);
  t.equal(watcher.held.size, 0);
  t.strictSame(driver.server('c').stream.subscribed(THING), [], 'no entry is asked for');
  t.end();
});

t.test('a list that is watched again while it is left is read anew', (t) => {
  const driver = two();
  const many = manyEntries(1_200);
  for (const name of many) driver.publish('c', name, 'x');
  publishList(driver, all, ...many.map(textEntry));
  const first = driver.watching(all);
  driver.advance(0);
  t.equal(first.held.size, many.length);
  driver.unwatch(all, first);
  t.ok(isDue(driver), 'a part is left');
  first.take();
  const second = driver.watching(all);
  driver.advance(0);
  t.equal(second.held.size, many.length);
  t.strictSame(
    second.told.filter((told) => told.startsWith('gone')),
    [],
    'the former view tells nothing',
  );
  t.strictSame(first.told, []);
  driver.unwatch(all, second);
  driver.advance(0);
  t.strictSame(driver.server('c').stream.subscribed(THING), [], 'no entry is asked for');
  t.end();
});

t.test('while a response is taken in portions, lists have every other turn', (t) => {
  const map = mapOf({ authorities: { cloud: { sources: ['c'] }, onprem: { sources: ['o'] } } });
  const driver = new FederationDriver(map, { portionBytes: 64 });
  const names = manyEntries(4 * ENTRIES_PER_TURN);
  publishList(driver, all, ...names.map(textEntry));
  driver.watching(all);
  const isRead = (): boolean =>
    driver.federation.hops(THING, askedName(all)).length >= names.length;
  t.notOk(isRead(), 'not in one turn');
  for (let at = 0; at < 100; at++) driver.publish('o', thing('onprem', `m${at}`), 'x'.repeat(64));
  const glob = driver.watching(thing('onprem', '*'));
  t.notOk(isRead(), 'nor in the turn of the response');
  let turns = 0;
  for (; turns < 100 && !isRead(); turns++) turn(driver);
  t.ok(glob.held.size > 0 && glob.held.size < 100, 'the response and the list are in the middle');
  t.ok(turns <= 16, `${turns} turns`);
  t.end();
});

t.test('entries that are not read yet count towards the limit of entries', (t) => {
  const bounds = { maxListEntries: 1_000 };
  const driver = new FederationDriver(
    mapOf({ authorities: { cloud: { sources: ['c'] }, onprem: { sources: ['o'] } } }),
    { bounds },
  );
  const inner = listName('cloud', 'inner');
  const many = manyEntries(900);
  publishList(driver, all, textEntry(inner), ...many.map(textEntry));
  const watcher = driver.watching(all);
  publishList(driver, inner, ...manyEntries(200, 'i').map(textEntry));
  const problems = (): readonly (string | undefined)[] =>
    driver.federation.hops(THING, askedName(inner)).map(({ problem }) => problem);
  t.match(problems(), [/would bring this list, .* above the limit of 1000 entries/]);
  driver.advance(1_000);
  t.equal(watcher.held.size, 0);
  t.end();
});

t.test(
  'of long lists that are due together, each is split in a turn of its own, and its entries come in the next',
  (t) => {
    const driver = two();
    const names = ['one', 'other'].map((id) => listName('cloud', id));
    const long = (body: string): Uint8Array => inlineEntry('x', THING, body.padEnd(130 * 1_024));
    for (const name of names) publishList(driver, name, long('1'));
    const watchers = names.map((name) => driver.watching(name));
    driver.advance(0);
    for (const name of names) publishList(driver, name, long('2'));
    const read = (): number =>
      watchers.filter(({ held }) => [...held.values()].every((body) => body.startsWith('2')))
        .length;
    const dueMs = driver.federation.nextDeadlineMs(driver.nowMs) ?? NaN;
    t.equal(dueMs, driver.nowMs + 1_000);
    const readAfterTurns: number[] = [];
    while ((driver.federation.nextDeadlineMs(dueMs) ?? NaN) <= dueMs) {
      driver.federation.handleTimer(dueMs);
      driver.federation.flush(dueMs);
      driver.federation.flush(dueMs);
      readAfterTurns.push(read());
    }
    t.strictSame(readAfterTurns, [0, 1, 2], 'also if a turn has more to do');
    t.end();
  },
);

t.test('an entry whose redirect does not resolve counts as answered: the list is complete', (t) => {
  const driver = two([]);
  driver.redirect('c', a, far);
  publishList(driver, all, textEntry(a));
  t.strictSame(driver.watching(all).take(), [`complete ${all}`]);
  t.end();
});

t.test('an entry by name is inline: neither a locator nor a redirect (TP1 lists)', (t) => {
  const driver = two();
  driver.publish('c', a, '1');
  publishList(
    driver,
    all,
    textEntry(a),
    inlineEntry('x', REDIRECT, textLocatorBytes(a)),
    inlineEntry('y', THING, '2'),
  );
  t.strictSame([...driver.watching(`${all}#entry=y`).held], [[`${all}#entry=y`, '2']]);
  t.strictSame(driver.server('c').stream.subscribed(THING), [], 'no locator is followed');
  const watcher = driver.watching(all);
  t.strictSame([...watcher.held.keys()].sort(), [a, thing('cloud', 'all/y')]);
  const [hop] = driver.federation.hops(THING, askedName(all)).filter(({ problem }) => problem);
  t.match(hop, { to: thing('cloud', 'all/x'), problem: /is a redirect in a list/ });
  t.end();
});

t.test('an entry that cannot name a resource is left out', (t) => {
  const driver = two();
  // The list's own name has the maximum length minus 10, so `/entry-1000` does not fit.
  const id = 'i'.repeat(2_048 - listName('cloud', '').length);
  const long = listName('cloud', id);
  publishList(driver, long, ...Array.from({ length: 1_001 }, () => inlineEntry('', THING, '1')));
  const watcher = driver.watching(long);
  driver.advance(0);
  t.equal(watcher.held.size, 1_000);
  t.ok(watcher.held.has(thing('cloud', `${id}/entry-999`)));
  t.match(
    driver.federation.hops(THING, askedName(long)).filter(({ problem }) => problem),
    [{ to: 'entry 1000', problem: /has no valid resource name/ }],
  );
  t.end();
});

t.test('an `#entry=` of a non-list is left out', (t) => {
  const driver = two();
  driver.publish('c', a, '1');
  publishList(driver, all, textEntry(`${a}#entry=x`));
  t.strictSame(driver.watching(all).take(), [`complete ${all}`]);
  t.match(driver.federation.hops(THING, askedName(all)), [
    { problem: 'leads to another type, entry of test.v1.Thing' },
  ]);
  t.end();
});

t.test(
  'a redirected member of a glob that is deleted before it resolves does not block the list',
  (t) => {
    const driver = two();
    const [glob, x, y] = ['g/*', 'g/x', 'g/y'].map((id) => thing('cloud', id));
    driver.server('o').stalled.add(far);
    driver.redirect('c', x!, far);
    driver.publish('c', y!, '1');
    publishList(driver, all, textEntry(glob!));
    const watcher = driver.watching(all);
    driver.delete('c', x!);
    driver.advance(WHOLE_MS);
    t.strictSame(watcher.take(), [`member ${y!} 1 of ${all}`, `complete ${all}`]);
    t.end();
  },
);

t.test('an unresolved member of a glob does not complete the glob (invariant 3)', (t) => {
  for (const target of [far, thing('third', 'x')]) {
    const driver = two();
    const [glob, x, y] = ['g/*', 'g/x', 'g/y'].map((id) => thing('cloud', id));
    driver.redirect('c', x!, target);
    driver.redirect('c', y!, thing('onprem', 'slow'));
    driver.server('o').stalled.add(thing('onprem', 'slow'));
    publishList(driver, all, textEntry(glob!));
    const watcher = driver.watching(all);
    driver.advance(WHOLE_MS);
    t.strictSame(watcher.take(), [], `${target}: another member is pending`);
    driver.publish('o', thing('onprem', 'slow'), '1');
    t.strictSame(watcher.take(), [`member ${y!} 1 of ${all}`, `complete ${all}`]);
  }
  t.end();
});

t.test('an unreadable nested list does not prove absence', (t) => {
  const driver = two();
  const inner = listName('cloud', 'inner');
  driver.publish('c', inner, Buffer.from([0xff]), LISTS);
  publishList(driver, all, textEntry(inner));
  const watcher = driver.watching(all);
  t.strictSame(watcher.take(), [`complete ${all}`]);
  t.equal(watcher.proven.get(all), false);
  publishList(driver, inner, inlineEntry('x', THING, '1'));
  t.equal(watcher.proven.get(all), true);
  t.equal(watcher.held.size, 1);
  t.end();
});

t.test(
  'a list with two entries of one name is refused completely, and the last valid one stays',
  (t) => {
    const driver = two();
    driver.publish('c', a, '1');
    publishList(driver, all, inlineEntry('x', THING, '1'), textEntry(a));
    const watcher = driver.watching(all);
    watcher.take();
    const good = [...watcher.held];
    publishList(driver, all, inlineEntry('x', THING, '2'), inlineEntry('x', THING, '3'));
    t.equal(driver.server('c').stream.acks.at(-1)?.error, `${all} has two entries named "x"`);
    t.strictSame(watcher.take(), []);
    t.strictSame([...watcher.held], good);
    publishList(driver, all, inlineEntry('x', THING, '4'));
    t.strictSame(
      [...watcher.held],
      [[thing('cloud', 'all/x'), '4']],
      'until a valid list is published',
    );
    t.end();
  },
);

t.test('of two entries served under one name, the first wins and is not notified again', (t) => {
  const driver = two();
  const typeUrl = 'type.googleapis.com/envoy.config.cluster.v3.Cluster';
  const named = (extra: number): Uint8Array =>
    Buffer.concat([Buffer.from([0x0a, 1]), Buffer.from('x'), Buffer.from([0x20, extra])]);
  const list = 'xdstp://cloud/envoy.config.cluster.v3.ClusterCollection/all';
  const publish = (...more: readonly Uint8Array[]): void => {
    const entries = [inlineEntry('x', typeUrl, named(1)), inlineEntry('', typeUrl, named(2))];
    driver.publish('c', list, listBytes(...entries, ...more), `${typeUrl}Collection`);
  };
  publish();
  const watcher = new RecordingWatcher();
  driver.watch(list, watcher, typeUrl);
  t.equal(watcher.take().filter((line) => line.startsWith('member')).length, 1);
  publish(new Uint8Array(0));
  t.strictSame(watcher.take(), []);
  t.match(driver.federation.hops(typeUrl, askedName(list, typeUrl)), [
    { problem: 'occurs twice' },
    { problem: 'is empty' },
  ]);
  t.end();
});

t.test('an entry that was out of bounds is checked again when the lists around it change', (t) => {
  const driver = two();
  const [one, other] = ['one', 'other'].map((id) => listName('cloud', id));
  publishList(driver, one!, textEntry(other!), inlineEntry('x', THING, '1'));
  publishList(driver, other!, textEntry(one!), inlineEntry('y', THING, '2'));
  const first = driver.watching(one!);
  const second = driver.watching(other!);
  t.strictSame([...first.held.values()].sort(), ['1', '2']);
  t.strictSame([...second.held.values()], ['2'], 'the cycle ends here');
  publishList(driver, one!, inlineEntry('x', THING, '1'));
  t.strictSame([...first.held.values()], ['1']);
  t.strictSame([...second.held.values()].sort(), ['1', '2'], 'the cycle is gone');
  publishList(driver, one!, textEntry(other!), inlineEntry('x', THING, '1'));
  t.strictSame([...first.held.values()], ['1']);
  driver.delete('c', other!, LISTS);
  publishList(driver, other!, inlineEntry('y', THING, '3'));
  t.strictSame([...first.held.values()].sort(), ['1', '3'], 'a deleted list makes room too');
  driver.unwatch(other!, second);
  t.strictSame([...first.held.values()].sort(), ['1', '3']);
  t.end();
});

t.test('a list that is unsubscribed makes room for the lists that it led to', (t) => {
  const driver = two();
  const names = ['l0', 'l1', 'l2', 'l3', 'l4', 'l5'].map((id) => listName('cloud', id));
  for (const [at, name] of names.entries()) {
    const next = names[at + 1];
    const deeper = next === undefined ? [] : [textEntry(next)];
    publishList(driver, name, inlineEntry('x', THING, String(at)), ...deeper);
  }
  const top = driver.watching(names[0]!);
  const below = driver.watching(names[1]!);
  t.strictSame([...below.held.values()].sort(), ['1', '2', '3', '4']);
  driver.unwatch(names[0]!, top);
  driver.pump();
  t.strictSame([...below.held.values()].sort(), ['1', '2', '3', '4', '5']);
  t.end();
});

t.test(
  'a list that is removed with its permission ends all its subscriptions (invariant 9)',
  (t) => {
    const driver = two();
    const inner = listName('onprem', 'inner');
    driver.publish('o', inner, listBytes(textEntry(thing('onprem', 'g/*'))), LISTS);
    publishList(driver, all, textEntry(inner));
    driver.watching(all);
    driver.reload(two([]).federation.map);
    const { stream } = driver.server('o');
    t.strictSame([...stream.subscribed(LISTS), ...stream.subscribed(THING)], []);
    t.end();
  },
);

t.test('a list that is unsubscribed before the flush is never requested', (t) => {
  const driver = two();
  const watcher = new RecordingWatcher();
  driver.federation.watch(THING, askedName(all), watcher, driver.nowMs);
  driver.federation.unwatch(THING, askedName(all), watcher, driver.nowMs);
  driver.pump();
  t.strictSame([driver.dials, watcher.told], [[], []]);
  t.end();
});

import t from 'tap';
import { a, alt, b, glob, kindOf, member, pair, TRIP_MS } from '../../../support/authority-pair.js';
import { THING, thing, WHOLE_MS } from '../../../support/federation-driver.js';

t.test('row: it exists → the resource', (t) => {
  t.strictSame(pair({ [a]: '1' }, {}).watching(a).told, [`changed ${a} 1`]);
  t.end();
});

t.test('row: named in removed_resources → removal', (t) => {
  const driver = pair({ [a]: '1' }, { [a]: 'old' });
  const watcher = driver.watching(a, b);
  t.ok(watcher.take().includes(`absent ${b}`), 'never existed: absent');
  driver.delete('c', a);
  t.strictSame(watcher.told, [`removed ${a}`]);
  t.notOk(driver.isConnected('o'), 'and it does not fail over to the alternative');
  t.end();
});

t.test('row: removed, and ignore_deletion → kept, for later watchers too', (t) => {
  const driver = pair({ [a]: '1' }, {}, { ignoreDeletion: true });
  const watcher = driver.watching(a);
  watcher.take();
  driver.delete('c', a);
  t.strictSame(watcher.told, []);
  t.strictSame(driver.watching(a).told, [`changed ${a} 1`]);
  t.end();
});

t.test(
  'row: TP3 NOT_FOUND or PERMISSION_DENIED → removal with that code, never the alternative',
  (t) => {
    for (const code of [5, 7]) {
      const driver = pair({ [a]: '1' }, { [a]: 'alt', [b]: 'alt' });
      const watcher = driver.watching(a, b, glob);
      driver.advance(WHOLE_MS);
      const say = (name: string, removed: readonly string[] = []): readonly string[] => {
        watcher.take();
        driver.send('c', { typeUrl: THING, nonce: 'x', errors: [{ name, code }], removed });
        return watcher.take();
      };
      t.strictSame(say(a), [`removed ${a} (${code})`]);
      t.strictSame(say(a), [], 'repeating the error notifies nothing');
      t.strictSame(
        say(b, [b]),
        [`absent ${b} (${code})`],
        'also in removed_resources, for older clients: one notification',
      );
      t.strictSame(say(glob, [glob]), []);
      driver.advance(WHOLE_MS);
      t.strictSame(
        watcher.take(),
        [`complete ${glob} (${code})`],
        'once the collection is complete',
      );
      t.strictSame(say(glob), []);
      driver.advance(WHOLE_MS);
      t.strictSame(watcher.take(), [], 'repeating this error notifies nothing either');
      t.match(
        driver.watching(a).told,
        [`absent ${a} (${code})`],
        'later watchers get the same error',
      );
      watcher.take();
      driver.publish('c', a, '2');
      driver.publish('c', member('m'), '1');
      driver.advance(WHOLE_MS);
      t.strictSame(watcher.take(), [
        `changed ${a} 2`,
        `changed ${member('m')} 1`,
        `complete ${glob}`,
      ]);
      driver.delete('c', a);
      t.strictSame(watcher.take(), [`removed ${a}`], 'the earlier error code is forgotten');
      driver.advance(60_000);
      t.notOk(driver.isConnected('o'));
    }
    t.end();
  },
);

t.test(
  'row: another error for a name leaves held content, and reaches watchers that hold none',
  (t) => {
    for (const code of [2, 8, 13, 14]) {
      const driver = pair({ [a]: '1' }, { [a]: 'alt', [b]: 'alt' });
      const [slow, c] = [thing('cloud', 'slow'), thing('cloud', 'c')];
      driver.server('c').stalled.add(slow).add(c).add(b);
      const watcher = driver.watching(a, slow, glob);
      const say = (...names: readonly string[]): readonly string[] => {
        watcher.take();
        const errors = names.map((name) => ({ name, code, message: 'why' }));
        driver.send('c', { typeUrl: THING, nonce: 'x', errors });
        return watcher.take();
      };
      t.strictSame(
        say(a, glob, member('m'), b),
        [],
        'held, a glob, a member, a name not subscribed',
      );
      t.strictSame(say(slow), [`error ${code} ${slow}`]);
      t.strictSame(say(slow), [], 'repeating the error notifies nothing');
      t.strictSame(
        driver.watching(slow).told,
        [`error ${code} ${slow}`],
        'later watchers get the error',
      );
      t.strictSame(say(thing('elsewhere', 'x'), 'old-style'), []);
      watcher.take();
      driver.send('c', { typeUrl: THING, nonce: 'x', errors: [{ name: slow, code: 1 }] });
      t.strictSame(watcher.take(), [`error 1 ${slow}`], 'another reason');
      driver.publish('c', slow, '2');
      t.strictSame(watcher.take(), [`changed ${slow} 2`], 'a late response counts');
      t.strictSame(say(slow), []);
      t.equal(watcher.held.size, 2);
      driver.watch(c, watcher);
      driver.send('c', {
        typeUrl: THING,
        nonce: 'x',
        errors: [{ name: c, code }],
        removed: [c],
      });
      t.strictSame(watcher.take(), [`absent ${c}`], 'a removal in the same response counts');
      driver.advance(60_000);
      t.notOk(driver.isConnected('o'), 'and it does not fail over to the alternative');
    }
    t.end();
  },
);

t.test(
  'an error from the source in use is replaced by UNAVAILABLE when that source is unreachable',
  (t) => {
    const driver = pair({}, {}, { alternatives: [] });
    driver.server('c').stalled.add(a);
    const watcher = driver.watching(a);
    driver.send('c', { typeUrl: THING, nonce: 'x', errors: [{ name: a, code: 13 }] });
    t.strictSame(watcher.take(), [`error 13 ${a}`]);
    driver.kill('c');
    driver.advance(TRIP_MS);
    t.strictSame(watcher.take(), [`error 14 ${a}`]);
    driver.revive('c');
    driver.advance(120_000);
    t.strictSame(
      watcher.take(),
      [],
      'silence on a new stream does not repeat the error of an earlier stream',
    );
    t.end();
  },
);

t.test('row: unreachable and cached → nothing: disconnect is never deletion (invariant 3)', (t) => {
  const driver = pair({ [a]: '1', [member('m')]: '1' }, {}, { alternatives: [] });
  const watcher = driver.watching(a, glob);
  driver.advance(WHOLE_MS);
  watcher.take();
  driver.kill('c');
  driver.advance(24 * 3_600_000);
  t.strictSame(watcher.told, []);
  t.equal(driver.group('cloud').failover.kind, 'cached');
  driver.revive('c');
  driver.advance(60_000);
  t.equal(driver.group('cloud').failover.kind, 'primary');
  t.notMatch(watcher.told.join(), /changed|removed|error/);
  t.end();
});

t.test('row: unreachable, not cached, no alternative → UNAVAILABLE, never absent', (t) => {
  const driver = pair({ [a]: '1' }, {}, { alternatives: [] });
  driver.server('c').reachability = 'refuse';
  const watcher = driver.watching(a);
  driver.advance(3_600_000);
  t.strictSame(watcher.told, [`error 14 ${a}`]);
  t.strictSame(driver.watching(a).told, [`error 14 ${a}`], 'a later watcher is notified at once');
  driver.revive('c');
  driver.advance(60_000);
  t.equal(watcher.told.at(-1), `changed ${a} 1`);
  t.end();
});

t.test(
  '`unavailable_after` sets when a name that no source can answer becomes UNAVAILABLE',
  (t) => {
    const driver = pair(
      { [a]: '1' },
      {},
      { alternatives: [], failover: { unavailableAfterMs: 4_000 } },
    );
    driver.server('c').reachability = 'black_hole';
    const watcher = driver.watching(a);
    driver.advance(3_999);
    t.strictSame(watcher.told, []);
    driver.advance(1);
    t.strictSame(watcher.told, [`error 14 ${a}`]);
    t.end();
  },
);

t.test(
  'row: a black hole at startup → the alternative after 10 s if it has it, and UNAVAILABLE after 15 s if there is none',
  (t) => {
    const driver = pair({ [a]: '1' }, { [a]: 'alt' });
    driver.server('c').reachability = 'black_hole';
    const watcher = driver.watching(a);
    driver.advance(9_999);
    t.strictSame(watcher.told, []);
    driver.advance(1);
    t.strictSame(watcher.told, [`changed ${a} alt`]);
    driver.advance(10_000);
    t.equal(watcher.told.length, 1, 'and no error');
    const alone = pair({}, {}, { alternatives: [] });
    alone.server('c').reachability = 'black_hole';
    const waiting = alone.watching(a);
    alone.advance(15_000);
    t.strictSame(waiting.told, [`error 14 ${a}`]);
    t.end();
  },
);

t.test('row: unreachable, the alternative has it → its payload under the subscribed name', (t) => {
  for (const cached of [true, false]) {
    const driver = pair({ [a]: '1' }, { [a]: 'alt' });
    if (!cached) driver.server('c').reachability = 'refuse';
    const watcher = driver.watching(a);
    driver.kill('c');
    driver.advance(TRIP_MS);
    t.equal(watcher.held.get(a), 'alt');
    t.strictSame([...watcher.held.keys()], [a], 'the name at the alternative is not visible');
    t.equal(kindOf(driver), 'alt');
    t.notMatch(watcher.told.join(), /removed|absent|error/);
  }
  t.end();
});

t.test('row: unreachable, the alternative reports absent, cached → kept', (t) => {
  const driver = pair({ [a]: '1', [b]: '1', [member('m')]: '1' }, { [b]: 'alt' });
  const watcher = driver.watching(a, b, glob);
  driver.advance(WHOLE_MS);
  watcher.take();
  driver.kill('c');
  driver.advance(TRIP_MS);
  t.strictSame(watcher.told, [`changed ${b} alt`, `complete ${glob}`]);
  t.equal(watcher.proven.get(glob), false, 'a name missing from the response may exist');
  t.strictSame([...watcher.held.values()].sort(), ['1', '1', 'alt']);
  driver.send('o', { typeUrl: THING, nonce: 'x', removed: [alt(a), alt(member('m'))] });
  t.equal(watcher.held.size, 3, 'not even when the alternative repeats the removal');
  driver.delete('o', alt(b));
  t.equal(watcher.held.size, 2, 'but the alternative may delete content that came from it');
  t.end();
});

t.test('row: unreachable, the alternative reports absent, not cached → UNAVAILABLE', (t) => {
  const driver = pair({}, {});
  driver.server('c').reachability = 'refuse';
  const watcher = driver.watching(a, glob);
  driver.advance(TRIP_MS);
  t.equal(kindOf(driver), 'alt');
  t.strictSame(watcher.told, [`error 14 ${a}`, `error 14 ${glob}`]);
  t.strictSame(driver.watching(b).told, [`error 14 ${b}`], 'asked later: the same');
  t.end();
});

t.test('row: an authority that is not in the map → NOT_FOUND at once', (t) => {
  const driver = pair({}, {});
  const unknown = thing('nobody', 'a');
  t.strictSame(driver.watching(unknown).told, [`error 5 ${unknown}`]);
  t.end();
});

t.test('a due removal and an unanswered name each keep their own deadline', (t) => {
  const driver = pair({ [a]: '1', [b]: '1' }, {});
  const watcher = driver.watching(a, b);
  driver.server('c').stalled.add(thing('cloud', 'slow'));
  driver.server('c').delete(THING, a);
  driver.cut('c');
  driver.advance(1_000);
  driver.watch(thing('cloud', 'slow'), watcher);
  watcher.take();
  driver.advance(2_000);
  t.strictSame(watcher.take(), [`removed ${a}`]);
  driver.advance(30_000);
  t.strictSame(watcher.take(), [`error 14 ${thing('cloud', 'slow')}`]);
  t.end();
});

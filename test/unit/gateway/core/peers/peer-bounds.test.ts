/**
 * Goal: flooding the exchange with messages costs an instance little (invariant 14,
 * docs/INSTANCES.md).
 * Method: the core under a manual clock.
 */
import t from 'tap';
import { nameOf } from '../../../../support/fake-directory.js';
import { HintsDriver } from '../../../../support/hints-driver.js';

t.test('names beyond 10,000 per second are not looked up', (t) => {
  const me = new HintsDriver().holds(nameOf('xdstp://a/T/x'), { version: '1' }, 'T');
  const bytes = Buffer.from(
    JSON.stringify({ v: 1, from: 'x', changes: Array(400).fill(['T', 'xdstp://a/T/x', '2']) }),
  );
  for (let at = 0; at < 30; at++) me.hearsBytes(bytes);
  t.strictSame(me.words(), Array(5).fill('ignored: too_many_names'));
  t.end();
});

t.test(
  'bytes beyond the bound per second are dropped unread, since reading costs by the byte',
  (t) => {
    const me = new HintsDriver();
    const bytes = Buffer.from(`{"v":1,"from":"x","changes":[${'[],'.repeat(5_000)}[]]}`);
    for (let at = 0; at < 200; at++) me.hearsBytes(bytes);
    const read = me.words().filter((word) => word === 'ignored: malformed').length;
    t.ok(read > 0 && read * bytes.length <= 1_024 * 1_024, `${read} of 200 were read`);
    me.after(1_000).hearsBytes(bytes);
    t.strictSame(me.words(), ['ignored: malformed'], 'and read again in the next second');
    t.end();
  },
);

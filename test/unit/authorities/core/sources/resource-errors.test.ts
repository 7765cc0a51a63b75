/**
 * Goal: an error of a source that says nothing of the data (TP3: all codes but two) is no answer to
 * those who count on one, and is passed on as it is.
 */
import t from 'tap';
import { listBytes, textEntry } from '../../../../support/collection-messages.js';
import { FederationDriver, mapOf, THING, thing } from '../../../../support/federation-driver.js';
import { at, driverOf, toldTo } from '../../../../support/node-groups.js';

const far = thing('onprem', 'far');

/** `far` is not answered by itself. */
function two(): FederationDriver {
  const driver = new FederationDriver(
    mapOf({
      authorities: {
        cloud: { sources: ['c'], mayLeadTo: ['onprem'] },
        onprem: { sources: ['o'] },
      },
    }),
  );
  driver.server('o').stalled.add(far);
  return driver;
}

/** Of a collection: no new member came for `switch_wait` and half a second more. */
const WHOLE_AFTER_MS = 2_500;

const fail = (driver: FederationDriver, source: string, name: string, code: number): void => {
  driver.send(source, { typeUrl: THING, nonce: 'x', errors: [{ name, code }] });
};

t.test(
  'a glob with a redirected member of which nothing is said is not complete (invariant 3)',
  (t) => {
    for (const code of [2, 8, 13, 14]) {
      const driver = two();
      const [glob, member] = ['g/*', 'g/m'].map((id) => thing('cloud', id));
      driver.redirect('c', member!, far);
      const watcher = driver.watching(glob!);
      driver.advance(WHOLE_AFTER_MS);
      fail(driver, 'o', far, code);
      t.strictSame(watcher.take(), [`error ${code} ${member!}`]);
      fail(driver, 'o', far, 5);
      t.ok(watcher.take().includes(`complete ${glob!}`), 'NOT_FOUND is an answer');
    }
    t.end();
  },
);

t.test('a list with an entry of which nothing is said is no proof (invariant 3)', (t) => {
  for (const code of [2, 8, 13]) {
    const driver = two();
    const list = 'xdstp://cloud/test.v1.ThingCollection/l';
    driver.publish('c', list, listBytes(textEntry(far)), `${THING}Collection`);
    const watcher = driver.watching(list);
    fail(driver, 'o', far, code);
    t.equal(watcher.proven.get(list), false);
    fail(driver, 'o', far, 7);
    t.equal(watcher.proven.get(list), true, 'PERMISSION_DENIED is an answer');
  }
  t.end();
});

t.test('of an old-style name an error is told when no entry has it, and all have spoken', (t) => {
  const driver = driverOf([{ sources: ['first'] }, { sources: ['second'] }]);
  driver.server('first').stalled.add('x');
  driver.server('second').stalled.add('x');
  const watcher = driver.watching(at('a', 'x'));
  const say = (source: string, response: object): readonly string[] => {
    driver.streamsOf(source)[0]?.send({ typeUrl: THING, nonce: 'e', ...response });
    driver.pump();
    return toldTo(watcher);
  };
  t.strictSame(say('first', { errors: [{ name: 'x', code: 13 }] }), [], 'the second may have it');
  t.strictSame(say('second', { removed: ['x'] }), ['error 13 x']);
  t.strictSame(say('first', { removed: ['x'] }), ['absent x']);
  t.end();
});

/**
 * Goal: an error that proves nothing about the resource (TP3: all codes but two) does not count as
 * an answer, and is passed on unchanged.
 */
import t from 'tap';
import { listBytes, textEntry } from '../../../../support/collection-messages.js';
import { FederationDriver, mapOf, THING, thing } from '../../../../support/federation-driver.js';
import { at, driverOf, toldTo } from '../../../../support/node-groups.js';

const far = thing('onprem', 'far');

/** The source stays silent about `far`. */
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

/** For a collection: `switch_wait` and half a second without a new member. */
const WHOLE_AFTER_MS = 2_500;

const fail = (driver: FederationDriver, source: string, name: string, code: number): void => {
  driver.send(source, { typeUrl: THING, nonce: 'x', errors: [{ name, code }] });
};

t.test('a glob with an unanswered redirected member is not complete (invariant 3)', (t) => {
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
});

t.test('a list with an unanswered entry does not prove absence (invariant 3)', (t) => {
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

t.test(
  'an error of an old-style name is notified when all entries answered and none has the name',
  (t) => {
    const driver = driverOf([{ sources: ['first'] }, { sources: ['second'] }]);
    driver.server('first').stalled.add('x');
    driver.server('second').stalled.add('x');
    const watcher = driver.watching(at('a', 'x'));
    const say = (source: string, response: object): readonly string[] => {
      driver.streamsOf(source)[0]?.send({ typeUrl: THING, nonce: 'e', ...response });
      driver.pump();
      return toldTo(watcher);
    };
    t.strictSame(
      say('first', { errors: [{ name: 'x', code: 13 }] }),
      [],
      'the second entry may have it',
    );
    t.strictSame(say('second', { removed: ['x'] }), ['error 13 x']);
    t.strictSame(say('first', { removed: ['x'] }), ['absent x']);
    t.end();
  },
);

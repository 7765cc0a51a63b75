/**
 * Goal: a client that repeats refused names in every request is told each error once, and costs no more memory than
 * its last request has names.
 */
import t from 'tap';
import { RefusedNames } from '../../../../../gateway/core/sotw/refused-names.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';

const invalid = { code: STATUS_CODE.invalidArgument, message: 'not a name' };
const full = { code: STATUS_CODE.resourceExhausted, message: 'no room' };

t.test('the error of a refused name is taken once, and the name stays known (GRPC 11)', (t) => {
  const names = new RefusedNames();
  const refused = names.refuse('?', invalid);
  t.match(refused, { status: invalid, isSilent: false });
  t.equal(names.get('?'), refused);
  t.ok(names.hasUntold);
  t.strictSame(names.takeErrors(), [{ name: '?', status: invalid }]);
  t.notOk(names.hasUntold);
  t.strictSame(names.takeErrors(), []);
  t.equal(names.size, 1);
  t.end();
});

t.test('a name that a request no longer has is forgotten, with an error still to be sent', (t) => {
  const names = new RefusedNames();
  names.refuse('kept', invalid).mark = 2;
  names.refuse('dropped', invalid).mark = 1;
  names.dropAllBut(2);
  t.equal(names.size, 1);
  t.equal(names.get('dropped'), undefined);
  t.strictSame(names.takeErrors(), [{ name: 'kept', status: invalid }]);
  t.end();
});

t.test('a name without room ends the stream only if the client may hold it', (t) => {
  const names = new RefusedNames();
  t.match(names.refuseWithoutRoom('new', full, false), { status: full, isSilent: true });
  t.equal(names.endStatus, undefined);
  names.refuseWithoutRoom('held', full, true);
  t.equal(names.endStatus, full);
  t.end();
});

t.test('1,000 names without room are refused one by one, and the next one ends the stream', (t) => {
  const names = new RefusedNames();
  for (let count = 0; count < 1_000; count++) {
    names.refuseWithoutRoom(`n${String(count)}`, full, false);
    // A client that names others each time costs as much as one that keeps its names.
    names.dropAllBut(1);
  }
  t.equal(names.endStatus, undefined);
  names.refuseWithoutRoom('one more', full, false);
  t.equal(names.endStatus, full);
  t.end();
});

/**
 * Goal: a client that repeats refused names in every request is told each error once, and costs no more memory than
 * its last request has names.
 */
import t from 'tap';
import { RefusedNames, ToldWithoutRoom } from '../../../../../gateway/core/sotw/refused-names.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';

const invalid = { code: STATUS_CODE.invalidArgument, message: 'not a name' };
const full = { code: STATUS_CODE.resourceExhausted, message: 'no room' };

t.test('the error of a refused name is taken once, and the name stays known (GRPC 11)', (t) => {
  const names = new RefusedNames(new ToldWithoutRoom());
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
  const names = new RefusedNames(new ToldWithoutRoom());
  names.refuse('kept', invalid).mark = 2;
  names.refuse('dropped', invalid).mark = 1;
  names.dropAllBut(2);
  t.equal(names.size, 1);
  t.equal(names.get('dropped'), undefined);
  t.strictSame(names.takeErrors(), [{ name: 'kept', status: invalid }]);
  t.end();
});

t.test('a name without room does not end the stream by itself', (t) => {
  const names = new RefusedNames(new ToldWithoutRoom());
  t.match(names.refuseWithoutRoom('new', full), { status: full, isSilent: true });
  t.equal(names.endStatus, undefined);
  names.end(full);
  t.equal(names.endStatus, full);
  t.end();
});

t.test('of all names without room on a stream, the first hundred are remembered', (t) => {
  const told = new ToldWithoutRoom();
  const [clusters, listeners] = [new RefusedNames(told), new RefusedNames(told)];
  for (let count = 0; count < 60; count++) clusters.refuseWithoutRoom(`c${count}`, full)!.mark = 1;
  for (let count = 0; count < 60; count++) listeners.refuseWithoutRoom(`l${count}`, full);
  t.equal(clusters.size, 60);
  t.equal(listeners.size, 40);
  clusters.dropAllBut(2);
  t.ok(
    listeners.refuseWithoutRoom('one more', full),
    'names that the client drops leave their place',
  );
  t.equal(listeners.endStatus, undefined);
  t.end();
});

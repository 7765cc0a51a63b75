/**
 * Goal: each refused name gets its error, in chunks, and a client that does not read cannot fill the memory with them.
 */
import t from 'tap';
import { Refusals } from '../../../../../gateway/core/delta/refusals.js';
import { locatorText } from '../../../../../gateway/core/session/asked-name.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { CDS, EDS } from '../../../../support/mesh-names.js';

const invalid = { code: STATUS_CODE.invalidArgument, message: 'not a name' };
const full = { code: STATUS_CODE.resourceExhausted, message: 'no room' };
const MANY = 1e6;

t.test(
  'a refused name gets an error and a removal, since a client may ignore errors (TP3)',
  (t) => {
    const refusals = new Refusals();
    t.ok(refusals.isEmpty);
    refusals.add(CDS, '?', invalid);
    t.strictSame([...refusals.types], [CDS]);
    t.match(refusals.take(CDS, MANY), {
      errors: [{ name: '?', status: invalid }],
      removed: ['?'],
      resourceCount: 0,
      bringsNew: false,
    });
    t.ok(refusals.isEmpty);
    t.strictSame(refusals.take(CDS, MANY).errors, []);
    t.end();
  },
);

t.test('a locator has no spelling that a removal could repeat (TP2)', (t) => {
  const refusals = new Refusals();
  refusals.add(CDS, locatorText({ name: 'a', parameters: 'env=prod' }), invalid);
  const { errors, removed } = refusals.take(CDS, MANY);
  t.strictSame([errors, removed], [[{ name: 'a', status: invalid }], []]);
  t.end();
});

t.test('the errors of a type are cut by size, and each chunk but the last goes on', (t) => {
  const refusals = new Refusals();
  for (const name of ['a', 'b']) refusals.add(CDS, name, invalid);
  refusals.add(EDS, 'c', invalid);
  t.equal(refusals.count, 3);
  t.strictSame(refusals.take(CDS, 1).removed, ['a']);
  t.ok(refusals.isUnderWay(CDS));
  t.notOk(refusals.isUnderWay(EDS));
  t.strictSame(refusals.take(CDS, 1).removed, ['b']);
  t.notOk(refusals.isUnderWay(CDS));
  t.strictSame([...refusals.types], [EDS]);
  t.end();
});

t.test('a name without room is not removed, since the client may hold it', (t) => {
  const refusals = new Refusals();
  refusals.add(CDS, 'a', full);
  const { errors, removed } = refusals.take(CDS, MANY);
  t.strictSame([errors, removed], [[{ name: 'a', status: full }], []]);
  t.end();
});

t.test(
  'on a stream at most 100 names without room wait for their error; other names all do',
  (t) => {
    const refusals = new Refusals();
    for (let count = 0; count < 150; count++) {
      refusals.add(count % 2 === 0 ? CDS : EDS, `full${String(count)}`, full);
    }
    t.equal(refusals.count, 100);
    refusals.add(CDS, '?', invalid);
    t.equal(refusals.count, 101);
    refusals.add(CDS, 'full0', invalid);
    refusals.add(CDS, 'one more', full);
    t.equal(refusals.count, 102, 'the first one has another reason now');
    refusals.take(EDS, MANY);
    refusals.add(EDS, 'a further one', full);
    t.equal(refusals.count, 53, 'errors that are sent make room');
    t.end();
  },
);

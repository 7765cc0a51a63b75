/** Goal: no silence and no failure of a source counts as its answer. */
import t from 'tap';
import { Collection } from '../../../../../gateway/core/cache/collection.js';
import {
  absent,
  isAnswered,
  isDoubtful,
  isKnown,
  isStuck,
  isUnreachable,
  WAITING,
  type GlobEntry,
  type NameEntry,
  type NameState,
} from '../../../../../gateway/core/cache/entries.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { projectionOf } from '../../../../support/fake-directory.js';
import { CDS, cds } from '../../../../support/mesh-names.js';

const projection = projectionOf(CDS, cds('a'), 'v1');
const { name: glob } = projectionOf(CDS, cds('g/*'), 'v1');
const unavailable = { code: STATUS_CODE.unavailable, message: 'no source' };
const denied = { code: STATUS_CODE.permissionDenied, message: 'not yours' };

const shared = { typeUrl: CDS, subscribers: new Set<never>(), payer: undefined };
const nameIn = (state: NameState): NameEntry => ({ ...shared, name: projection.name, state });
const newGlob = (): GlobEntry => {
  const limits = { tombstoneMaxAgeMs: 1, tombstonesPerCollection: 1 };
  return { ...shared, collection: new Collection(glob, limits), error: undefined };
};

t.test('only presence and absence are known; an error is not (TP3)', (t) => {
  const present: NameState = { kind: 'present', projection };
  const states: readonly NameState[] = [
    { kind: 'waiting' },
    present,
    { kind: 'absent' },
    { kind: 'error', status: unavailable },
  ];
  t.strictSame(states.map(isKnown), [false, true, true, false]);
  t.strictSame(
    states.map((state) => [isAnswered(nameIn(state)), isStuck(nameIn(state))]),
    [
      [false, false],
      [true, false],
      [true, false],
      [false, true],
    ],
  );
  t.strictSame(states.map(nameIn).map(isUnreachable), [false, false, false, true]);
  t.end();
});

t.test('a collection is answered by its first member; completeness or an error ends it', (t) => {
  const one = newGlob();
  t.strictSame([isAnswered(one), isStuck(one), isUnreachable(one)], [false, false, false]);
  one.collection.put(projectionOf(CDS, cds('g/b'), 'v1'));
  t.strictSame([isAnswered(one), isStuck(one)], [true, false]);
  one.collection.handleComplete(false);
  t.strictSame([isAnswered(one), isStuck(one), isUnreachable(one)], [true, true, false]);
  const lost = newGlob();
  lost.error = unavailable;
  t.strictSame([isAnswered(lost), isStuck(lost), isUnreachable(lost)], [false, true, true]);
  t.end();
});

t.test('an absence is doubtful if no source gave a reason and it was never held here', (t) => {
  const gone: NameState = { ...absent(undefined), wasHeld: true };
  const states = [WAITING, absent(undefined), absent(denied), gone];
  t.strictSame(states.map(isDoubtful), [false, true, false, false]);
  t.end();
});

/**
 * Goal: a client is told each reason why it lacks a resource once.
 */
import t from 'tap';
import { Collection } from '../../../../../gateway/core/cache/collection.js';
import type { NameState } from '../../../../../gateway/core/cache/entries.js';
import {
  explain,
  explainGlob,
  newSotwGlob,
  newSotwName,
} from '../../../../../gateway/core/sotw/sotw-subscription.js';
import { STATUS_CODE, type ResourceError } from '../../../../../protos/discovery.js';
import { projectionOf } from '../../../../support/fake-directory.js';
import { CDS, cds } from '../../../../support/mesh-names.js';

const { name } = projectionOf(CDS, cds('a'), 'v1');
const { name: glob } = projectionOf(CDS, cds('g/*'), 'v1');
const unavailable = { code: STATUS_CODE.unavailable, message: 'no source' };
const denied = { code: STATUS_CODE.permissionDenied, message: 'not yours' };

const nameIn = (state: NameState) =>
  newSotwName(
    { typeUrl: CDS, name, subscribers: new Set(), payer: undefined, state },
    'a',
    0,
    false,
  );
const newGlob = () => {
  const collection = new Collection(glob, { tombstoneMaxAgeMs: 1, tombstonesPerCollection: 1 });
  const subscribers = new Set<never>();
  return newSotwGlob(
    { typeUrl: CDS, collection, subscribers, payer: undefined, error: undefined },
    'g/*',
    false,
  );
};

t.test('the error of a name is told once for each reason (GRPC 11)', (t) => {
  const errors: ResourceError[] = [];
  const known = nameIn({ kind: 'waiting' });
  explain(known, errors);
  t.strictSame(errors, []);
  known.entry.state = { kind: 'absent' };
  explain(known, errors);
  explain(known, errors);
  t.match(errors, [{ name: 'a', status: { code: STATUS_CODE.notFound } }]);
  t.equal(errors.length, 1);
  known.entry.state = { kind: 'error', status: unavailable };
  explain(known, errors);
  t.strictSame(errors[1], { name: 'a', status: unavailable });
  known.entry.state = { kind: 'present', projection: projectionOf(CDS, cds('a'), 'v1') };
  explain(known, errors);
  t.match(errors[2], { name: 'a', status: { code: STATUS_CODE.resourceExhausted } });
  t.end();
});

t.test('a glob has the error of its data, never that of an unreachable source', (t) => {
  const errors: ResourceError[] = [];
  const one = newGlob();
  one.entry.error = unavailable;
  explainGlob(one, errors);
  t.strictSame(errors, []);
  one.entry.error = denied;
  explainGlob(one, errors);
  explainGlob(one, errors);
  t.strictSame(errors, [{ name: 'g/*', status: denied }]);
  // Without the error in between, the same reason is news again.
  one.entry.error = undefined;
  explainGlob(one, errors);
  one.entry.error = denied;
  explainGlob(one, errors);
  t.equal(errors.length, 2);
  t.end();
});

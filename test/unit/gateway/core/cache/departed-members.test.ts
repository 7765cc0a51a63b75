/**
 * Goal: the members of a glob without clients are forgotten in portions, each once (SECURITY, "Quotas").
 * Method: globs whose members are forgotten some at a time.
 */
import t from 'tap';
import { Collection, type Member } from '../../../../../gateway/core/cache/collection.js';
import { DepartedMembers } from '../../../../../gateway/core/cache/departed-members.js';
import { nameOf, projectionOf } from '../../../../support/fake-directory.js';
import { CDS, EDS, cds } from '../../../../support/mesh-names.js';

const GLOB = nameOf(cds('g/*'));

function membersOf(ids: readonly string[], version = '1'): Map<string, Member> {
  const collection = new Collection(GLOB, { tombstonesPerCollection: 10, tombstoneMaxAgeMs: 1 });
  for (const id of ids) collection.put(projectionOf(CDS, cds(id), version));
  return collection.forgetContent();
}

const CONTENTS = new Map(
  ['1', '2'].map((one) => [projectionOf(CDS, cds('g/a'), one).version, one]),
);

function forgottenBy(departed: DepartedMembers, most: number): readonly string[] {
  const forgotten: string[] = [];
  departed.forgetSome(most, ({ typeUrl, name, version }) => {
    forgotten.push(`${name.id} ${CONTENTS.get(version)}`);
    t.equal(departed.find(typeUrl, name)?.version, version, 'it is there before it is forgotten');
    return () => forgotten.push(departed.find(typeUrl, name) ? 'there' : 'gone');
  });
  return forgotten;
}

t.test('members are found until they are forgotten, as many as are asked for', (t) => {
  const departed = new DepartedMembers();
  departed.add(CDS, GLOB, membersOf(['g/a', 'g/b', 'g/c']));
  t.strictSame(forgottenBy(departed, 2), ['g/a 1', 'gone', 'g/b 1', 'gone']);
  t.notOk(departed.isEmpty);
  t.strictSame(departed.find(EDS, nameOf(cds('g/c'))), undefined, 'another type');
  t.strictSame(forgottenBy(departed, 2), ['g/c 1', 'gone']);
  t.ok(departed.isEmpty);
  t.strictSame(forgottenBy(departed, 2), []);
  t.end();
});

t.test('a glob that departs again is forgotten once, as it was last', (t) => {
  const departed = new DepartedMembers();
  departed.add(CDS, GLOB, membersOf(['g/old', 'g/both']));
  departed.add(CDS, GLOB, membersOf(['g/both', 'g/new'], '2'));
  const forgotten = ['g/both 2', 'gone', 'g/new 2', 'gone', 'g/old 1', 'gone'];
  t.strictSame(forgottenBy(departed, 10), forgotten);
  t.equal(departed.find(CDS, nameOf(cds('g/old'))), undefined);
  t.end();
});

import t from 'tap';
import type { FailoverGroup } from '../../../../authorities/index.js';
import { nearName } from '../../../../gateway/admin/near-name.js';
import { nameOf } from '../../../support/fake-directory.js';
import { CDS, cds } from '../../../support/mesh-names.js';

/** A group whose source has names with these keys. */
const groupOf = (keys: readonly string[]): FailoverGroup =>
  ({ candidates: [{ source: { names: () => keys } }] }) as unknown as FailoverGroup;

t.test('a near name of the source is the hint, and never a name with parameters (TP2)', (t) => {
  const asked = nameOf(cds('payment'));
  const near = cds('payments');
  const variants = [`\tenv=prod\t${cds('payment')}`, `\tenv=prod\t${near}`];
  t.equal(nearName(groupOf([near, ...variants]), CDS, asked), `did you mean "${near}"?`);
  t.equal(nearName(groupOf(variants), CDS, asked), undefined);
  t.end();
});

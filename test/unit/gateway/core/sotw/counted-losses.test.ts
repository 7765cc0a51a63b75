/**
 * Goal: the number in the version of a state-of-the-world client, and the names that it requests, tell how many resources its
 * first set would delete: each counts once (invariant 3).
 * Method: model clients that resume at a process that has just started.
 */
import t from 'tap';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { resumed } from '../../../../support/cold-sotw.js';
import { CDS, cds } from '../../../../support/mesh-names.js';
import { SWITCH_WAIT_MS } from '../../../../support/session-driver.js';

const DENIED = { code: STATUS_CODE.permissionDenied, message: 'not for you' };

t.test('existing names count beside members', (t) => {
  const asked = [cds('a'), cds('g/*')];
  const contents = [
    [CDS, cds('a')],
    [CDS, cds('g/b')],
  ] as const;
  const whole = resumed(new Map([[CDS, asked]]), contents);
  for (const [typeUrl, text] of contents) whole.directory.put(typeUrl, text, 'v2');
  whole.directory.answer();
  t.strictSame(whole.saidAfter(0), [['Cluster', 'a=v2', 'g/b=v2']]);
  const lacking = resumed(new Map([[CDS, asked]]), contents);
  lacking.directory.put(CDS, cds('a'), 'v2');
  lacking.directory.answer();
  t.strictSame(lacking.saidAfter(0), []);
  t.strictSame(lacking.saidAfter(SWITCH_WAIT_MS), [['Cluster', 'a=v2']]);
  t.end();
});

t.test(
  'a name that the client may not have does not hide the loss of a member (invariant 3, seed 12159)',
  (t) => {
    const asked = [cds('none'), cds('g/*')];
    const { directory, saidAfter } = resumed(new Map([[CDS, asked]]), [[CDS, cds('g/b')]]);
    directory.fail(CDS, cds('none'), DENIED);
    directory.answer(({ id }) => id !== 'none');
    t.strictSame(saidAfter(0), []);
    t.strictSame(saidAfter(SWITCH_WAIT_MS), [['Cluster']]);
    t.end();
  },
);

t.test('a member that is subscribed by its name too counts once (invariant 3, seed 25423)', (t) => {
  const asked = [cds('g/a'), cds('g/*')];
  const { directory, saidAfter } = resumed(new Map([[CDS, asked]]), [
    [CDS, cds('g/a')],
    [CDS, cds('g/b')],
  ]);
  directory.put(CDS, cds('g/a'), 'v2');
  directory.answer();
  t.strictSame(saidAfter(0), [], 'g/b is lost');
  t.strictSame(saidAfter(SWITCH_WAIT_MS), [['Cluster', 'g/a=v2']]);
  t.end();
});

t.test('a name that is lost counts once beside members', (t) => {
  const ids = Array.from({ length: 11 }, (_, at) => String(at));
  const lost = ids.map((id) => cds(id));
  const members = [...ids, 'last'].map((id) => cds(`g/${id}`));
  const contents = [...lost, ...members].map((text) => [CDS, text] as const);
  const { directory, saidAfter } = resumed(new Map([[CDS, [...lost, cds('g/*')]]]), contents);
  for (const member of members) directory.put(CDS, member, 'v2');
  directory.answer();
  t.strictSame(saidAfter(0), []);
  t.equal(
    saidAfter(SWITCH_WAIT_MS).length,
    1,
    '11 of 23 are less than half: the guard lets them go',
  );
  t.end();
});

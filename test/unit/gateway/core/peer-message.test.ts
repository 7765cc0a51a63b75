import t from 'tap';
import { readAskedName } from '../../../../gateway/core/asked-name.js';
import {
  encodePeerMessage,
  readPeerMessage,
  type PeerMessage,
} from '../../../../gateway/core/peer-message.js';
import { oldStyleName } from '../../../../protos/resource-name.js';
import { nameOf } from '../../../support/fake-directory.js';
import { hintOf } from '../../../support/hints-driver.js';
import { CDS, cds } from '../../../support/mesh-names.js';

const A = nameOf(cds('g/a'));
const GLOB = nameOf(cds('g/*'));

t.test('messages are read back as they were written, old-style names too', (t) => {
  const old = oldStyleName('scope', 'a\nb');
  const asked = readAskedName(CDS, `${A.key}#alt=${cds('g/b')}`);
  const withAlternative = asked.ok ? asked.name : A;
  const messages: readonly PeerMessage[] = [
    { kind: 'changes', hints: [{ typeUrl: CDS, name: old, version: null }] },
    hintOf(A, 'v'),
    hintOf(nameOf(A.key), ''),
    { kind: 'changes', hints: [{ typeUrl: CDS, name: withAlternative, version: 'v' }] },
    { kind: 'switched', group: 'g', to: 's' },
    { kind: 'invalidate', typeUrl: CDS, name: GLOB },
    { kind: 'invalidate_authority', authority: 'a' },
    {
      kind: 'digest',
      isQuestion: true,
      rows: [{ typeUrl: CDS, authority: 'a', count: 1, hash: 'f' }],
    },
  ];
  for (const message of messages) {
    const read = readPeerMessage(encodePeerMessage('me', message));
    t.strictSame(read, { ok: true, from: 'me', message }, message.kind);
  }
  t.end();
});

t.test('a name that cannot be read is no reason to miss the others', (t) => {
  const changes = [
    [CDS, 'a name of the future', '1'],
    [CDS, A.key, '2'],
  ];
  const read = readPeerMessage(Buffer.from(JSON.stringify({ v: 1, from: 'x', changes })));
  t.strictSame(read, { ok: true, from: 'x', message: hintOf(A, '2') });
  t.end();
});

t.test('what is no message is refused, whatever it is', (t) => {
  const not: readonly unknown[] = [
    1,
    null,
    [],
    { v: 1 },
    { v: 1, from: 'x' },
    { v: 1, from: 1, authority: 'a' },
    { v: 1, from: 'x', changes: [1] },
    { v: 1, from: 'x', changes: [[CDS, GLOB.key, '1']] },
    { v: 1, from: 'x', changes: [[CDS, A.key, 1]] },
    { v: 1, from: 'x', changes: [[CDS, 1, '1']] },
    { v: 1, from: 'x', changes: [[CDS, 'no name', '1']] },
    { v: 1, from: 'x', changes: [[CDS, '\nscope', '1']] },
    { v: 1, from: 'x', changes: [[CDS, cds('g/%61'), '1']] },
    { v: 1, from: 'x', changes: [] },
    { v: 1, from: 'x', changes: [[1, A.key, '1']] },
    { v: 1, from: 'x', switched: [1] },
    { v: 1, from: 'x', invalidate: [CDS, 'no name'] },
    { v: 1, from: 'x', digest: [1] },
    { v: 1, from: 'x', digest: [[CDS, 'a', '1', 'h']] },
  ];
  for (const value of not) {
    const read = readPeerMessage(Buffer.from(JSON.stringify(value)));
    t.strictSame(read, { ok: false, reason: 'malformed' }, JSON.stringify(value));
  }
  t.end();
});

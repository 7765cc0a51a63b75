import t from 'tap';
import { readAskedName } from '../../../../../gateway/core/session/asked-name.js';
import {
  digestMessages,
  encodePeerMessage,
  inMessages,
  MAX_MESSAGE_BYTES,
  readPeerMessage,
  type NameHint,
  type PeerMessage,
} from '../../../../../gateway/core/peers/peer-message.js';
import { oldStyleName, withParameters } from '../../../../../protos/resource-name.js';
import { nameOf } from '../../../../support/fake-directory.js';
import { hintOf } from '../../../../support/hints-driver.js';
import { CDS, cds } from '../../../../support/mesh-names.js';

const A = nameOf(cds('g/a'));
const GLOB = nameOf(cds('g/*'));

t.test('messages are read as they were written, old-style names and variants too', (t) => {
  const old = oldStyleName('scope', 'a\nb');
  const asked = readAskedName(CDS, `${A.key}#alt=${cds('g/b')}`);
  const withAlternative = asked.ok ? asked.name : A;
  const messages: readonly PeerMessage[] = [
    { kind: 'changes', hints: [{ typeUrl: CDS, name: old, version: null }] },
    hintOf(A, 'v'),
    hintOf(withParameters(A, 'env=prod'), 'v'),
    hintOf(withParameters(old, 'env=prod'), 'v'),
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

t.test('an unreadable name does not hide the others', (t) => {
  const changes = [
    [CDS, 'a name of the future', '1'],
    [CDS, A.key, '2'],
  ];
  const read = readPeerMessage(Buffer.from(JSON.stringify({ v: 1, from: 'x', changes })));
  t.strictSame(read, { ok: true, from: 'x', message: hintOf(A, '2') });
  t.end();
});

t.test('an invalid message is refused', (t) => {
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

t.test('no message exceeds the size that peers read, whatever its names and rows', (t) => {
  const hint = (at: number): NameHint => ({
    typeUrl: CDS,
    name: oldStyleName('scope', `${'日'.repeat(at % 60)}"\n${at}`),
    version: 'v'.repeat(43),
  });
  const hints = Array.from({ length: 1_000 }, (_, at) => hint(at));
  const rows = hints.map((_, at) => ({
    typeUrl: CDS,
    authority: `${at}.${'a'.repeat(250)}`,
    count: 1,
    hash: '0'.repeat(16),
  }));
  const endless = { ...hint(0), name: oldStyleName('scope', 'x'.repeat(MAX_MESSAGE_BYTES)) };
  const messages = [
    ...inMessages([hint(0), endless, ...hints.slice(1)]),
    ...digestMessages(true, rows),
  ];
  const read = messages.flatMap((message) => {
    const bytes = encodePeerMessage('f'.repeat(36), message);
    const one = readPeerMessage(bytes);
    return one.ok ? [one.message] : [];
  });
  t.strictSame(
    read.flatMap((one) => (one.kind === 'changes' ? one.hints : [])),
    hints,
    'only a name that fits in no message is left out',
  );
  t.strictSame(
    read.flatMap((one) => (one.kind === 'digest' ? one.rows : [])),
    rows,
  );
  t.ok(messages.length < 50, `${messages.length} messages`);
  t.end();
});

t.test('a message that would fill the receiver’s memory is invalid (invariant 14)', (t) => {
  const long = 'x'.repeat(2_000);
  for (const value of [
    { changes: [[CDS, A.key, long]] },
    { switched: [long, 's'] },
    { switched: ['g', long] },
    { authority: long },
  ]) {
    const read = readPeerMessage(Buffer.from(JSON.stringify({ v: 1, from: 'x', ...value })));
    t.strictSame(read, { ok: false, reason: 'malformed' });
  }
  t.end();
});

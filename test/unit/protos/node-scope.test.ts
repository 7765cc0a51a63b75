/** Goal: two clients are in one group exactly when they agree in the fields that count. */
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import t from 'tap';
import { encodeNode, readClientNode } from '../../../protos/node-codec.js';
import { fieldsOfScope, scopeOf, type NodeField } from '../../../protos/node-scope.js';
import { decode } from './envoy-messages.js';

const text = fc.constantFrom('', 'a', 'b', 'a"', '\n', '__proto__', 'toString', 'é');
const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { maxDepth: 3 },
    fc.constant(null),
    fc.boolean(),
    fc.constantFrom(0, 1, -1.5),
    text,
    fc.array(tie('any'), { maxLength: 2 }),
    fc.dictionary(text, tie('any'), { maxKeys: 2, noNullPrototype: true }),
  ),
})).any;
const node = fc.record({
  id: text,
  cluster: text,
  // The comparison below counts prototypes, so each locality has the same one.
  locality: fc.record({ region: text, zone: text, subZone: text }, { noNullPrototype: true }),
  metadata: fc.dictionary(fc.constantFrom('team', 'stage', 'more'), value, {
    noNullPrototype: true,
  }),
});
const allFields: readonly NodeField[] = [
  'id',
  'cluster',
  'locality',
  'metadata.team',
  'metadata.toString',
];

/** Through the wire, like the Node of a client. */
const received = (fields: typeof node extends fc.Arbitrary<infer N> ? N : never) =>
  readClientNode(encodeNode({ ...fields, userAgentName: '', userAgentVersion: '' }), [
    'team',
    'toString',
  ]);

t.test('the fields of a scope are read back from it, and give the same scope', (t) => {
  fc.assert(
    fc.property(node, fc.subarray([...allFields]), (fields, differBy) => {
      const client = received(fields);
      if (client.malformed) throw new Error('malformed');
      const scope = scopeOf(client, differBy);
      if (scope.includes('\n')) throw new Error('a scope is one line');
      const back = fieldsOfScope(scope);
      if (scopeOf(back, differBy) !== scope) throw new Error('another scope');
      if (differBy.includes('id') && back.id !== fields.id) throw new Error('another id');
    }),
  );
  t.end();
});

t.test('clients that differ in a field that counts are never in one group', (t) => {
  fc.assert(
    fc.property(node, node, fc.subarray([...allFields]), (one, other, differBy) => {
      const same = differBy.every((field) => {
        const of = (fields: typeof one): unknown =>
          field === 'metadata.team'
            ? (fields.metadata['team'] ?? null)
            : field === 'metadata.toString'
              ? null
              : fields[field as 'id' | 'cluster' | 'locality'];
        return isDeepStrictEqual(of(one), of(other));
      });
      const equal = scopeOf(received(one), differBy) === scopeOf(received(other), differBy);
      if (same !== equal) throw new Error(`same: ${same}, one group: ${equal}`);
    }),
  );
  t.end();
});

t.test('a Node carries dynamic parameters (TP2)', (t) => {
  const bytes = encodeNode({
    id: 'i',
    cluster: '',
    dynamicParameters: { 'type.googleapis.com/T': { a: '1', b: '2' } },
    userAgentName: '',
    userAgentVersion: '',
  });
  t.match(decode('envoy.config.core.v3.Node', bytes), {
    dynamic_parameters: { 'type.googleapis.com/T': { params: { a: '1', b: '2' } } },
  });
  t.end();
});

t.test('metadata is read among any other fields, and with its value before its key', (t) => {
  // Node.metadata { fields { value: "v", key: "k" }, fields { key: "empty" } }, and unknown fields.
  const entry = [0x12, 3, 0x1a, 1, 0x76, 0x0a, 1, 0x6b, 0x18, 1];
  const empty = [0x0a, 1, 0x65];
  const struct = [0x0a, entry.length, ...entry, 0x0a, empty.length, ...empty, 0x10, 1];
  const locality = [0x0a, 1, 0x72, 0x28, 1];
  const bytes = Buffer.from([
    ...[0x1a, struct.length, ...struct],
    ...[0x22, locality.length, ...locality],
  ]);
  const read = readClientNode(bytes, ['k', 'e']);
  t.strictSame({ ...read.metadata }, { k: 'v', e: null });
  t.strictSame(read.locality, { region: 'r', zone: '', subZone: '' });
  t.notOk(read.malformed);
  t.end();
});

t.test(
  'numbers that JSON cannot express stay distinct, and deeply nested metadata is malformed',
  (t) => {
    const of = (metadata: Record<string, unknown>) =>
      readClientNode(
        encodeNode({ id: '', cluster: '', metadata, userAgentName: '', userAgentVersion: '' }),
        ['k'],
      );
    t.equal(of({ k: Infinity }).metadata['k'], 'Infinity');
    let deep: unknown = 'bottom';
    for (let depth = 0; depth < 100; depth++) deep = depth % 2 ? [deep] : { a: deep };
    t.ok(of({ k: deep }).malformed);
    t.ok(readClientNode(Buffer.from([0x22, 2, 0x0a, 5, 1, 1, 1, 1, 1])).malformed, 'overlong');
    t.end();
  },
);

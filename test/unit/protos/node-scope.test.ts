/** Goal: two clients are in one group exactly when they agree in the fields that count. */
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import t from 'tap';
import { encodeNode, readClientNode } from '../../../protos/node-codec.js';
import { canonicalNode } from '../../../protos/canonical-node.js';
import { forwardedNode } from '../../../protos/forwarded-node.js';
import {
  fieldsOfScope,
  scopeByRule,
  scopeOf,
  type NodeField,
  type ScopeRule,
  type ScopeValues,
} from '../../../protos/node-scope.js';
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
      if (!back) throw new Error('not readable');
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
            ? Object.hasOwn(fields.metadata, 'team') && [fields.metadata['team']]
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

const headerValue = fc.string({ minLength: 6, maxLength: 60 });
const values = fc.record({
  fields: node,
  headers: fc.dictionary(
    fc.constantFrom('authorization', 'x-token'),
    fc.array(headerValue, { minLength: 1, maxLength: 2 }),
    { noNullPrototype: true },
  ),
  certificate: fc.constantFrom(undefined, '["a"]', '["b"]'),
});
const rules = fc.record({
  fields: fc.subarray([...allFields]),
  wholeNode: fc.boolean(),
  headers: fc.subarray(['authorization', 'x-token']),
  certificate: fc.constantFrom('none', 'names', 'whole'),
  forward: fc.constantFrom(undefined, 'all', ['id'] as const),
}) as fc.Arbitrary<ScopeRule>;

type Values = typeof values extends fc.Arbitrary<infer V> ? V : never;

const nodeBytes = (fields: Values['fields']): Uint8Array =>
  encodeNode({ ...fields, userAgentName: '', userAgentVersion: '' });

const scopeValues = ({ fields, headers, certificate }: Values, rule: ScopeRule): ScopeValues => ({
  node: received(fields),
  wholeNode: rule.wholeNode ? canonicalNode(nodeBytes(fields)) : undefined,
  headers: new Map(Object.entries(headers)),
  certificate,
});

t.test('equal identity, equal scope, and the reverse (invariant 21)', (t) => {
  const hasKey = (of: object, key: string): unknown =>
    Object.hasOwn(of, key) && [(of as Record<string, unknown>)[key]];
  /** The compared parts, by the words of the rule and not by its code. */
  const compared = ({ fields, headers, certificate }: Values, rule: ScopeRule): unknown => [
    rule.fields.map((field) =>
      field === 'metadata.team'
        ? hasKey(fields.metadata, 'team')
        : field === 'metadata.toString'
          ? null
          : fields[field as 'id' | 'cluster' | 'locality'],
    ),
    rule.wholeNode && fields,
    rule.headers.map((key) => hasKey(headers, key)),
    rule.certificate !== 'none' && certificate,
  ];
  const part = fc.constantFrom('fields', 'headers', 'certificate');
  const pair = fc.oneof(
    fc.tuple(values, values).map((both) => structuredClone(both)),
    // The clones have prototypes, which the comparison counts.
    values.map((one) => [structuredClone(one), structuredClone(one)] as const),
    fc
      .tuple(values, values, part)
      .map(([one, other, key]) => structuredClone([one, { ...one, [key]: other[key] }] as const)),
  );
  fc.assert(
    fc.property(pair, rules, ([one, other], rule) => {
      const same = isDeepStrictEqual(compared(one, rule), compared(other, rule));
      const scopes = [one, other].map((each) => scopeByRule(scopeValues(each, rule), rule));
      if (same !== (scopes[0] === scopes[1])) throw new Error(`same: ${same}`);
      if (scopes.some((scope) => scope.includes('\n') || scope.length > 1_024)) {
        throw new Error('a scope is one short line');
      }
    }),
  );
  t.end();
});

t.test('no value of a header is in a scope (invariant 13)', (t) => {
  fc.assert(
    fc.property(values, rules, (one, rule) => {
      // A client may put its token into its id too, which is not a secret then.
      const fields = { ...one.fields, id: 'a', cluster: 'b', metadata: {} } as const;
      const scope = scopeByRule(scopeValues({ ...one, fields }, rule), rule);
      const isPlain = Object.values(one.headers)
        .flat()
        .some((value) => scope.includes(value));
      if (isPlain && rule.headers.length > 0) throw new Error('a secret');
    }),
  );
  t.end();
});

t.test('scopes of different rules never collide, so a reload mixes no groups', (t) => {
  const part = fc.constantFrom('fields', 'wholeNode', 'headers', 'certificate', 'forward');
  const pair = fc
    .tuple(rules, rules, part)
    .map(([rule, other, key]) => [rule, { ...rule, [key]: other[key] }] as const);
  const ofRule = ({ fields, ...rest }: ScopeRule): unknown => ({
    ...rest,
    fields: [...fields].sort(),
  });
  fc.assert(
    fc.property(values, pair, (one, [rule, other]) => {
      if (isDeepStrictEqual(ofRule(rule), ofRule(other))) return;
      const scopes = [rule, other].map((each) => scopeByRule(scopeValues(one, each), each));
      if (scopes[0] === scopes[1]) throw new Error('two rules, one scope');
    }),
    { numRuns: 500 },
  );
  t.end();
});

t.test(
  'the canonical Node depends on no order of fields and map entries, and on all content',
  (t) => {
    const of = (metadata: Record<string, unknown>): Buffer | undefined =>
      canonicalNode(
        encodeNode({ id: 'i', cluster: '', metadata, userAgentName: '', userAgentVersion: '' }),
      );
    t.strictSame(of({ a: 1, b: { c: [1, 2], d: null } }), of({ b: { d: null, c: [1, 2] }, a: 1 }));
    t.notSame(of({ a: [1, 2] }), of({ a: [2, 1] }), 'a list has an order');
    t.notSame(of({ a: null }), of({}));
    const id = [0x0a, 1, 0x69];
    const feature = [0x52, 1, 0x66];
    t.strictSame(
      canonicalNode(Buffer.from([...id, ...feature])),
      canonicalNode(Buffer.from([...feature, ...id])),
    );
    t.equal(canonicalNode(Buffer.from([0x0a, 9])), undefined, 'not a Node');
    let deep: unknown = 'bottom';
    for (let depth = 0; depth < 100; depth++) deep = [deep];
    t.equal(of({ deep }), undefined, 'nested too deeply');
    t.end();
  },
);

t.test(
  'a forwarded Node is the received bytes, without the promises that only a receiver can make',
  (t) => {
    const feature = (text: string): readonly number[] => [0x52, text.length, ...Buffer.from(text)];
    const id = [0x0a, 1, 0x69];
    const kept = [...feature('envoy.lb.does_not_support_overprovisioning'), 0x78, 5];
    const plain = Buffer.from([...id, ...kept]);
    t.equal(forwardedNode(plain), plain, 'no copy');
    const wrapped = Buffer.from([
      ...feature('xds.config.resource-in-sotw'),
      ...id,
      ...feature('xds.config.supports-resource-in-sotw'),
      ...kept,
    ]);
    t.strictSame(Buffer.from(forwardedNode(wrapped)), plain);
    const broken = Buffer.from([0x52, 9]);
    t.equal(forwardedNode(broken), broken);
    t.end();
  },
);

import t from 'tap';
import fc from 'fast-check';
import { readConstraints } from '../../../protos/parameter-constraints.js';
import { encodeConstraints, type ConstraintFields } from '../../support/discovery-messages.js';

const value = (key: string, text: string): ConstraintFields => ({
  constraint: { key, value: text },
});
const exists = (key: string): ConstraintFields => ({ constraint: { key, exists: {} } });
const not = (one: ConstraintFields): ConstraintFields => ({ not_constraints: one });
const all = (...constraints: ConstraintFields[]): ConstraintFields => ({
  and_constraints: { constraints },
});
const any = (...constraints: ConstraintFields[]): ConstraintFields => ({
  or_constraints: { constraints },
});

function read(fields: ConstraintFields) {
  const constraints = readConstraints(encodeConstraints(fields));
  if (typeof constraints !== 'object') throw new Error(constraints ?? 'no constraints');
  return constraints;
}

const prod = value('env', 'prod');
const rows: readonly [ConstraintFields, string, Record<string, string>, boolean][] = [
  [prod, 'env=prod', { env: 'prod' }, true],
  [prod, 'env=prod', { env: 'test' }, false],
  [prod, 'env=prod', {}, false],
  // "that parameter does not prevent the constraints from matching"
  [prod, 'env=prod', { env: 'prod', version: 'v1' }, true],
  [exists('version'), 'version', { version: 'v9' }, true],
  [exists('version'), 'version', {}, false],
  [all(prod, not(exists('version'))), '(env=prod) and (not (version))', { env: 'prod' }, true],
  [
    all(prod, not(exists('version'))),
    '(env=prod) and (not (version))',
    { env: 'prod', version: 'v1' },
    false,
  ],
  [any(prod, value('env', 'test')), '(env=prod) or (env=test)', { env: 'test' }, true],
  [any(prod, value('env', 'test')), '(env=prod) or (env=test)', { env: 'qa' }, false],
  [any(), '(none)', {}, false],
  [all(), '(all)', {}, true],
  [not(all()), 'not ((all))', {}, false],
  [value('a b', '=()'), 'a%20b=%3D%28%29', { 'a b': '=()' }, true],
  // Not the text of the constraints that every client meets.
  [exists('(all)'), '%28all%29', { '(all)': '' }, true],
];
for (const [fields, text, parameters, matches] of rows) {
  const given = JSON.stringify(parameters);
  t.test(`${text} ${matches ? 'is met' : 'is not met'} by ${given} (TP2)`, (t) => {
    const constraints = read(fields);
    t.equal(constraints.text, text);
    t.equal(constraints.matches(new Map(Object.entries(parameters))), matches);
    t.strictSame(Buffer.from(constraints.bytes), Buffer.from(encodeConstraints(fields)));
    t.end();
  });
}

t.test('a message without constraints matches every client', (t) => {
  t.equal(readConstraints(new Uint8Array()), undefined);
  t.ok(read(not(not({}))).matches(new Map()));
  t.end();
});

const nested = (depth: number): ConstraintFields => (depth === 0 ? prod : not(nested(depth - 1)));

t.test('constraints that the gateway cannot judge are refused, not guessed', (t) => {
  const reasons: readonly [string, Uint8Array, RegExp][] = [
    ['no kind of match', encodeConstraints({ constraint: { key: 'env' } }), /how the key "env"/],
    ['an unknown type', Buffer.from([0x2a, 0]), /unknown field 5/],
    ['an unknown kind of match', Buffer.from([0x0a, 2, 0x22, 0]), /unknown field 4 for the key ""/],
    ['an unknown field of a list', Buffer.from([0x12, 2, 0x12, 0]), /unknown field 2 in a list/],
    ['too deep', encodeConstraints(nested(20)), /more than 16 deep/],
    ['too large', encodeConstraints(value('k', 'v'.repeat(5_000))), /at most 4096/],
    ['cut off', encodeConstraints(prod).subarray(0, 5), /cannot be read/],
  ];
  for (const [what, bytes, reason] of reasons) t.match(readConstraints(bytes), reason, what);
  t.ok(read(nested(16)).matches(new Map([['env', 'prod']])));
  t.end();
});

t.test('the last kind of match counts, as in a protobuf oneof', (t) => {
  const both = Buffer.concat([
    encodeConstraints(value('env', 'prod')),
    encodeConstraints(exists('env')),
  ]);
  t.match(readConstraints(both), { text: 'env' });
  const inside = Buffer.from([0x0a, 8, 0x0a, 1, 0x65, 0x1a, 0, 0x12, 1, 0x70]);
  t.match(readConstraints(inside), { text: 'e=p' }, 'exists, then a value');
  t.end();
});

t.test('any constraints hold exactly when a model says so', (t) => {
  const key = fc.constantFrom('a', 'b', '');
  const text = fc.constantFrom('1', '2');
  const { tree } = fc.letrec<{ tree: ConstraintFields }>((tie) => ({
    tree: fc.oneof(
      { maxDepth: 4 },
      fc.tuple(key, text).map(([k, v]) => value(k, v)),
      key.map(exists),
      tie('tree').map(not),
      fc.array(tie('tree'), { maxLength: 3 }).map((of) => all(...of)),
      fc.array(tie('tree'), { maxLength: 3 }).map((of) => any(...of)),
    ),
  }));
  const parameters = fc.dictionary(key, text);
  fc.assert(
    fc.property(tree, parameters, (fields, given) => {
      t.equal(read(fields).matches(new Map(Object.entries(given))), holds(fields, given));
    }),
  );
  t.end();
});

function holds(fields: ConstraintFields, given: Readonly<Record<string, string>>): boolean {
  const { constraint, or_constraints, and_constraints, not_constraints } = fields;
  if (constraint) {
    const own = Object.hasOwn(given, constraint.key) ? given[constraint.key] : undefined;
    return constraint.exists ? own !== undefined : own === constraint.value;
  }
  if (or_constraints) return or_constraints.constraints.some((one) => holds(one, given));
  if (and_constraints) return and_constraints.constraints.every((one) => holds(one, given));
  return !not_constraints || !holds(not_constraints, given);
}

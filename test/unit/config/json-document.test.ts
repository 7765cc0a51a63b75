/**
 * Goal: a JSON text is read as the YAML library reads it, without it.
 * Method: random JSON, beside the library; then texts that need it.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { jsonDocument } from '../../../config/json-document.js';
import { parseResourceFile } from '../../../config/resource-file.js';
import { readDocuments } from '../../../config/yaml-positions.js';

const slowly = (text: string) => readDocuments(text, 'x.json').documents[0];

t.test('JSON has the value that the YAML library finds, in any spelling', (t) => {
  fc.assert(
    fc.property(
      fc.oneof(fc.array(fc.jsonValue()), fc.dictionary(fc.string(), fc.jsonValue())),
      fc.constantFrom(0, 2),
      (value, indent) => {
        const text = JSON.stringify(value, null, indent);
        const read = jsonDocument(text, 'x.json', () => assert.fail('not needed'));
        assert.ok(read, text);
        const other = slowly(text);
        // It refuses keys of more than 1,024 characters.
        if (other) assert.equal(JSON.stringify(read.value), JSON.stringify(other.value));
      },
    ),
    { numRuns: 500 },
  );
  t.pass();
  t.end();
});

t.test('other texts, and duplicate keys, are left to the YAML library', (t) => {
  for (const text of [
    'a: 1',
    '{ a: 1 }',
    '{ "a": 1 } # comment',
    '{ "a": 1, "a": 2 }',
    '[{ "b": { "a": 1, "a": 1 } }]',
    '"text"',
    '',
    '{',
  ]) {
    t.equal(
      jsonDocument(text, 'x.json', () => undefined),
      undefined,
      text,
    );
  }
  t.ok(jsonDocument('{ "a\\\\": ":\\":", "b": [":"] }', 'x.json', () => undefined));
  t.end();
});

t.test('a problem has the position that the library finds', (t) => {
  const text = '{\n  "resources": [ 1,\n  2 ]\n}';
  const document = jsonDocument(text, 'x.json', () => slowly(text));
  t.match(document?.problem(['resources', 1], 'wrong'), { file: 'x.json', line: 3, column: 3 });
  t.match(document?.problem(['resources', 0], 'wrong'), { line: 2 });
  const refused = jsonDocument('{}', 'x.json', () => undefined);
  t.strictSame(refused?.problem(['a'], 'wrong', 'mend it'), {
    file: 'x.json',
    line: 1,
    column: 1,
    field: '',
    message: 'wrong',
    remedy: 'mend it',
  });
  t.end();
});

t.test(
  'a text that nests deeply is refused at the place where it does, as YAML and as JSON',
  (t) => {
    const type = 'type.googleapis.com/envoy.config.cluster.v3.Cluster';
    const deep = `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`;
    const nested = `{ "@type": "${type}",\n"name": "a", "metadata": { "filter_metadata": { "x": ${deep} } } }`;
    for (const [text, line] of [
      [`${'['.repeat(100_000)}${']'.repeat(100_000)}`, 1],
      [nested, 2],
      ['- '.repeat(50_000), 1],
      ['? '.repeat(50_000), 1],
      [Array.from({ length: 1_000 }, (_, level) => `${' '.repeat(level)}a:`).join('\n'), 201],
    ] as const) {
      t.match(parseResourceFile(text, 'x.json'), {
        ok: false,
        problems: [{ line, message: /nested more than 200 levels deep/ }],
      });
    }
    t.match(parseResourceFile(`[{ "${'k'.repeat(2_000)}": 1 }]`, 'x.json'), { ok: false });
    t.end();
  },
);

t.test('a text of 200 levels is read', (t) => {
  for (const text of [`${'['.repeat(200)}a${']'.repeat(200)}`, `${'- '.repeat(200)}a`]) {
    const { problems } = parseResourceFile(text, 'x.yaml') as { problems: readonly unknown[] };
    t.match(problems, [{ message: /must be an object/ }]);
  }
  t.end();
});

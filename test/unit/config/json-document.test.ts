/**
 * Goal: a JSON text is read as the YAML library reads it, without it.
 * Method: random JSON, beside the library; then texts that need it.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { jsonDocument } from '../../../config/json-document.js';
import { readDocuments } from '../../../config/yaml-positions.js';

const slowly = (text: string) => readDocuments(text, 'x.json').documents[0];

t.test('JSON has the value that the YAML library finds, in any spelling', (t) => {
  fc.assert(
    fc.property(
      fc.oneof(fc.array(fc.jsonValue()), fc.dictionary(fc.string(), fc.jsonValue())),
      fc.constantFrom(0, 2),
      (value, indent) => {
        const text = JSON.stringify(value, null, indent);
        const read = jsonDocument(text, () => assert.fail('not needed'));
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
      jsonDocument(text, () => undefined),
      undefined,
      text,
    );
  }
  t.ok(jsonDocument('{ "a\\\\": ":\\":", "b": [":"] }', () => undefined));
  t.end();
});

t.test('a problem has the position that the library finds', (t) => {
  const text = '{\n  "resources": [ 1,\n  2 ]\n}';
  const document = jsonDocument(text, () => slowly(text));
  t.match(document?.problem(['resources', 1], 'wrong'), { file: 'x.json', line: 3, column: 3 });
  t.match(document?.problem(['resources', 0], 'wrong'), { line: 2 });
  t.throws(() => jsonDocument('{}', () => undefined)?.problem([], 'wrong'), /cannot read/);
  t.end();
});

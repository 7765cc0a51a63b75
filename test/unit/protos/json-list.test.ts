/**
 * Goal: the elements of a list in a JSON text are those of `JSON.parse`, whatever else the text has, and a text that is
 * no JSON is none in parts either.
 * Method: properties against `JSON.parse`.
 */
import fc from 'fast-check';
import t from 'tap';
import { listInJson } from '../../../protos/json-list.js';
import { finished } from '../../support/finished.js';

/** What `JSON.parse` gives, by parts; throws SyntaxError as it does. */
function parsed(text: string): unknown {
  const { elements, rest } = finished(listInJson(text, 'resources'));
  const value = JSON.parse(rest) as unknown;
  const list = elements.map(({ start, end }) => JSON.parse(text.slice(start, end)) as unknown);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return list.length > 0 ? { ...value, resources: list } : value;
}

t.test('a valid text gives the same as JSON.parse', (t) => {
  const value = fc.jsonValue();
  const texts = fc.oneof(
    fc.jsonValue(),
    fc.record({ resources: fc.array(value), b: value, '"resources"': value }, { requiredKeys: [] }),
    fc.record({ a: value, resources: value, nested: fc.record({ resources: fc.array(value) }) }),
  );
  fc.assert(
    fc.property(texts, fc.constantFrom(undefined, 1, '\t'), (value, space) => {
      const text = JSON.stringify(value, null, space);
      t.strictSame(parsed(text), JSON.parse(text));
    }),
    { numRuns: 2_000 },
  );
  t.end();
});

t.test('a text with one character changed is JSON in parts exactly if it is JSON', (t) => {
  const original =
    '{"a": ["resources", "\\\\"], "resources" : [{"b": "]},\\"["}, [1, [2]], 3], "c": {}}';
  const characters = fc.constantFrom(...Array.from('{}[],:"\\ a1'));
  fc.assert(
    fc.property(fc.nat(original.length), fc.nat(2), characters, (at, cut, character) => {
      const text = original.slice(0, at) + character + original.slice(at + cut);
      const results = [parsed, JSON.parse].map((parse: (text: string) => unknown) => {
        try {
          return parse(text);
        } catch (error) {
          return (error as Error).name;
        }
      });
      t.strictSame(results[0], results[1], text);
    }),
    { numRuns: 5_000 },
  );
  t.end();
});

t.test('of several lists the last one counts', (t) => {
  const text = '{"resources": [1, 2], "a": 1, "resources": [3], "b": 2}';
  t.strictSame(parsed(text), JSON.parse(text));
  t.end();
});

t.test('a long text takes many steps', (t) => {
  const resources = Array.from({ length: 20_000 }, (_, at) => ({ at }));
  let steps = 0;
  for (const work = listInJson(JSON.stringify({ resources }), 'resources'); ; steps++) {
    const { done, value } = work.next();
    if (done !== true) continue;
    t.equal(value.elements.length, 20_000);
    break;
  }
  t.ok(steps >= 3);
  t.end();
});

/**
 * Goal: docs/MAP.md lists every key of the authority map, with an example that the gateway accepts.
 * Method: the page is compared with what the schema gives; each example is read as a map.
 */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { parseAuthorityMap } from '../../../config/authority-map.js';
import { MAP_EXAMPLES } from '../../../config/map-examples.js';
import { keysOf, mapReference } from '../../../config/map-reference.js';
import { formatProblem } from '../../../config/problems.js';

t.test('docs/MAP.md is what the schema and the examples give', (t) => {
  const page = readFileSync(new URL('../../../../docs/MAP.md', import.meta.url), 'utf8');
  t.equal(page, mapReference(), 'npm run references writes it');
  t.match(page, '| `hold` | duration | `30s` |');
  t.end();
});

t.test('docs/MAP.md: each example is a valid map with every key of its section', (t) => {
  for (const [name, text] of Object.entries(MAP_EXAMPLES)) {
    const read = parseAuthorityMap(text, { file: `${name}.yaml` });
    t.same(read.ok ? [] : read.problems.map(formatProblem), [], name);
    const missing = keysOf(name).filter((key) => !new RegExp(`\\b${key}:`).test(text));
    t.same(missing, name === 'CallCredentials' ? ['from_plugin'] : [], `keys of ${name}`);
  }
  t.end();
});

/** Goal: each planted bug of the simulation still changes the code that it names. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { CONTENT_MUTATIONS } from '../../sim/content-mutations.js';
import { GROUP_MUTATIONS } from '../../sim/group-mutations.js';
import { MUTATIONS } from '../../sim/mutations.js';
import { RIGHTS_MUTATIONS } from '../../sim/rights-mutations.js';
import { SOTW_MUTATIONS } from '../../sim/sotw-mutations.js';
import { SOURCE_MUTATIONS } from '../../sim/source-mutations.js';

const ALL = [
  ...MUTATIONS,
  ...SOTW_MUTATIONS,
  ...SOURCE_MUTATIONS,
  ...GROUP_MUTATIONS,
  ...RIGHTS_MUTATIONS,
  ...CONTENT_MUTATIONS,
];
const root = new URL('../../../../', import.meta.url);

t.test('the code that a planted bug replaces occurs once in the file that it names', (t) => {
  const titles = new Set<string>();
  for (const { title, file, from, to } of ALL) {
    const source = readFileSync(new URL(file, root), 'utf8');
    t.equal(source.split(from).length - 1, 1, `${title}: ${file}`);
    t.not(from, to, title);
    titles.add(title);
  }
  t.equal(titles.size, ALL.length, 'each has a title of its own');
  t.end();
});

t.test('the test that finds a planted bug is in the file that the bug names', (t) => {
  const found = ALL.flatMap(({ unitTest }) => (unitTest ? [unitTest] : []));
  t.ok(found.length > 0);
  for (const { file, title } of found) {
    const source = readFileSync(new URL(file, root), 'utf8');
    t.equal(source.split(`'${title}'`).length - 1, 1, `${file}: ${title}`);
  }
  t.end();
});

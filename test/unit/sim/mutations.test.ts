/** Goal: each planted bug of the simulation still changes the code that it names. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { MUTATIONS } from '../../sim/mutations.js';
import { SOTW_MUTATIONS } from '../../sim/sotw-mutations.js';
import { SOURCE_MUTATIONS } from '../../sim/source-mutations.js';

const root = new URL('../../../../', import.meta.url);

t.test('the code that a planted bug replaces occurs once in the file that it names', (t) => {
  const titles = new Set<string>();
  for (const { title, file, from, to } of [...MUTATIONS, ...SOTW_MUTATIONS, ...SOURCE_MUTATIONS]) {
    const source = readFileSync(new URL(file, root), 'utf8');
    t.equal(source.split(from).length - 1, 1, `${title}: ${file}`);
    t.not(from, to, title);
    titles.add(title);
  }
  t.equal(
    titles.size,
    MUTATIONS.length + SOTW_MUTATIONS.length + SOURCE_MUTATIONS.length,
    'each has a title of its own',
  );
  t.end();
});

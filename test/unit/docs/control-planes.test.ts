/**
 * Goal: each authority map in docs/CONTROL-PLANES.md is valid.
 * Method: the YAML blocks are parsed as maps; the files that they name are not looked for.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';

import { parseAuthorityMap } from '../../../config/authority-map.js';

const file = join(
  fileURLToPath(new URL('../../../../', import.meta.url)),
  'docs/CONTROL-PLANES.md',
);
const sections = readFileSync(file, 'utf8').split(/^## /m).slice(1);

t.test('each authority map in docs/CONTROL-PLANES.md is valid', (t) => {
  const maps = sections.flatMap((section) => {
    const [, yaml] = /```yaml\n(.*?)```/s.exec(section) ?? [];
    return yaml === undefined ? [] : [{ title: section.slice(0, section.indexOf('\n')), yaml }];
  });
  t.ok(maps.length >= 10, `${maps.length} maps`);
  for (const { title, yaml } of maps) {
    const result = parseAuthorityMap(yaml, { file });
    t.strictSame(result.ok ? [] : result.problems, [], title);
  }
  t.end();
});

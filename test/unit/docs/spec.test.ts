/** Goal: docs/SPEC.md names tests that exist, so that a renamed test does not leave an invariant unheld. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';

const root = fileURLToPath(new URL('../../../../', import.meta.url));
const sources = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.test.ts'))
  .map((file) => readFileSync(join(root, 'test', file), 'utf8'))
  .join('\n');
const rows = readFileSync(join(root, 'docs/SPEC.md'), 'utf8')
  .split('\n')
  .filter((line) => /^\| \d+ \|/.test(line));

t.test('every invariant is there, and every test that is said to hold it', (t) => {
  const numbers = rows.map((row) => Number(row.split('|')[1]));
  const all = Array.from({ length: 22 }, (_, at) => at + 1);
  t.strictSame(numbers, all);
  for (const row of rows) {
    const [, number, , heldBy = ''] = row.split('|');
    t.not(heldBy.trim(), '', `invariant ${String(number)} is held by something`);
    for (const [, title = ''] of heldBy.matchAll(/`([^`]+)`/g)) {
      if (/\.(js|cjs)$/.test(title)) continue;
      t.ok(sources.includes(title), title);
    }
  }
  t.end();
});

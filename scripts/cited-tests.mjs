/**
 * Checks that each test that docs/SPEC.md cites has run and passed. `scripts/test.mjs` calls it after
 * all tiers; the TAP output of each step is in build/tap.
 *
 * test/unit/docs/spec.test.ts checks sooner, and without running it, that a cited title is one.
 */
import { readdirSync, readFileSync } from 'node:fs';

const passed = new Set();
for (const file of readdirSync('build/tap')) {
  const output = readFileSync(`build/tap/${file}`, 'utf8');
  for (const [, title, directive = ''] of output.matchAll(
    /^ *ok \d+ - (.*?)(?: # (SKIP|TODO|time).*)?(?: \{)?$/gim,
  )) {
    // TAP escapes these characters.
    if (!/skip|todo/i.test(directive)) passed.add(title.replaceAll(/\\([#\\])/g, '$1'));
  }
}

const rows = readFileSync('docs/SPEC.md', 'utf8')
  .split('\n')
  .filter((line) => /^\| \d+ \|/.test(line));
const cited = rows.flatMap((row) => [...(row.split('|')[3] ?? '').matchAll(/`([^`]+)`/g)]);
const missing = cited
  .map(([, title]) => title)
  .filter((title) => !/\.c?js$/.test(title) && !passed.has(title));
for (const title of missing) console.error(`docs/SPEC.md cites a test that did not pass: ${title}`);
console.log(`${cited.length} citations of tests, ${missing.length} without a test that passed`);
process.exitCode = missing.length === 0 ? 0 : 1;

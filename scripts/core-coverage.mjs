/** Fails unless the preceding unit tests covered every line, branch and function of the cores. */
import { readFileSync } from 'node:fs';
import { relative } from 'node:path';

const summary = JSON.parse(readFileSync('.tap/report/coverage-summary.json', 'utf8'));
const cores = Object.entries(summary)
  .map(([file, numbers]) => [relative(process.cwd(), file), numbers])
  .filter(([file]) => /^(authorities|gateway)\/core\//.test(file));
const gaps = cores.flatMap(([file, numbers]) =>
  ['lines', 'branches', 'functions']
    .filter((kind) => numbers[kind].pct < 100)
    .map((kind) => `${file}: ${numbers[kind].pct} % of ${kind}`),
);
for (const gap of gaps) console.log(gap);
console.log(`${cores.length} files of the cores, ${gaps.length} coverage gaps`);
process.exit(gaps.length === 0 && cores.length > 0 ? 0 : 1);

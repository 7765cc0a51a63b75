/**
 * Plants each bug of the table in a copy of the build and runs the simulation against it: `npm run
 * sim:mutations [-- words of a title]`. With `--share 1/2`, only every second one, for two processes.
 * Prints the seed that found each bug; fails if any was not found, or if that seed fails without the bug too.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import ts from 'typescript';
import {
  CONTENT_PARTS,
  LATEST_PARTS,
  LIST_PARTS,
  PORTION_PARTS,
  RIGHTS_PARTS,
  VARIANT_PARTS,
} from './extras.js';
import { CONTENT_MUTATIONS } from './content-mutations.js';
import { GROUP_MUTATIONS } from './group-mutations.js';
import type { Mutation, UnitTest } from './mutation.js';
import { MUTATIONS } from './mutations.js';
import { RIGHTS_MUTATIONS } from './rights-mutations.js';
import { SOTW_MUTATIONS } from './sotw-mutations.js';
import { SOURCE_MUTATIONS } from './source-mutations.js';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const COPY = join(ROOT, `build-mutant-${process.pid}`);
const RUNS = 2_000;
const LATER_MUTATIONS = [
  ...SOURCE_MUTATIONS,
  ...GROUP_MUTATIONS,
  ...RIGHTS_MUTATIONS,
  ...CONTENT_MUTATIONS,
];
/** The other bugs are found in the worlds of their time. */
const LATER = [
  ...VARIANT_PARTS,
  ...LATEST_PARTS,
  ...RIGHTS_PARTS,
  ...PORTION_PARTS,
  ...LIST_PARTS,
  ...CONTENT_PARTS,
  'spoil',
];

const { values, positionals } = parseArgs({
  options: { share: { type: 'string', default: '1/1' } },
  allowPositionals: true,
});
const [which = 1, of = 1] = values.share.split('/').map(Number);
const wanted = positionals.join(' ');
const chosen = [...MUTATIONS, ...SOTW_MUTATIONS, ...LATER_MUTATIONS]
  .filter(({ title }) => title.includes(wanted))
  .filter((_, at) => at % of === which - 1);
let missed = 0;
const began = performance.now();
for (const mutation of chosen) {
  const startedMs = performance.now();
  const found = search(mutation);
  if (!found) missed++;
  const seconds = ((performance.now() - startedMs) / 1_000).toFixed(0).padStart(4);
  console.log(`${seconds} s  ${mutation.title}: ${found ?? 'NOT FOUND'}`);
}
rmSync(COPY, { recursive: true, force: true });
console.log(`${missed} not found, ${((performance.now() - began) / 1_000).toFixed(0)} s`);
process.exitCode = missed === 0 ? 0 : 1;

/** @returns the broken rule and the seed that found it, or the unit test; undefined: not found. */
function search(mutation: Mutation): string | undefined {
  const { file, from, to, unitTest } = mutation;
  const source = readFileSync(join(ROOT, file), 'utf8');
  if (source.split(from).length !== 2)
    throw new Error(`${file} does not contain this exactly once: ${from}`);
  rmSync(COPY, { recursive: true, force: true });
  const left = unitTest ? /build\/(benchmarks|test\/int)/ : /build\/(benchmarks|test\/(unit|int))/;
  cpSync(join(ROOT, 'build'), COPY, {
    recursive: true,
    filter: (path) => !/\.(map|d\.ts)$/.test(path) && !left.test(path),
  });
  const { outputText } = ts.transpileModule(
    source.replace(from, () => to),
    {
      compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ES2022 },
    },
  );
  writeFileSync(join(COPY, file.replace(/\.ts$/, '.js')), outputText);
  return unitTest ? failureOf(unitTest) : brokenSeed(mutation);
}

/** @returns the test's line if it fails. */
function failureOf({ file, title }: UnitTest): string | undefined {
  const test = join(COPY, file.replace(/\.ts$/, '.js'));
  const { stdout } = spawnSync(process.execPath, [test], { encoding: 'utf8', timeout: 600_000 });
  return stdout.split('\n').find((line) => line.startsWith('not ok') && line.includes(title));
}

function brokenSeed(mutation: Mutation): string | undefined {
  const script = join(COPY, 'test/sim/main.js');
  const worlds = LATER_MUTATIONS.includes(mutation) ? [] : ['--without', LATER.join()];
  const args = [script, '--runs', String(RUNS), ...worlds, '--most', '1'];
  const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 600_000 });
  const [line, seed = ''] = /^seed (\d+) .*$/m.exec(stdout) ?? [];
  if (line !== undefined) refuseIfAlwaysBroken(seed, worlds);
  return line?.slice(0, 150);
}

/** A seed that fails without the bug does not show that the bug is found. */
function refuseIfAlwaysBroken(seed: string, worlds: readonly string[]): void {
  const args = [join(ROOT, 'build/test/sim/main.js'), '--seed', seed, ...worlds];
  const { status } = spawnSync(process.execPath, args, { timeout: 600_000 });
  if (status !== 0)
    throw new Error(
      `seed ${seed} fails without the bug: npm run sim -- ${args.slice(1).join(' ')}`,
    );
}

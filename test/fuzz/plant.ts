/**
 * Plants each bug of the table in a copy of the build and fuzzes its target: `npm run fuzz:planted
 * [-- words of a title]`. Prints the findings; fails if a bug was not found.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { PLANTED, type PlantedBug } from './planted.js';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const COPY = join(ROOT, 'build-planted');
const TEN_MINUTES_MS = 600_000;

const wanted = process.argv.slice(2).join(' ');
let missed = 0;
for (const bug of PLANTED.filter(({ title }) => title.includes(wanted))) {
  const startedMs = performance.now();
  const found = search(bug);
  if (found === undefined) missed++;
  const seconds = ((performance.now() - startedMs) / 1_000).toFixed(0).padStart(4);
  console.log(`${seconds} s  ${bug.target}: ${bug.title}: ${found ?? 'NOT FOUND'}`);
}
rmSync(COPY, { recursive: true, force: true });
process.exitCode = missed === 0 ? 0 : 1;

/** @returns the start of the failure's text. */
function search({ file, from, to, target }: PlantedBug): string | undefined {
  const source = readFileSync(join(ROOT, file), 'utf8');
  if (source.split(from).length !== 2)
    throw new Error(`${file} does not contain this exactly once: ${from}`);
  rmSync(COPY, { recursive: true, force: true });
  cpSync(join(ROOT, 'build'), COPY, {
    recursive: true,
    filter: (path) => !/\.(map|d\.ts)$/.test(path),
  });
  const { outputText } = ts.transpileModule(
    source.replace(from, () => to),
    { compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ES2022 } },
  );
  writeFileSync(join(COPY, file.replace(/\.ts$/, '.js')), outputText);
  const args = target === 'linear' ? ['--linear'] : ['--target', target, '--most', '1'];
  const script = join(COPY, 'test/fuzz/main.js');
  const { status, stdout } = spawnSync(process.execPath, [script, ...args], {
    encoding: 'utf8',
    timeout: TEN_MINUTES_MS,
  });
  if (status === 0) return undefined;
  return stdout.trim().split('\n')[0]?.slice(0, 150);
}

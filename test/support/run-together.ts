/**
 * Runs all test files of a folder in one process. A small test spends most of its time starting its
 * process, and under coverage each process writes a report that must be merged. The files share no
 * state: each also runs alone, as `node build/test/…/name.test.js`.
 */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';

const WITHIN_MS = 600_000;

/** @param folder absolute path; subfolders with a `together.js` of their own are skipped. */
export async function runTogether(folder: string): Promise<void> {
  t.setTimeout(WITHIN_MS);
  for (const file of testsIn(folder)) await import(pathToFileURL(file).href);
}

function testsIn(folder: string): readonly string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (!entry.isDirectory()) return entry.name.endsWith('.test.js') ? [path] : [];
    return existsSync(join(path, 'together.js')) ? [] : testsIn(path);
  });
}

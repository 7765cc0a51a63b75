import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The compiler's output folder: `build/` beside the sources. */
const buildRoot = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
export const projectRoot = dirname(buildRoot);

/** A script of this build, e.g. `gateway/main.js`. */
export function built(script: string): string {
  return join(buildRoot, script);
}

/** A binary built by benchmarks/provision.mjs. */
export function peerBinary(name: string): string {
  const path = join(projectRoot, '.provisioned', 'bench', name);
  if (!existsSync(path)) throw new Error(`no ${path}: run node benchmarks/provision.mjs first`);
  return path;
}

/** Git-ignored. */
export const resultsFolder = join(projectRoot, '.provisioned', 'bench-results');

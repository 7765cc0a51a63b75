/**
 * Builds the Go peers of the benchmarks (load generator, Go floor, LinearCache server, control plane)
 * into `.provisioned/bench/` (git-ignored), pinned by benchmarks/peers/go.sum. Needs Go.
 *
 *   node benchmarks/provision.mjs
 *
 * Builds every time: Go's own cache makes that quick when nothing has changed.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const benchmarks = dirname(fileURLToPath(import.meta.url));
const out = join(dirname(benchmarks), '.provisioned', 'bench');
mkdirSync(out, { recursive: true });
execFileSync('go', ['build', '-trimpath', '-o', `${out}/`, './cmd/...'], {
  cwd: join(benchmarks, 'peers'),
  stdio: 'inherit',
});

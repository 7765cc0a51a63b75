/**
 * `npm start`: compiles what changed, shows each step, and serves examples/quickstart.
 *
 *   npm start
 *   npm start -- --port-offset 10      beside another gateway: moves all ports
 *   npm start -- --help                all flags of the gateway
 *
 * Ends with the exit code of the gateway, or of the step that failed.
 */
import { spawn } from 'node:child_process';
import { chmodSync, existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

const MAP = 'examples/quickstart/authority-map.yaml';
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const first = existsSync(`${root}/build/.tsbuildinfo`) ? '' : ' (the first time, about a minute)';

// The terminal sends Ctrl-C to the child too. The child ends by itself; this process waits for it.
process.on('SIGINT', () => {});

/** Runs Node.js with these arguments; resolves with its exit code. */
function run(args) {
  const child = spawn(process.execPath, args, { cwd: root, stdio: 'inherit' });
  const forward = (signal) => child.kill(signal);
  process.on('SIGTERM', forward);
  return new Promise((resolve) => {
    child.on('exit', (code) => {
      process.off('SIGTERM', forward);
      resolve(code ?? 1);
    });
  });
}

/** Runs a step of the build: says what it does, then how long it took. */
async function step(title, args) {
  process.stderr.write(`${title} …\n`);
  const startedMs = performance.now();
  const code = await run(args);
  if (code !== 0) process.exit(code);
  process.stderr.write(`  done in ${((performance.now() - startedMs) / 1000).toFixed(1)} s\n`);
}

await step(`1/3 Compiling TypeScript${first}`, [
  'node_modules/typescript/bin/tsc',
  '-p',
  'tsconfig.json',
]);
// npx sets it only once, and a new build loses it.
chmodSync(`${root}/build/gateway/main.js`, 0o755);
await step('2/3 Compiling the Envoy API', ['scripts/build-descriptors.mjs']);
process.stderr.write(`3/3 Serving ${MAP}; Ctrl-C stops it\n`);
process.exit(
  await run(['build/gateway/main.js', 'serve', '--authority-map', MAP, ...process.argv.slice(2)]),
);

/**
 * The whole test command: build, the checks by machine, then the tests by tier, fastest first.
 *
 *   node scripts/test.mjs [unit|simulation|fuzz|integration|interop|checks …]     default: all
 *
 * Each step prints its time. It stops at the first step that fails, and says which.
 */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { dirname } from 'node:path';

const CI = process.env.CI === 'true';
const bin = (name) => `node_modules/.bin/${name}`;
const tests = (folder, wanted = () => true) =>
  readdirSync(`build/test/${folder}`, { recursive: true })
    .map((file) => `build/test/${folder}/${file}`)
    .filter((file) => file.endsWith('.test.js') && wanted(file));
const tap = (files, ...args) => [bin('tap'), 'run', '--reporter=terse', ...args, ...files];
const alone = ['--disable-coverage', '--jobs=1'];
// These mostly wait: for sockets, for processes, for real peers.
const several = (jobs) => ['--disable-coverage', `--jobs=${jobs}`];
// These compare times or memory, or count calls that have a deadline: nothing runs beside them.
const isTimed = (file) => /integration\/memory\.|interop\/(failover|nats|grpc-.*)\./.test(file);
const isUntimed = (file) => !isTimed(file);

// Where a folder has a `together.js`, that one process runs its tests (test/support/run-together.ts).
const runnerOf = (file, folder = dirname(file)) =>
  folder === 'build/test'
    ? file
    : existsSync(`${folder}/together.js`)
      ? `${folder}/together.js`
      : runnerOf(file, dirname(folder));
const units = (wanted) => [...new Set(tests('unit').map((file) => runnerOf(file)))].filter(wanted);
// The cores have to be covered completely. Coverage of the rest is not measured: it takes long.
const ofCores = (file) => /unit\/(authorities|gateway\/core)\//.test(file);
const ofSimulation = (file) => /unit\/sim\//.test(file);
const withCoverage = ['--allow-incomplete-coverage', '--coverage-report=json-summary'];

const steps = [
  { tier: 'build', title: 'build', run: () => [['npm', 'run', '--silent', 'build']] },
  {
    tier: 'checks',
    title: 'lint, format and dependency rules',
    run: () => [
      [bin('eslint'), '--max-warnings', '0', '.'],
      [bin('prettier'), '--check', '--log-level', 'warn', '.'],
      ['npm', 'run', '--silent', 'deps'],
    ],
  },
  {
    tier: 'unit',
    title: 'unit tests of the cores',
    run: () => [tap(units(ofCores), ...withCoverage)],
  },
  {
    tier: 'unit',
    title: 'coverage of the cores',
    run: () => [['node', 'scripts/core-coverage.mjs']],
  },
  {
    tier: 'unit',
    title: 'other unit tests',
    run: () => [
      tap(
        units((file) => !ofCores(file) && !ofSimulation(file)),
        '--disable-coverage',
      ),
    ],
  },
  {
    tier: 'simulation',
    title: 'simulation',
    run: () => [tap(units(ofSimulation), ...alone)],
  },
  // What no developer waits for at each change.
  {
    tier: 'simulation',
    title: 'simulation of 10,000 seeds',
    run: () => [['node', 'build/test/sim/main.js']],
    isFor: CI,
  },
  // A million messages for each type in CI; some thousands tell of what was broken just now.
  {
    tier: 'fuzz',
    title: 'fuzzing',
    run: () => [['node', 'build/test/fuzz/main.js', ...(CI ? [] : ['--messages', '10000'])]],
  },
  {
    tier: 'integration',
    title: 'integration tests',
    run: () => [tap(tests('integration', isUntimed), ...several(2))],
  },
  {
    tier: 'integration',
    title: 'integration tests that need the machine for themselves',
    run: () => [tap(tests('integration', isTimed), ...alone)],
  },
  // Where a tool is missing on a developer's own machine, its tests say so and are skipped.
  {
    tier: 'interop',
    title: 'provision real peers',
    run: () => [['node', 'scripts/provision.mjs']],
    mayFail: !CI,
  },
  {
    tier: 'interop',
    title: 'tests with real peers',
    run: () => [tap(tests('interop', isUntimed), ...several(3))],
  },
  {
    tier: 'interop',
    title: 'tests with real peers that need the machine for themselves',
    run: () => [tap(tests('interop', isTimed), ...alone)],
  },
];

let passed = 0;
let failed = 0;

/** Runs one command, passes its output on, and adds up tap's totals. */
function perform([command, ...args]) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'], env: process.env });
    let tail = '';
    child.stdout.setEncoding('utf8');
    child.stdout.on('data', (text) => {
      process.stdout.write(text);
      tail = (tail + text).slice(-4_000);
    });
    child.on('close', (code) => {
      const total = /^# \{ total: (\d+), pass: (\d+)(?:, fail: (\d+))?/m.exec(tail);
      passed += Number(total?.[2] ?? 0);
      failed += Number(total?.[3] ?? 0);
      resolve(code ?? 1);
    });
  });
}

const wanted = new Set(process.argv.slice(2));
let exitCode = 0;
for (const { tier, title, run, mayFail, isFor = true } of steps) {
  if (!isFor) continue;
  if (wanted.size > 0 && tier !== 'build' && !wanted.has(tier)) continue;
  const startedMs = performance.now();
  console.log(`\n=== ${title}`);
  // The commands of one step run at once.
  exitCode = Math.max(...(await Promise.all(run().map(perform))));
  console.log(`=== ${title}: ${((performance.now() - startedMs) / 1000).toFixed(1)} s`);
  if (exitCode === 0) continue;
  if (mayFail) {
    console.log(`=== ${title} failed; the tests that need it are skipped`);
    exitCode = 0;
    continue;
  }
  console.log(`=== ${title} failed`);
  break;
}
console.log(`\ntests: ${passed} passed, ${failed} failed`);
process.exit(exitCode);

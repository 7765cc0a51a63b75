/**
 * Runs all tests: the build, static checks, then the test tiers, fastest first.
 *
 *   node scripts/test.mjs [checks|unit|simulation|fuzz|integration|attacks|interop|citations …] [WORD …]
 *
 * Default: all tiers, the attacks in CI only. With another word, such as `attacks admin`, only the attacks in files with this word
 * in their name.
 * Prints the time of each step. Stops at the first failed step and names it.
 *
 * Steps with `beside` run one after the other, beside the other steps, at the lowest priority. They pause while a step with
 * `isQuiet` runs. Steps with `ahead` begin before all others, also at the lowest priority; when their turn comes, the script waits
 * for them and shows their output.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { available } from './provision.mjs';

const asked = process.argv.slice(2);
const CI = process.env.CI === 'true';
// The attacks take six minutes: with the rest, more than a developer waits.
const isAttacked = CI || asked.includes('attacks');
const bin = (name) => `node_modules/.bin/${name}`;
// tap runs the files in the order of their names: a long test with a late name would be waited for alone.
const tests = (folder, wanted = () => true) =>
  readdirSync(`build/test/${folder}`, { recursive: true })
    .map((file) => `build/test/${folder}/${file}`)
    .filter((file) => file.endsWith('.test.js') && wanted(file));
const OUTPUT = '--output-file=';
// Each wait in a test has a deadline of its own. This one, in seconds, only ends a file that hangs.
const FILE_TIMEOUT = '--timeout=120';
const WITHOUT_COVERAGE = '--disable-coverage';
let taps = 0;
const tap = (files, ...args) => {
  // Without files, tap would run every test that it finds.
  if (files.length === 0) throw new Error(`no test file has the word ${words.join(' or ')}`);
  const output = `${OUTPUT}build/tap/${++taps}.tap`;
  const hooks = args.includes(WITHOUT_COVERAGE) ? ['--import=./scripts/plain-tap.mjs'] : [];
  const runner = ['node', ...hooks, bin('tap'), 'run', '--reporter=terse'];
  return [...runner, FILE_TIMEOUT, output, ...args, ...files];
};
/** Without tap's runner, beside it. */
const plainly = (file) => [
  'node',
  'scripts/plain-test.mjs',
  `${OUTPUT}build/tap/${++taps}.tap`,
  file,
];
// Integration and interop tests mostly wait for sockets, processes and real peers.
const several = (jobs) => [WITHOUT_COVERAGE, `--jobs=${jobs}`];
const alone = several(1);
// Tests that compare times or memory, or count calls with a deadline. They run without others, or with few.
const isTimed = (file) =>
  /integration\/memory\.|interop\/(failover|nats|nats-outage|grpc-.*)\./.test(file);
const isFailover = (file) => /interop\/failover\./.test(file);
/** It compares times, too, but mostly waits: beside the others it costs no time. */
const isWaiting = (file) => /interop\/nats-outage\./.test(file);
const isUntimed = (file) => !isTimed(file);
// Attacks that are judged by wall time, or whose longest turn is so near the bar that a test on the other core would decide.
const isNearBar = (file) =>
  /attacks\/(admin|bursts|files|map-writes|remembered|storm)\./.test(file);
const isChosen = (file) => words.length === 0 || words.some((word) => file.includes(word));
/** The attacks of this kind that were asked for; possibly none. */
const attacks = (wanted, ...args) => {
  const chosen = tests('attacks', isChosen);
  const files = chosen.filter(wanted);
  return chosen.length > 0 && files.length === 0 ? [] : [tap(files, ...args)];
};

// A folder's `together.js` runs all its tests in one process (test/support/run-together.ts).
const runnerOf = (file, folder = dirname(file)) =>
  folder === 'build/test'
    ? file
    : existsSync(`${folder}/together.js`)
      ? `${folder}/together.js`
      : runnerOf(file, dirname(folder));
const units = (wanted) => [...new Set(tests('unit').map((file) => runnerOf(file)))].filter(wanted);
// The cores need full coverage. Coverage of other code is not measured, since measuring is slow.
const ofCores = (file) => /unit\/(authorities|gateway\/core)\//.test(file);
const ofSimulation = (file) => /unit\/sim\//.test(file);
const withCoverage = ['--allow-incomplete-coverage', '--coverage-report=json-summary'];

// CI runs on the oldest supported Node.js; sockets, TLS and HTTP/2 may behave differently on the recommended one.
const onNode24 = ([, ...args]) => [available()['node-24'].path, ...args];
const isOnNode24 = process.versions.node.startsWith('24.');
// The long runs of pure code take a quarter less CPU there: V8 has one more compiler. The unit tests of the cores, some
// hundred simulated worlds and the fuzzer's own tests run on the oldest one, too.
const onFaster = (command) => (CI && !isOnNode24 ? onNode24(command) : command);
const isShort = (file) => !/integration\/(memory|churn)\./.test(file);
// They judge what the documents and the messages say, and what npm packs; no socket, TLS or HTTP/2 is their subject.
const isOnText = (file) =>
  /integration\/(documented-commands|example-lists|first-maps|mistakes|package)\./.test(file);
const isForNode24 = (file) => isShort(file) && !isOnText(file);

// Files that were right before, with the same content, the same options and the same Prettier, still are. The cache is in
// node_modules/.cache.
const formatCache = CI ? [] : ['--cache', '--cache-strategy', 'content'];

const steps = [
  { tier: 'build', title: 'build', run: () => [['npm', 'run', '--silent', 'build']] },
  // For the fuzzing, the simulation and the integration tests.
  {
    tier: 'build',
    title: 'provision Node.js 24',
    run: () => [['node', 'scripts/provision.mjs', 'node-24']],
    isFor: CI && !isOnNode24,
    ahead: true,
  },
  // A million messages per type in CI; elsewhere 10,000, which catch recent breakage.
  {
    tier: 'fuzz',
    title: 'fuzzing',
    run: () => [
      onFaster(['node', 'build/test/fuzz/main.js', ...(CI ? [] : ['--messages', '10000'])]),
    ],
    beside: true,
  },
  // CI only: too slow to run on each change.
  {
    tier: 'simulation',
    title: 'simulation of 10,000 seeds',
    run: () => [onFaster(['node', 'build/test/sim/main.js'])],
    isFor: CI,
    beside: true,
  },
  // Beside the tests that mostly wait, if it is all that the cores can do meanwhile: in CI they have the simulation.
  {
    tier: 'checks',
    title: 'lint, format and dependency rules',
    run: () => [
      // On one thread: each would read all types, and the other core has work.
      [bin('eslint'), '--max-warnings', '0', '.'],
      [bin('prettier'), '--check', '--log-level', 'warn', ...formatCache, '.'],
      ['npm', 'run', '--silent', 'deps'],
    ],
    beside: !CI && asked.length === 0,
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
        WITHOUT_COVERAGE,
      ),
    ],
  },
  {
    tier: 'simulation',
    title: 'simulation',
    run: () => [tap(units(ofSimulation), ...alone)],
  },
  {
    tier: 'integration',
    title: 'integration tests',
    run: () => [tap(tests('integration', isUntimed), ...several(3))],
  },
  {
    tier: 'integration',
    title: 'integration tests on Node.js 24',
    run: () => [onNode24(tap(tests('integration', isForNode24), ...several(3)))],
    isFor: CI && !isOnNode24,
  },
  {
    tier: 'integration',
    title: 'integration tests that must run alone',
    run: () => [tap(tests('integration', isTimed), ...alone)],
    isQuiet: true,
  },
  // Each judges turns of the event loop by their CPU time: another test on the other core, and the steps beside, change it little.
  {
    tier: 'attacks',
    title: 'attacks',
    run: () => attacks((file) => !isNearBar(file), ...several(2)),
    isFor: isAttacked,
  },
  {
    tier: 'attacks',
    title: 'attacks that must run alone',
    run: () => attacks(isNearBar, ...alone),
    isFor: isAttacked,
    isQuiet: true,
  },
  // Outside CI, tests of a missing tool are skipped with a message.
  {
    tier: 'interop',
    title: 'provision real peers',
    run: () => [['node', 'scripts/provision.mjs']],
    mayFail: !CI,
    ahead: true,
  },
  {
    tier: 'interop',
    title: 'tests with real peers',
    // Each starts several processes. Four files at a time, their calls missed deadlines on a slow machine.
    run: () => [tap(tests('interop', isUntimed), ...several(2))],
  },
  {
    tier: 'interop',
    title: 'tests with real peers that compare times',
    // Two busy files at a time, a call of grpc-go missed its deadline of 5 s on a slow machine.
    run: () => [
      tap(
        tests('interop', (file) => isTimed(file) && !isFailover(file) && !isWaiting(file)),
        ...alone,
      ),
      ...tests('interop', isWaiting).map(plainly),
    ],
  },
  {
    tier: 'interop',
    title: 'failover of Envoy, alone',
    // With 1,000 clusters it needs both cores for some hundred milliseconds, of two seconds that its backoff may have used up.
    run: () => [tap(tests('interop', isFailover), ...alone)],
    isQuiet: true,
  },
  // Outside CI, tests of a missing tool are skipped.
  {
    tier: 'citations',
    title: 'tests that docs/SPEC.md cites',
    run: () => [['node', 'scripts/cited-tests.mjs']],
    isFor: CI,
  },
];

const tiers = new Set(steps.map(({ tier }) => tier));
const wanted = new Set(asked.filter((arg) => tiers.has(arg)));
const words = asked.filter((arg) => !tiers.has(arg));
if (words.length > 0 && !wanted.has('attacks')) {
  console.error(`no tier ${words.join(', ')}: use ${[...tiers].join(', ')}`);
  process.exit(1);
}

let passed = 0;
let failed = 0;
let exitCode = 0;
/** The processes of steps beside others. */
const besideOthers = new Set();
let isQuiet = false;
const signalThose = (signal) => {
  for (const child of besideOthers) child.kill(signal);
};
const failures = [];

/** The last line of tap's output with totals sums up all files. A failed assertion precedes its test and file. */
function countResults(tapOutput) {
  failures.push(...(tapOutput.match(/^\s*not ok .*$/gm) ?? []));
  const total = [...tapOutput.matchAll(/^# \{ total: (\d+), pass: (\d+)(?:, fail: (\d+))?/gm)].at(
    -1,
  );
  passed += Number(total?.[2] ?? 0);
  failed += Number(total?.[3] ?? 0);
}

const atLowestPriority = (command) => ['nice', '-n', '19', ...command];

/** Runs one command, forwards its output, and adds tap's totals to `passed` and `failed`. */
function perform(command, beside) {
  return new Promise((resolve) => {
    const all = beside ? atLowestPriority(command) : command;
    const child = spawn(all[0], all.slice(1), { stdio: ['ignore', 'pipe', 'inherit'] });
    if (beside) besideOthers.add(child);
    if (beside && isQuiet) child.kill('SIGSTOP');
    child.stdout.pipe(process.stdout, { end: false });
    child.on('close', (code) => {
      besideOthers.delete(child);
      const output = command.find((arg) => arg.startsWith(OUTPUT))?.slice(OUTPUT.length);
      if (output !== undefined && existsSync(output)) countResults(readFileSync(output, 'utf8'));
      resolve(code ?? 1);
    });
  });
}

/** Runs one command at the lowest priority, and keeps its output. */
function performAhead(command) {
  return new Promise((resolve) => {
    const [nice, ...args] = atLowestPriority(command);
    const child = spawn(nice, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let said = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => (said += text));
    }
    child.on('close', (code) => {
      resolve({ code: code ?? 1, said });
    });
  });
}

const isWanted = ({ tier, isFor = true }) =>
  isFor && (wanted.size === 0 || tier === 'build' || wanted.has(tier));

/** Runs its commands concurrently. Their highest exit code becomes that of this process, unless the step may fail. */
async function runStep(step) {
  const { title, run, beside, mayFail } = step;
  const begun = begunAhead.get(step);
  const startedMs = performance.now();
  const how = beside ? ', beside the next steps' : begun ? ', begun ahead' : '';
  console.log(`\n=== ${title}${how}`);
  mkdirSync('build/tap', { recursive: true });
  const ends = begun ? begun.map(told) : run().map((command) => perform(command, beside));
  const code = Math.max(0, ...(await Promise.all(ends)));
  console.log(`=== ${title}: ${((performance.now() - startedMs) / 1000).toFixed(1)} s`);
  if (code === 0) return;
  if (beside && exitCode > 0) console.log(`=== ${title} ended early: another step failed`);
  else console.log(`=== ${title} failed`);
  if (mayFail) console.log('=== tests that depend on it are skipped');
  else exitCode = Math.max(exitCode, code);
}

async function told(end) {
  const { code, said } = await end;
  process.stdout.write(said);
  return code;
}

let besides = Promise.resolve();
const chosenSteps = steps.filter(isWanted);
/** Step → how its commands end. */
const begunAhead = new Map(
  chosenSteps.filter(({ ahead }) => ahead).map((step) => [step, step.run().map(performAhead)]),
);
const endsAhead = Promise.all([...begunAhead.values()].flat());
for (const step of chosenSteps) {
  if (exitCode > 0) break;
  if (step.beside) {
    besides = besides.then(() => (exitCode > 0 ? undefined : runStep(step)));
    continue;
  }
  if (step.isQuiet) await endsAhead;
  isQuiet = step.isQuiet === true;
  if (isQuiet) signalThose('SIGSTOP');
  await runStep(step);
  isQuiet = false;
  signalThose('SIGCONT');
}
if (exitCode > 0) signalThose('SIGTERM');
await besides;
await endsAhead;
for (const line of failures) console.log(line);
console.log(`\ntests: ${passed} passed, ${failed} failed`);
process.exit(exitCode);

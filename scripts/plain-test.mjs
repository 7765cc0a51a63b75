/**
 * Runs one test file without tap's runner: two runners at a time disturb each other's files.
 *
 *   node scripts/plain-test.mjs --output-file=TAP_FILE TEST_FILE
 *
 * Shows the output if the test fails. Ends with the exit code of the test.
 */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';

const [output, file] = process.argv.slice(2);
const { stdout, status } = spawnSync(process.execPath, [file], {
  encoding: 'utf8',
  env: { ...process.env, TAP_TIMEOUT: '0' },
  stdio: ['ignore', 'pipe', 'inherit'],
  maxBuffer: Infinity,
});
writeFileSync(output.slice(output.indexOf('=') + 1), stdout);
if (status !== 0) console.log(stdout);
process.exit(status ?? 1);

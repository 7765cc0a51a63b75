#!/usr/bin/env node
import { run } from './cli/run.js';

const code = await run(process.argv.slice(2), {
  env: process.env,
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
});
// Remaining timers and connections must not keep a finished command alive.
process.exit(code);

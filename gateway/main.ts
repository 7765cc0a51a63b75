#!/usr/bin/env node
import { run } from './cli/run.js';

const code = await run(process.argv.slice(2), {
  env: process.env,
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
});
// Timers and connections that are left must not keep a finished command alive.
process.exit(code);

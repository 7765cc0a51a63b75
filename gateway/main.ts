#!/usr/bin/env node
// Before anything else is loaded: a SIGHUP while the gateway starts would end it. What it asks for happens, since the map is read
// later, or again if it has changed.
if (process.argv[2] === 'serve') process.on('SIGHUP', () => undefined);

const { run } = await import('./cli/run.js');
const code = await run(process.argv.slice(2), {
  env: process.env,
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
});
// Remaining timers and connections must not keep a finished command alive.
process.exit(code);

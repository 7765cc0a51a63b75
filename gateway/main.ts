#!/usr/bin/env node
// Before anything else is loaded: otherwise a SIGHUP during the start would end the process. The signal asks for a new reading of
// the map. The start reads the map anyway, and again if the file changes meanwhile.
const [, , first = ''] = process.argv;
if (first === 'serve' || first.startsWith('--')) process.on('SIGHUP', () => undefined);

const { run } = await import('./cli/run.js');
const code = await run(process.argv.slice(2), {
  env: process.env,
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
});
// Remaining timers and connections must not keep a finished command alive.
process.exit(code);

/**
 * For `node --import`, before tap's runner: test files run without the hooks that tap loads into each of them and, by
 * NODE_OPTIONS, into each Node.js process that they start. The hooks are for mocks of modules, which no test uses, and
 * for coverage. They cost 0.7 s of CPU per test file, and 0.2 s per process. The programs under test run without them,
 * as they do for users.
 */
import { spawn } from 'node:child_process';
import { ProcessInfo } from '@tapjs/processinfo';

const isHook = (arg) => arg.startsWith('--import=') && arg.includes('/@tapjs/');

Object.defineProperty(ProcessInfo, 'spawn', {
  value: (command, args, options) =>
    spawn(
      command,
      args.filter((arg) => !isHook(arg)),
      options,
    ),
});

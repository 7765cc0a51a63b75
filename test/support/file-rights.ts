/** A process that the rights of files bind, also where the tests run as root. */
import { execFile } from 'node:child_process';

const isRoot = process.getuid?.() === 0;

/** Root without the capabilities to read every file: capabilities(7). */
const PREFIX = isRoot
  ? ['setpriv', '--bounding-set=-dac_override,-dac_read_search', process.execPath]
  : [process.execPath];

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs Node.js with these arguments. */
export function runWithinRights(args: readonly string[], cwd: string): Promise<Ran> {
  const [command = '', ...before] = PREFIX;
  return new Promise((resolve) => {
    execFile(command, [...before, ...args], { cwd }, (error, out, err) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, out, err });
    });
  });
}

/** @returns why these tests cannot run here, or false */
export async function rightsMissing(): Promise<string | false> {
  if (!isRoot) return false;
  const { code } = await runWithinRights(['--version'], '/');
  return code === 0 ? false : 'runs as root, and setpriv of util-linux is not installed';
}

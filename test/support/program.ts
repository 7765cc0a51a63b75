/** The built program, run as a user would, or its command line in this process. */
import { execFile, spawn } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import { run } from '../../gateway/cli/run.js';

/** Path of the built `tributary`. */
export const program = fileURLToPath(new URL('../../gateway/main.js', import.meta.url));

/** The root of the project; ends in `/`. */
export const root = fileURLToPath(new URL('../../../', import.meta.url));

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `tributary` with these arguments, from the project's root. */
export function runCommand(args: readonly string[]): Promise<Outcome> {
  return new Promise((resolve) => {
    execFile(process.execPath, [program, ...args], { cwd: root }, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr });
    });
  });
}

/** Runs `tributary` with these arguments in this process. */
export async function runHere(
  argv: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  let [stdout, stderr] = ['', ''];
  const code = await run(argv, {
    env,
    out: (text) => (stdout += text),
    err: (text) => (stderr += text),
  });
  return { code, stdout, stderr };
}

export interface ServedExample {
  /** host:port */
  readonly admin: string;
  /** host:port */
  readonly listen: string;
  /** host:port */
  readonly probes: string;
  readonly stop: () => void;
}

/** Serves an example on free ports. */
export async function serveExample(
  map: string,
  ...flags: readonly string[]
): Promise<ServedExample> {
  const ports = ['--client-port', '0', '--admin-port', '0'];
  const args = [program, 'serve', '--authority-map', map, ...ports, ...flags];
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });
  for await (const line of createInterface({ input: child.stdout })) {
    const entry = JSON.parse(line) as ServedExample & { event?: string };
    if (entry.event !== 'gateway_ready') continue;
    return { ...entry, stop: () => child.kill('SIGKILL') };
  }
  throw new Error(`${map} did not start`);
}

/** Writes this map into the folder and serves it on free ports. Program and folder go with the test. */
export async function serveMap(t: Test, folder: string, map: object) {
  const file = join(folder, 'map.json');
  writeFileSync(file, JSON.stringify(map));
  const { admin, listen, stop } = await serveExample(file, '--drain-grace', '100ms');
  t.teardown(() => {
    stop();
    rmSync(folder, { recursive: true, force: true });
  });
  return { admin, port: Number(listen.slice(listen.lastIndexOf(':') + 1)) };
}

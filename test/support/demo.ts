/** `tributary demo`, run as a user would, with shorter times. */
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import type { Readable } from 'node:stream';
import type { Test } from 'tap';
import { program } from './program.js';

export interface RunningDemo {
  readonly child: ChildProcessByStdio<null, Readable, null>;
  readonly lines: Interface;
  /** Where the demo writes its files. */
  readonly scratch: string;
}

/** @param path the variable PATH: where the demo looks for Envoy */
export function startDemo(t: Test, flags: readonly string[], path = ''): RunningDemo {
  const scratch = mkdtempSync(join(tmpdir(), 'demo-test-'));
  const env = { TMPDIR: scratch, PATH: path };
  const args = [program, 'demo', '--kill-every', '6s', ...flags];
  // A process group of its own, as a terminal gives it.
  const child = spawn(process.execPath, args, {
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => {
    child.kill('SIGKILL');
    rmSync(scratch, { recursive: true, force: true });
  });
  return { child, lines: createInterface({ input: child.stdout }), scratch };
}

/** Reads the lines of one round, which must come in this order, and checks the end. */
export async function showsRound(t: Test, { child, lines, scratch }: RunningDemo): Promise<string> {
  const exit = once(child, 'exit');
  const story = [
    /gateway: clients on 127\.0\.0\.1:\d+/,
    /SWITCH to cloud: /,
    / requests, 0 failed: \d+ from cloud/,
    /KILL: /,
    /SWITCH to onprem: .* → alt \(primary_tripped\)/,
    /START: /,
    /SWITCH to cloud: .* → primary \(primary_stable\)/,
    /end: 1 kills, [1-9]\d* requests, 0 failed/,
  ];
  const all: string[] = [];
  for await (const line of lines) {
    all.push(line);
    if (story[0]?.test(line)) story.shift();
  }
  t.same(story, [], all.join('\n'));
  t.match(all.join('\n'), / requests, 0 failed:.* \d+ from onprem/);
  t.same(await exit, [0, null]);
  t.same(readdirSync(scratch), [], 'no file is left');
  return all.join('\n');
}

/**
 * How fast the machine is just now. A bar in milliseconds of CPU means those of the machine on which docs/SECURITY.md was
 * measured. The cores of a virtual machine share their caches and memory with neighbours, which makes the same work
 * take up to half as long again, for minutes.
 *
 * The work has a process of its own: how much else a heap holds changes what the work costs.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { threadCpuMs } from './thread-cpu.js';

/** What the work takes there, at most: 72 to 107 ms in 18 runs, a third of them beside two busy processes. */
const REFERENCE_CPU_MS = 100;
const ROUNDS = 25;
/** Until V8 has compiled the work. */
const WARM_UP_ROUNDS = 10;

/** @returns 1 on a machine as fast as that of docs/SECURITY.md, or faster; 1.5: the same work takes half as long again */
export async function slowness(): Promise<number> {
  const env = { ...process.env, NODE_OPTIONS: '' };
  const program = fileURLToPath(import.meta.url);
  const { stdout } = await promisify(execFile)(process.execPath, [program], { env });
  return Math.max(1, Number(stdout) / REFERENCE_CPU_MS);
}

/** As the longest turns do, it makes objects that V8 copies, and looks at all of them. */
function work(): number {
  const held = new Map<string, { readonly at: number; readonly parts: readonly number[] }>();
  for (let at = 0; at < 20_000; at++) held.set(`name ${at}`, { at, parts: [at, at + 1] });
  let sum = 0;
  for (const [name, { at, parts }] of held) sum += name.length + at + parts.length;
  return sum;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (let round = 0; round < WARM_UP_ROUNDS; round++) work();
  const beganMs = threadCpuMs();
  for (let round = 0; round < ROUNDS; round++) work();
  console.log(threadCpuMs() - beganMs);
}

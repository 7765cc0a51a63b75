import { readFileSync, readdirSync } from 'node:fs';

/** USER_HZ: on all its platforms Linux counts CPU time in /proc in hundredths of a second. */
const TICK_MS = 10;

/**
 * CPU time of a process and its children in ms, all threads, user and system: `/proc/<pid>/stat`.
 */
export function cpuMs(pid: number): number {
  return sum(family(pid), (member) => {
    const stat = readFileSync(`/proc/${member}/stat`, 'utf8');
    // The second field is the name in parentheses and may contain anything; count from after it.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
  });
}

/**
 * Resident memory of a process and its children in MiB: now, and the sum of each one's peak (an
 * upper bound of the common peak). Source: `/proc/<pid>/status`.
 */
export function memoryMiB(pid: number): { readonly now: number; readonly peak: number } {
  const read = (key: string): number =>
    sum(family(pid), (member) => {
      const status = readFileSync(`/proc/${member}/status`, 'utf8');
      const kib = new RegExp(`^${key}:\\s+(\\d+) kB`, 'm').exec(status)?.[1];
      return Number(kib ?? Number.NaN) / 1_024;
    });
  return { now: read('VmRSS'), peak: read('VmHWM') };
}

/** The process and all its running descendants. */
function family(pid: number): readonly number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean),
  );
  return [pid, ...children.flatMap((child) => family(Number(child)))];
}

function sum(members: readonly number[], value: (member: number) => number): number {
  return members.reduce((total, member) => total + value(member), 0);
}

/**
 * How many client connections the open files of the process leave room for. Without a bound, clients could take all of
 * them: then the gateway can connect to no source, and fails over because of its clients.
 */
import { readFileSync } from 'node:fs';

/**
 * For connections to sources, the admin and probe ports, content on disk (LevelDB opens up to 1,000 files), and all
 * files that are read now and then.
 */
const OWN_FILES = 2_000;

/** Linux. Node raises the soft limit to the hard one when it starts. */
const LIMITS_FILE = '/proc/self/limits';

/** @returns a count; Infinity: no limit, or an unknown one */
export function connectionRoom(limits = readLimits()): number {
  const [, soft] = /^Max open files +(\d+)/m.exec(limits) ?? [];
  if (soft === undefined) return Infinity;
  const files = Number(soft);
  return files - Math.min(OWN_FILES, Math.ceil(files / 2));
}

function readLimits(): string {
  try {
    return readFileSync(LIMITS_FILE, 'utf8');
  } catch {
    return '';
  }
}

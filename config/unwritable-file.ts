/** Why a file that an operator named cannot be written, and what the operator can do about it. */
import { accessSync, constants } from 'node:fs';
import { dirname } from 'node:path';
import type { Unreadable } from './unreadable-file.js';

/**
 * Why the directory of the file does not let this process replace the file by another one. Writes nothing.
 *
 * @returns undefined: it does
 */
export function whyUnwritable(path: string): Omit<Unreadable, 'isMissing'> | undefined {
  try {
    // The slash: a file in place of the directory is ENOTDIR.
    accessSync(`${dirname(path)}/`, constants.W_OK | constants.X_OK);
    return undefined;
  } catch (error) {
    return whyNotWritten(path, error);
  }
}

/** @param error of the system, of writing a file beside `path` and renaming it to `path` */
export function whyNotWritten(path: string, error: unknown): Omit<Unreadable, 'isMissing'> {
  const directory = dirname(path);
  switch ((error as NodeJS.ErrnoException | null)?.code) {
    case 'ENOENT':
      return { words: `there is no directory ${directory}`, remedy: 'create it' };
    case 'ENOTDIR':
      return { words: `${directory} is not a directory, ENOTDIR`, remedy: 'correct the path' };
    case 'EACCES':
    case 'EPERM':
      return {
        words: `the user of this process may not create files in ${directory}, EACCES`,
        remedy: 'give this user the right to write to that directory',
      };
    case 'EROFS':
      return {
        words: `the file system of ${directory} is read-only, EROFS`,
        remedy: 'write the path of a file on a volume that can be written to',
      };
    case 'ENOSPC':
    case 'EDQUOT':
      return {
        words: `the disk of ${directory} is full, ENOSPC`,
        remedy: 'free some space on it',
      };
    default:
      return { words: error instanceof Error ? error.message : String(error) };
  }
}

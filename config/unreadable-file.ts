/** The problem of a file that an operator named and that cannot be read. */
import { readdirSync } from 'node:fs';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { nearestWord } from './nearest.js';
import type { Problem } from './problems.js';

/** The words of the system (`ENOENT: no such file or directory, stat '…'`) repeat the path, and have no remedy. */
const WORDS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  ENOTDIR: 'a part of its path is a file, not a directory',
  EACCES: 'the user of this process may not read it (EACCES)',
};

/**
 * @param written the path as the operator wrote it
 * @param file the absolute path
 * @param error of reading it
 */
export function unreadableFile(written: string, file: string, error: unknown): Problem {
  const code = (error as NodeJS.ErrnoException | null)?.code ?? '';
  const words = readingWords(error);
  const remedy = remedyFor(code, words, written, file);
  const problem = { file, line: 0, column: 0, field: '', message: `cannot be read: ${words}` };
  return remedy === undefined ? problem : { ...problem, remedy };
}

/** Why a file cannot be read. */
export function readingWords(error: unknown): string {
  const known = WORDS[(error as NodeJS.ErrnoException | null)?.code ?? ''];
  return known ?? (error instanceof Error ? error.message : String(error));
}

function remedyFor(code: string, words: string, written: string, file: string): string | undefined {
  if (words.startsWith('is a directory')) return 'write the path of a file';
  if (code === 'EACCES') return 'give this user the right to read it';
  if (code !== 'ENOENT') return undefined;
  const near = nearFile(file);
  if (near !== undefined) return `did you mean ${JSON.stringify(near)}?`;
  return isAbsolute(written) ? undefined : 'relative paths are relative to the working directory';
}

/** A file of the same directory with a similar name, as an absolute path. */
export function nearFile(file: string): string | undefined {
  const directory = dirname(file);
  try {
    const near = nearestWord(basename(file), readdirSync(directory));
    return near === undefined ? undefined : join(directory, near);
  } catch {
    return undefined;
  }
}

/** Why a file that an operator named cannot be read, and what the operator can do about it. */
import { accessSync, constants, lstatSync, readdirSync, readlinkSync, statSync } from 'node:fs';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { nearestWord } from './nearest.js';
import type { Problem } from './problems.js';
import { checkIsRegular, MAX_FILE_BYTES, readRegularFile } from './regular-file.js';

/** The words of the system (`ENOENT: no such file or directory, stat '…'`) repeat the path, and have no remedy. */
export interface Unreadable {
  readonly words: string;
  readonly remedy?: string;
  /** Nothing is at the path: it may be misspelt. */
  readonly isMissing?: true;
}

const REPLACE_LINK = 'mend the link, or put the file in its place';

/** @param error of the system, or of `readRegularFile` */
export function whyUnreadable(path: string, error: unknown): Unreadable {
  switch ((error as NodeJS.ErrnoException | null)?.code) {
    case 'ENOENT':
      return whyMissing(path);
    case 'ENOTDIR':
      return whyNoDirectory(path);
    case 'EACCES':
    case 'EPERM':
      return whyDenied(path);
    case 'ELOOP':
      return { words: 'its symbolic links form a circle, ELOOP', remedy: REPLACE_LINK };
    default:
      return inOtherWords(error);
  }
}

function whyMissing(path: string): Unreadable {
  const link = ancestorsOf(path).find(isLinkToNothing);
  const target = link === undefined ? undefined : orUndefined(() => readlinkSync(link));
  if (link !== undefined && target !== undefined) {
    const it = link === path ? 'it' : link;
    const words = `${it} is a link to ${JSON.stringify(target)}, and nothing is there`;
    return { words, remedy: REPLACE_LINK };
  }
  const near = nearFile(path);
  const remedy = near === undefined ? {} : { remedy: `did you mean ${JSON.stringify(near)}?` };
  return { words: 'there is no such file', ...remedy, isMissing: true };
}

function whyNoDirectory(path: string): Unreadable {
  const file = ancestorsOf(path).find((part) => orUndefined(() => statSync(part))?.isFile());
  const words = `${file ?? 'a part of its path'} is a file, not a directory, ENOTDIR`;
  return { words, remedy: 'correct the path' };
}

function whyDenied(path: string): Unreadable {
  const above = [...ancestorsOf(dirname(path))].reverse();
  const mayEnter = (directory: string): boolean =>
    orUndefined(() => (accessSync(directory, constants.X_OK), true)) === true;
  const closed = above.find((directory) => !mayEnter(directory));
  if (closed !== undefined) {
    const words = `the user of this process may not enter ${closed}, EACCES`;
    return { words, remedy: 'give this user the right to enter that directory' };
  }
  const words = 'the user of this process may not read it, EACCES';
  return { words, remedy: 'give this user the right to read it' };
}

function inOtherWords(error: unknown): Unreadable {
  const message = error instanceof Error ? error.message : String(error);
  if (message.endsWith('not a regular file')) {
    return { words: message, remedy: 'write the path of a file' };
  }
  // `EIO: i/o error, read '…'`
  return { words: message.replace(/, \w+(?: '.*')?$/, '') };
}

/** The path, its directory, and so on up to the root. */
function ancestorsOf(path: string): readonly string[] {
  const above = dirname(path);
  return above === path ? [path] : [path, ...ancestorsOf(above)];
}

const isLinkToNothing = (path: string): boolean =>
  orUndefined(() => lstatSync(path))?.isSymbolicLink() === true &&
  orUndefined(() => statSync(path)) === undefined;

/** A file of the same directory with a similar name, as an absolute path. */
function nearFile(file: string): string | undefined {
  const directory = dirname(file);
  const near = nearestWord(basename(file), orUndefined(() => readdirSync(directory)) ?? []);
  return near === undefined ? undefined : join(directory, near);
}

/** @returns undefined: the system refused */
function orUndefined<T>(ask: () => T): T | undefined {
  try {
    return ask();
  } catch {
    return undefined;
  }
}

/**
 * Whether this process may read the file, or list the directory, at a path. Reads neither.
 *
 * @returns what is there, or why it cannot be read
 */
export function readableAt(path: string): 'file' | 'directory' | Unreadable {
  try {
    const found = statSync(path);
    const isDirectory = found.isDirectory();
    if (!isDirectory) checkIsRegular(found);
    accessSync(path, isDirectory ? constants.R_OK | constants.X_OK : constants.R_OK);
    return isDirectory ? 'directory' : 'file';
  } catch (error) {
    return whyUnreadable(path, error);
  }
}

/**
 * @param written the path as the operator wrote it
 * @param file the absolute path
 * @param error of reading it
 */
export function unreadableFile(written: string, file: string, error: unknown): Problem {
  const why = whyUnreadable(file, error);
  const problem = { file, line: 0, column: 0, field: '', message: `cannot be read: ${why.words}` };
  const relative =
    why.isMissing && !isAbsolute(written)
      ? 'relative paths are relative to the working directory'
      : undefined;
  const remedy = why.remedy ?? relative;
  return remedy === undefined ? problem : { ...problem, remedy };
}

/** A file cannot be read. The message has its path, the cause and a remedy. */
export class UnreadableFileError extends Error {
  readonly code = 'unreadable_file';

  constructor(path: string, cause: unknown) {
    super(`${path} cannot be read: ${inOneLine(whyUnreadable(path, cause))}`, { cause });
    this.name = 'UnreadableFileError';
  }
}

/** `the cause (the remedy)` */
export function inOneLine({ words, remedy }: Unreadable): string {
  return remedy === undefined ? words : `${words} (${remedy})`;
}

/**
 * The content of a file that a setting or the map names, by an absolute path.
 *
 * @throws UnreadableFileError
 */
export function readNamedFile(path: string, maxBytes = MAX_FILE_BYTES): Buffer {
  try {
    return readRegularFile(path, maxBytes);
  } catch (error) {
    throw new UnreadableFileError(path, error);
  }
}

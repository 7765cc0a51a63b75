/**
 * Watches a directory (or one file) of resources, in any form that Envoy reads from a file. A file that cannot be read or
 * parsed keeps its last good content, and the problem is reported with its line.
 *
 * Editors and deployment tools replace files and whole directories by renaming. So the directory,
 * its parent and `watched_directory` are watched, and any event rereads everything after SETTLE_MS. Above them, each
 * directory is watched for a change of the next directory on the path, which the other watches do not report.
 */
import { readdirSync, statSync, watch, type Dirent, type FSWatcher } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { PathSourceSpec } from '../config/model.js';
import { formatProblem } from '../config/problems.js';
import { encodedFormOf } from '../config/encoded-file.js';
import { readRegularFile } from '../config/regular-file.js';
import { inOneLine, whyUnreadable } from '../config/unreadable-file.js';
import { decodeUtf8, NOT_UTF8, SAVE_AS_UTF8 } from '../config/utf8.js';
import { parseResourceFile } from '../config/resource-file.js';
import { GoodFiles, type FoundFile, type GoodLoad } from './core/sources/good-files.js';

export interface FilesystemHandlers {
  onLoaded(loaded: GoodLoad): void;
  /** The directory or file does not exist or is not readable. */
  onUnreadable(): void;
  /** One text per problem, `file:line:column: …`; none: all are mended. The last good state stays in use. */
  onProblems(problems: readonly string[]): void;
}

const SETTLE_MS = 50;
const RESOURCE_FILE = /\.(ya?ml|json|pb|pb_text|textproto)$/;

/** For a single reading. */
const IGNORE: FilesystemHandlers = {
  onLoaded: () => undefined,
  onUnreadable: () => undefined,
  onProblems: () => undefined,
};

export class FilesystemSource {
  readonly #spec: PathSourceSpec;
  readonly #handlers: FilesystemHandlers;
  readonly #good = new GoodFiles((text, path) => {
    const parsed = parseResourceFile(text, path);
    return parsed.ok ? parsed : { ...parsed, problems: parsed.problems.map(formatProblem) };
  });
  #watchers: FSWatcher[] = [];
  #timer: NodeJS.Timeout | undefined;
  #problems: readonly string[] = [];

  constructor(spec: PathSourceSpec, handlers: FilesystemHandlers = IGNORE) {
    this.#spec = spec;
    this.#handlers = handlers;
  }

  /** Loads before it returns, then after each change. */
  start(): void {
    this.#rewatch();
    this.#load();
  }

  close(): void {
    clearTimeout(this.#timer);
    for (const watcher of this.#watchers) watcher.close();
    this.#watchers = [];
  }

  #rewatch(): void {
    for (const watcher of this.#watchers) watcher.close();
    const { path, watchedDirectory } = this.#spec;
    const directories = new Set([...directoriesOf(path), dirname(path), watchedDirectory ?? path]);
    this.#watchers = [
      ...[...directories].flatMap((directory) => this.#watch(directory)),
      ...ancestorsOf(dirname(path)).flatMap(({ directory, entry }) =>
        this.#watch(directory, entry),
      ),
    ];
  }

  /** @param entry the only entry of the directory that matters; undefined: all */
  #watch(path: string, entry?: string): readonly FSWatcher[] {
    try {
      const watcher = watch(path, { persistent: false }, (_event, changed) => {
        // Some platforms do not say what changed.
        if (entry === undefined || changed === null || changed === entry) this.#schedule();
      });
      watcher.on('error', () => {
        this.#schedule();
      });
      return [watcher];
    } catch {
      // It does not exist now; the watch on its parent reports when it does.
      return [];
    }
  }

  #schedule(): void {
    // Further events do not extend the delay: a busy neighbouring directory would delay the load
    // for ever.
    if (this.#timer) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      // Watch first, since directories may be new, gone or replaced; then read. Whatever changes
      // during the read triggers another one.
      this.#rewatch();
      this.#load();
    }, SETTLE_MS);
    this.#timer.unref();
  }

  /** Reads once, without a watch. `loaded` is absent if the directory or file is not there. */
  read(): { readonly loaded?: GoodLoad; readonly problems: readonly string[] } {
    const listed = listFiles(this.#spec.path);
    if ('problem' in listed) return { problems: [listed.problem] };
    const loaded = this.#good.load(listed.files.map(readFound), [...listed.closed.keys()]);
    return { loaded, problems: [...listed.closed.values(), ...loaded.problems] };
  }

  #load(): void {
    const { loaded, problems } = this.read();
    this.#tell(problems);
    if (loaded) this.#handlers.onLoaded(loaded);
    else this.#handlers.onUnreadable();
  }

  /** The problems of the latest reading, as `onProblems` got them. */
  get problems(): readonly string[] {
    return this.#problems;
  }

  /** Reports the same problems once, however often the directory changes. */
  #tell(problems: readonly string[]): void {
    if (isDeepStrictEqual(problems, this.#problems)) return;
    this.#problems = problems;
    this.#handlers.onProblems(problems);
  }
}

/** All directories above this one, each with its entry on the way. */
function ancestorsOf(path: string): readonly { directory: string; entry: string }[] {
  const directory = dirname(path);
  if (directory === path) return [];
  return [{ directory, entry: basename(path) }, ...ancestorsOf(directory)];
}

function readFound(path: string): FoundFile {
  try {
    // One character per byte keeps binary files whole.
    if (encodedFormOf(path) === 'binary')
      return { path, text: readRegularFile(path).toString('latin1') };
    const read = decodeUtf8(readRegularFile(path));
    if (read.ok) return { path, text: read.text };
    return { path, problem: `${path}:${read.line}:${read.column}: ${NOT_UTF8} (${SAVE_AS_UTF8})` };
  } catch (error) {
    return { path, problem: unreadable(path, error) };
  }
}

interface Listed {
  readonly files: readonly string[];
  /** Directory that cannot be listed → the problem. */
  readonly closed: ReadonlyMap<string, string>;
}

function listFiles(path: string): Listed | { readonly problem: string } {
  try {
    if (!statSync(path).isDirectory()) return { files: [path], closed: new Map() };
    const entries = readdirSync(path, { withFileTypes: true });
    const closed = new Map<string, string>();
    return { files: filesIn(path, entries, closed).sort(), closed };
  } catch (error) {
    return { problem: unreadable(path, error) };
  }
}

/** Resource files of a directory and of its subdirectories, without hidden ones (`..data` of mounted ConfigMaps). */
function filesIn(
  directory: string,
  entries: readonly Dirent[],
  closed: Map<string, string>,
): string[] {
  return entries.flatMap((entry) => {
    const path = join(directory, entry.name);
    if (!entry.isDirectory()) return RESOURCE_FILE.test(entry.name) ? [path] : [];
    if (entry.name.startsWith('.')) return [];
    try {
      return filesIn(path, readdirSync(path, { withFileTypes: true }), closed);
    } catch (error) {
      const isGone = (error as NodeJS.ErrnoException).code === 'ENOENT';
      if (!isGone) closed.set(path, unreadable(path, error));
      return [];
    }
  });
}

function unreadable(path: string, error: unknown): string {
  const why = whyUnreadable(path, error);
  const words = why.isMissing ? 'there is no such file or directory' : inOneLine(why);
  return `${path}: cannot be read: ${words}`;
}

/** A directory and its subdirectories, without hidden ones (`..data` of mounted ConfigMaps). */
function directoriesOf(path: string): readonly string[] {
  try {
    if (!statSync(path).isDirectory()) return [];
    const below = readdirSync(path, { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
      .flatMap((entry) => directoriesOf(join(path, entry.name)));
    return [path, ...below];
  } catch {
    return [];
  }
}

/**
 * Watches a directory (or one file) of resources, in any form that Envoy reads from a file. A file that cannot be read or
 * parsed keeps its last good content, and the problem is reported with its line.
 *
 * Editors and deployment tools replace files and whole directories by renaming. So the directory,
 * its parent and `watched_directory` are watched, and any event rereads everything once the changed files stay as they
 * are for SETTLE_MS, MAX_SETTLE_MS at most. Above them, each
 * directory is watched for a change of the next directory on the path, which the other watches do not report.
 */
import { lstatSync, readdirSync, statSync, type Dirent } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { FileResource } from '../config/file-resource.js';
import type { PathSourceSpec } from '../config/model.js';
import { encodedFormOf } from '../config/encoded-file.js';
import { fingerprintOf } from '../config/file-fingerprint.js';
import { readRegularFile } from '../config/regular-file.js';
import { inOneLine, whyUnreadable } from '../config/unreadable-file.js';
import { decodeUtf8, NOT_UTF8, SAVE_AS_UTF8 } from '../config/utf8.js';
import { DirectoryWatches } from './directory-watches.js';
import { fileConversions, type FileTask } from './conversion-thread.js';
import { parsedFile } from './parsed-file.js';
import {
  GoodFiles,
  type FoundFile,
  type GoodLoad,
  type ParsedText,
} from './core/sources/good-files.js';

export interface FilesystemHandlers {
  /** Some new or changed resources of a large load, before the load itself. */
  onPart(resources: readonly FileResource[]): void;
  /** Not called if nothing is different from the last call. */
  onLoaded(loaded: GoodLoad): void;
  /** The directory or file does not exist or is not readable, or the directory lost its last file. */
  onUnreadable(): void;
  /** One text per problem, `file:line:column: …`; none: all are mended. The last good state stays in use. */
  onProblems(problems: readonly string[]): void;
}

const SETTLE_MS = 50;
const RESOURCE_FILE = /\.(ya?ml|json|pb|pb_text|textproto)$/;

/** A file that is still being written is read no later than this. Milliseconds. */
const MAX_SETTLE_MS = 1_000;

/** Texts that changed are parsed at once up to this length in all: some 15 ms. Characters. */
const AT_ONCE_LENGTH = 16_384;

/** Resources of a large load that are given in one turn: some 5 ms. A count. */
const RESOURCES_PER_PART = 250;

/** A mount may be lost, or a deployment be under way. */
const NO_FILE_LEFT =
  'has no resource file any more: its last content stays (put a file without resources there to remove it)';

interface Reading {
  readonly loaded?: GoodLoad;
  readonly problems: readonly string[];
}

/** For a single reading. */
const IGNORE: FilesystemHandlers = {
  onPart: () => undefined,
  onLoaded: () => undefined,
  onUnreadable: () => undefined,
  onProblems: () => undefined,
};

export class FilesystemSource {
  readonly #spec: PathSourceSpec;
  readonly #handlers: FilesystemHandlers;
  /** Files of the present reading that another thread has parsed, by path. */
  readonly #parsed = new Map<string, ParsedText>();
  readonly #good = new GoodFiles((text, path) => this.#parsed.get(path) ?? parsedFile(text, path));
  #isParsing = false;
  #isClosed = false;
  /** The content that was told last. It stays while nothing is there. */
  #loaded: GoodLoad | undefined;
  /** Whether the directory or file was there when it was read last. */
  #isThere = false;
  /** Something changed while the files of the last change were parsed. */
  #hasChanged = false;
  readonly #watches = new DirectoryWatches((path) => {
    this.#schedule(path);
  });
  /** Files that changed since the last reading, and their fingerprints when last looked at. */
  readonly #unsettled = new Map<string, string | undefined>();
  #timer: NodeJS.Timeout | undefined;
  #problems: readonly string[] = [];

  constructor(spec: PathSourceSpec, handlers: FilesystemHandlers = IGNORE) {
    this.#spec = spec;
    this.#handlers = handlers;
  }

  /** Loads, then again after each change. Small files are loaded before it returns. */
  start(): void {
    this.#rewatch();
    this.#reload();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#isClosed = true;
    this.#watches.close();
  }

  #rewatch(): void {
    const { path, watchedDirectory } = this.#spec;
    const directories = new Set([...directoriesOf(path), watchedDirectory ?? path]);
    // Other entries beside a directory do not concern it. A link may lead through another one beside it (Kubernetes).
    if (!isRealDirectory(path)) directories.add(dirname(path));
    this.#watches.replace([
      ...[...directories].map((directory) => ({ directory })),
      ...ancestorsOf(path).filter(({ directory }) => !directories.has(directory)),
    ]);
  }

  /** @param changed an entry of a watched directory; undefined: any */
  #schedule(changed?: string): void {
    if (changed !== undefined && this.#isRead(changed) && !this.#unsettled.has(changed)) {
      this.#unsettled.set(changed, fingerprintOf(changed));
    }
    // Further events do not extend the delay: a busy neighbouring directory would delay the load
    // for ever.
    if (!this.#timer) this.#settle(performance.now());
  }

  /** A source of one file reads it whatever its suffix. */
  #isRead(changed: string): boolean {
    return RESOURCE_FILE.test(changed) || resolve(changed) === resolve(this.#spec.path);
  }

  /** Waits until the changed files stay as they are: one may be written in place, and a part of it may be valid. */
  #settle(startedMs: number): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (!this.#areSettled() && performance.now() - startedMs < MAX_SETTLE_MS) {
        this.#settle(startedMs);
        return;
      }
      this.#unsettled.clear();
      if (this.#isParsing) {
        this.#hasChanged = true;
        return;
      }
      // Watch first, since directories may be new, gone or replaced; then read. Whatever changes
      // during the read triggers another one.
      this.#rewatch();
      this.#reload();
    }, SETTLE_MS);
    this.#timer.unref();
  }

  #areSettled(): boolean {
    let areSettled = true;
    for (const [path, before] of this.#unsettled) {
      const now = fingerprintOf(path);
      if (now !== before) areSettled = false;
      this.#unsettled.set(path, now);
    }
    return areSettled;
  }

  /** Reads once, without a watch. `loaded` is absent if the directory or file is not there. */
  read(): Reading {
    return this.#readingOf(findFiles(this.#spec.path));
  }

  #readingOf(found: Found): Reading {
    if ('problem' in found) return { problems: [found.problem] };
    const isEmptied = found.files.length === 0 && (this.#loaded?.resources.length ?? 0) > 0;
    if (isEmptied && found.closed.size === 0) {
      return { problems: [`${this.#spec.path}: ${NO_FILE_LEFT}`] };
    }
    const loaded = this.#good.load(found.files, [...found.closed.keys()]);
    return { loaded, problems: [...found.closed.values(), ...loaded.problems] };
  }

  #give({ loaded, problems }: Reading): void {
    const { problem } = this.#watches;
    this.#tell(problem === undefined ? problems : [problem, ...problems]);
    const last = this.#isThere ? this.#loaded : undefined;
    this.#isThere = loaded !== undefined;
    this.#loaded = loaded ?? this.#loaded;
    if (!loaded) this.#handlers.onUnreadable();
    else if (!last || !isSame(loaded, last)) this.#handlers.onLoaded(loaded);
  }

  #reload(): void {
    const found = findFiles(this.#spec.path);
    const changed = 'files' in found ? found.files.flatMap((file) => this.#newTextOf(file)) : [];
    const length = changed.reduce((sum, { text }) => sum + text.length, 0);
    if (length <= AT_ONCE_LENGTH) this.#give(this.#readingOf(found));
    else {
      this.#isParsing = true;
      this.#parseNext(changed, found);
    }
  }

  #newTextOf(file: FoundFile): readonly FileTask[] {
    return 'text' in file && this.#good.isNew(file.path, file.text) ? [file] : [];
  }

  #parseNext([file, ...others]: readonly FileTask[], found: Found): void {
    if (file) {
      fileConversions.parseFile(file, (parsed) => {
        if (this.#isClosed) return;
        this.#parsed.set(file.path, parsed);
        this.#parseNext(others, found);
      });
      return;
    }
    setImmediate(() => {
      this.#giveInParts(found);
    });
  }

  #giveInParts(found: Found): void {
    if (this.#isClosed) return;
    const reading = this.#readingOf(found);
    this.#parsed.clear();
    const known = new Set(this.#loaded?.resources);
    const changed = reading.loaded?.resources.filter((resource) => !known.has(resource)) ?? [];
    this.#giveParts(changed, () => {
      this.#give(reading);
      this.#isParsing = false;
      if (this.#hasChanged) this.#schedule();
      this.#hasChanged = false;
    });
  }

  #giveParts(resources: readonly FileResource[], then: () => void): void {
    setImmediate(() => {
      if (this.#isClosed) return;
      if (resources.length === 0) {
        then();
        return;
      }
      this.#handlers.onPart(resources.slice(0, RESOURCES_PER_PART));
      this.#giveParts(resources.slice(RESOURCES_PER_PART), then);
    });
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

/** Files that did not change have the same resources. */
const isSame = (one: GoodLoad, other: GoodLoad): boolean =>
  one.isWhole === other.isWhole &&
  one.resources.length === other.resources.length &&
  one.resources.every((resource, at) => resource === other.resources[at]);

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

type Found =
  | { readonly problem: string }
  | {
      readonly files: readonly FoundFile[];
      /** Directory that cannot be listed → the problem. */
      readonly closed: ReadonlyMap<string, string>;
    };

function findFiles(path: string): Found {
  try {
    if (!statSync(path).isDirectory()) return { files: [readFound(path)], closed: new Map() };
    const entries = readdirSync(path, { withFileTypes: true });
    const closed = new Map<string, string>();
    return { files: filesIn(path, entries, closed).sort().map(readFound), closed };
  } catch (error) {
    return { problem: unreadable(path, error) };
  }
}

/**
 * Resource files of a directory and of its subdirectories, without hidden ones (`..data` of mounted ConfigMaps) and hidden files
 * (locks of editors).
 */
function filesIn(
  directory: string,
  entries: readonly Dirent[],
  closed: Map<string, string>,
): string[] {
  return entries.flatMap((entry) => {
    const path = join(directory, entry.name);
    if (entry.name.startsWith('.')) return [];
    if (!entry.isDirectory()) return RESOURCE_FILE.test(entry.name) ? [path] : [];
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

/** False for a link to a directory. */
function isRealDirectory(path: string): boolean {
  try {
    return lstatSync(resolve(path)).isDirectory();
  } catch {
    return false;
  }
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

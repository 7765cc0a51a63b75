/**
 * Remembers the names of collections over a restart, in a file: a client that asks for a glob again
 * does not say what it holds, and has to be told what was deleted while nobody was there to see it
 * (invariant 18, ENVOY 3). A hint only: without it, or with an old one, all is served just the same.
 */
import {
  closeSync,
  openSync,
  readFileSync,
  readSync,
  realpathSync,
  renameSync,
  statSync,
} from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { decodeCollections, encodeCollections, FILE_START, shiftsAt } from './collection-file.js';
import type { CollectionNames } from '../core/cache/collection.js';
import type { ResourceCache } from '../core/cache/resource-cache.js';

export type MemoryEvent =
  | { readonly kind: 'loaded'; readonly collections: number; readonly names: number }
  /** The file cannot be read, or says what it should not; it is set aside, if that is possible. */
  | { readonly kind: 'refused'; readonly reason: string; readonly setAside: string | undefined }
  | { readonly kind: 'written' }
  | { readonly kind: 'write_failed'; readonly reason: string };

export interface CollectionMemoryOptions {
  /** Absolute path. Each gateway has a file of its own. */
  readonly file: string;
  readonly cache: Pick<
    ResourceCache,
    'collectionChanges' | 'collectionNames' | 'restoreCollections'
  >;
  /** Names are forgotten after this. */
  readonly maxAgeMs: number;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
  /** Milliseconds since 1970. Default: that of the system. */
  readonly wallClock?: () => number;
  /** Default: 64 MiB, some 800,000 names. */
  readonly maxBytes?: number;
  /** Must not throw. */
  readonly onEvent: (event: MemoryEvent) => void;
}

const INTERVAL_MS = 2_000;
const RETRY_MS = 30_000;
const MAX_BYTES = 64 * 1_024 * 1_024;
/** What is known grows no older in the file than this part of what it may. */
const REFRESHES_PER_AGE = 10;

export class CollectionMemory {
  readonly #options: CollectionMemoryOptions;
  readonly #maxBytes: number;
  readonly #wallClock: () => number;
  /** Behind a symbolic link, which stays one. */
  #file: string;
  /** The changes that the file knows. */
  #written = 0;
  #writtenAtMs: number;
  /** What is at that path is not ours, and stays as it is. */
  #isForeign = false;
  #notBeforeMs = -Infinity;
  #writing: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: CollectionMemoryOptions) {
    this.#options = options;
    this.#maxBytes = options.maxBytes ?? MAX_BYTES;
    this.#file = options.file;
    this.#wallClock = options.wallClock ?? Date.now;
    this.#writtenAtMs = options.clock();
  }

  /** Reads the file into the cache, before there are clients, and keeps it up to date from then on. */
  start(): void {
    this.#load();
    this.#written = this.#options.cache.collectionChanges;
    this.#timer = setInterval(() => void this.writeIfDue(), INTERVAL_MS);
    this.#timer.unref();
  }

  /** Stops without writing. */
  close(): void {
    clearInterval(this.#timer);
  }

  /** Writes what is not written yet. */
  async flush(): Promise<void> {
    await this.#writing;
    this.#notBeforeMs = -Infinity;
    await this.writeIfDue();
  }

  /** Never rejects. */
  async writeIfDue(): Promise<void> {
    const { cache, clock, maxAgeMs } = this.#options;
    const nowMs = clock();
    const stale = nowMs - this.#writtenAtMs >= maxAgeMs / REFRESHES_PER_AGE;
    if (this.#isForeign || this.#writing || nowMs < this.#notBeforeMs) return;
    if (this.#written === cache.collectionChanges && !stale) return;
    this.#writing = this.#write(nowMs);
    await this.#writing;
    this.#writing = undefined;
  }

  #load(): void {
    const { cache, clock, onEvent } = this.#options;
    const nowMs = clock();
    let text: string;
    try {
      this.#file = realpathSync(this.#file);
      const stats = statSync(this.#file);
      // A pipe would never end, and a device be replaced.
      if (!stats.isFile()) {
        this.#leaveAlone('is no file');
        return;
      }
      if (stats.size > 0 && startOf(this.#file) !== FILE_START) {
        this.#leaveAlone('is no state file');
        return;
      }
      if (stats.size > this.#maxBytes) {
        this.#refuse(`is larger than ${this.#maxBytes} bytes`);
        return;
      }
      text = readFileSync(this.#file, 'utf8');
    } catch (error) {
      // The first start with this file has none; what is there but cannot be read is no file of ours.
      if (!isMissing(error)) this.#leaveAlone(wordsOf(error));
      return;
    }
    const { fromWallClock } = shiftsAt(nowMs, this.#wallClock());
    const decoded = decodeCollections(text, fromWallClock);
    if (!decoded.ok) {
      this.#refuse(decoded.reason);
      return;
    }
    const { collections } = decoded;
    cache.restoreCollections(collections, nowMs);
    onEvent({ kind: 'loaded', collections: collections.length, names: countNames(collections) });
  }

  /** A path that was mistyped must not cost somebody a file. */
  #leaveAlone(reason: string): void {
    this.#isForeign = true;
    this.#options.onEvent({ kind: 'refused', reason, setAside: undefined });
  }

  #refuse(reason: string): void {
    const { onEvent } = this.#options;
    let setAside: string | undefined = `${this.#file}.refused`;
    try {
      renameSync(this.#file, setAside);
    } catch {
      setAside = undefined; // Then it is replaced by the first write, if that is possible.
    }
    onEvent({ kind: 'refused', reason, setAside });
  }

  /** A file is there whole or not at all, also after a loss of power. */
  async #write(nowMs: number): Promise<void> {
    const { cache, onEvent } = this.#options;
    const file = this.#file;
    const changes = cache.collectionChanges;
    const draft = `${file}.draft`;
    try {
      const handle = await open(draft, 'w', 0o600);
      try {
        for (const piece of this.#pieces(nowMs)) await handle.appendFile(piece);
        await handle.sync();
      } finally {
        await handle.close();
      }
      await rename(draft, file);
      await syncDirectory(dirname(file));
      this.#written = changes;
      this.#writtenAtMs = nowMs;
      onEvent({ kind: 'written' });
    } catch (error) {
      this.#notBeforeMs = nowMs + RETRY_MS;
      // A full disk should not be full of this.
      await rm(draft, { force: true }).catch(() => undefined);
      onEvent({ kind: 'write_failed', reason: wordsOf(error) });
    }
  }

  *#pieces(nowMs: number): IterableIterator<string> {
    const { toWallClock } = shiftsAt(nowMs, this.#wallClock());
    const names = this.#options.cache.collectionNames(nowMs);
    let bytes = 0;
    for (const piece of encodeCollections(names, toWallClock)) {
      bytes += Buffer.byteLength(piece);
      if (bytes > this.#maxBytes) throw new RangeError(`there are over ${this.#maxBytes} bytes`);
      yield piece;
    }
  }
}

/** As many bytes as tell whether it is ours. */
function startOf(file: string): string {
  const bytes = Buffer.alloc(FILE_START.length);
  const handle = openSync(file, 'r');
  try {
    return bytes.toString('utf8', 0, readSync(handle, bytes));
  } finally {
    closeSync(handle);
  }
}

/** So that the new name of the file is on the disk too. */
async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function countNames(collections: readonly CollectionNames[]): number {
  return collections.reduce(
    (sum, { members, removed }) => sum + members.length + removed.length,
    0,
  );
}

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT';

const wordsOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

/**
 * Keeps the names of collections over a restart, in a file. A client that subscribes to a glob again
 * does not send what it holds, so the gateway must know which members were deleted while it was down
 * (invariant 18, ENVOY 3). Without the file, or with an old one, the gateway serves clients all the same.
 */
import {
  closeSync,
  constants,
  openSync,
  readFileSync,
  readlinkSync,
  readSync,
  realpathSync,
  renameSync,
  statSync,
} from 'node:fs';
import { open, readdir, rename, rm } from 'node:fs/promises';
import { randomBytes } from 'node:crypto';
import { basename, dirname, join, resolve } from 'node:path';
import { inOneLine, whyUnreadable } from '../../config/unreadable-file.js';
import { whyNotWritten, whyUnwritable } from '../../config/unwritable-file.js';
import { decodeCollections, encodeCollections, FILE_START, shiftsAt } from './collection-file.js';
import type { CollectionNames } from '../core/cache/collection.js';
import type { ResourceCache } from '../core/cache/resource-cache.js';

export type MemoryEvent =
  | { readonly kind: 'loaded'; readonly collections: number; readonly names: number }
  /** The file is unreadable or invalid. `setAside`: its new path; undefined: it was not renamed. */
  | {
      readonly kind: 'refused';
      readonly file: string;
      readonly reason: string;
      readonly setAside: string | undefined;
    }
  | { readonly kind: 'written' }
  | { readonly kind: 'write_failed'; readonly file: string; readonly reason: string };

export interface CollectionMemoryOptions {
  /** Absolute path. Each gateway needs its own file. */
  readonly file: string;
  readonly cache: Pick<
    ResourceCache,
    'collectionChanges' | 'collectionNames' | 'restoreCollections'
  >;
  /** Names expire after this time. */
  readonly maxAgeMs: number;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
  /** Milliseconds since 1970. Default: the system clock. */
  readonly wallClock?: () => number;
  /** Default: 64 MiB, about 800,000 names. */
  readonly maxBytes?: number;
  /** Must not throw. */
  readonly onEvent: (event: MemoryEvent) => void;
}

const INTERVAL_MS = 2_000;
const RETRY_MS = 30_000;
const MAX_BYTES = 64 * 1_024 * 1_024;
/**
 * A draft is a new file under an unpredictable name. So the gateway never opens a file, pipe or symbolic
 * link that another user of the directory put there, and never keeps its mode.
 */
const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
const DRAFT_BYTES = 8;
const DRAFT_END = /^[0-9a-f]{16}\.draft$/;
/** Rewrite an unchanged file this often per `maxAgeMs`, so that its names do not expire early. */
const REFRESHES_PER_AGE = 10;

export class CollectionMemory {
  readonly #options: CollectionMemoryOptions;
  readonly #maxBytes: number;
  readonly #wallClock: () => number;
  /** The target of a symbolic link, so that replacing the file by rename keeps the link. */
  #file: string;
  /** `collectionChanges` at the time of the last write. */
  #written = 0;
  #writtenAtMs: number;
  /** The path is not a state file: it stays untouched, and the feature is off. */
  #isForeign = false;
  #notBeforeMs = -Infinity;
  #areDraftsDeleted = false;
  #writing: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: CollectionMemoryOptions) {
    this.#options = options;
    this.#maxBytes = options.maxBytes ?? MAX_BYTES;
    this.#file = options.file;
    this.#wallClock = options.wallClock ?? Date.now;
    this.#writtenAtMs = options.clock();
  }

  /** Restores the cache from the file, then keeps the file up to date. Call it before the first client. */
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

  /** Writes pending changes. */
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
      // Reading a pipe would never end, and the rename would replace a device.
      if (!stats.isFile()) {
        this.#leaveAlone('is not a regular file');
        return;
      }
      const start = startOf(this.#file);
      // Some file systems leave zeros after a power loss.
      const isLost = /^\0*$/.test(start);
      if (!isLost && start !== FILE_START) {
        this.#leaveAlone(
          'is not a state file: the gateway stores no names (move the file, or correct state_file)',
        );
        return;
      }
      if (stats.size > this.#maxBytes) {
        this.#refuse(`is larger than ${this.#maxBytes} bytes`);
        return;
      }
      text = readFileSync(this.#file, 'utf8');
    } catch (error) {
      // A file that exists but is unreadable is not ours.
      if (isMissing(error)) this.#startNew();
      else this.#leaveAlone(inOneLine(whyUnreadable(this.#file, error)));
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

  /** A missing file is normal at the first start. An operator learns at once if it can never be written. */
  #startNew(): void {
    const file = targetOfLink(this.#file);
    this.#file = file;
    const why = whyUnwritable(file);
    if (why !== undefined) {
      this.#options.onEvent({ kind: 'write_failed', file, reason: inOneLine(why) });
    }
  }

  /** A mistyped path must not destroy another file. */
  #leaveAlone(reason: string): void {
    this.#isForeign = true;
    this.#options.onEvent({ kind: 'refused', file: this.#file, reason, setAside: undefined });
  }

  #refuse(reason: string): void {
    const { onEvent } = this.#options;
    let setAside: string | undefined = `${this.#file}.refused`;
    try {
      renameSync(this.#file, setAside);
    } catch {
      setAside = undefined; // The first write replaces it, if possible.
    }
    onEvent({ kind: 'refused', file: this.#file, reason, setAside });
  }

  /** Writes a draft, syncs and renames it: even after a power loss the file is old or new, never partial. */
  async #write(nowMs: number): Promise<void> {
    const { cache, onEvent } = this.#options;
    const file = this.#file;
    const changes = cache.collectionChanges;
    const draft = `${file}.${randomBytes(DRAFT_BYTES).toString('hex')}.draft`;
    try {
      await this.#deleteOldDrafts();
      const handle = await open(draft, NEW_FILE, 0o600);
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
      // The draft must not fill up a full disk.
      await rm(draft, { force: true }).catch(() => undefined);
      onEvent({ kind: 'write_failed', file, reason: inOneLine(whyNotWritten(file, error)) });
    }
  }

  /** A process that was killed while it wrote left its draft. */
  async #deleteOldDrafts(): Promise<void> {
    if (this.#areDraftsDeleted) return;
    const [directory, start] = [dirname(this.#file), `${basename(this.#file)}.`];
    for (const name of await readdir(directory)) {
      if (name.startsWith(start) && DRAFT_END.test(name.slice(start.length))) {
        await rm(join(directory, name), { force: true });
      }
    }
    this.#areDraftsDeleted = true;
  }

  *#pieces(nowMs: number): IterableIterator<string> {
    const { toWallClock } = shiftsAt(nowMs, this.#wallClock());
    const names = this.#options.cache.collectionNames(nowMs);
    let bytes = 0;
    for (const piece of encodeCollections(names, toWallClock)) {
      bytes += Buffer.byteLength(piece);
      if (bytes > this.#maxBytes)
        throw new RangeError(`the names need more than ${this.#maxBytes} bytes`);
      yield piece;
    }
  }
}

/** The first bytes of a file, as many as `FILE_START` has. */
function startOf(file: string): string {
  const bytes = Buffer.alloc(FILE_START.length);
  const handle = openSync(file, 'r');
  try {
    return bytes.toString('utf8', 0, readSync(handle, bytes));
  } finally {
    closeSync(handle);
  }
}

/** Without it, a power loss could undo the rename. */
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

/** The first write creates the file to which a link leads, and keeps the link. */
function targetOfLink(file: string): string {
  try {
    return resolve(dirname(file), readlinkSync(file));
  } catch {
    return file; // Not a link.
  }
}

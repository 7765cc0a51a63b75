/**
 * The changes of one name, or of the members of one glob, as rows. The latest content wins: a reader
 * that is slow misses versions in between, and memory is bounded by the names, not by the changes.
 */
import { wireText, type ResourceName } from '../../protos/resource-name.js';
import { LOG_START } from '../core/cache/change-log.js';
import type { Projection } from '../../authorities/index.js';
import type { GlobEntry, NameEntry } from '../core/cache/entries.js';
import type { ResourceCache } from '../core/cache/resource-cache.js';

/** `complete`: the source has sent all members of the glob. */
export interface ChangeRow {
  readonly kind: 'present' | 'absent' | 'error' | 'complete';
  readonly name: string;
  readonly projection?: Projection;
  /** The reason of `absent` or `error`. */
  readonly message?: string;
  /** Of `complete`: number of members. */
  readonly count?: number;
}

/** Rows in one piece. A count. */
const MAX_ROWS = 500;

export interface ChangeFeed {
  /** @returns at most 500 rows; call again until it is empty */
  take(): readonly ChangeRow[];
  close(nowMs: number): void;
}

/** @param onReady called for each change; `take` has it */
export function openChangeFeed(
  cache: ResourceCache,
  typeUrl: string,
  name: ResourceName,
  onReady: () => void,
): ChangeFeed {
  return name.isGlob
    ? new GlobFeed(cache, typeUrl, name, onReady)
    : new NameFeed(cache, typeUrl, name, onReady);
}

class NameFeed implements ChangeFeed {
  readonly #cache: ResourceCache;
  readonly #entry: NameEntry;
  readonly #subscriber: { readonly handleNameChanged: () => void };
  /** The state in the last event. */
  #told: unknown;

  constructor(cache: ResourceCache, typeUrl: string, name: ResourceName, onReady: () => void) {
    this.#cache = cache;
    this.#subscriber = { handleNameChanged: onReady };
    this.#entry = cache.subscribeName(typeUrl, name, this.#subscriber);
  }

  take(): readonly ChangeRow[] {
    const { state, name } = this.#entry;
    // A name that is sent again unchanged has another state with the same version.
    const now = state.kind === 'present' ? state.projection.version : state;
    if (state.kind === 'waiting' || now === this.#told) return [];
    this.#told = now;
    const { kind } = state;
    if (kind === 'present') return [{ kind, name: name.key, projection: state.projection }];
    const { status } = state;
    return [{ kind, name: name.key, ...(status ? { message: status.message } : {}) }];
  }

  close(nowMs: number): void {
    this.#cache.unsubscribeName(this.#entry, this.#subscriber, 'unsubscribed', nowMs);
  }
}

class GlobFeed implements ChangeFeed {
  readonly #cache: ResourceCache;
  readonly #entry: GlobEntry;
  readonly #subscriber: {
    readonly handleGlobChanged: (glob: GlobEntry, gone?: { readonly key: string }) => void;
  };
  /** Keys of removed members that the reader was told of, and whose removal the reader was not told of. `#told` bounds it. */
  readonly #gone = new Set<string>();
  readonly #told = new Set<string>();
  #tellSeq = LOG_START;
  #isComplete = false;
  #error: unknown;

  constructor(cache: ResourceCache, typeUrl: string, glob: ResourceName, onReady: () => void) {
    this.#cache = cache;
    this.#subscriber = {
      handleGlobChanged: (_, gone) => {
        if (gone && this.#told.has(gone.key)) this.#gone.add(gone.key);
        onReady();
      },
    };
    this.#entry = cache.subscribeGlob(typeUrl, glob, this.#subscriber);
  }

  take(): readonly ChangeRow[] {
    const { collection, error } = this.#entry;
    const rows: ChangeRow[] = [];
    for (const key of this.#gone) {
      if (rows.length === MAX_ROWS) return rows;
      this.#gone.delete(key);
      if (collection.member(key)) continue;
      this.#told.delete(key);
      rows.push({ kind: 'absent', name: wireText(key) });
    }
    for (const { key, seq, projection } of collection.members.since(this.#tellSeq)) {
      if (rows.length === MAX_ROWS) return rows;
      this.#tellSeq = seq;
      this.#told.add(key);
      rows.push({ kind: 'present', name: wireText(key), projection });
    }
    const name = collection.glob.key;
    if (error && error !== this.#error) rows.push({ kind: 'error', name, message: error.message });
    this.#error = error;
    if (collection.complete && !this.#isComplete) {
      rows.push({ kind: 'complete', name, count: collection.members.size });
    }
    this.#isComplete = collection.complete;
    return rows;
  }

  close(nowMs: number): void {
    this.#cache.unsubscribeGlob(this.#entry, this.#subscriber, 'unsubscribed', nowMs);
  }
}

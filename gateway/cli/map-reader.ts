/** Reads a changed authority map without blocking the event loop: a worker thread parses and checks it. */
import { once } from 'node:events';
import { isDeepStrictEqual } from 'node:util';
import { Worker } from 'node:worker_threads';
import { deepFreeze } from '../../config/freeze.js';
import type { AuthorityMap } from '../../config/model.js';
import type { MapPiece, MapRest, MapTask } from './map-pieces.js';

export interface Changes {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
}

export type MapRead =
  | Extract<MapPiece, { readonly kind: 'same' | 'refused' }>
  | {
      readonly kind: 'read';
      readonly digest: string | undefined;
      /** Its entries that are as before are the same objects as before. */
      readonly map: AuthorityMap;
      readonly warnings: readonly string[];
      readonly sources: Changes;
      readonly authorities: Changes;
      /** The names of the other sections that differ, such as `oldStyle`. */
      readonly sections: readonly string[];
    };

const WORKER = new URL('./map-worker.js', import.meta.url);
const MAX_HEAP_MIB = 1_024;

/**
 * @param before the map in force
 * @param signal ends the reading; the promise then rejects
 * @throws Error when the thread ended, such as when it had no memory left
 */
export async function readMap(
  task: MapTask,
  before: AuthorityMap,
  signal: AbortSignal,
): Promise<MapRead> {
  const worker = new Worker(WORKER, {
    workerData: task,
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB },
    // Options of the main thread, such as a debugger, are not for this one.
    execArgv: [],
  });
  worker.unref();
  const next = async (): Promise<MapPiece> => {
    // `once` rejects with the error of the thread.
    const answer = once(worker, 'message', { signal }) as Promise<[MapPiece]>;
    worker.postMessage('next');
    return (await answer)[0];
  };
  try {
    return await assemble(next, before);
  } finally {
    void worker.terminate();
  }
}

/** Each piece arrives in a turn of its own. */
async function assemble(next: () => Promise<MapPiece>, before: AuthorityMap): Promise<MapRead> {
  const sources = new ChangedTable(before.sources);
  const authorities = new ChangedTable(before.authorities);
  for (;;) {
    const piece = await next();
    switch (piece.kind) {
      case 'same':
      case 'refused':
        return piece;
      case 'sources':
        sources.add(piece.entries);
        break;
      case 'authorities':
        authorities.add(piece.entries);
        break;
      case 'rest': {
        const { digest, rest, warnings } = piece;
        const tables = { sources: sources.entries, authorities: authorities.entries };
        return {
          kind: 'read',
          digest,
          map: Object.freeze({ ...deepFreeze(rest), ...tables }),
          warnings,
          sources: sources.changes(),
          authorities: authorities.changes(),
          sections: changedSections(before, rest),
        };
      }
    }
  }
}

/** A table of the map, compared with the one before it as its entries arrive. */
class ChangedTable<T> {
  readonly entries = new Map<string, T>();
  readonly #before: ReadonlyMap<string, T>;
  readonly #added: string[] = [];
  readonly #changed: string[] = [];

  constructor(before: ReadonlyMap<string, T>) {
    this.#before = before;
  }

  add(entries: readonly (readonly [string, T])[]): void {
    for (const [name, entry] of entries) {
      const known = this.#before.get(name);
      if (known !== undefined && isDeepStrictEqual(known, entry)) {
        this.entries.set(name, known);
        continue;
      }
      this.entries.set(name, deepFreeze(entry));
      (known === undefined ? this.#added : this.#changed).push(name);
    }
  }

  changes(): Changes {
    const removed = [...this.#before.keys()].filter((name) => !this.entries.has(name));
    return { added: this.#added, removed, changed: this.#changed };
  }
}

function changedSections(before: AuthorityMap, rest: MapRest): readonly string[] {
  const old = new Map<string, unknown>(Object.entries(before));
  const now = new Map<string, unknown>(Object.entries(rest));
  for (const table of ['sources', 'authorities']) old.delete(table);
  const names = new Set([...old.keys(), ...now.keys()]);
  return [...names].filter((name) => !isDeepStrictEqual(old.get(name), now.get(name)));
}

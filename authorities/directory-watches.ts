/**
 * Watches directories for changes of their entries. If the host has no watches left, it reports this as a problem, and
 * calls `onChange` every LOOK_AGAIN_MS.
 */
import { watch, type FSWatcher } from 'node:fs';
import { join } from 'node:path';

export interface WatchedDirectory {
  readonly directory: string;
  /** The only entry that matters; undefined: all. */
  readonly entry?: string;
}

/** How long after it found no watch left. Milliseconds. */
const LOOK_AGAIN_MS = 5_000;

/** The system has no more watches or descriptors, whatever the path. */
const EXHAUSTED: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EMFILE', 'ENFILE']);

export class DirectoryWatches {
  readonly #onChange: (path: string | undefined) => void;
  #watchers: FSWatcher[] = [];
  #timer: NodeJS.Timeout | undefined;
  #problem: string | undefined;

  /** @param onChange gets the path of the changed entry; undefined: it may be any */
  constructor(onChange: (path: string | undefined) => void) {
    this.#onChange = onChange;
  }

  /** Why changes of some directories go unnoticed until the next look; undefined: all are watched. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Watches these directories only. It skips one that does not exist: a watch on its parent reports it. */
  replace(directories: readonly WatchedDirectory[]): void {
    this.close();
    this.#problem = undefined;
    for (const one of directories) this.#watch(one);
    if (!this.problem) return;
    this.#timer = setTimeout(() => {
      this.#onChange(undefined);
    }, LOOK_AGAIN_MS);
    this.#timer.unref();
  }

  close(): void {
    clearTimeout(this.#timer);
    for (const watcher of this.#watchers) watcher.close();
    this.#watchers = [];
  }

  #watch({ directory, entry }: WatchedDirectory): void {
    try {
      const watcher = watch(directory, { persistent: false }, (_event, changed) => {
        // Some platforms do not say what changed.
        if (changed === null) this.#onChange(undefined);
        else if (entry === undefined || changed === entry) this.#onChange(join(directory, changed));
      });
      watcher.on('error', () => {
        this.#onChange(undefined);
      });
      this.#watchers.push(watcher);
    } catch (error) {
      this.#problem = unwatchable(directory, error, LOOK_AGAIN_MS) ?? this.#problem;
    }
  }
}

/**
 * @param error of `fs.watch`
 * @param lookMs how often the path is read without a watch, in ms
 * @returns what to tell the operator if the system has no more watches; undefined: that is not the reason
 */
export function unwatchable(path: string, error: unknown, lookMs: number): string | undefined {
  const { code } = error as NodeJS.ErrnoException;
  if (!EXHAUSTED.has(code)) return undefined;
  return `${path}: changes cannot be watched, ${code}: it is read every ${lookMs / 1_000} s (raise fs.inotify.max_user_watches and max_user_instances, or the limit of open files)`;
}

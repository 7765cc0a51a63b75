/**
 * Reloads the authority map on SIGHUP and when its file changes. An invalid map is refused as a whole:
 * the log lists its problems, and the old map stays in force.
 */
import { watch, type FSWatcher } from 'node:fs';
import { dirname } from 'node:path';
import { unwatchable } from '../../authorities/index.js';
import { fingerprintOf } from '../../config/file-fingerprint.js';
import type { AuthorityMap } from '../../config/model.js';
import type { Telemetry } from '../telemetry/telemetry.js';
import { readMap, type Changes, type MapRead } from './map-reader.js';
import { digestOf } from './map-pieces.js';

/** The file of a map at one moment. */
export interface MapStamp {
  readonly fingerprint: string | undefined;
  readonly digest: string | undefined;
}

export const stampOf = (file: string): MapStamp => ({
  fingerprint: fingerprintOf(file),
  digest: digestOf(file),
});

export interface MapFileOptions {
  /** Absolute path. */
  readonly file: string;
  /** From before the map was read: the file may change while the gateway starts. */
  readonly stamp: MapStamp;
  readonly map: AuthorityMap;
  readonly apply: (map: AuthorityMap) => void;
  /** Called with each valid map that is read. `warnings` are those of the file: `file:line:column: …`. */
  readonly warn: (map: AuthorityMap, warnings: readonly string[]) => void;
  readonly telemetry: Telemetry;
}

/** Editors write in several steps: wait until the file stays as it is for this long. */
const SETTLE_MS = 100;
/** A file that changes all the time is read after this time. */
const MAX_SETTLE_MS = 1_000;
/** How often the file is looked at without an event. */
const LOOK_MS = 5_000;
/** The log lists at most as many names of each kind. */
const MAX_LISTED = 50;

export class MapFile {
  readonly #options: MapFileOptions;
  readonly #closing = new AbortController();
  #map: AuthorityMap;
  #digest: string | undefined;
  /** {@link fingerprintOf} of the file that was read last. */
  #fingerprint: string | undefined;
  #watcher: FSWatcher | undefined;
  #timer: NodeJS.Timeout | undefined;
  #lookTimer: NodeJS.Timeout | undefined;
  #reading: Promise<void> | undefined;
  #isReadAgain = false;
  /** The last look did not find the file. */
  #isMissing = false;
  /** The file and the problems that were told last; undefined: it was read since. */
  #refused: string | undefined;

  constructor(options: MapFileOptions) {
    this.#options = options;
    this.#map = options.map;
    this.#fingerprint = options.stamp.fingerprint;
    this.#digest = options.stamp.digest;
  }

  /**
   * Watches the directory of the file. A watch on the file itself would miss a replacement by rename, and
   * by a symbolic link beside it (Kubernetes).
   */
  watch(): void {
    const { file, telemetry } = this.#options;
    try {
      this.#watcher = watch(dirname(file), { persistent: false }, () => {
        // Further events do not extend the delay: writes beside the file would delay it for ever.
        if (this.#timer) return;
        this.#settle(fingerprintOf(file), performance.now());
      });
      this.#watcher.on('error', (error) => {
        telemetry.onHandlerError(error);
      });
    } catch (error) {
      const warning = unwatchable(file, error, LOOK_MS);
      if (warning === undefined) telemetry.onHandlerError(error);
      else telemetry.say('map_warning', { warning });
    }
    this.#lookTimer = setInterval(() => {
      this.#look();
    }, LOOK_MS).unref();
    const now = fingerprintOf(file);
    if (now !== this.#fingerprint) this.#settle(now, performance.now());
  }

  /**
   * No event follows if the directory of the file is replaced, or a link above it. Nor if what made the gateway refuse the map
   * passes: a file that the map names was missing, or the gateway had no descriptor left.
   */
  #look(): void {
    if (this.#timer || this.#reading) return;
    const now = fingerprintOf(this.#options.file);
    if (now === undefined) this.#noteMissing();
    else if (this.#refused !== undefined) void this.#read(undefined);
    else if (now !== this.#fingerprint) this.#settle(now, performance.now());
    this.#isMissing = now === undefined;
  }

  /** The gateway goes on with its map, but its next start would fail. A file that is being replaced is missing for one look at most. */
  #noteMissing(): void {
    if (!this.#isMissing) return;
    this.#fingerprint = undefined;
    const { file } = this.#options;
    this.#refuse([`${file}: the file is missing: put it back, or the next start fails`]);
  }

  /** Waits until the file stays as it is, and reads it if it changed. */
  #settle(seen: string | undefined, startedMs: number): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      const now = fingerprintOf(this.#options.file);
      if (now !== seen && performance.now() - startedMs < MAX_SETTLE_MS) {
        this.#settle(now, startedMs);
        return;
      }
      // Without a fingerprint the file is being replaced: another event follows.
      if (now !== undefined && now !== this.#fingerprint) void this.#read(this.#digest);
    }, SETTLE_MS);
    this.#timer.unref();
  }

  /** Reads the file, also if it did not change. @returns once it is applied or refused; never rejects. */
  reload(): Promise<void> {
    this.#refused = undefined;
    return this.#read(undefined);
  }

  /** One reading at a time; a change during one leads to another one after it. */
  async #read(unlessDigest: string | undefined): Promise<void> {
    if (this.#reading) {
      this.#isReadAgain = true;
      return this.#reading;
    }
    this.#reading = this.#readOnce(unlessDigest);
    await this.#reading;
    this.#reading = undefined;
    if (!this.#isReadAgain || this.#closing.signal.aborted) return;
    this.#isReadAgain = false;
    await this.#read(this.#digest);
  }

  async #readOnce(unlessDigest: string | undefined): Promise<void> {
    const { file } = this.#options;
    this.#fingerprint = fingerprintOf(file);
    try {
      const task = { file, unlessDigest };
      this.#take(await readMap(task, this.#map, this.#closing.signal));
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      const reason = error instanceof Error ? error.message : String(error);
      this.#refuse([`${file}: cannot be read now: ${reason}`]);
    }
  }

  /** The same problems of one file are told once, however often it is read. */
  #refuse(problems: readonly string[]): void {
    const { file, telemetry } = this.#options;
    const refused = `${this.#fingerprint ?? ''} ${problems.join('\n')}`;
    if (refused === this.#refused) return;
    this.#refused = refused;
    telemetry.onMapReload('refused');
    telemetry.say('map_refused', { file, problems });
  }

  #take(read: MapRead): void {
    const { file, telemetry, apply, warn } = this.#options;
    if (read.kind === 'same') return;
    this.#digest = read.digest;
    if (read.kind === 'refused') {
      this.#refuse(read.problems);
      return;
    }
    this.#refused = undefined;
    warn(read.map, read.warnings);
    const { sources, authorities, sections } = read;
    if (isEmpty(sources) && isEmpty(authorities) && sections.length === 0) {
      telemetry.onMapReload('unchanged');
      telemetry.say('map_unchanged', { file });
      return;
    }
    try {
      apply(read.map);
    } catch (error) {
      telemetry.onHandlerError(error);
      return;
    }
    this.#map = read.map;
    telemetry.onMapReload('applied', read.map);
    telemetry.say('map_reloaded', {
      file,
      sources: listed(sources),
      authorities: listed(authorities),
      ...Object.fromEntries(sections.map((name) => [SECTION_FIELDS[name] ?? name, 'changed'])),
    });
  }

  close(): void {
    clearTimeout(this.#timer);
    clearInterval(this.#lookTimer);
    this.#closing.abort();
    this.#watcher?.close();
  }
}

/** The names of sections in the log. */
const SECTION_FIELDS: Readonly<Record<string, string>> = {
  oldStyle: 'oldStyleNames',
  defaultSource: 'defaultConfigSource',
};

const isEmpty = ({ added, removed, changed }: Changes): boolean =>
  added.length + removed.length + changed.length === 0;

function listed({ added, removed, changed }: Changes): Changes {
  return { added: first(added), removed: first(removed), changed: first(changed) };
}

function first(names: readonly string[]): readonly string[] {
  if (names.length <= MAX_LISTED) return names;
  return [...names.slice(0, MAX_LISTED), `and ${names.length - MAX_LISTED} more`];
}

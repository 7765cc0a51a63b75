/**
 * Reloads the authority map on SIGHUP and when its file changes. An invalid map is refused as a whole:
 * the log lists every problem, and the old map stays in force.
 */
import { readFileSync, watch, type FSWatcher } from 'node:fs';
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { loadAuthorityMap } from '../../config/authority-map.js';
import type { AuthorityMap } from '../../config/model.js';
import { formatProblem } from '../../config/problems.js';
import type { Telemetry } from '../telemetry/telemetry.js';

export interface MapFileOptions {
  /** Absolute path. */
  readonly file: string;
  readonly map: AuthorityMap;
  readonly apply: (map: AuthorityMap) => void;
  readonly telemetry: Telemetry;
}

/** Editors write in several steps: wait for the last one. */
const SETTLE_MS = 100;

export class MapFile {
  readonly #options: MapFileOptions;
  #map: AuthorityMap;
  #text: string | undefined;
  #watcher: FSWatcher | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: MapFileOptions) {
    this.#options = options;
    this.#map = options.map;
    this.#text = this.#read();
  }

  /**
   * Watches the directory of the file. A watch on the file itself would miss a replacement by rename, and
   * by a symbolic link beside it (Kubernetes).
   */
  watch(): void {
    try {
      this.#watch();
    } catch (error) {
      // E.g. the host has no inotify watches left: SIGHUP still works.
      this.#options.telemetry.onHandlerError(error);
    }
  }

  #watch(): void {
    const { file, telemetry } = this.#options;
    this.#watcher = watch(dirname(file), { persistent: false }, () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => {
        const text = this.#read();
        if (text === undefined || text === this.#text) return;
        this.reload();
      }, SETTLE_MS);
      this.#timer.unref();
    });
    this.#watcher.on('error', (error) => {
      telemetry.onHandlerError(error);
    });
  }

  reload(): void {
    const { file, telemetry, apply } = this.#options;
    this.#text = this.#read();
    const loaded = loadAuthorityMap(file);
    if (!loaded.ok) {
      telemetry.onMapReload('refused');
      telemetry.say('map_refused', { file, problems: loaded.problems.map(formatProblem) });
      return;
    }
    for (const warning of loaded.warnings) {
      telemetry.say('map_warning', { warning: formatProblem(warning) });
    }
    if (isDeepStrictEqual(loaded.map, this.#map)) {
      telemetry.say('map_unchanged', { file });
      return;
    }
    const sources = changesOf(this.#map.sources, loaded.map.sources);
    const authorities = changesOf(this.#map.authorities, loaded.map.authorities);
    const isSame = isDeepStrictEqual(this.#map.oldStyle, loaded.map.oldStyle);
    const isSameDefault = isDeepStrictEqual(this.#map.defaultSource, loaded.map.defaultSource);
    try {
      apply(loaded.map);
    } catch (error) {
      telemetry.onHandlerError(error);
      return;
    }
    this.#map = loaded.map;
    telemetry.onMapReload('applied', loaded.map);
    telemetry.say('map_reloaded', {
      file,
      sources,
      authorities,
      ...(isSame ? {} : { oldStyleNames: 'changed' }),
      ...(isSameDefault ? {} : { defaultConfigSource: 'changed' }),
    });
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#watcher?.close();
  }

  #read(): string | undefined {
    try {
      return readFileSync(this.#options.file, 'utf8');
    } catch {
      return undefined; // The file is being replaced: another event follows.
    }
  }
}

export interface Changes {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
}

export function changesOf(
  before: ReadonlyMap<string, unknown>,
  after: ReadonlyMap<string, unknown>,
): Changes {
  return {
    added: [...after.keys()].filter((name) => !before.has(name)),
    removed: [...before.keys()].filter((name) => !after.has(name)),
    changed: [...after].flatMap(([name, value]) =>
      before.has(name) && !isDeepStrictEqual(before.get(name), value) ? [name] : [],
    ),
  };
}

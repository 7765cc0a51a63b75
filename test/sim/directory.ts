/**
 * A directory of resource files as a source. It has one file per type. Writers write in place or
 * replace the file; every watcher is notified of each change.
 */
import {
  GoodFiles,
  type FoundFile,
  type ParsedText,
} from '../../authorities/core/sources/good-files.js';
import type { FileResource } from '../../config/file-resource.js';
import type { Source } from '../../authorities/core/sources/source.js';
import type { Instance } from './instance.js';
import { partsOf, REDIRECT } from './names.js';
import { Random } from './random.js';
import type { Site } from './site.js';
import type { Upstream } from './upstream.js';

/** Time from a change to its event. */
const NOTICED_MS = 20;
/** The delay of authorities/filesystem-source.ts. */
const SETTLE_MS = 50;

export class Directory {
  readonly server: Upstream;
  readonly #site: Site;
  readonly #dice: Random;
  /** By path: a text that represents the content of the file, or half of it. */
  readonly #files = new Map<string, string>();
  readonly #meanings = new Map<string, readonly FileResource[]>();
  readonly #readers = new Set<DirectoryReader>();
  #texts = 0;
  isReadable = true;
  /** Share of writes that can be observed half done. */
  torn = 0;

  constructor(site: Site, server: Upstream) {
    this.server = server;
    this.#site = site;
    this.#dice = new Random(site.spec.seed, `directory ${server.name}`);
    server.onAnnounced = (names) => {
      this.write(new Set(names.map((name) => partsOf(name).typeUrl)));
    };
  }

  /** Replaces the files of these types by the publisher's present content. */
  write(typeUrls: Iterable<string>): void {
    for (const path of typeUrls) {
      const text = this.#textOf(path);
      if (!this.#dice.chance(this.torn)) {
        this.#files.set(path, text);
        continue;
      }
      this.#files.set(path, `half of ${text}`);
      this.#site.queue.after(this.#dice.between(1, 20_000), () => {
        // Skip if it has been written again.
        if (this.#files.get(path) !== `half of ${text}`) return;
        this.#files.set(path, text);
        this.stir();
      });
    }
    this.stir();
  }

  writeAll(): void {
    const types = this.server.names.map((name) => partsOf(name).typeUrl);
    this.write(new Set([...this.#files.keys(), ...types]));
  }

  remove(path: string): void {
    this.#files.delete(path);
    this.stir();
  }

  stir(): void {
    for (const reader of this.#readers) reader.handleEvent(this.#dice.between(0, NOTICED_MS));
  }

  /** @returns undefined if the directory cannot be read. */
  list(): readonly FoundFile[] | undefined {
    if (!this.isReadable) return undefined;
    return [...this.#files].sort().map(([path, text]) => ({ path, text }));
  }

  parse(text: string): ParsedText {
    const resources = this.#meanings.get(text);
    return resources ? { ok: true, resources } : { ok: false, problems: [text], resources: [] };
  }

  /** The initial content is read before the first subscription. */
  open(): void {
    this.writeAll();
    for (const reader of this.#readers) reader.load();
  }

  /** An instance starts to watch the directories of its map; it reads them before it returns. */
  watch(instance: Instance): void {
    const machine = instance.federation.source(this.server.name);
    for (const reader of this.#readers) {
      if (reader.instance === instance && reader.machine === machine) return;
      const isOver = reader.instance === instance || !reader.instance.isAlive;
      if (isOver) this.#readers.delete(reader);
    }
    if (!machine) return;
    const reader = new DirectoryReader(this, instance, machine);
    this.#readers.add(reader);
    reader.load();
  }

  isWatchedBy(reader: DirectoryReader): boolean {
    return this.#readers.has(reader);
  }

  #textOf(path: string): string {
    const names = this.server.names.filter((name) => partsOf(name).typeUrl === path);
    const text = `text ${++this.#texts}`;
    this.#meanings.set(
      text,
      names.map((name) => {
        const { body, isRedirect } = this.server.get(name)!;
        return { name, typeUrl: isRedirect ? REDIRECT : path, body };
      }),
    );
    return text;
  }
}

/** The part of authorities/filesystem-source.ts for one instance. */
class DirectoryReader {
  readonly instance: Instance;
  /** The source that it loads; a reload may replace it. */
  readonly machine: Source;
  readonly #directory: Directory;
  readonly #good: GoodFiles;
  #isScheduled = false;

  constructor(directory: Directory, instance: Instance, machine: Source) {
    this.machine = machine;
    this.instance = instance;
    this.#directory = directory;
    this.#good = new GoodFiles((text) => directory.parse(text));
  }

  handleEvent(noticedMs: number): void {
    if (this.#isScheduled || !this.instance.isAlive) return;
    this.#isScheduled = true;
    this.instance.machine.queue.after(noticedMs + SETTLE_MS, () => {
      this.#isScheduled = false;
      if (this.#directory.isWatchedBy(this)) this.load();
    });
  }

  load(): void {
    const { instance } = this;
    const { name } = this.#directory.server;
    const files = this.#directory.list();
    const loaded = files && this.#good.load(files);
    const { federation, machine, nowMs } = instance;
    for (const resource of machine.spec.hasSmallPortions ? (loaded?.resources ?? []) : []) {
      instance.act(() => {
        federation.handlePart(name, { resources: [resource], nowMs });
      });
    }
    instance.act(() => {
      if (loaded) federation.handleLoaded(name, { ...loaded, nowMs });
      else federation.handleUnreadable(name, nowMs);
    });
  }
}

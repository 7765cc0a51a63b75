/**
 * A directory of resource files, as something that publishes. It has one file for each type; whoever
 * writes them does so in place or not, and each change is noticed by those who watch.
 */
import {
  GoodFiles,
  type FoundFile,
  type ParsedText,
} from '../../authorities/core/sources/good-files.js';
import type { FileResource } from '../../authorities/core/sources/file-source.js';
import type { Source } from '../../authorities/core/sources/source.js';
import type { Instance } from './instance.js';
import { partsOf, REDIRECT } from './names.js';
import { Random } from './random.js';
import type { Site } from './site.js';
import type { Upstream } from './upstream.js';

/** From the change to the event. */
const NOTICED_MS = 20;
/** As authorities/filesystem-source.ts waits. */
const SETTLE_MS = 50;

export class Directory {
  readonly server: Upstream;
  readonly #site: Site;
  readonly #dice: Random;
  /** By path: a text that stands for what the file says, or for half of it. */
  readonly #files = new Map<string, string>();
  readonly #meanings = new Map<string, readonly FileResource[]>();
  readonly #readers = new Set<DirectoryReader>();
  #texts = 0;
  isReadable = true;
  /** The share of writes that can be seen half done. */
  torn = 0;

  constructor(site: Site, server: Upstream) {
    this.server = server;
    this.#site = site;
    this.#dice = new Random(site.spec.seed, `directory ${server.name}`);
    server.onAnnounced = (names) => {
      this.write(new Set(names.map((name) => partsOf(name).typeUrl)));
    };
  }

  /** Replaces the files of these types by what the publisher has now. */
  write(typeUrls: Iterable<string>): void {
    for (const path of typeUrls) {
      const text = this.#textOf(path);
      if (!this.#dice.chance(this.torn)) {
        this.#files.set(path, text);
        continue;
      }
      this.#files.set(path, `half of ${text}`);
      this.#site.queue.after(this.#dice.between(1, 20_000), () => {
        // Unless it was written again since.
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
    return resources ? { ok: true, resources } : { ok: false, problems: [text] };
  }

  /** What is there at first is read before anybody asks. */
  open(): void {
    this.writeAll();
    for (const reader of this.#readers) reader.load();
  }

  /** An instance watches from now on what its map has; it reads once before it goes on. */
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

/** What authorities/filesystem-source.ts does for one instance. */
class DirectoryReader {
  readonly instance: Instance;
  /** The one that it reads for; a reload may bring another. */
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
    instance.act(() => {
      const { federation, nowMs } = instance;
      if (files) federation.handleLoaded(name, { ...this.#good.load(files), nowMs });
      else federation.handleUnreadable(name, nowMs);
    });
  }
}

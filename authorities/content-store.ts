/**
 * Keeps the content that groups serve on disk, for a process that starts while its sources are unreachable
 * (docs/FAILOVER.md, "Content on disk"). Best effort: the store reports each failure, and the gateway goes on serving.
 *
 * A LevelDB database: a batch is written whole or not at all, on another thread, and a process holds a lock. LMDB was
 * rejected, since a damaged file ends the process.
 */
import { hash } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';
import type { ClassicLevel } from 'classic-level';
import { globKeyOf, nameOfKey, type ResourceName } from '../protos/resource-name.js';
import type { LastKnown } from './core/failover/last-known.js';
import { readResource, type Projection } from './core/projection.js';
import {
  decodeContent,
  encodeContent,
  headerOf,
  type Header,
  type KeptContent,
} from './kept-content.js';

export type ContentStoreEvent =
  /** `resources` of earlier processes. */
  | { readonly kind: 'opened'; readonly directory: string; readonly resources: number }
  /** The store cannot be used: the process keeps nothing and finds nothing. */
  | { readonly kind: 'refused'; readonly directory: string; readonly reason: string }
  /** The database was damaged; the gateway empties it. */
  | { readonly kind: 'damaged'; readonly directory: string; readonly reason: string }
  | { readonly kind: 'write_failed'; readonly directory: string; readonly reason: string }
  /** It was written again after failures. */
  | { readonly kind: 'recovered'; readonly directory: string };

export interface ContentStoreOptions {
  /** Absolute path. It is created. */
  readonly directory: string;
  /** Content is dropped this long after the end of the process that last had it from a source. */
  readonly maxAgeMs: number;
  /**
   * What a source is, by its id: equal texts are the same source for a later process. Undefined: its content is not kept.
   */
  readonly sourceOf: (id: string) => string | undefined;
  /** Does the gateway serve this name now? */
  readonly isServed: (typeUrl: string, name: ResourceName) => boolean;
  /** Must not throw. */
  readonly onEvent: (event: ContentStoreEvent) => void;
  /** Milliseconds since 1970. Default: the system clock. */
  readonly wallClock?: () => number;
}

type Database = ClassicLevel<string, Buffer>;
interface Kept {
  readonly projection: Projection;
  /** What `sourceOf` says. */
  readonly source: string;
}

/** After all keys of content, which are base64url. */
const RUNS_KEY = '~runs';
const HEARTBEAT_MS = 10_000;
const SWEEP_EVERY_MS = 600_000;
/** Changes wait this long, so that those of one resource are written once. */
const WRITE_EVERY_MS = 200;
/** How long absent content is kept, as long as the guard waits by default: a primary that just started may send it later. */
const GONE_FOR_MS = 60_000;
/** Resources that are encoded, or read, in one turn of the event loop: some milliseconds. A count. */
const RESOURCES_PER_TURN = 200;
const DIGEST_LENGTH = 22;

const digest = (text: string): string => hash('sha256', text, 'base64url').slice(0, DIGEST_LENGTH);
/** The members of a collection have the same prefix. Names may be long, and keys should be short. */
const prefixOf = (typeUrl: string, globKey: string): string => digest(`${typeUrl}\0${globKey}`);
const keyOf = (typeUrl: string, name: ResourceName): string =>
  prefixOf(typeUrl, globKeyOf(name)) + digest(name.key);
/** Says that all members of a collection are kept: beside them, an empty resource with the name of the glob. */
const wholeKeyOf = (typeUrl: string, globKey: string, source: string): string =>
  prefixOf(typeUrl, globKey) + digest(`${globKey}\0${source}`);
const NOTHING = new Uint8Array(0);

export class ContentStore implements LastKnown {
  readonly #options: ContentStoreOptions;
  readonly #wallClock: () => number;
  /** Undefined: not started, refused, or closed. */
  #database: Database | undefined;
  /** By the prefix of their collection: keys of content of earlier processes, and whether this one has kept it again. */
  readonly #earlier = new Map<string, Map<string, boolean>>();
  /** By key: since when the primary lacks it. Milliseconds since 1970. */
  readonly #gone = new Map<string, number>();
  /** When each process last lived. Milliseconds since 1970. */
  #runs: Readonly<Record<string, number>> = {};
  #run = 0;
  #isFrozen = true;
  /** What is to be written, by key; undefined: the key is to be removed. */
  #changes = new Map<string, Kept | undefined>();
  /** What is being written: the database may still have older content. */
  #inFlight: ReadonlyMap<string, Kept | undefined> = new Map();
  #writing: Promise<void> | undefined;
  /** The heartbeats, one after the other: the threads of LevelDB keep no order. */
  #beats: Promise<void> = Promise.resolve();
  #sweeping: Promise<void> | undefined;
  #reopening: Promise<void> | undefined;
  #timers: readonly NodeJS.Timeout[] = [];
  /** A failure was told, and nothing was written since. */
  #isFailing = false;
  /** Nothing is written until the database was opened again, see `#reopen`. */
  #isBroken = false;

  constructor(options: ContentStoreOptions) {
    this.#options = options;
    this.#wallClock = options.wallClock ?? Date.now;
  }

  /** Opens the database. Call it before the first client comes. Never rejects. */
  async start(): Promise<void> {
    const { directory, onEvent } = this.#options;
    try {
      mkdirSync(directory, { recursive: true, mode: 0o700 });
      const resources = await this.#open(directory);
      onEvent({ kind: 'opened', directory, resources });
    } catch (error) {
      onEvent({ kind: 'refused', directory, reason: reasonOf(error) });
      this.#database = undefined;
      return;
    }
    this.#isFrozen = false;
    this.#beat();
    this.#timers = [
      setInterval(this.#write, WRITE_EVERY_MS),
      setInterval(() => void this.#handleHeartbeat(), HEARTBEAT_MS),
      setInterval(() => void this.sweep(), SWEEP_EVERY_MS),
    ];
    for (const timer of this.#timers) timer.unref();
  }

  /** @returns the number of resources in the database */
  async #open(directory: string): Promise<number> {
    // Loaded here, since few gateways use it.
    const { ClassicLevel } = await import('classic-level');
    const open = (): Promise<number> =>
      this.#readKeys(new ClassicLevel(directory, { valueEncoding: 'buffer' }));
    try {
      return await open();
    } catch (error) {
      await this.#database?.close();
      if (codeOf(error) !== 'LEVEL_CORRUPTION') throw error;
      this.#options.onEvent({ kind: 'damaged', directory, reason: reasonOf(error) });
      await ClassicLevel.destroy(directory);
      return open();
    }
  }

  async #readKeys(database: Database): Promise<number> {
    await database.open();
    this.#database = database;
    this.#earlier.clear();
    this.#gone.clear();
    let resources = 0;
    for await (const key of database.keys({ lt: RUNS_KEY })) {
      const prefix = key.slice(0, DIGEST_LENGTH);
      let keys = this.#earlier.get(prefix);
      if (!keys) this.#earlier.set(prefix, (keys = new Map<string, boolean>()));
      keys.set(key, false);
      resources++;
    }
    const runs = database.getSync(RUNS_KEY);
    this.#runs = runs ? (JSON.parse(runs.toString()) as Record<string, number>) : {};
    this.#run = Math.max(0, ...Object.keys(this.#runs).map(Number)) + 1;
    return resources;
  }

  /**
   * From now on the store accepts no changes: clients that leave at the shutdown take no content with them. `close` still writes the
   * changes that wait.
   */
  freeze(): void {
    if (this.#isFrozen) return;
    this.#beat();
    this.#isFrozen = true;
    for (const timer of this.#timers) clearInterval(timer);
  }

  /** Writes what waits. Never rejects. */
  async close(): Promise<void> {
    this.freeze();
    await this.#sweeping;
    await this.flush();
    await this.#beats;
    const database = this.#database;
    this.#database = undefined;
    await database?.close();
  }

  /** Resolves when all that waits was written, or could not be written. */
  async flush(): Promise<void> {
    await this.#writing;
    await this.#reopen();
    this.#write();
    await this.#writing;
  }

  keep(projection: Projection, sourceId: string): void {
    const source = this.#options.sourceOf(sourceId);
    if (source === undefined || this.#isFrozen) return;
    const key = keyOf(projection.typeUrl, projection.name);
    this.#changes.set(key, { projection, source });
    this.#gone.delete(key);
    const earlier = this.#earlier.get(key.slice(0, DIGEST_LENGTH));
    if (earlier?.has(key) === true) earlier.set(key, true);
  }

  drop(typeUrl: string, name: ResourceName): void {
    if (!this.#isFrozen) this.#changes.set(keyOf(typeUrl, name), undefined);
  }

  dropEarlier(typeUrl: string, name: ResourceName): void {
    if (this.#isFrozen || this.#earlier.size === 0) return;
    const earlier = this.#earlier.get(prefixOf(typeUrl, globKeyOf(name)));
    if (!earlier) return;
    if (name.isGlob) {
      for (const [key, isKept] of earlier) if (!isKept) this.#noteGone(key);
      return;
    }
    const key = keyOf(typeUrl, name);
    if (earlier.get(key) === false) this.#noteGone(key);
  }

  #noteGone(key: string): void {
    if (!this.#gone.has(key)) this.#gone.set(key, this.#wallClock());
  }

  /** Drops what the primary has lacked for long enough, but not what a group serves all the same. */
  #dropGone(): void {
    const untilMs = this.#wallClock() - GONE_FOR_MS;
    let left = RESOURCES_PER_TURN;
    // The longest gone comes first.
    for (const [key, sinceMs] of this.#gone) {
      if (sinceMs > untilMs || left-- === 0) return;
      this.#gone.delete(key);
      const projection = this.#read(key)?.projection;
      const isServed = projection && this.#options.isServed(projection.typeUrl, projection.name);
      if (isServed === false) this.#changes.set(key, undefined);
    }
  }

  noteWhole(typeUrl: string, globKey: string, sourceId: string, isWhole: boolean): void {
    const source = this.#options.sourceOf(sourceId);
    if (source === undefined || this.#isFrozen) return;
    const glob = isWhole ? nameOfKey(globKey) : undefined;
    const sign = glob && readResource(glob, typeUrl, typeUrl, NOTHING);
    const kept = sign?.ok === true ? { projection: sign.projection, source } : undefined;
    const key = wholeKeyOf(typeUrl, globKey, source);
    this.#changes.set(key, kept);
    this.#gone.delete(key);
  }

  isWhole(typeUrl: string, glob: ResourceName, sourceIds: readonly string[]): boolean {
    return sourceIds.some((id) => {
      const source = this.#options.sourceOf(id);
      const kept =
        source === undefined ? undefined : this.#read(wholeKeyOf(typeUrl, glob.key, source));
      // What this process has written is not found: `find` knows the keys of earlier processes.
      return kept !== undefined && kept.run !== this.#run && !this.#isOld(kept);
    });
  }

  *find(
    typeUrl: string,
    name: ResourceName,
    sourceIds: readonly string[],
    isEarlier = false,
  ): Iterable<Projection> {
    const sources = new Set(sourceIds.map(this.#options.sourceOf));
    const keys = name.isGlob
      ? [...(this.#earlier.get(prefixOf(typeUrl, name.key))?.keys() ?? [])]
      : [keyOf(typeUrl, name)];
    for (const key of keys) {
      const content = this.#read(key);
      if (!content || !sources.has(content.source) || this.#isOld(content)) continue;
      if (isEarlier && content.run === this.#run) continue;
      if (!content.projection.name.isGlob) yield content.projection;
    }
  }

  /** @returns undefined: the database lacks it, or it is damaged */
  #read(key: string): KeptContent | undefined {
    if (this.#isChanging(key) || this.#database?.status !== 'open') return undefined;
    try {
      const bytes = this.#database.getSync(key);
      return bytes && decodeContent(bytes);
    } catch (error) {
      this.#handleFailure(error);
      return undefined;
    }
  }

  /** Does the database not have the latest content yet? */
  #isChanging(key: string): boolean {
    return this.#changes.has(key) || this.#inFlight.has(key);
  }

  /** Drops what is too old, and what the gateway no longer serves. Never rejects. */
  async sweep(): Promise<void> {
    this.#sweeping ??= this.#sweep().finally(() => (this.#sweeping = undefined));
    await this.#sweeping;
  }

  async #sweep(): Promise<void> {
    try {
      if (!this.#isFrozen) this.#dropGone();
      let read = 0;
      for await (const [key, bytes] of this.#database?.iterator({ lt: RUNS_KEY }) ?? []) {
        if (++read % RESOURCES_PER_TURN === 0) await turn();
        if (this.#isFrozen || this.#isChanging(key) || this.#isOfUse(headerOf(bytes))) continue;
        // The iterator reads the database as it was when the sweep began.
        const now = this.#database?.getSync(key);
        if (now && !this.#isOfUse(headerOf(now))) this.#changes.set(key, undefined);
      }
    } catch (error) {
      this.#handleFailure(error);
    }
  }

  #isOfUse(header: Header | undefined): boolean {
    if (header?.run !== this.#run) return header !== undefined && !this.#isOld(header);
    const name = nameOfKey(header.key);
    return name !== undefined && this.#options.isServed(header.typeUrl, name);
  }

  #isOld({ run }: Pick<KeptContent, 'run'>): boolean {
    const endedMs = this.#runs[String(run)] ?? -Infinity;
    return this.#wallClock() - endedMs > this.#options.maxAgeMs;
  }

  async #handleHeartbeat(): Promise<void> {
    await this.#reopen();
    this.#beat();
    this.#dropGone();
  }

  /**
   * A full disk leaves a part of a record in LevelDB's log: what it writes after that record is lost when the log is read. A
   * database that is opened again begins a new log.
   */
  async #reopen(): Promise<void> {
    if (!this.#isBroken) return;
    this.#reopening ??= this.#openAgain().finally(() => (this.#reopening = undefined));
    await this.#reopening;
  }

  async #openAgain(): Promise<void> {
    try {
      await this.#database?.close();
      await this.#database?.open();
      this.#isBroken = false;
    } catch (error) {
      this.#handleFailure(error);
    }
  }

  /** Writes that this process lives. */
  #beat(): void {
    if (this.#isBroken) return;
    const nowMs = this.#wallClock();
    const recent = Object.entries(this.#runs).filter(
      ([, endedMs]) => nowMs - endedMs <= this.#options.maxAgeMs,
    );
    this.#runs = { ...Object.fromEntries(recent), [String(this.#run)]: nowMs };
    const value = Buffer.from(JSON.stringify(this.#runs));
    this.#beats = this.#beats
      .then(() => this.#database?.put(RUNS_KEY, value))
      .catch(this.#handleFailure);
  }

  readonly #write = (): void => {
    if (this.#writing || this.#isBroken || this.#changes.size === 0) return;
    this.#writing = this.#writeChanges().finally(() => {
      this.#writing = undefined;
      this.#inFlight = new Map();
    });
  };

  async #writeChanges(): Promise<void> {
    const changes = this.#changes;
    this.#changes = new Map();
    this.#inFlight = changes;
    const waiting = [...changes];
    for (let at = 0; at < waiting.length; at += RESOURCES_PER_TURN) {
      const batch = waiting
        .slice(at, at + RESOURCES_PER_TURN)
        .map(([key, kept]) =>
          kept
            ? { type: 'put' as const, key, value: encodeContent({ ...kept, run: this.#run }) }
            : { type: 'del' as const, key },
        );
      try {
        await this.#database?.batch(batch);
        this.#noteWritten();
      } catch (error) {
        this.#handleFailure(error);
        // Until they are written, the disk has older content. Later changes of the same resources come first.
        const left = waiting.slice(at).filter(([key]) => !this.#changes.has(key));
        for (const [key, kept] of left) this.#changes.set(key, kept);
        return;
      }
    }
  }

  #noteWritten(): void {
    if (!this.#isFailing) return;
    this.#isFailing = false;
    const { directory, onEvent } = this.#options;
    onEvent({ kind: 'recovered', directory });
  }

  readonly #handleFailure = (error: unknown): void => {
    this.#isBroken = true;
    if (this.#isFailing) return;
    this.#isFailing = true;
    const { directory, onEvent } = this.#options;
    onEvent({ kind: 'write_failed', directory, reason: reasonOf(error) });
  };
}

/** LevelDB's own error is the cause of the one that says "not open". */
const causeOf = (error: unknown): unknown =>
  error instanceof Error && error.cause !== undefined ? error.cause : error;
const reasonOf = (error: unknown): string => {
  const cause = causeOf(error);
  return cause instanceof Error ? cause.message : String(cause);
};
const codeOf = (error: unknown): unknown => (causeOf(error) as { readonly code?: unknown }).code;

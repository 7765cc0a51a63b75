/**
 * What the gateway holds for its clients, and who wants it. One entry for each name or glob that any
 * client asks for, however many do; each is watched at the directory once. Bulk machine without IO.
 */
import type { Projection, ResourceWatcher } from '../../authorities/index.js';
import type { RpcStatus } from '../../protos/discovery.js';
import { globKeyOf, type ResourceName } from '../../protos/resource-name.js';
import { Collection, type TombstoneLimits } from './collection.js';

/** The upstream side, as the client side needs it: the seam between the two (and between processes). */
export interface ResourceDirectory {
  watch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher): void;
  unwatch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher): void;
}

/** `waiting`: asked upstream, nothing said yet. */
export type NameState =
  | { readonly kind: 'waiting' }
  | { readonly kind: 'present'; readonly projection: Projection }
  | { readonly kind: 'absent' }
  | { readonly kind: 'error'; readonly status: RpcStatus };

export interface NameEntry {
  readonly typeUrl: string;
  readonly name: ResourceName;
  readonly subscribers: Set<NameSubscriber>;
  state: NameState;
}

export interface GlobEntry {
  readonly typeUrl: string;
  readonly collection: Collection;
  readonly subscribers: Set<GlobSubscriber>;
  error: RpcStatus | undefined;
}

/** What the cache tells a client's lane. */
export interface NameSubscriber {
  handleNameChanged(key: string): void;
  handleClusterChanged(edsKeys: readonly string[]): void;
}
export interface GlobSubscriber {
  handleGlobChanged(): void;
  handleClusterChanged(edsKeys: readonly string[]): void;
}

export interface CacheOptions extends TombstoneLimits {
  /** What nobody subscribes to is kept for so long. */
  readonly unsubscribedLingerMs: number;
}

const WAITING: NameState = { kind: 'waiting' };
const ABSENT: NameState = { kind: 'absent' };

interface Unsubscribed {
  readonly entry: NameEntry | GlobEntry;
  readonly dueMs: number;
}

export class ResourceCache implements ResourceWatcher {
  readonly #directory: ResourceDirectory;
  readonly #options: CacheOptions;
  readonly #names = new Map<string, NameEntry>();
  readonly #globs = new Map<string, GlobEntry>();
  /** Globs that no client asks for now; their names are remembered for those who come back. */
  readonly #dormant = new Map<string, Collection>();
  /** Per assignment, the clusters that take their endpoints from it (edges of docs/ARCHITECTURE.md). */
  readonly #clustersByEdsKey = new Map<string, Map<string, Projection>>();
  /** In order of deadline. An entry that was subscribed again is passed over when its time comes. */
  #unsubscribed: Unsubscribed[] = [];
  #nowMs = 0;

  constructor(directory: ResourceDirectory, options: CacheOptions) {
    this.#directory = directory;
    this.#options = options;
  }

  get nameCount(): number {
    return this.#names.size;
  }

  get globCount(): number {
    return this.#globs.size;
  }

  *names(): IterableIterator<NameEntry> {
    yield* this.#names.values();
  }

  *globs(): IterableIterator<GlobEntry> {
    yield* this.#globs.values();
  }

  // ---- demand -------------------------------------------------------------------------------

  subscribeName(typeUrl: string, name: ResourceName, subscriber: NameSubscriber): NameEntry {
    const key = cacheKey(typeUrl, name.key);
    let entry = this.#names.get(key);
    if (!entry) {
      entry = { typeUrl, name, subscribers: new Set(), state: WAITING };
      this.#names.set(key, entry);
      entry.subscribers.add(subscriber);
      this.#directory.watch(typeUrl, name, this);
    }
    entry.subscribers.add(subscriber);
    return entry;
  }

  subscribeGlob(typeUrl: string, glob: ResourceName, subscriber: GlobSubscriber): GlobEntry {
    const key = cacheKey(typeUrl, glob.key);
    let entry = this.#globs.get(key);
    if (!entry) {
      const collection = this.#dormant.get(key) ?? new Collection(glob, this.#options);
      this.#dormant.delete(key);
      entry = { typeUrl, collection, subscribers: new Set(), error: undefined };
      this.#globs.set(key, entry);
      entry.subscribers.add(subscriber);
      this.#directory.watch(typeUrl, glob, this);
    }
    entry.subscribers.add(subscriber);
    return entry;
  }

  unsubscribeName(entry: NameEntry, subscriber: NameSubscriber, nowMs: number): void {
    entry.subscribers.delete(subscriber);
    this.#lingerIfUnsubscribed(entry, nowMs);
  }

  unsubscribeGlob(entry: GlobEntry, subscriber: GlobSubscriber, nowMs: number): void {
    entry.subscribers.delete(subscriber);
    this.#lingerIfUnsubscribed(entry, nowMs);
  }

  #lingerIfUnsubscribed(entry: NameEntry | GlobEntry, nowMs: number): void {
    if (entry.subscribers.size > 0) return;
    this.#unsubscribed.push({ entry, dueMs: nowMs + this.#options.unsubscribedLingerMs });
  }

  nextDeadlineMs(): number | undefined {
    return this.#unsubscribed[0]?.dueMs;
  }

  handleTimer(nowMs: number): void {
    this.#nowMs = nowMs;
    const due = this.#unsubscribed.findIndex(({ dueMs }) => dueMs > nowMs);
    const passed = this.#unsubscribed.splice(0, due === -1 ? this.#unsubscribed.length : due);
    for (const { entry } of passed) {
      if (entry.subscribers.size === 0) this.#drop(entry);
    }
  }

  #drop(entry: NameEntry | GlobEntry): void {
    if ('name' in entry) {
      const key = cacheKey(entry.typeUrl, entry.name.key);
      // Dropped before, and perhaps made anew since.
      if (this.#names.get(key) !== entry) return;
      this.#names.delete(key);
      if (entry.state.kind === 'present') this.#forgetEdge(entry.state.projection);
      this.#directory.unwatch(entry.typeUrl, entry.name, this);
      return;
    }
    const { collection, typeUrl } = entry;
    const key = cacheKey(typeUrl, collection.glob.key);
    if (this.#globs.get(key) !== entry) return;
    this.#globs.delete(key);
    for (const { projection } of collection.members.since(-1)) this.#forgetEdge(projection);
    collection.forgetContent();
    this.#dormant.set(key, collection);
    this.#directory.unwatch(typeUrl, collection.glob, this);
  }

  // ---- what the directory says --------------------------------------------------------------

  onChanged(projection: Projection): void {
    const { typeUrl, name } = projection;
    const entry = this.#names.get(cacheKey(typeUrl, name.key));
    const glob = this.#globs.get(cacheKey(typeUrl, globKeyOf(name)));
    const before = entry?.state.kind === 'present' ? entry.state.projection : undefined;
    const edsKeys = this.#noteEdge(
      projection,
      before ?? glob?.collection.member(name.key)?.projection,
    );
    if (entry && before?.version !== projection.version) {
      entry.state = { kind: 'present', projection };
      notifyName(entry, edsKeys);
    }
    if (glob?.collection.put(projection)) notifyGlob(glob, edsKeys);
  }

  onRemoved(typeUrl: string, name: ResourceName): void {
    const entry = this.#names.get(cacheKey(typeUrl, name.key));
    const glob = this.#globs.get(cacheKey(typeUrl, globKeyOf(name)));
    const member = glob?.collection.member(name.key);
    if (member) this.#forgetEdge(member.projection);
    if (entry) {
      if (entry.state.kind === 'present') this.#forgetEdge(entry.state.projection);
      entry.state = ABSENT;
      notifyName(entry, []);
    }
    if (glob?.collection.remove(name.key, this.#nowMs)) notifyGlob(glob, []);
  }

  onDoesNotExist(typeUrl: string, name: ResourceName): void {
    const entry = this.#names.get(cacheKey(typeUrl, name.key));
    if (!entry || entry.state.kind === 'absent') return;
    if (entry.state.kind === 'present') this.#forgetEdge(entry.state.projection);
    entry.state = ABSENT;
    notifyName(entry, []);
  }

  onComplete(typeUrl: string, globName: ResourceName): void {
    const glob = this.#globs.get(cacheKey(typeUrl, globName.key));
    if (!glob) return;
    glob.collection.handleComplete(this.#nowMs);
    notifyGlob(glob, []);
  }

  onResourceError(typeUrl: string, name: ResourceName, status: RpcStatus): void {
    if (name.isGlob) {
      const glob = this.#globs.get(cacheKey(typeUrl, name.key));
      if (!glob) return;
      glob.error = status;
      notifyGlob(glob, []);
      return;
    }
    const entry = this.#names.get(cacheKey(typeUrl, name.key));
    if (!entry || entry.state.kind === 'present') return;
    entry.state = { kind: 'error', status };
    notifyName(entry, []);
  }

  // ---- edges --------------------------------------------------------------------------------

  /** Clusters that take their endpoints from this assignment. */
  clustersOf(edsKey: string): Iterable<Projection> {
    return this.#clustersByEdsKey.get(edsKey)?.values() ?? [];
  }

  /** @returns the assignments whose cluster is new or changed. */
  #noteEdge(projection: Projection, before: Projection | undefined): readonly string[] {
    if (before?.version === projection.version) return [];
    if (before) this.#forgetEdge(before);
    const { edsKey, name } = projection;
    if (edsKey === undefined) return [];
    let clusters = this.#clustersByEdsKey.get(edsKey);
    if (!clusters) this.#clustersByEdsKey.set(edsKey, (clusters = new Map<string, Projection>()));
    clusters.set(name.key, projection);
    return [edsKey];
  }

  #forgetEdge({ edsKey, name }: Projection): void {
    if (edsKey === undefined) return;
    const clusters = this.#clustersByEdsKey.get(edsKey);
    if (clusters?.delete(name.key) && clusters.size === 0) this.#clustersByEdsKey.delete(edsKey);
  }
}

function notifyName(entry: NameEntry, edsKeys: readonly string[]): void {
  for (const subscriber of entry.subscribers) {
    subscriber.handleNameChanged(entry.name.key);
    if (edsKeys.length > 0) subscriber.handleClusterChanged(edsKeys);
  }
}

function notifyGlob(glob: GlobEntry, edsKeys: readonly string[]): void {
  for (const subscriber of glob.subscribers) {
    subscriber.handleGlobChanged();
    if (edsKeys.length > 0) subscriber.handleClusterChanged(edsKeys);
  }
}

const cacheKey = (typeUrl: string, key: string): string => `${typeUrl} ${key}`;

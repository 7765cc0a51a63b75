/**
 * What the gateway holds for its clients, and who wants it. One entry for each name or glob that any
 * client asks for, however many do; each is watched at the directory once. Bulk machine without IO.
 */
import { RemovalHold, type Projection, type ResourceWatcher } from '../../../authorities/index.js';
import type { RemovalPolicy } from '../../../config/model.js';
import { isDataError, type RpcStatus } from '../../../protos/discovery.js';
import { isListName } from '../../../protos/list-collection.js';
import { globKeyOf, isOldStyle, type ResourceName } from '../../../protos/resource-name.js';
import { TypedMap } from '../../../protos/typed-map.js';
import {
  Collection,
  type CollectionNames,
  type Member,
  type TombstoneLimits,
} from './collection.js';
import { Fallbacks } from './message-size.js';

/** The upstream side, as the client side needs it: the seam between the two (and between processes). */
export interface ResourceDirectory {
  watch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher): void;
  unwatch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher): void;
  /** How removals of a name or collection are judged that no source announced. */
  removalPolicyOf(typeUrl: string, name: ResourceName): RemovalPolicy;
  /** Is what was said of a watched name or glob the word of sources that answer now? */
  isCurrent(typeUrl: string, name: ResourceName): boolean;
}

/** `waiting`: asked upstream, nothing said yet. */
export type NameState =
  | { readonly kind: 'waiting' }
  | { readonly kind: 'present'; readonly projection: Projection }
  /** `status`: why, where the source said so. `wasHeld`: it was here, and its source removed it. */
  | { readonly kind: 'absent'; readonly status?: RpcStatus; readonly wasHeld?: boolean }
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
}
export interface GlobSubscriber {
  /** @param gone a member that is none any more */
  handleGlobChanged(glob: GlobEntry, gone?: Member): void;
}

/** One name is held in another version than before, or not any more. */
export interface HeldChange {
  readonly typeUrl: string;
  readonly name: ResourceName;
  /** Versions; absent: not held. */
  readonly before: string | undefined;
  readonly after: string | undefined;
  /** `first`: the answer to the first question. `dropped`: nobody asks for it any more. */
  readonly cause: 'said' | 'first' | 'dropped';
}

/** What can be said here of one name. */
export interface HeldState {
  readonly kind: NameState['kind'];
  /** Of what is present. */
  readonly version: string | undefined;
  /** As what it is asked upstream: itself, or its glob. */
  readonly asked: ResourceName;
  /** It is asked as part of a glob that has members. */
  readonly inCollection: boolean;
}

export interface CacheOptions extends TombstoneLimits {
  /** Told of every change of what is held, if anybody wants to know. */
  readonly onHeld?: (change: HeldChange) => void;
  /** The same of what is asked for: a name or glob more, or less. */
  readonly onAsked?: (typeUrl: string, name: ResourceName, change: 1 | -1) => void;
  readonly onHeldBack?: (held: HeldBack) => void;
  /** The smallest message that any client takes; default: no client has a limit. */
  readonly leastMaxMessageBytes?: number;
  /** What nobody subscribes to is kept for so long. */
  readonly unsubscribedLingerMs: number;
  /** Of these so many; of more the oldest go at once, since clients may ask for what they like and leave it. */
  readonly maxUnsubscribedNames: number;
}

/** The deletion guard holds back removals of so many names until then. */
export interface HeldBack {
  readonly authority: string;
  readonly names: number;
  readonly untilMs: number;
}

interface RememberedName {
  readonly key: string;
  readonly member: string;
  readonly glob: ResourceName;
}

interface Dormant {
  readonly typeUrl: string;
  readonly collection: Collection;
  readonly untilMs: number;
}

const WAITING: NameState = { kind: 'waiting' };
/**
 * A source says that a name is not there, which this process never saw, and gives no reason. Where a client
 * claims to hold it, a source that has just started may bring it yet.
 */
export const isDoubtful = (state: NameState): boolean =>
  state.kind === 'absent' && state.wasHeld !== true && state.status === undefined;

/** A source that went away before a removal was judged is looked at again after this time. */
const AGAIN_MS = 2_000;

type Absent = Extract<NameState, { kind: 'absent' }>;
const ABSENT: Absent = { kind: 'absent' };
const NOBODY_LOOKS_ON = (): void => undefined;

export class ResourceCache implements ResourceWatcher {
  readonly #directory: ResourceDirectory;
  readonly #options: CacheOptions;
  readonly #names = new TypedMap<NameEntry>();
  readonly #globs = new TypedMap<GlobEntry>();
  /** Those of them that are lists, whose members may have any name. */
  readonly #lists = new Set<GlobEntry>();
  /**
   * Globs that no client asks for now; their names are remembered for those who come back, in order
   * of falling asleep, for as long as a tombstone.
   */
  readonly #dormant = new Map<string, Dormant>();
  #collectionChanges = 0;
  /** Per assignment, the clusters that take their endpoints from it (edges of docs/ARCHITECTURE.md). */
  readonly #clustersByEdsKey = new Map<string, Map<string, Projection>>();
  /** When to drop what nobody subscribes to; in order of deadline. */
  readonly #unsubscribed = new Map<NameEntry | GlobEntry, number>();
  /** By authority: remembered names that its source does not have, until they are judged. */
  readonly #forgotten = new Map<string, RemovalHold<RememberedName>>();
  /** Of old-style names: how many entries each scope has. */
  readonly #scopes = new Map<string, number>();
  #nowMs = 0;
  readonly fallbacks: Fallbacks;

  constructor(directory: ResourceDirectory, options: CacheOptions) {
    this.#directory = directory;
    this.#options = options;
    this.fallbacks = new Fallbacks(options.leastMaxMessageBytes ?? Infinity);
  }

  get nameCount(): number {
    return this.#names.size;
  }

  get globCount(): number {
    return this.#globs.size;
  }

  /** Node groups that anything is held for. */
  get scopeCount(): number {
    return this.#scopes.size;
  }

  hasScope(scope: string): boolean {
    return this.#scopes.has(scope);
  }

  removalPolicyOf(typeUrl: string, name: ResourceName): RemovalPolicy {
    return this.#directory.removalPolicyOf(typeUrl, name);
  }

  isCurrent(typeUrl: string, name: ResourceName): boolean {
    return this.#directory.isCurrent(typeUrl, name);
  }

  /** What is known of a name, asked by itself; undefined if nobody asked. */
  stateOf(typeUrl: string, name: ResourceName): NameState | undefined {
    return this.#names.get(typeUrl, name.key)?.state;
  }

  /** What is known of a glob or a list that somebody asked for. */
  collectionOf(typeUrl: string, glob: ResourceName): Collection | undefined {
    return this.#globs.get(typeUrl, glob.key)?.collection;
  }

  *names(): IterableIterator<NameEntry> {
    yield* this.#names.values();
  }

  *globs(): IterableIterator<GlobEntry> {
    yield* this.#globs.values();
  }

  // ---- names that outlive the process (invariant 18) -----------------------------------------

  /** Counts the changes of what `collectionNames` says. */
  get collectionChanges(): number {
    return this.#collectionChanges;
  }

  /**
   * The collections of this moment. Each one's names are taken when they are asked for, so that who
   * writes down a hundred thousand of them need not do it in one go.
   */
  *collectionNames(nowMs: number): IterableIterator<CollectionNames> {
    const live = [...this.#globs.values()];
    const dormant = [...this.#dormant.values()];
    for (const { typeUrl, collection } of live) yield collection.names(typeUrl, nowMs);
    for (const { typeUrl, collection, untilMs } of dormant) {
      yield collection.names(typeUrl, untilMs - this.#options.tombstoneMaxAgeMs);
    }
  }

  /** What an earlier process knew; to be called before any client comes. */
  restoreCollections(all: readonly CollectionNames[], nowMs: number): void {
    this.#nowMs = nowMs;
    const inOrder = [...all].sort((a, b) => a.knownAtMs - b.knownAtMs);
    for (const names of inOrder) {
      const { typeUrl, glob, knownAtMs } = names;
      const untilMs = knownAtMs + this.#options.tombstoneMaxAgeMs;
      if (untilMs <= nowMs) continue;
      const collection = new Collection(glob, this.#options);
      collection.restore(names, nowMs);
      this.#dormant.set(dormantKey(typeUrl, glob), { typeUrl, collection, untilMs });
    }
  }

  /** Undefined: nobody asks for it here. A member of a list alone is known only while it is there. */
  held(typeUrl: string, name: ResourceName): HeldState | undefined {
    const entry = this.#names.get(typeUrl, name.key);
    const version = this.#heldOf(typeUrl, name)?.version;
    if (entry) return { kind: entry.state.kind, version, asked: name, inCollection: false };
    const glob = this.#globs.get(typeUrl, name.key) ?? this.#globs.get(typeUrl, globKeyOf(name));
    if (glob) {
      const { collection, error } = glob;
      const silent = error ? 'error' : collection.complete ? 'absent' : 'waiting';
      const kind = version === undefined ? silent : 'present';
      return { kind, version, asked: collection.glob, inCollection: collection.members.size > 0 };
    }
    // It is asked by its own name, by the list's entry.
    if (version === undefined) return undefined;
    return { kind: 'present', version, asked: name, inCollection: false };
  }

  // ---- demand -------------------------------------------------------------------------------

  subscribeName(typeUrl: string, name: ResourceName, subscriber: NameSubscriber): NameEntry {
    let entry = this.#names.get(typeUrl, name.key);
    if (!entry) {
      entry = { typeUrl, name, subscribers: new Set(), state: WAITING };
      this.#names.set(typeUrl, name.key, entry);
      this.#countAsked(typeUrl, name, 1);
      entry.subscribers.add(subscriber);
      this.#directory.watch(typeUrl, name, this);
    }
    entry.subscribers.add(subscriber);
    this.#unsubscribed.delete(entry);
    return entry;
  }

  subscribeGlob(typeUrl: string, glob: ResourceName, subscriber: GlobSubscriber): GlobEntry {
    let entry = this.#globs.get(typeUrl, glob.key);
    if (!entry) {
      const key = dormantKey(typeUrl, glob);
      const collection = this.#dormant.get(key)?.collection ?? new Collection(glob, this.#options);
      this.#dormant.delete(key);
      entry = { typeUrl, collection, subscribers: new Set(), error: undefined };
      this.#globs.set(typeUrl, glob.key, entry);
      this.#countAsked(typeUrl, glob, 1);
      if (isListName(typeUrl, glob)) this.#lists.add(entry);
      entry.subscribers.add(subscriber);
      this.#directory.watch(typeUrl, glob, this);
    }
    entry.subscribers.add(subscriber);
    this.#unsubscribed.delete(entry);
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
    this.#unsubscribed.set(entry, nowMs + this.#options.unsubscribedLingerMs);
    if (this.#unsubscribed.size > this.#options.maxUnsubscribedNames) this.#dropOldest();
  }

  /** One in a hundred: the first of a large Map is found by looking at all that were deleted before it. */
  #dropOldest(): void {
    let left = Math.ceil(this.#options.maxUnsubscribedNames / 100);
    for (const entry of this.#unsubscribed.keys()) {
      if (left-- === 0) break;
      this.#drop(entry);
    }
  }

  nextDeadlineMs(): number | undefined {
    const [unsubscribedMs] = this.#unsubscribed.values();
    const holdsMs = [...this.#forgotten.values()].map((hold) => hold.nextDeadlineMs());
    const allMs = [unsubscribedMs, ...holdsMs].filter((ms) => ms !== undefined);
    return allMs.length === 0 ? undefined : Math.min(...allMs);
  }

  handleTimer(nowMs: number): void {
    this.#nowMs = nowMs;
    if (this.#forgotten.size > 0) this.#settleRemembered(nowMs);
    for (const [entry, dueMs] of this.#unsubscribed) {
      if (dueMs > nowMs) break;
      this.#drop(entry);
    }
    for (const [key, { untilMs }] of this.#dormant) {
      if (untilMs > nowMs) break;
      this.#dormant.delete(key);
      this.#collectionChanges++;
    }
  }

  #drop(entry: NameEntry | GlobEntry): void {
    this.#unsubscribed.delete(entry);
    if ('name' in entry) {
      const tellHeld = this.#watchHeld(entry.typeUrl, entry.name);
      this.#names.delete(entry.typeUrl, entry.name.key);
      this.#countAsked(entry.typeUrl, entry.name, -1);
      if (entry.state.kind === 'present') this.#forgetEdge(entry.state.projection);
      tellHeld('dropped');
      this.#directory.unwatch(entry.typeUrl, entry.name, this);
      return;
    }
    const { collection, typeUrl } = entry;
    const key = dormantKey(typeUrl, collection.glob);
    const members = [...collection.members.since(-1)].map(({ projection }) => ({
      projection,
      tellHeld: this.#watchHeld(typeUrl, projection.name),
    }));
    this.#globs.delete(typeUrl, collection.glob.key);
    this.#countAsked(typeUrl, collection.glob, -1);
    this.#lists.delete(entry);
    const untilMs = this.#nowMs + this.#options.tombstoneMaxAgeMs;
    this.#collectionChanges++;
    if (collection.forgetContent()) this.#dormant.set(key, { typeUrl, collection, untilMs });
    for (const { projection, tellHeld } of members) {
      this.#forgetEdge(projection);
      tellHeld('dropped');
    }
    this.#directory.unwatch(typeUrl, collection.glob, this);
  }

  #countAsked(typeUrl: string, name: ResourceName, change: 1 | -1): void {
    this.#options.onAsked?.(typeUrl, name, change);
    if (!isOldStyle(name)) return;
    const count = (this.#scopes.get(name.authority) ?? 0) + change;
    if (count === 0) this.#scopes.delete(name.authority);
    else this.#scopes.set(name.authority, count);
  }

  // ---- what the directory says --------------------------------------------------------------

  onChanged(projection: Projection): void {
    const { typeUrl, name } = projection;
    const entry = this.#names.get(typeUrl, name.key);
    const glob = this.#globs.get(typeUrl, globKeyOf(name));
    if (!entry && !glob) return;
    const held = entry?.state.kind === 'present' ? entry.state.projection : undefined;
    const tellHeld = this.#watchHeld(typeUrl, name);
    const isFirst = entry ? entry.state.kind === 'waiting' : glob?.collection.complete === false;
    this.#noteChange(projection, held ?? glob?.collection.member(name.key)?.projection);
    if (entry && held?.version !== projection.version) {
      entry.state = { kind: 'present', projection };
      notifyName(entry);
    }
    if (glob) this.#putMember(glob, projection);
    tellHeld(isFirst ? 'first' : 'said');
  }

  #putMember(glob: GlobEntry, projection: Projection): void {
    const before = glob.collection.members.size;
    if (!glob.collection.put(projection)) return;
    if (glob.collection.members.size > before) this.#collectionChanges++;
    notifyGlob(glob);
  }

  #removeMember(glob: GlobEntry, name: ResourceName): void {
    const gone = glob.collection.remove(name.key, this.#nowMs);
    if (!gone) return;
    this.#collectionChanges++;
    notifyGlob(glob, gone);
  }

  onRemoved(typeUrl: string, name: ResourceName, status?: RpcStatus): void {
    const tellHeld = this.#watchHeld(typeUrl, name);
    const entry = this.#names.get(typeUrl, name.key);
    const glob = this.#globs.get(typeUrl, globKeyOf(name));
    const held = this.#heldOf(typeUrl, name);
    if (entry) {
      entry.state = { ...absent(status), wasHeld: held !== undefined };
      notifyName(entry);
    }
    if (glob) this.#removeMember(glob, name);
    if (held) this.#forgetEdge(held);
    tellHeld('said');
  }

  onMemberChanged(list: ResourceName, projection: Projection): void {
    const { typeUrl, name } = projection;
    const entry = this.#globs.get(typeUrl, list.key);
    if (!entry) return;
    const tellHeld = this.#watchHeld(typeUrl, name);
    this.#noteChange(projection, entry.collection.member(name.key)?.projection);
    this.#putMember(entry, projection);
    tellHeld(entry.collection.complete ? 'said' : 'first');
  }

  onMemberRemoved(typeUrl: string, list: ResourceName, name: ResourceName): void {
    const entry = this.#globs.get(typeUrl, list.key);
    const held = entry?.collection.member(name.key)?.projection;
    const tellHeld = this.#watchHeld(typeUrl, name);
    if (entry) this.#removeMember(entry, name);
    if (held) this.#forgetEdge(held);
    tellHeld('said');
  }

  onDoesNotExist(typeUrl: string, name: ResourceName, status?: RpcStatus): void {
    const entry = this.#names.get(typeUrl, name.key);
    if (!entry) return;
    const { state } = entry;
    if (state.kind === 'absent' && state.status?.code === status?.code) return;
    const tellHeld = this.#watchHeld(typeUrl, name);
    entry.state = absent(status);
    if (state.kind === 'present') this.#forgetEdge(state.projection);
    tellHeld('said');
    notifyName(entry);
  }

  onComplete(typeUrl: string, globName: ResourceName, isProof: boolean, status?: RpcStatus): void {
    const glob = this.#globs.get(typeUrl, globName.key);
    if (!glob) return;
    glob.error = status;
    if (isProof) this.#holdForgotten(glob);
    else glob.collection.handleComplete(false);
    notifyGlob(glob);
  }

  /** All is told of a collection. What it lacks of the names remembered waits, and is judged. */
  #holdForgotten({ typeUrl, collection }: GlobEntry): void {
    const missing = collection.handleComplete(true);
    if (missing.length === 0) return;
    const { glob } = collection;
    const policy = this.removalPolicyOf(typeUrl, glob);
    let hold = this.#forgotten.get(glob.authority);
    if (!hold) {
      hold = new RemovalHold<RememberedName>({ ...policy.deletionGuard, all: true });
      this.#forgotten.set(glob.authority, hold);
    }
    for (const member of missing) {
      const name = { key: `${glob.key} ${member}`, member, glob };
      hold.add({ typeUrl, name }, this.#nowMs + policy.switchWaitMs);
    }
  }

  /** The right to a collection is lost, or there is no such collection. */
  #forgetLost({ collection }: GlobEntry): void {
    const missing = collection.handleComplete(true);
    for (const key of missing) collection.settleRemembered(key, this.#nowMs);
    collection.isDoubted = false;
    if (missing.length > 0) this.#collectionChanges++;
  }

  /**
   * What a state file or clients of an earlier time name, and the source does not have: it went while
   * nobody looked, or the source has just started. The guard of the authority judges it.
   */
  #settleRemembered(nowMs: number): void {
    for (const [authority, hold] of this.#forgotten) {
      const { due, guarded } = hold.takeDue(this.#nameCountOf(authority), nowMs, {
        isOpen: ({ typeUrl, name }) => !this.isCurrent(typeUrl, name.glob),
        againAtMs: nowMs + AGAIN_MS,
      });
      if (guarded) this.#options.onHeldBack?.({ authority, ...guarded });
      for (const { typeUrl, name } of due) {
        const entry = this.#globs.get(typeUrl, name.glob.key);
        if (!entry?.collection.settleRemembered(name.member, nowMs)) continue;
        this.#collectionChanges++;
        notifyGlob(entry);
      }
      if (hold.size === 0) this.#endDoubts(authority);
    }
  }

  #endDoubts(authority: string): void {
    this.#forgotten.delete(authority);
    for (const entry of this.#globs.values()) {
      const { collection } = entry;
      if (collection.glob.authority !== authority || !collection.isDoubted) continue;
      collection.isDoubted = false;
      notifyGlob(entry);
    }
  }

  /** Members of all collections of an authority, and names remembered of them. */
  #nameCountOf(authority: string): number {
    let count = 0;
    for (const { collection } of this.#globs.values()) {
      if (collection.glob.authority === authority) count += collection.nameCount;
    }
    return count;
  }

  onResourceError(typeUrl: string, name: ResourceName, status: RpcStatus): void {
    if (name.isGlob) {
      const glob = this.#globs.get(typeUrl, name.key);
      if (!glob) return;
      glob.error = status;
      // "Not found" and "not for you" say all there is, and are no mistake of a source that just started.
      if (isDataError(status)) this.#forgetLost(glob);
      notifyGlob(glob);
      return;
    }
    const entry = this.#names.get(typeUrl, name.key);
    if (!entry || entry.state.kind === 'present') return;
    // "Not found" and "not for you" are no mere errors: the data do not exist for this client.
    entry.state = isDataError(status) ? absent(status) : { kind: 'error', status };
    notifyName(entry);
  }

  // ---- for those who look on -----------------------------------------------------------------

  #heldOf(typeUrl: string, name: ResourceName): Projection | undefined {
    const state = this.#names.get(typeUrl, name.key)?.state;
    if (state?.kind === 'present') return state.projection;
    const glob = this.#globs.get(typeUrl, globKeyOf(name));
    const member = glob?.collection.member(name.key);
    if (member) return member.projection;
    for (const list of this.#lists) {
      const entry = list.typeUrl === typeUrl ? list.collection.member(name.key) : undefined;
      if (entry) return entry.projection;
    }
    return undefined;
  }

  /** To be called before a change; what it returns, after it. */
  #watchHeld(typeUrl: string, name: ResourceName): (cause: HeldChange['cause']) => void {
    const { onHeld } = this.#options;
    if (!onHeld) return NOBODY_LOOKS_ON;
    const before = this.#heldOf(typeUrl, name)?.version;
    return (cause) => {
      const after = this.#heldOf(typeUrl, name)?.version;
      if (before !== after) onHeld({ typeUrl, name, before, after, cause });
    };
  }

  // ---- edges --------------------------------------------------------------------------------

  /** Clusters that take their endpoints from this assignment. */
  clustersOf(edsKey: string): Iterable<Projection> {
    return this.#clustersByEdsKey.get(edsKey)?.values() ?? [];
  }

  #noteChange(projection: Projection, before: Projection | undefined): void {
    this.fallbacks.handleChanged(projection, before);
    if (before && before.edsKey !== projection.edsKey) this.#dropEdge(before);
    const { edsKey, name } = projection;
    if (edsKey === undefined) return;
    let clusters = this.#clustersByEdsKey.get(edsKey);
    if (!clusters) this.#clustersByEdsKey.set(edsKey, (clusters = new Map<string, Projection>()));
    clusters.set(name.key, projection);
  }

  /** To be called when it is gone; the same cluster may still be held, by its name or by its glob. */
  #forgetEdge(projection: Projection): void {
    const { typeUrl, name } = projection;
    const entry = this.#names.get(typeUrl, name.key);
    const glob = this.#globs.get(typeUrl, globKeyOf(name));
    if (entry?.state.kind === 'present' || glob?.collection.member(name.key)) return;
    for (const list of this.#lists) {
      if (list.typeUrl === typeUrl && list.collection.member(name.key)) return;
    }
    this.#dropEdge(projection);
  }

  #dropEdge({ edsKey, name }: Projection): void {
    if (edsKey === undefined) return;
    const clusters = this.#clustersByEdsKey.get(edsKey);
    if (clusters?.delete(name.key) && clusters.size === 0) this.#clustersByEdsKey.delete(edsKey);
  }
}

const absent = (status: RpcStatus | undefined): Absent =>
  status ? { kind: 'absent', status } : ABSENT;

function notifyName(entry: NameEntry): void {
  for (const subscriber of entry.subscribers) subscriber.handleNameChanged(entry.name.key);
}

function notifyGlob(glob: GlobEntry, gone?: Member): void {
  for (const subscriber of glob.subscribers) subscriber.handleGlobChanged(glob, gone);
}

const dormantKey = (typeUrl: string, glob: ResourceName): string => `${typeUrl} ${glob.key}`;

/**
 * The resources that the gateway holds for its clients, and their subscribers. All clients share one
 * entry per subscribed name or glob, and the cache watches each entry once upstream. A state machine
 * without IO.
 */
import { soonestOf, type Projection, type ResourceWatcher } from '../../../authorities/index.js';
import type { RemovalPolicy } from '../../../config/model.js';
import { isDataError, STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';
import { isListName } from '../../../protos/list-collection.js';
import {
  globKeyOf,
  isOldStyle,
  VariantNames,
  type ResourceName,
} from '../../../protos/resource-name.js';
import { SharedResponses } from './shared-responses.js';
import { TypedMap } from '../../../protos/typed-map.js';
import { TYPE_URL } from '../../../protos/type-urls.js';
import { Collection, type CollectionNames, type TombstoneLimits } from './collection.js';
import { LOG_START } from './change-log.js';
import { ClusterEdges } from './cluster-edges.js';
import { DormantCollections } from './dormant-collections.js';
import { DepartedMembers } from './departed-members.js';
import { LastContents, type LastContent } from './last-contents.js';
import { Lingering, type Parted, type Parting } from './lingering.js';
import { MissingNames, type HeldBack } from './missing-names.js';
import type { NamePayer } from '../quotas/stream-names.js';
import { Fallbacks } from './message-size.js';
import {
  absent,
  notifyGlob,
  notifyName,
  WAITING,
  type GlobEntry,
  type GlobSubscriber,
  type NameEntry,
  type NameState,
  type NameSubscriber,
} from './entries.js';

/** The upstream side as the client side uses it: the interface between the two. */
export interface ResourceDirectory {
  /** The time of the notification that the cache handles. */
  readonly nowMs: number;
  watch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher): void;
  /** @param leftMs since when no client subscribes to the name */
  unwatch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher, leftMs?: number): void;
  /** The policy for removals that no source announced, for this name or collection. */
  removalPolicyOf(typeUrl: string, name: ResourceName): RemovalPolicy;
  /** Whether the latest state of a watched name or glob comes from sources that are connected now. */
  isCurrent(typeUrl: string, name: ResourceName): boolean;
  /**
   * When the deletion guard lets held-back names of this watched name or collection go at the earliest: a source that failed
   * during the wait has just started again.
   */
  guardedUntilMs(typeUrl: string, name: ResourceName): number;
  /** Whether the sources of a watched name are connected, and none has sent the name or an error for it. */
  isSilentAbout(typeUrl: string, name: ResourceName): boolean;
}

/** The held version of one name changed; removals and first versions included. */
export interface HeldChange {
  readonly typeUrl: string;
  readonly name: ResourceName;
  /** Versions; absent: not held. */
  readonly before: string | undefined;
  readonly after: string | undefined;
  /**
   * `said`: the source changed it. `first`: the response to the first request. `dropped`: no client
   * subscribes to it any more.
   */
  readonly cause: 'said' | 'first' | 'dropped';
}

/** What this instance knows of one name. */
export interface HeldState {
  readonly kind: NameState['kind'];
  /** Set if it is present. */
  readonly version: string | undefined;
  /** The name that is requested upstream: the name itself, or its glob. */
  readonly asked: ResourceName;
  /** It is requested as part of a glob that has members. */
  readonly inCollection: boolean;
}

export interface CacheOptions extends TombstoneLimits {
  /** Called for every change of a held version. */
  readonly onHeld?: (change: HeldChange) => void;
  /** Called when the first client subscribes to a name or glob (1), and when its entry goes (-1). */
  readonly onAsked?: (typeUrl: string, name: ResourceName, change: 1 | -1) => void;
  readonly onHeldBack?: (held: HeldBack) => void;
  /** The smallest message limit of any client; default: no client has a limit. */
  readonly leastMaxMessageBytes?: number;
  /** How long the cache keeps an entry whose last subscriber's stream ended (`Lingering`). */
  readonly unsubscribedLingerMs: number;
  /** Maximum number of entries without subscribers; the cache drops the oldest above it. */
  readonly maxUnsubscribedNames: number;
}

/**
 * Entries that are dropped in one turn of the event loop, since each is unsubscribed at its sources. A client may
 * leave 10,000 of them at once. A count.
 */
const MAX_DROPPED = 500;
/** Members of dropped collections that are forgotten in one turn. A count. */
const MAX_FORGOTTEN = 2_000;

/** A resource without constraints changes once for each requested set of parameters, all in one turn. A count. */
const MAX_VARIANTS_OF_NAME = 1_000;
const TOO_MANY_VARIANTS: RpcStatus = {
  code: STATUS_CODE.unavailable,
  message: `clients request this name with ${MAX_VARIANTS_OF_NAME} sets of parameters already`,
};

const NOTHING = (): void => undefined;

export class ResourceCache implements ResourceWatcher {
  /** Encoded responses for several clients of this cache. */
  readonly responses = new SharedResponses();
  readonly #directory: ResourceDirectory;
  readonly #options: CacheOptions;
  readonly #names = new TypedMap<NameEntry>();
  readonly #globs = new TypedMap<GlobEntry>();
  readonly #globsByAuthority = new Map<string, Set<GlobEntry>>();
  /** The lists among the globs. Members of a list may have any name. */
  readonly #lists = new Set<GlobEntry>();
  /**
   * Globs without subscribers. Their names are remembered as long as a tombstone, so that a returning
   * client receives removals. In the order in which their entries were dropped.
   */
  readonly #dormant = new DormantCollections();
  /** The requested names with parameters (TP2). */
  readonly #variants = new VariantNames();
  #collectionChanges = 0;
  readonly #edges = new ClusterEdges();
  readonly #departed = new DepartedMembers();
  readonly #lasts = new LastContents();
  /** Entries without subscribers. */
  readonly #lingering: Lingering<NameEntry | GlobEntry>;
  readonly #missing: MissingNames<GlobEntry>;
  /** For old-style names: number of entries per scope (node group). */
  readonly #scopes = new Map<string, number>();
  readonly fallbacks: Fallbacks;

  constructor(directory: ResourceDirectory, options: CacheOptions) {
    this.#directory = directory;
    this.#options = options;
    this.#lingering = new Lingering({
      lingerMs: options.unsubscribedLingerMs,
      maxEntries: options.maxUnsubscribedNames,
    });
    this.fallbacks = new Fallbacks(options.leastMaxMessageBytes ?? Infinity);
    this.#missing = new MissingNames({
      globsOf: (authority) => this.#globsByAuthority.get(authority) ?? [],
      globOf: (typeUrl, { key }) => this.#globs.get(typeUrl, key),
      isCurrent: (typeUrl, glob) => directory.isCurrent(typeUrl, glob),
      guardedUntilMs: (typeUrl, glob) => directory.guardedUntilMs(typeUrl, glob),
      onHeldBack: options.onHeldBack,
      onRemoved: (glob) => {
        this.#collectionChanges++;
        notifyGlob(glob);
      },
      onSettled: notifyGlob,
    });
  }

  get nameCount(): number {
    return this.#names.size;
  }

  get globCount(): number {
    return this.#globs.size;
  }

  /** Number of node groups with at least one entry. */
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

  guardedUntilMs(typeUrl: string, name: ResourceName): number {
    return this.#directory.guardedUntilMs(typeUrl, name);
  }

  isSilentAbout(typeUrl: string, name: ResourceName): boolean {
    return this.#directory.isSilentAbout(typeUrl, name);
  }

  /** The subscribed name with this key; not a glob or list. */
  nameOf(typeUrl: string, key: string): ResourceName | undefined {
    return this.#names.get(typeUrl, key)?.name;
  }

  stateOf(typeUrl: string, name: ResourceName): NameState | undefined {
    return this.#names.get(typeUrl, name.key)?.state;
  }

  /** The collection of a subscribed glob or list. */
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

  /** Number of changes of the result of `collectionNames`. */
  get collectionChanges(): number {
    return this.#collectionChanges;
  }

  /**
   * The current collections. The names of each are read when the iterator reaches it, so that writing
   * a hundred thousand names need not happen in one turn of the event loop.
   */
  *collectionNames(nowMs: number): IterableIterator<CollectionNames> {
    const live = [...this.#globs.values()];
    const dormant = [...this.#dormant.values()];
    for (const { typeUrl, collection } of live) yield collection.names(typeUrl, nowMs);
    for (const { typeUrl, collection, untilMs } of dormant) {
      yield collection.names(typeUrl, untilMs - this.#options.tombstoneMaxAgeMs);
    }
  }

  /** Restores the names that an earlier process knew. Call it before the first client connects. */
  restoreCollections(all: readonly CollectionNames[], nowMs: number): void {
    const inOrder = [...all].sort((a, b) => a.knownAtMs - b.knownAtMs);
    for (const names of inOrder) {
      const { typeUrl, glob, knownAtMs } = names;
      const untilMs = knownAtMs + this.#options.tombstoneMaxAgeMs;
      if (untilMs <= nowMs) continue;
      const collection = new Collection(glob, this.#options);
      collection.restore(names, nowMs);
      this.#dormant.add({ typeUrl, collection, untilMs });
    }
  }

  /**
   * @returns undefined if no client subscribes to the name. A name that is only the member of a list is
   *   known only while it is present.
   */
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
    // A member of a list: the entry of the list requests it upstream by its own name.
    if (version === undefined) return undefined;
    return { kind: 'present', version, asked: name, inCollection: false };
  }

  // ---- demand -------------------------------------------------------------------------------

  /** @returns why no client may request the name with one more set of parameters (TP2); undefined: one may */
  variantRefusal(typeUrl: string, name: ResourceName): RpcStatus | undefined {
    if (name.parameters === undefined || this.isWatched(typeUrl, name)) return undefined;
    return this.#variants.countOf(name) < MAX_VARIANTS_OF_NAME ? undefined : TOO_MANY_VARIANTS;
  }

  /** Is the name or glob watched upstream already? */
  isWatched(typeUrl: string, name: ResourceName): boolean {
    const entries = name.isGlob ? this.#globs : this.#names;
    return entries.get(typeUrl, name.key) !== undefined;
  }

  /** @param payer pays for the entry if it is new; default: no account */
  subscribeName(
    typeUrl: string,
    name: ResourceName,
    subscriber: NameSubscriber,
    payer?: NamePayer,
  ): NameEntry {
    const known = this.#names.get(typeUrl, name.key);
    const entry = known ?? this.#addName(typeUrl, name, payer);
    entry.subscribers.add(subscriber);
    if (known) this.#lingering.delete(known);
    else this.#directory.watch(typeUrl, name, this);
    return entry;
  }

  #addName(typeUrl: string, name: ResourceName, payer: NamePayer | undefined): NameEntry {
    const entry = { typeUrl, name, subscribers: new Set<NameSubscriber>(), payer, state: WAITING };
    this.#names.set(typeUrl, name.key, entry);
    this.#variants.add(name);
    this.#countAsked(typeUrl, name, 1);
    payer?.changeUpstream(1);
    return entry;
  }

  /** @param payer as for `subscribeName` */
  subscribeGlob(
    typeUrl: string,
    glob: ResourceName,
    subscriber: GlobSubscriber,
    payer?: NamePayer,
  ): GlobEntry {
    const known = this.#globs.get(typeUrl, glob.key);
    const entry = known ?? this.#addGlob(typeUrl, glob, payer);
    entry.subscribers.add(subscriber);
    if (known) this.#lingering.delete(known);
    else this.#directory.watch(typeUrl, glob, this);
    return entry;
  }

  #addGlob(typeUrl: string, glob: ResourceName, payer: NamePayer | undefined): GlobEntry {
    const collection = this.#dormant.take(typeUrl, glob) ?? new Collection(glob, this.#options);
    const subscribers = new Set<GlobSubscriber>();
    const entry: GlobEntry = { typeUrl, collection, subscribers, payer, error: undefined };
    this.#globs.set(typeUrl, glob.key, entry);
    this.#globsOf(glob.authority).add(entry);
    if (isListName(typeUrl, glob)) this.#lists.add(entry);
    this.#countAsked(typeUrl, glob, 1);
    payer?.changeUpstream(1);
    return entry;
  }

  /** @param parting why the subscriber leaves; the entry lingers accordingly. */
  unsubscribeName(
    entry: NameEntry,
    subscriber: NameSubscriber,
    parting: Parting,
    nowMs: number,
  ): void {
    entry.subscribers.delete(subscriber);
    this.#lingerIfUnsubscribed(entry, parting, nowMs);
  }

  unsubscribeGlob(
    entry: GlobEntry,
    subscriber: GlobSubscriber,
    parting: Parting,
    nowMs: number,
  ): void {
    entry.subscribers.delete(subscriber);
    this.#lingerIfUnsubscribed(entry, parting, nowMs);
  }

  #lingerIfUnsubscribed(entry: NameEntry | GlobEntry, parting: Parting, nowMs: number): void {
    if (entry.subscribers.size > 0) return;
    for (const oldest of this.#lingering.add(entry, parting, nowMs)) this.#drop(oldest, nowMs);
  }

  /** Clients will not come back for these names: the cache drops those without subscribers at once, or in the next turns. */
  retire(
    asked: Iterable<{ readonly typeUrl: string; readonly name: ResourceName }>,
    nowMs: number,
  ): void {
    for (const { typeUrl, name } of asked) {
      const entry = this.#names.get(typeUrl, name.key) ?? this.#globs.get(typeUrl, name.key);
      if (entry) this.#lingering.retire(entry);
    }
    this.#dropDue(nowMs);
  }

  nextDeadlineMs(): number | undefined {
    if (!this.#departed.isEmpty) return this.#directory.nowMs;
    return soonestOf(this.#lingering.nextMs, this.#missing.nextDeadlineMs(), this.#lasts.nextMs);
  }

  /** @returns whether more is due: call it again in the next turn */
  handleTimer(nowMs: number): boolean {
    const isMissingMore = this.#missing.handleTimer(nowMs);
    const dropped = this.#dropDue(nowMs);
    this.#collectionChanges += this.#dormant.forgetDue(nowMs);
    this.#forgetDeparted();
    this.#lasts.forgetDue(nowMs);
    return isMissingMore || dropped === MAX_DROPPED || !this.#departed.isEmpty;
  }

  /** @returns how many were dropped */
  #dropDue(nowMs: number): number {
    const due = this.#lingering.takeDue(nowMs, MAX_DROPPED);
    for (const parted of due) this.#drop(parted, nowMs);
    return due.length;
  }

  #drop({ entry, leftMs }: Parted<NameEntry | GlobEntry>, nowMs: number): void {
    entry.payer?.changeUpstream(-1);
    if ('name' in entry) {
      const tellHeld = this.#watchHeld(entry.typeUrl, entry.name);
      this.#names.delete(entry.typeUrl, entry.name.key);
      this.#variants.delete(entry.name);
      this.#countAsked(entry.typeUrl, entry.name, -1);
      if (entry.state.kind === 'present') this.#forgetEdge(entry.state.projection);
      tellHeld('dropped');
      this.#directory.unwatch(entry.typeUrl, entry.name, this, leftMs);
      return;
    }
    const { collection, typeUrl } = entry;
    // Only clusters have edges.
    const isNoted = this.#options.onHeld !== undefined || typeUrl === TYPE_URL.cluster;
    const isList = this.#lists.has(entry);
    const forget = isNoted && isList ? this.#forgetting(collection) : NOTHING;
    this.#deleteGlob(entry);
    this.#countAsked(typeUrl, collection.glob, -1);
    this.#lists.delete(entry);
    this.#collectionChanges++;
    const members = collection.forgetContent();
    if (isNoted && !isList) this.#departed.add(typeUrl, collection.glob, members);
    forget();
    if (collection.rememberedCount > 0) {
      const untilMs = nowMs + this.#options.tombstoneMaxAgeMs;
      this.#dormant.add({ typeUrl, collection, untilMs });
    }
    this.#directory.unwatch(typeUrl, collection.glob, this, leftMs);
  }

  #globsOf(authority: string): Set<GlobEntry> {
    let globs = this.#globsByAuthority.get(authority);
    if (!globs) this.#globsByAuthority.set(authority, (globs = new Set()));
    return globs;
  }

  #deleteGlob(entry: GlobEntry): void {
    const { glob } = entry.collection;
    this.#globs.delete(entry.typeUrl, glob.key);
    const globs = this.#globsOf(glob.authority);
    globs.delete(entry);
    if (globs.size === 0) this.#globsByAuthority.delete(glob.authority);
  }

  #forgetDeparted(): void {
    this.#departed.forgetSome(MAX_FORGOTTEN, (departed) => this.#forgettingOne(departed));
  }

  /** Call it before the members are dropped, and the returned function afterwards. */
  #forgetting({ members }: Collection): () => void {
    const all = Array.from(members.since(LOG_START), ({ projection }) =>
      this.#forgettingOne(projection),
    );
    return () => {
      for (const forget of all) forget();
    };
  }

  #forgettingOne(projection: Projection): () => void {
    const tellHeld = this.#watchHeld(projection.typeUrl, projection.name);
    return () => {
      this.#forgetEdge(projection);
      tellHeld('dropped');
    };
  }

  #countAsked(typeUrl: string, name: ResourceName, change: 1 | -1): void {
    this.#options.onAsked?.(typeUrl, name, change);
    if (!isOldStyle(name)) return;
    const count = (this.#scopes.get(name.authority) ?? 0) + change;
    if (count === 0) this.#scopes.delete(name.authority);
    else this.#scopes.set(name.authority, count);
  }

  // ---- notifications of the directory -------------------------------------------------------

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

  onConfirmed(projection: Projection): void {
    const { typeUrl, name } = projection;
    const entry = this.#names.get(typeUrl, name.key);
    this.#globs.get(typeUrl, globKeyOf(name))?.collection.put(projection);
    if (entry?.state.kind !== 'present') return;
    entry.state = { kind: 'present', projection };
    notifyName(entry);
  }

  #putMember(glob: GlobEntry, projection: Projection): void {
    const before = glob.collection.members.size;
    if (!glob.collection.put(projection)) return;
    if (glob.collection.members.size > before) {
      this.#collectionChanges++;
      this.#missing.handleGrowth(glob.collection.glob.authority, this.#directory.nowMs);
    }
    notifyGlob(glob);
  }

  #removeMember(glob: GlobEntry, name: ResourceName, last: LastContent | undefined): void {
    const gone = glob.collection.remove(name.key, this.#directory.nowMs, last);
    if (!gone) return;
    this.#collectionChanges++;
    notifyGlob(glob, gone);
  }

  onRemoved(typeUrl: string, name: ResourceName, status?: RpcStatus): void {
    const tellHeld = this.#watchHeld(typeUrl, name);
    const entry = this.#names.get(typeUrl, name.key);
    const glob = this.#globs.get(typeUrl, globKeyOf(name));
    const held = this.#heldOf(typeUrl, name);
    // A source that gave a reason, such as a lost right, wants the content to go at once.
    const last = status ? undefined : this.#keepLast(held);
    if (entry) {
      entry.state = { ...absent(status), wasHeld: held !== undefined, ...(last && { last }) };
      notifyName(entry);
    }
    if (glob) this.#removeMember(glob, name, last);
    if (held) this.#forgetEdge(held);
    tellHeld('said');
  }

  #keepLast(held: Projection | undefined): LastContent | undefined {
    if (held?.typeUrl !== TYPE_URL.cluster) return undefined;
    return this.#lasts.keep(held, this.#directory.nowMs);
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
    if (entry) this.#removeMember(entry, name, this.#keepLast(held));
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
    if (isProof) this.#handleProof(glob);
    else glob.collection.handleComplete(false, this.isCurrent(typeUrl, globName));
    notifyGlob(glob);
  }

  /** A collection is complete. Remembered names that it lacks wait for the guard of the authority. */
  #handleProof(entry: GlobEntry): void {
    const { typeUrl, collection } = entry;
    const missing = collection.handleComplete(true);
    if (missing.length === 0) return;
    const policy = this.removalPolicyOf(typeUrl, collection.glob);
    this.#missing.add(entry, missing, policy, this.#directory.nowMs);
  }

  /** Access to a collection was denied, or the collection does not exist: no guard is needed. */
  #forgetLost({ collection }: GlobEntry): void {
    if (collection.removeRemembered(this.#directory.nowMs)) this.#collectionChanges++;
  }

  onResourceError(typeUrl: string, name: ResourceName, status: RpcStatus): void {
    if (name.isGlob) {
      const glob = this.#globs.get(typeUrl, name.key);
      if (!glob) return;
      glob.error = status;
      // NOT_FOUND and PERMISSION_DENIED are definite, even from a source that has just started.
      if (isDataError(status)) this.#forgetLost(glob);
      notifyGlob(glob);
      return;
    }
    const entry = this.#names.get(typeUrl, name.key);
    if (!entry || entry.state.kind === 'present') return;
    // NOT_FOUND and PERMISSION_DENIED: the data do not exist for this client (TP3).
    entry.state = isDataError(status) ? absent(status) : { kind: 'error', status };
    notifyName(entry);
  }

  // ---- observers of held versions ------------------------------------------------------------

  #heldOf(typeUrl: string, name: ResourceName): Projection | undefined {
    return this.#heldAlone(typeUrl, name) ?? this.#heldInList(typeUrl, name);
  }

  /** What the observer believes to be held: it hears of a dropped glob in portions. */
  #toldOf(typeUrl: string, name: ResourceName): Projection | undefined {
    return (
      this.#heldAlone(typeUrl, name) ??
      this.#departed.find(typeUrl, name) ??
      this.#heldInList(typeUrl, name)
    );
  }

  /** By its name or its glob. */
  #heldAlone(typeUrl: string, name: ResourceName): Projection | undefined {
    const state = this.#names.get(typeUrl, name.key)?.state;
    if (state?.kind === 'present') return state.projection;
    return this.#globs.get(typeUrl, globKeyOf(name))?.collection.member(name.key)?.projection;
  }

  #heldInList(typeUrl: string, name: ResourceName): Projection | undefined {
    for (const list of this.#lists) {
      const member = list.typeUrl === typeUrl ? list.collection.member(name.key) : undefined;
      if (member) return member.projection;
    }
    return undefined;
  }

  /** Call it before a change, and the returned function after the change. */
  #watchHeld(typeUrl: string, name: ResourceName): (cause: HeldChange['cause']) => void {
    const { onHeld } = this.#options;
    if (!onHeld) return NOTHING;
    const before = this.#toldOf(typeUrl, name)?.version;
    return (cause) => {
      const after = this.#toldOf(typeUrl, name)?.version;
      if (before !== after) onHeld({ typeUrl, name, before, after, cause });
    };
  }

  // ---- edges --------------------------------------------------------------------------------

  /** Clusters that use the endpoints of this assignment. */
  clustersOf(edsKey: string): Iterable<Projection> {
    return this.#edges.clustersOf(edsKey);
  }

  #noteChange(projection: Projection, before: Projection | undefined): void {
    this.fallbacks.handleChanged(projection, before);
    this.#edges.handleChanged(projection, before);
  }

  /** Call it after a removal. The same cluster may still be held, by its name, its glob or a list. */
  #forgetEdge(projection: Projection): void {
    const { typeUrl, name, edsKey } = projection;
    if (edsKey === undefined || this.#heldOf(typeUrl, name)?.edsKey === edsKey) return;
    this.#edges.drop(projection);
  }
}

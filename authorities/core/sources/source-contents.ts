/**
 * The subscriptions at one source and the source's answers to them: the same for a management
 * server and a directory of files. Bulk machine: mutable, without IO.
 *
 * Names are stored in collections, one per (type, glob key). So a singleton and a member of a glob
 * are found the same way, and the members of a glob are found without a scan.
 */
import type { RpcStatus } from '../../../protos/discovery.js';
import {
  globKeyOf,
  globKeyOfText,
  VariantNames,
  type ResourceName,
} from '../../../protos/resource-name.js';
import { isPartialInSotw, isWholeInSotw } from '../../../protos/type-urls.js';
import { TypedMap } from '../../../protos/typed-map.js';
import { ContentBudget, type Unroomed } from './content-budget.js';
import { Expiries } from './expiries.js';
import { isSame, type Projection } from '../projection.js';
import { noneRejected, RejectedNames, type Rejected } from './rejected-names.js';

/** `requested`: not answered yet. `timed_out`: not answered in time; a late answer still counts. */
export type SubscriptionStatus = 'requested' | 'present' | 'absent' | 'timed_out';

export interface SourceEntry {
  readonly projection: Projection;
  /** The version that this source sent; it is sent back only to this source (invariant 10). */
  readonly upstreamVersion: string;
  /** TTL deadline: the entry is removed then, unless the source renews it (invariant 20). */
  readonly expiresAtMs?: number | undefined;
}

/** A subscriber, compared by identity: a failover group or a `Comparison`. Only groups are told of changes. */
export type Listener = object;

export interface SourceSubscription {
  readonly typeUrl: string;
  readonly name: ResourceName;
  readonly listeners: Set<Listener>;
  /** Set by `SourceContents` alone, which counts those that are `requested`. */
  status: SubscriptionStatus;
  /** The source's reason for the absence, or for not answering, if it sent one (TP3). */
  absence: RpcStatus | undefined;
  /** When the name times out; undefined unless it is `requested`, and a stream has requested it. */
  deadlineMs: number | undefined;
  /** Globs only: a member's TTL ended here, and the server may still have the member. */
  lapsed: boolean;
  /** Globs only: it was answered in full, on this stream or an earlier one. */
  wasWhole: boolean;
  /** Globs only: how many members were held when it was unsubscribed. */
  membersLeft: number;
  /** TP2: the constraints of the variant that the present stream sent for it, as text. Absent: none was sent, or it was removed. */
  variant?: string | undefined;
  /** TP2: the texts of further variants, which were refused. One of them may be all that is left when the first goes. Absent: none. */
  refusedVariants?: Set<string> | undefined;
}

/** An event about one name, for its listeners. */
export interface SourceChange {
  readonly kind: 'present' | 'removed' | 'expired' | 'settled' | 'timed_out';
  /** `present` only: the new content. */
  readonly entry?: SourceEntry;
  readonly typeUrl: string;
  /** The resource, or for `settled` and `timed_out` the subscribed name or glob. */
  readonly name: ResourceName;
  readonly listeners: readonly Listener[];
  /**
   * `removed`: the source may have lost the resource, not deleted it. `present`: it may have lost a part of the content. The
   * change came with the first response after a reconnect, is the first answer for the name, or concerns a name that the
   * source lacked already.
   */
  readonly isDoubtful?: boolean;
  /** `removed` only: the content's TTL deadline. A removal is held back no longer than this. */
  readonly endsMs?: number | undefined;
}

interface Collection {
  glob: SourceSubscription | undefined;
  readonly singletons: Map<string, SourceSubscription>;
  entries: Map<string, SourceEntry>;
  /** Of the resources in `entries`. */
  bytes: number;
  readonly rejected: Rejected;
}

export class SourceContents {
  /** By the key of the glob. */
  readonly #collections = new TypedMap<Collection>();
  #changes: SourceChange[] = [];
  /**
   * Sent last: when a glob is settled, its listeners have received every member of the same
   * response.
   */
  #settled: SourceChange[] = [];
  readonly #expiries = new Expiries((typeUrl, name) => this.entry(typeUrl, name)?.expiresAtMs);
  /** The subscribed names with parameters (TP2). */
  readonly #variants = new VariantNames();
  #subscriptions = 0;
  /** How many of them are `requested`. */
  #unanswered = 0;
  #entriesAdded = 0;
  #entriesRepeated = 0;
  /** By type: when a resource that may be part of an answer came last. */
  readonly #arrivalsMs = new Map<string, number>();
  readonly #isSotw: boolean;
  readonly budget: ContentBudget;
  readonly hasVariants: boolean;
  readonly #rejectedNames = new RejectedNames();

  /**
   * @param flavour of the source's protocol
   * @param budget counts what is held; `ResourceIntake` asks it before it puts a resource
   * @param hasVariants the source may have several variants of a name (TP2)
   */
  constructor(
    flavour: 'delta' | 'state of the world' = 'delta',
    budget: ContentBudget = new ContentBudget(),
    hasVariants = false,
  ) {
    this.#isSotw = flavour === 'state of the world';
    this.budget = budget;
    this.hasVariants = hasVariants;
  }

  /**
   * Does an answered glob of this type have all members? Otherwise a missing member is unknown, not absent, and the
   * server may be silent about a glob without members.
   */
  answersWholly(typeUrl: string): boolean {
    return !this.#isSotw || isWholeInSotw(typeUrl);
  }

  get subscriptionCount(): number {
    return this.#subscriptions;
  }

  /** Is no subscription `requested`? */
  get isAnswered(): boolean {
    return this.#unanswered === 0;
  }

  /** @returns the subscription if it is new at the source, else undefined. */
  subscribe(
    typeUrl: string,
    name: ResourceName,
    listener: Listener,
  ): SourceSubscription | undefined {
    const known = this.subscription(typeUrl, name);
    if (known) {
      known.listeners.add(listener);
      return undefined;
    }
    const made: SourceSubscription = {
      typeUrl,
      name,
      listeners: new Set([listener]),
      status: 'requested',
      absence: undefined,
      deadlineMs: undefined,
      membersLeft: 0,
      wasWhole: false,
      lapsed: false,
    };
    const collection = this.#collection(typeUrl, globKeyOf(name));
    if (name.isGlob) collection.glob = made;
    else collection.singletons.set(name.key, made);
    this.#variants.add(name);
    this.#subscriptions++;
    this.#unanswered++;
    return made;
  }

  /**
   * Drops the entries that no other subscription covers.
   *
   * @returns the subscription if its last listener left, else undefined.
   */
  unsubscribe(
    typeUrl: string,
    name: ResourceName,
    listener: Listener,
  ): SourceSubscription | undefined {
    const known = this.subscription(typeUrl, name);
    if (!known?.listeners.delete(listener) || known.listeners.size > 0) return undefined;
    const globKey = globKeyOf(name);
    const collection = this.#collection(typeUrl, globKey);
    if (name.isGlob) {
      collection.glob = undefined;
      known.membersLeft = collection.entries.size;
      this.#rejectedNames.clear(collection.rejected, collection.singletons);
      this.#eraseMembers(collection);
    } else {
      collection.singletons.delete(name.key);
      if (!collection.glob) {
        this.#erase(collection, name.key);
        this.#rejectedNames.forget(collection.rejected, name.key);
      }
    }
    if (!collection.glob && collection.singletons.size === 0)
      this.#collections.delete(typeUrl, globKey);
    this.#variants.delete(name);
    this.#subscriptions--;
    if (known.status === 'requested') this.#unanswered--;
    // It does not time out any more.
    known.deadlineMs = undefined;
    if (this.#subscriptions === 0) this.#expiries.clear();
    return known;
  }

  /** The number of subscriptions of a name with parameters (TP2). */
  variantCount(name: ResourceName): number {
    return this.#variants.countOf(name);
  }

  /** The name without parameters, and as it is subscribed with parameters (TP2): the names that a variant may be for. */
  asVariants(name: ResourceName): readonly ResourceName[] {
    return [name, ...this.#variants.of(name)];
  }

  subscription(typeUrl: string, name: ResourceName): SourceSubscription | undefined {
    const collection = this.#find(typeUrl, name);
    return name.isGlob ? collection?.glob : collection?.singletons.get(name.key);
  }

  /**
   * The name with this text, if it is subscribed or held; a name with parameters is not found. Saves to
   * parse it again, and the memory of a second copy.
   */
  knownName(typeUrl: string, text: string): ResourceName | undefined {
    const collection = this.#collections.get(typeUrl, globKeyOfText(text));
    return collection?.singletons.get(text)?.name ?? collection?.entries.get(text)?.projection.name;
  }

  /** The glob that this name is a member of, if it is subscribed. */
  globOf(typeUrl: string, name: ResourceName): SourceSubscription | undefined {
    return this.#find(typeUrl, name)?.glob;
  }

  entry(typeUrl: string, name: ResourceName): SourceEntry | undefined {
    return this.#find(typeUrl, name)?.entries.get(name.key);
  }

  /** The members of a subscribed glob that the source has published. */
  members(typeUrl: string, glob: ResourceName): IterableIterator<SourceEntry> {
    const collection = this.#find(typeUrl, glob);
    return (collection?.entries ?? new Map<string, SourceEntry>()).values();
  }

  /** The number of `members`. */
  memberCount(typeUrl: string, glob: ResourceName): number {
    return this.#find(typeUrl, glob)?.entries.size ?? 0;
  }

  /** Types that have subscriptions. */
  types(): IterableIterator<string> {
    return this.#collections.types();
  }

  /** Number of the types that are subscribed. */
  get typeCount(): number {
    return this.#collections.typeCount;
  }

  #collectionsOf(typeUrl: string): Iterable<Collection> {
    return this.#collections.ofType(typeUrl).values();
  }

  /** The collection of a name, or of a glob. */
  #find(typeUrl: string, name: ResourceName): Collection | undefined {
    return this.#collections.get(typeUrl, globKeyOf(name));
  }

  *subscriptions(typeUrl: string): IterableIterator<SourceSubscription> {
    for (const collection of this.#collectionsOf(typeUrl)) {
      if (collection.glob) yield collection.glob;
      yield* collection.singletons.values();
    }
  }

  *#subscriptionsOfAllTypes(): IterableIterator<SourceSubscription> {
    for (const typeUrl of this.types()) yield* this.subscriptions(typeUrl);
  }

  *entries(typeUrl: string): IterableIterator<SourceEntry> {
    for (const { entries } of this.#collectionsOf(typeUrl)) yield* entries.values();
  }

  /**
   * The held resources, without the members of globs that were never answered in full: if it got the versions of all
   * members, a server would be silent about such a glob, just like a source that hangs.
   */
  *wholeEntries(typeUrl: string): IterableIterator<SourceEntry> {
    for (const { glob, entries } of this.#collectionsOf(typeUrl)) {
      if (glob?.wasWhole !== false) yield* entries.values();
    }
  }

  /** The answer for this name on the present stream, by its own name or as a member of a glob. */
  answerFor(typeUrl: string, name: ResourceName): SubscriptionStatus {
    const collection = this.#find(typeUrl, name);
    if (collection?.entries.has(name.key)) return 'present';
    // The source sent it, but the gateway rejected it: there is no content, and it is not absent.
    if (collection?.rejected.names.has(name.key)) return 'timed_out';
    const own = collection?.singletons.get(name.key)?.status;
    const globs = collection?.glob?.status;
    if (own === 'absent' || own === 'present') return 'absent';
    const hasAll = collection?.rejected.hasForgotten === false && this.answersWholly(typeUrl);
    if (globs === 'present' && hasAll) return 'absent';
    return own === 'requested' || globs === 'requested' ? 'requested' : 'timed_out';
  }

  /** Was the source asked for this name, and has it sent neither an error for it nor content, not even content that was rejected? */
  isSilentAbout(typeUrl: string, name: ResourceName): boolean {
    const collection = this.#find(typeUrl, name);
    const own = collection?.singletons.get(name.key);
    if (!collection || !own || own.absence) return false;
    const { entries, rejected } = collection;
    return !entries.has(name.key) && !rejected.names.has(name.key) && !rejected.hasForgotten;
  }

  /** Is this name, or the glob that it is a member of, subscribed? */
  isWanted(typeUrl: string, name: ResourceName): boolean {
    const collection = this.#find(typeUrl, name);
    return (
      collection !== undefined &&
      (collection.glob !== undefined || collection.singletons.has(name.key))
    );
  }

  /**
   * Stores a resource from the source, and settles the subscription to its own name.
   *
   * @param isDoubtful see `SourceChange`
   * @returns the glob that it is a member of, if that is subscribed: `Answers` decides whether the
   * member answers the glob.
   */
  put(entry: SourceEntry, isDoubtful = false): SourceSubscription | undefined {
    const { typeUrl, name } = entry.projection;
    const collection = this.#find(typeUrl, name);
    if (!collection) return undefined;
    const before = collection.entries.get(name.key);
    this.#store(collection, name.key, entry);
    if (!before) this.#entriesAdded++;
    this.#noteExpiry(entry);
    this.#clearRejection(collection, typeUrl, name);
    const { glob, singletons } = collection;
    const singleton = singletons.get(name.key);
    const isChanged = !before || !isSame(before.projection, entry.projection);
    if (isChanged) {
      this.#changes.push({
        kind: 'present',
        entry,
        typeUrl,
        name,
        listeners: listenersOf(singleton, glob),
        // A state-of-the-world server may answer with nothing first, and with this name later.
        isDoubtful: isDoubtful || isUnanswered(singleton) || isUnanswered(glob),
      });
    } else this.#entriesRepeated++;
    if (singleton) this.#settle(singleton, 'present', undefined, isChanged);
    return glob;
  }

  /**
   * The source reported that this name does not exist (any more), or that this glob is empty.
   *
   * @param isDoubtful see `SourceChange`
   * @param absence the reason, if the source sent one
   */
  remove(typeUrl: string, name: ResourceName, isDoubtful: boolean, absence?: RpcStatus): void {
    const collection = this.#find(typeUrl, name);
    if (!collection) return;
    if (name.isGlob) {
      // TP1: a source answers an empty glob with the glob's name. That removes no members.
      if (collection.glob) this.#settle(collection.glob, 'present', absence);
      return;
    }
    // A rejected resource counts as held: the group may serve another candidate's in its place.
    const wasRejected = this.#clearRejection(collection, typeUrl, name);
    const endsMs = collection.entries.get(name.key)?.expiresAtMs;
    const had = this.#erase(collection, name.key) || wasRejected;
    const singleton = collection.singletons.get(name.key);
    // Announce a repeated absence only if its reason is new.
    const known =
      singleton?.status === 'absent' && (!absence || absence.code === singleton.absence?.code);
    if (had || (singleton && !known)) {
      const { glob } = collection;
      const listeners = listenersOf(singleton, had ? glob : undefined);
      // The deletion guard may hold a name back that the source lacked already (seed 164795).
      this.#changes.push({
        kind: 'removed',
        typeUrl,
        name,
        listeners,
        isDoubtful: isDoubtful || !had,
        endsMs,
      });
    }
    if (singleton && !known) this.#settle(singleton, 'absent', absence, true);
  }

  /**
   * The gateway rejected a resource from the source. Held content stays.
   *
   * @param unroomedBytes its size, if there was no room for it
   * @returns the glob that the resource answers nevertheless; undefined if the name is also subscribed by itself
   */
  refuse(typeUrl: string, name: ResourceName, unroomedBytes = 0): SourceSubscription | undefined {
    const collection = this.#find(typeUrl, name);
    if (!collection) return undefined;
    const isAsked = collection.singletons.has(name.key);
    this.#rejectedNames.add(collection.rejected, name, unroomedBytes, isAsked);
    return isAsked ? undefined : collection.glob;
  }

  /** Did the gateway reject what the present stream sent last for this name? */
  isRejected(typeUrl: string, name: ResourceName): boolean {
    const collection = this.#find(typeUrl, name);
    return collection?.rejected.names.has(name.key) === true;
  }

  /** The names that were rejected and have no earlier content. */
  *rejectedOnly(typeUrl: string): IterableIterator<ResourceName> {
    for (const { rejected, entries } of this.#collectionsOf(typeUrl)) {
      for (const [key, { name }] of rejected.names) if (!entries.has(key)) yield name;
    }
  }

  /** The resources that the gateway rejected for lack of room, and that the source has still, as far as known. */
  get unroomed(): Unroomed {
    return this.#rejectedNames.unroomed;
  }

  /** Number of resources so far that were not held when they came. */
  get entriesAdded(): number {
    return this.#entriesAdded;
  }

  /**
   * Number of resources so far that were not held when they came, or came again unchanged. What a delta source
   * repeats unchanged belongs to an answer rather than to an update.
   */
  get entriesAnswered(): number {
    return this.#entriesAdded + this.#entriesRepeated;
  }

  /** A response had resources of this type that may be part of an answer: more may follow. */
  noteArrival(typeUrl: string, nowMs: number): void {
    this.#arrivalsMs.set(typeUrl, nowMs);
  }

  /** When the last such response came; -Infinity: never. */
  lastArrivalMs(typeUrl: string): number {
    return this.#arrivalsMs.get(typeUrl) ?? -Infinity;
  }

  /**
   * Are all members that the source has of this glob held, none rejected? Ask when no further members are expected: each stream
   * begins with all of them. False for the types whose state-of-the-world responses may be partial.
   */
  isWhole(typeUrl: string, glob: ResourceName): boolean {
    const rejected = this.#find(typeUrl, glob)?.rejected;
    const hasAll = rejected?.names.size === 0 && !rejected.hasForgotten;
    return hasAll && !(this.#isSotw && isPartialInSotw(typeUrl));
  }

  /**
   * The resource of a name is now accepted, or removed: a rejection of it no longer counts.
   *
   * @returns whether it was rejected before
   */
  #clearRejection(collection: Collection, typeUrl: string, name: ResourceName): boolean {
    const { rejected, glob } = collection;
    if (!this.#rejectedNames.forget(rejected, name.key)) return false;
    if (rejected.names.size === 0 && glob?.status === 'present') {
      this.#announce('settled', typeUrl, glob.name, glob);
    }
    return true;
  }

  /** A heartbeat sets a new TTL deadline; undefined: the entry has no TTL any more. */
  renew(entry: SourceEntry, expiresAtMs: number | undefined): void {
    const { typeUrl, name } = entry.projection;
    const renewed = { ...entry, expiresAtMs };
    this.#find(typeUrl, name)?.entries.set(name.key, renewed);
    this.#noteExpiry(renewed);
  }

  #noteExpiry({ projection, expiresAtMs }: SourceEntry): void {
    if (expiresAtMs === undefined) return;
    const { typeUrl, name } = projection;
    this.#expiries.add({ atMs: expiresAtMs, typeUrl, name });
  }

  /** Number of stored deadlines, including outdated ones. */
  get expiryCount(): number {
    return this.#expiries.size;
  }

  /** When the next entry may expire; this does not depend on a stream. */
  get nextExpiryMs(): number | undefined {
    return this.#expiries.nextMs;
  }

  /**
   * Removes entries whose TTL was not renewed in time; their names count as absent. Listeners
   * receive `expired`, not `removed`.
   */
  expire(nowMs: number): void {
    for (let due = this.#expiries.takeDue(nowMs); due; due = this.#expiries.takeDue(nowMs)) {
      const { typeUrl, name } = due;
      const collection = this.#collection(typeUrl, globKeyOf(name));
      const singleton = collection.singletons.get(name.key);
      this.#erase(collection, name.key);
      if (singleton) this.#setStatus(singleton, 'absent');
      if (collection.glob) collection.glob.lapsed = true;
      this.#announce('expired', typeUrl, name, singleton, collection.glob);
    }
  }

  /**
   * The source sent an error for this name that does not mean "absent" (see `isDataError`). A
   * single name counts as timed out; a glob keeps waiting. Held content stays.
   */
  fail(typeUrl: string, name: ResourceName, error: RpcStatus): void {
    const subscription = name.isGlob ? undefined : this.subscription(typeUrl, name);
    if (!subscription) return;
    const isNews = subscription.absence?.code !== error.code;
    if (subscription.status === 'timed_out' && isNews) this.#setStatus(subscription, 'requested');
    this.timeOut(subscription, error);
  }

  /** The source did not answer in time. Held content stays. */
  timeOut(subscription: SourceSubscription, error?: RpcStatus): void {
    if (subscription.status !== 'requested') return;
    this.#setStatus(subscription, 'timed_out');
    subscription.absence = error;
    this.#announce('timed_out', subscription.typeUrl, subscription.name, subscription);
  }

  /**
   * The stream requests the names of this type that were not answered in time.
   *
   * @param answered the keys of other names, which the source has answered meanwhile
   */
  reopen(typeUrl: string, answered: ReadonlySet<string> = NO_KEYS): void {
    for (const subscription of this.subscriptions(typeUrl)) {
      if (subscription.status !== 'timed_out' || answered.has(subscription.name.key)) continue;
      this.#setStatus(subscription, 'requested');
      subscription.absence = undefined;
    }
  }

  /** A new stream requests every name again. Held content stays until the name is answered. */
  restart(): void {
    for (const { rejected } of this.#collections.values()) this.#rejectedNames.clear(rejected);
    for (const subscription of this.#subscriptionsOfAllTypes()) {
      this.#setStatus(subscription, 'requested');
      subscription.deadlineMs = undefined;
      subscription.lapsed = false;
      if (subscription.variant !== undefined) subscription.variant = undefined;
      if (subscription.refusedVariants) subscription.refusedVariants = undefined;
    }
  }

  /**
   * Forgets the members of globs that were never answered in full: the answer on the new stream lists all members. It brings
   * those that are subscribed by their own names, too. They would stay for ever if the name were unsubscribed before it is
   * answered: a server reports no deletion of a version that it was not told (seed 6004814). A member with a TTL stays until
   * its TTL ends, since no listener has the deadline (seed 2503).
   */
  forgetParts(): void {
    for (const collection of this.#collections.values()) {
      if (collection.glob?.wasWhole === false) this.#forgetPart(collection);
    }
  }

  #forgetPart(collection: Collection): void {
    for (const [key, { expiresAtMs }] of collection.entries) {
      if (expiresAtMs === undefined) this.#erase(collection, key);
    }
  }

  /** The stream ended. An unreachable source has not failed to answer a name. */
  stopTimers(): void {
    if (this.isAnswered) return;
    for (const subscription of this.#subscriptionsOfAllTypes()) subscription.deadlineMs = undefined;
  }

  /**
   * The source has answered this name or glob in full, possibly by content that is held already.
   *
   * @param absence the source's reason, if the glob is empty and it sent one
   */
  settle(subscription: SourceSubscription, absence?: RpcStatus): void {
    this.#settle(subscription, 'present', absence);
  }

  takeChanges(): readonly SourceChange[] {
    const taken = [...this.#changes, ...this.#settled];
    this.#changes = [];
    this.#settled = [];
    return taken;
  }

  /** @param isTold its listeners are told of the content or removal that is the answer */
  #settle(
    subscription: SourceSubscription,
    status: 'present' | 'absent',
    absence?: RpcStatus,
    isTold = false,
  ): void {
    const { typeUrl, name, status: before, absence: knownAbsence } = subscription;
    this.#setStatus(subscription, status);
    subscription.absence = absence;
    if (name.isGlob) subscription.wasWhole = true;
    if (isTold) return;
    // A group may wait for this answer alone, also if it brings nothing new (seed 21139).
    const isAnswer = before === 'requested' || before === 'timed_out';
    const isOtherReason = name.isGlob && absence?.code !== knownAbsence?.code;
    if (isAnswer || isOtherReason) this.#announce('settled', typeUrl, name, subscription);
  }

  #setStatus(subscription: SourceSubscription, status: SubscriptionStatus): void {
    if (subscription.status === 'requested') this.#unanswered--;
    subscription.status = status;
    if (status === 'requested') this.#unanswered++;
    else subscription.deadlineMs = undefined;
  }

  #announce(
    kind: SourceChange['kind'],
    typeUrl: string,
    name: ResourceName,
    one: SourceSubscription | undefined,
    other?: SourceSubscription,
  ): void {
    const changes = kind === 'settled' ? this.#settled : this.#changes;
    changes.push({ kind, typeUrl, name, listeners: listenersOf(one, other) });
  }

  #store(collection: Collection, key: string, entry: SourceEntry): void {
    const before = collection.entries.get(key);
    const [bytes, heldBytes] = [bytesOf(entry), before && bytesOf(before)];
    this.budget.add(bytes, heldBytes);
    collection.bytes += bytes - (heldBytes ?? 0);
    collection.entries.set(key, entry);
  }

  /** @returns whether there was such an entry */
  #erase(collection: Collection, key: string): boolean {
    const held = collection.entries.get(key);
    if (!held) return false;
    this.budget.remove(bytesOf(held));
    collection.bytes -= bytesOf(held);
    return collection.entries.delete(key);
  }

  /**
   * Erases the entries that are not subscribed by their own names, however many they are, at once: one by one,
   * 100,000 of them keep the event loop for 40 ms.
   */
  #eraseMembers(collection: Collection): void {
    const { entries, bytes, singletons } = collection;
    this.budget.remove(bytes, entries.size);
    collection.entries = new Map();
    collection.bytes = 0;
    for (const key of singletons.keys()) {
      const own = entries.get(key);
      if (own) this.#store(collection, key, own);
    }
  }

  #collection(typeUrl: string, globKey: string): Collection {
    const known = this.#collections.get(typeUrl, globKey);
    if (known) return known;
    const made: Collection = {
      glob: undefined,
      singletons: new Map(),
      entries: new Map(),
      bytes: 0,
      rejected: noneRejected(),
    };
    this.#collections.set(typeUrl, globKey, made);
    return made;
  }
}

const NO_KEYS: ReadonlySet<string> = new Set();

/** Has the present stream not answered it yet? */
const isUnanswered = (subscription: SourceSubscription | undefined): boolean =>
  subscription?.status === 'requested' || subscription?.status === 'timed_out';

const bytesOf = ({ projection }: SourceEntry): number => projection.field.bytes.length;

/** The listeners of a name and of its glob, each once. */
function listenersOf(
  one: SourceSubscription | undefined,
  other: SourceSubscription | undefined,
): readonly Listener[] {
  if (one && other) return [...new Set([...one.listeners, ...other.listeners])];
  const only = one ?? other;
  return only ? [...only.listeners] : [];
}

/**
 * What one source was asked for, and what it said: the same for a management server and for a
 * directory of files. Bulk machine: mutable, without IO.
 *
 * Names live in collections, one per (type, glob key): a singleton and the members of a glob are
 * found the same way, and a glob's members are at hand without a scan.
 */
import type { RpcStatus } from '../../../protos/discovery.js';
import { globKeyOf, type ResourceName } from '../../../protos/resource-name.js';
import { Expiries } from './expiries.js';
import { isSame, type Projection } from '../projection.js';

/** `requested`: asked, not answered. `timed_out`: not answered in time; a late answer still counts. */
export type SubscriptionStatus = 'requested' | 'present' | 'absent' | 'timed_out';

export interface SourceEntry {
  readonly projection: Projection;
  /** The version that this source gave; goes back only to this source (invariant 10). */
  readonly upstreamVersion: string;
  /** Unless the source says more until then, it is gone (invariant 20). */
  readonly expiresAtMs?: number | undefined;
}

/** Somebody who asked: a failover group, by identity. */
export type Listener = object;

export interface SourceSubscription {
  readonly typeUrl: string;
  readonly name: ResourceName;
  readonly listeners: Set<Listener>;
  status: SubscriptionStatus;
  /** Why there is nothing under this name, or nothing is said of it, if the source said so (TP3). */
  absence: RpcStatus | undefined;
  /** When an unanswered name counts as timed out; undefined while no stream carries it. */
  deadlineMs: number | undefined;
  /** Of a glob: a member's TTL ended here, and the server may still have it. */
  lapsed: boolean;
}

/** One fact about one name, for those who listen. */
export interface SourceChange {
  readonly kind: 'present' | 'removed' | 'expired' | 'settled' | 'timed_out';
  readonly typeUrl: string;
  /** The resource, or for `settled` and `timed_out` the subscribed name or glob. */
  readonly name: ResourceName;
  readonly listeners: readonly Listener[];
  /** Part of the first answer after a reconnect: what it removes was perhaps lost, not deleted. */
  readonly resync: boolean;
  /** Of what was removed within its TTL: where the removal is held back, it is so no longer than this. */
  readonly endsMs?: number | undefined;
}

interface Collection {
  glob: SourceSubscription | undefined;
  readonly singletons: Map<string, SourceSubscription>;
  readonly entries: Map<string, SourceEntry>;
  /** What was sent and could not be taken: it exists, whatever it is. */
  readonly refused: Set<string>;
}

export class SourceContents {
  readonly #types = new Map<string, Map<string, Collection>>();
  #changes: SourceChange[] = [];
  /** Told last: who hears that a glob is settled has seen every member of the same answer. */
  #settled: SourceChange[] = [];
  readonly #expiries = new Expiries((typeUrl, name) => this.entry(typeUrl, name)?.expiresAtMs);
  #subscriptions = 0;
  #entriesAdded = 0;
  /** By type: when a resource came last that was not held. */
  readonly #arrivalsMs = new Map<string, number>();

  get subscriptionCount(): number {
    return this.#subscriptions;
  }

  /** @returns the subscription if it is new to the source, else undefined. */
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
      lapsed: false,
    };
    const collection = this.#collection(typeUrl, globKeyOf(name));
    if (name.isGlob) collection.glob = made;
    else collection.singletons.set(name.key, made);
    this.#subscriptions++;
    return made;
  }

  /** @returns the subscription if nobody needs it any more, else undefined. Its entries are forgotten. */
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
      collection.refused.clear();
      for (const key of collection.entries.keys()) {
        if (!collection.singletons.has(key)) collection.entries.delete(key);
      }
    } else {
      collection.singletons.delete(name.key);
      if (!collection.glob) {
        collection.entries.delete(name.key);
        collection.refused.delete(name.key);
      }
    }
    if (!collection.glob && collection.singletons.size === 0) {
      const type = this.#types.get(typeUrl);
      type?.delete(globKey);
      if (type?.size === 0) this.#types.delete(typeUrl);
    }
    this.#subscriptions--;
    if (this.#subscriptions === 0) this.#expiries.clear();
    return known;
  }

  subscription(typeUrl: string, name: ResourceName): SourceSubscription | undefined {
    const collection = this.#types.get(typeUrl)?.get(globKeyOf(name));
    return name.isGlob ? collection?.glob : collection?.singletons.get(name.key);
  }

  /** The glob that this name is a member of, if it is subscribed. */
  globOf(typeUrl: string, name: ResourceName): SourceSubscription | undefined {
    return this.#types.get(typeUrl)?.get(globKeyOf(name))?.glob;
  }

  entry(typeUrl: string, name: ResourceName): SourceEntry | undefined {
    return this.#types.get(typeUrl)?.get(globKeyOf(name))?.entries.get(name.key);
  }

  /** The members of a subscribed glob that the source has published. */
  members(typeUrl: string, glob: ResourceName): IterableIterator<SourceEntry> {
    const collection = this.#types.get(typeUrl)?.get(glob.key);
    return (collection?.entries ?? new Map<string, SourceEntry>()).values();
  }

  /** Types that have subscriptions. */
  types(): IterableIterator<string> {
    return this.#types.keys();
  }

  *subscriptions(typeUrl: string): IterableIterator<SourceSubscription> {
    for (const collection of this.#types.get(typeUrl)?.values() ?? []) {
      if (collection.glob) yield collection.glob;
      yield* collection.singletons.values();
    }
  }

  *entries(typeUrl: string): IterableIterator<SourceEntry> {
    for (const collection of this.#types.get(typeUrl)?.values() ?? []) {
      yield* collection.entries.values();
    }
  }

  /** What the source says of this name on its present stream, itself or as a member of a glob. */
  answerFor(typeUrl: string, name: ResourceName): SubscriptionStatus {
    const collection = this.#types.get(typeUrl)?.get(globKeyOf(name));
    if (collection?.entries.has(name.key)) return 'present';
    // No answer that says anything.
    if (collection?.refused.has(name.key)) return 'timed_out';
    const statuses = [collection?.singletons.get(name.key)?.status, collection?.glob?.status];
    if (statuses.some((status) => status === 'absent' || status === 'present')) return 'absent';
    return statuses.includes('requested') ? 'requested' : 'timed_out';
  }

  /** Is this name, or the glob that it is a member of, subscribed? */
  isWanted(typeUrl: string, name: ResourceName): boolean {
    const collection = this.#types.get(typeUrl)?.get(globKeyOf(name));
    return (
      collection !== undefined &&
      (collection.glob !== undefined || collection.singletons.has(name.key))
    );
  }

  /**
   * The source published this. A member answers for its glob, unless more of the answer is to come, or
   * the member is asked for by its own name too: then it may be the answer to that alone.
   *
   * @returns the glob that is not settled by it.
   */
  put(entry: SourceEntry, resync: boolean, partial = false): SourceSubscription | undefined {
    const { typeUrl, name } = entry.projection;
    const collection = this.#types.get(typeUrl)?.get(globKeyOf(name));
    if (!collection) return undefined;
    const before = collection.entries.get(name.key);
    collection.entries.set(name.key, entry);
    if (!before) this.#entriesAdded++;
    this.#noteExpiry(entry);
    this.#takeBack(collection, typeUrl, name, resync);
    const singleton = collection.singletons.get(name.key);
    if (!before || !isSame(before.projection, entry.projection)) {
      this.#announce('present', typeUrl, name, resync, singleton, collection.glob);
    }
    if (singleton) this.#settle(singleton, 'present', resync);
    if (partial || singleton) return collection.glob;
    if (collection.glob) this.#settle(collection.glob, 'present', resync);
    return undefined;
  }

  /**
   * The source said that this name does not exist (any more); for a glob, that it is empty.
   *
   * @param absence what it gave as the reason.
   */
  remove(typeUrl: string, name: ResourceName, resync: boolean, absence?: RpcStatus): void {
    const collection = this.#types.get(typeUrl)?.get(globKeyOf(name));
    if (!collection) return;
    if (name.isGlob) {
      // TP1: an empty glob is answered by its own name; its members are not removed by it.
      if (collection.glob) this.#settle(collection.glob, 'present', resync, absence);
      return;
    }
    // Something of another candidate may be held in its place.
    const wasRefused = this.#takeBack(collection, typeUrl, name, resync);
    const endsMs = collection.entries.get(name.key)?.expiresAtMs;
    const had = collection.entries.delete(name.key) || wasRefused;
    const singleton = collection.singletons.get(name.key);
    // A source that says "absent" again says nothing new, unless now it says why.
    const known =
      singleton?.status === 'absent' && (!absence || absence.code === singleton.absence?.code);
    if (had || (singleton && !known)) {
      const { glob } = collection;
      const of = had ? [singleton, glob] : [singleton];
      this.#changes.push({ kind: 'removed', typeUrl, name, listeners: ofAll(of), resync, endsMs });
    }
    if (singleton && !known) this.#settle(singleton, 'absent', resync, absence);
  }

  /**
   * The source has this in a form that cannot be taken. What is held stays.
   *
   * @returns the glob that it answers for all the same, as in `put`.
   */
  refuse(typeUrl: string, name: ResourceName): SourceSubscription | undefined {
    const collection = this.#types.get(typeUrl)?.get(globKeyOf(name));
    collection?.refused.add(name.key);
    return collection?.singletons.has(name.key) ? undefined : collection?.glob;
  }

  /** Counts resources that were not held when they came. */
  get entriesAdded(): number {
    return this.#entriesAdded;
  }

  /** A response brought resources of this type that were not held: more may follow. */
  noteArrival(typeUrl: string, nowMs: number): void {
    this.#arrivalsMs.set(typeUrl, nowMs);
  }

  /** When such a response came last; -Infinity: never. */
  lastArrivalMs(typeUrl: string): number {
    return this.#arrivalsMs.get(typeUrl) ?? -Infinity;
  }

  /** Are the members of a glob all that the source has of it? */
  isWhole(typeUrl: string, glob: ResourceName): boolean {
    return this.#types.get(typeUrl)?.get(glob.key)?.refused.size === 0;
  }

  /** @returns whether it was refused; now it is taken, or gone. */
  #takeBack(collection: Collection, typeUrl: string, name: ResourceName, resync: boolean): boolean {
    const { refused, glob } = collection;
    if (!refused.delete(name.key)) return false;
    if (refused.size === 0 && glob?.status === 'present') {
      this.#announce('settled', typeUrl, glob.name, resync, glob);
    }
    return true;
  }

  /** A heartbeat: what is held is good until then. `undefined`: for as long as the source says nothing. */
  renew(entry: SourceEntry, expiresAtMs: number | undefined): void {
    const { typeUrl, name } = entry.projection;
    const renewed = { ...entry, expiresAtMs };
    this.#types.get(typeUrl)?.get(globKeyOf(name))?.entries.set(name.key, renewed);
    this.#noteExpiry(renewed);
  }

  #noteExpiry({ projection, expiresAtMs }: SourceEntry): void {
    if (expiresAtMs === undefined) return;
    const { typeUrl, name } = projection;
    this.#expiries.add({ atMs: expiresAtMs, typeUrl, name });
  }

  /** Of live entries and of those that are no more. */
  get expiryCount(): number {
    return this.#expiries.size;
  }

  /** When something may expire, stream or not. */
  get nextExpiryMs(): number | undefined {
    return this.#expiries.nextMs;
  }

  /** Whatever was not renewed in time is gone, as if the source had removed it. */
  expire(nowMs: number): void {
    for (let due = this.#expiries.takeDue(nowMs); due; due = this.#expiries.takeDue(nowMs)) {
      const { typeUrl, name } = due;
      const collection = this.#collection(typeUrl, globKeyOf(name));
      const singleton = collection.singletons.get(name.key);
      collection.entries.delete(name.key);
      if (singleton) singleton.status = 'absent';
      if (collection.glob) collection.glob.lapsed = true;
      this.#announce('expired', typeUrl, name, false, singleton, collection.glob);
    }
  }

  /**
   * The source answered this name with an error that says nothing of it, which is as good as no answer
   * in time. What is held stays. A glob goes on waiting.
   */
  fail(typeUrl: string, name: ResourceName, error: RpcStatus): void {
    const subscription = name.isGlob ? undefined : this.subscription(typeUrl, name);
    if (!subscription) return;
    const isNews = subscription.absence?.code !== error.code;
    if (subscription.status === 'timed_out' && isNews) subscription.status = 'requested';
    this.timeOut(subscription, error);
  }

  /** No answer in time. What is held stays. */
  timeOut(subscription: SourceSubscription, error?: RpcStatus): void {
    subscription.deadlineMs = undefined;
    if (subscription.status !== 'requested') return;
    subscription.status = 'timed_out';
    subscription.absence = error;
    this.#announce('timed_out', subscription.typeUrl, subscription.name, false, subscription);
  }

  /** A stream began: every name is asked again, and what is held is held until it is answered. */
  restart(): void {
    for (const [typeUrl, collections] of this.#types) {
      for (const { refused } of collections.values()) refused.clear();
      for (const subscription of this.subscriptions(typeUrl)) {
        subscription.status = 'requested';
        subscription.deadlineMs = undefined;
        subscription.lapsed = false;
      }
    }
  }

  /** For names that a reconnected server need not answer, since it was told their versions. */
  settleKnown(subscription: SourceSubscription): void {
    this.#settle(subscription, 'present', true);
  }

  takeChanges(): readonly SourceChange[] {
    const taken = [...this.#changes, ...this.#settled];
    this.#changes = [];
    this.#settled = [];
    return taken;
  }

  #settle(
    subscription: SourceSubscription,
    status: 'present' | 'absent',
    resync: boolean,
    absence?: RpcStatus,
  ): void {
    const { status: before, absence: knownAbsence } = subscription;
    subscription.status = status;
    subscription.absence = absence;
    subscription.deadlineMs = undefined;
    const otherReason = subscription.name.isGlob && absence?.code !== knownAbsence?.code;
    if (before === 'requested' || before === 'timed_out' || otherReason) {
      this.#announce('settled', subscription.typeUrl, subscription.name, resync, subscription);
    }
  }

  #announce(
    kind: SourceChange['kind'],
    typeUrl: string,
    name: ResourceName,
    resync: boolean,
    ...of: readonly (SourceSubscription | undefined)[]
  ): void {
    const changes = kind === 'settled' ? this.#settled : this.#changes;
    changes.push({ kind, typeUrl, name, listeners: ofAll(of), resync });
  }

  #collection(typeUrl: string, globKey: string): Collection {
    let type = this.#types.get(typeUrl);
    if (!type) this.#types.set(typeUrl, (type = new Map<string, Collection>()));
    let collection = type.get(globKey);
    if (!collection) {
      collection = {
        glob: undefined,
        singletons: new Map(),
        entries: new Map(),
        refused: new Set(),
      };
      type.set(globKey, collection);
    }
    return collection;
  }
}

function ofAll(subscriptions: readonly (SourceSubscription | undefined)[]): readonly Listener[] {
  const listeners = new Set<Listener>();
  for (const subscription of subscriptions) {
    for (const listener of subscription?.listeners ?? []) listeners.add(listener);
  }
  return [...listeners];
}

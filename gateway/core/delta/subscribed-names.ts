/**
 * The names and globs that one client subscribes to, of one type of one authority: which are there, and
 * how far they are answered. `DeltaSubscriptions` adds and removes them.
 */
import type { Projection } from '../../../authorities/index.js';
import { noMap, noSet, ownMap, ownSet } from '../../../protos/empty-collections.js';
import {
  globKeyOf,
  globKeyOfKey,
  isOldStyle,
  type ResourceName,
} from '../../../protos/resource-name.js';
import { LOG_START } from '../cache/change-log.js';
import { isAnswered } from '../cache/entries.js';
import { isVersionOf, type PossiblyHeld } from '../session/holdings.js';
import {
  isTombstoneDue,
  type GlobSubscription,
  type NameSubscription,
  type Standing,
} from './subscription.js';

export class SubscribedNames {
  readonly names = new Map<string, NameSubscription>();
  #globs: Map<string, GlobSubscription> = noMap();
  /** The globs that are lists: their members may have any name, also of other authorities. */
  #lists: Set<GlobSubscription> = noSet();

  get globs(): ReadonlyMap<string, GlobSubscription> {
    return this.#globs;
  }

  addGlob(glob: GlobSubscription, isList: boolean): void {
    this.#globs = ownMap(this.#globs).set(glob.entry.collection.glob.key, glob);
    if (isList) this.#lists = ownSet(this.#lists).add(glob);
  }

  deleteGlob(glob: GlobSubscription): void {
    this.#globs.delete(glob.entry.collection.glob.key);
    this.#lists.delete(glob);
  }

  clear(): void {
    this.names.clear();
    this.#globs = noMap();
    this.#lists = noSet();
  }

  get size(): number {
    return this.names.size + this.#globs.size;
  }

  /** The subscribed lists, which are globs too. */
  get lists(): ReadonlySet<GlobSubscription> {
    return this.#lists;
  }

  /** Does the client subscribe to this very name or glob? */
  has({ isGlob, key }: ResourceName): boolean {
    return isGlob ? this.#globs.has(key) : this.names.has(key);
  }

  /** The collection through which the client gets this name, if any. */
  globOf(name: ResourceName): GlobSubscription | undefined {
    return this.#globs.get(globKeyOf(name)) ?? this.#listWith(name.key);
  }

  #listWith(key: string): GlobSubscription | undefined {
    for (const list of this.#lists) if (list.entry.collection.member(key)) return list;
    return undefined;
  }

  /** Does the client subscribe to this name, by itself or through a collection that contains it? */
  covers(key: string): boolean {
    if (this.names.has(key)) return true;
    const glob = this.#globs.get(globKeyOfKey(key));
    return glob?.entry.collection.member(key) !== undefined || this.#listWith(key) !== undefined;
  }

  /** Does this client subscribe to this resource, and was it sent this version? */
  standingOf({ name, version }: Projection): Standing {
    const known = this.names.get(name.key);
    // A denied cluster never comes: its endpoints do not wait for it.
    if (known?.entry.denial) return 'not_asked';
    if (known) return known.held === version ? 'sent' : 'unsent';
    const glob = this.globOf(name);
    if (!glob || glob.entry.denial) return 'not_asked';
    const member = glob.entry.collection.member(name.key);
    return member && member.seq <= glob.sentSeq ? 'sent' : 'unsent';
  }

  /** Was it removed from its glob after the last removal that the client was sent? */
  wentAsMember(name: ResourceName): boolean {
    const glob = this.#globs.get(globKeyOf(name));
    return glob !== undefined && isTombstoneDue(glob, name.key);
  }

  /** Does the client hold content of a glob, or content that it brought and that is still served? */
  get isHeld(): boolean {
    for (const { sentSeq } of this.#globs.values()) if (sentSeq > LOG_START) return true;
    for (const { entry, held } of this.names.values()) {
      if (entry.state.kind === 'present' && isVersionOf(held, entry.state.projection)) return true;
    }
    return false;
  }

  /**
   * Do claimed names remain, and may the sources still say whether they exist?
   *
   * @param pending collections whose missing members are found with the next response, if they are proven
   * @param isCurrent are the sources of this collection live, and have they answered it?
   */
  hasOpenClaims(
    possiblyHeld: PossiblyHeld,
    pending: ReadonlySet<GlobSubscription>,
    isCurrent: (glob: GlobSubscription) => boolean,
  ): boolean {
    for (const { isClaim, entry } of this.names.values()) {
      if (isClaim && entry.state.kind === 'waiting') return true;
    }
    for (const [key, glob] of this.#globs) {
      const { entry } = glob;
      const { proven, complete } = entry.collection;
      // The missing members of a collection that was just proven are found with the next response. A
      // collection that is complete without a proof tells nothing more: its source sends no whole
      // sets of the type, or the gateway rejected a member.
      const isOpen = proven ? pending.has(glob) : !complete;
      // The error of an outage stays until the collection is complete (seed 2980).
      const isOut = entry.error !== undefined && !isCurrent(glob);
      if (isOpen && !isOut && possiblyHeld.hasAny(key)) return true;
    }
    return false;
  }

  /** The collections through which the client may hold this name. */
  *globsClaimedBy(key: string, possiblyHeld: PossiblyHeld): IterableIterator<GlobSubscription> {
    for (const [collectionKey, glob] of this.#globs) {
      if (possiblyHeld.of(collectionKey)?.has(key)) yield glob;
    }
  }

  /** Whether the sources have said nothing yet about some subscription. */
  get isWaiting(): boolean {
    for (const { entry } of this.names.values()) if (entry.state.kind === 'waiting') return true;
    for (const { entry } of this.#globs.values()) if (!isAnswered(entry)) return true;
    return false;
  }

  /** May a source still answer a collection for the first time? */
  get awaitsCollection(): boolean {
    for (const { entry } of this.#globs.values()) {
      if (!isAnswered(entry) && entry.error === undefined) return true;
    }
    return false;
  }

  /** Sources answer these subscriptions: the missing rest is on its way. */
  get isUnderWay(): boolean {
    for (const { entry } of this.names.values()) if (isAnswered(entry)) return true;
    for (const { entry } of this.#globs.values()) if (isAnswered(entry)) return true;
    return false;
  }

  /** A wildcard is subscribed and has had no response yet. */
  get awaitsWildcard(): boolean {
    for (const { entry, sentSeq, toldEmpty } of this.#globs.values()) {
      const isUntold = sentSeq === LOG_START && !toldEmpty;
      if (isUntold && isOldStyle(entry.collection.glob)) return true;
    }
    return false;
  }

  /** The cache dropped tombstones that the client had not read, since it was stuck. */
  get hasMissedRemovals(): boolean {
    for (const { entry, removedSeq } of this.#globs.values()) {
      if (removedSeq < entry.collection.droppedSeq) return true;
    }
    return false;
  }
}

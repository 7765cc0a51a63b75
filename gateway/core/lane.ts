/**
 * What one client asks of one type and one authority, what it holds of that, and what it must still
 * be told. One unacknowledged answer at a time (invariant 5), everything else merged meanwhile: the
 * latest content wins, so memory is bounded by what is subscribed and never by the rate of updates.
 *
 * A lane carries one authority only (invariant 16), because Envoy withholds the ACK of clusters that
 * warm, and one sick authority must not hold up another. Bulk machine without IO.
 */
import { STATUS_CODE } from '../../protos/discovery.js';
import { globKeyOf, type ResourceName } from '../../protos/resource-name.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { Draft, type Answer } from './answer.js';
import { LOG_START } from './change-log.js';
import type { Collection, RemovalReader } from './collection.js';
import type {
  GlobEntry,
  GlobSubscriber,
  NameEntry,
  NameSubscriber,
  ResourceCache,
} from './resource-cache.js';

/** Explicit interest in one name. */
interface NameSubscription {
  /** Spelling of the client, which "removed" must repeat. */
  asked: string;
  readonly entry: NameEntry;
  /** Version that the client has or was sent; undefined: nothing, or to be sent whatever it has. */
  sentVersion: string | undefined;
  /** It was told that there is nothing under this name. */
  toldAbsent: boolean;
}

/** Interest in a glob: two numbers, however many members. */
interface GlobSubscription extends RemovalReader {
  asked: string;
  readonly entry: GlobEntry;
  sentSeq: number;
  removedSeq: number;
  toldEmpty: boolean;
}

/** What a lane may ask of the client stream that it belongs to. */
export interface LaneOwner {
  /** This lane has something to send now, or may have. */
  handleLaneReady(): void;
  /** The endpoints behind clusters that this client holds have to be sent again. */
  handleClusterChanged(edsKeys: readonly string[]): void;
  /** Part of an assignment's version: which clusters of this client point to it. */
  versionSuffix(edsKey: string): string;
}

export interface LaneOptions {
  readonly typeUrl: string;
  readonly authority: string;
  readonly cache: ResourceCache;
  readonly owner: LaneOwner;
  readonly nowMs: number;
  /** Say nothing of a name that never was there, instead of "removed" (an Envoy that starts hangs on some). */
  readonly silentAbsence: boolean;
}

export class Lane implements NameSubscriber, GlobSubscriber {
  readonly typeUrl: string;
  readonly authority: string;
  readonly createdAtMs: number;
  readonly #cache: ResourceCache;
  readonly #owner: LaneOwner;
  readonly #isAssignment: boolean;
  readonly #silentAbsence: boolean;
  readonly #names = new Map<string, NameSubscription>();
  readonly #globs = new Map<string, GlobSubscription>();
  /** Per glob: members that a resuming client has, and their versions, until the glob is answered. */
  readonly #resumed = new Map<string, Map<string, string>>();
  /** Names left one by one that a glob still covers, by key: the client's spelling. */
  readonly #leftNames = new Map<string, string>();

  // Work: names to look at, in two lists because removals come last.
  readonly #pending = new Set<string>();
  readonly #goneNames = new Set<string>();
  #globsPending = false;

  /** The nonce that is not acknowledged yet. */
  inFlightNonce: string | undefined;
  inFlightSinceMs = 0;
  inFlightBringsNew = false;
  /** Since when content, or removals, have been waiting for what has to go before them. */
  waitingSinceMs: number | undefined;
  removalsSinceMs: number | undefined;

  constructor(options: LaneOptions) {
    this.typeUrl = options.typeUrl;
    this.authority = options.authority;
    this.createdAtMs = options.nowMs;
    this.#cache = options.cache;
    this.#owner = options.owner;
    this.#isAssignment = options.typeUrl === TYPE_URL.clusterLoadAssignment;
    this.#silentAbsence = options.silentAbsence;
  }

  get nameCount(): number {
    return this.#names.size + this.#globs.size;
  }

  get isEmpty(): boolean {
    return this.nameCount === 0 && this.inFlightNonce === undefined;
  }

  get askedNames(): readonly string[] {
    return [...this.#names.values(), ...this.#globs.values()].map(({ asked }) => asked);
  }

  holds(name: ResourceName): boolean {
    return this.#names.has(name.key) || this.#globs.has(globKeyOf(name));
  }

  hasName(key: string): boolean {
    return this.#names.has(key);
  }

  // ---- demand -------------------------------------------------------------------------------

  /**
   * A name subscribed again is sent again whatever the client has (xDS protocol, "Subscribing to
   * resources"). `knownVersion` is what a resuming client says it has.
   */
  subscribe(name: ResourceName, asked: string, knownVersion: string | undefined): void {
    if (name.isGlob) {
      this.#subscribeGlob(name, asked);
      return;
    }
    const known = this.#names.get(name.key);
    if (known) {
      known.asked = asked;
      known.sentVersion = knownVersion;
      known.toldAbsent = false;
    } else {
      const entry = this.#cache.subscribeName(this.typeUrl, name, this);
      this.#names.set(name.key, { asked, entry, sentVersion: knownVersion, toldAbsent: false });
    }
    this.handleNameChanged(name.key);
  }

  #subscribeGlob(glob: ResourceName, asked: string): void {
    const known = this.#globs.get(glob.key);
    if (known) {
      known.asked = asked;
      known.sentSeq = LOG_START;
      known.removedSeq = LOG_START;
      known.toldEmpty = false;
    } else {
      const entry = this.#cache.subscribeGlob(this.typeUrl, glob, this);
      const subscription: GlobSubscription = {
        asked,
        entry,
        sentSeq: LOG_START,
        removedSeq: LOG_START,
        toldEmpty: false,
      };
      entry.collection.readers.add(subscription);
      this.#globs.set(glob.key, subscription);
    }
    this.handleGlobChanged();
  }

  /** A resuming client has this member of a collection in this version. */
  noteResumedVersion(name: ResourceName, version: string): void {
    const globKey = globKeyOf(name);
    let members = this.#resumed.get(globKey);
    if (!members) this.#resumed.set(globKey, (members = new Map<string, string>()));
    members.set(name.key, version);
  }

  unsubscribe(name: ResourceName, nowMs: number): void {
    if (name.isGlob) {
      const glob = this.#globs.get(name.key);
      if (!glob) return;
      this.#globs.delete(name.key);
      glob.entry.collection.readers.delete(glob);
      this.#cache.unsubscribeGlob(glob.entry, this, nowMs);
      return;
    }
    const known = this.#names.get(name.key);
    if (!known) return;
    this.#names.delete(name.key);
    this.#pending.delete(name.key);
    this.#goneNames.delete(name.key);
    this.#cache.unsubscribeName(known.entry, this, nowMs);
    this.#answerStillCovered(name, known.asked);
  }

  /** "If a name is unsubscribed that a wildcard covers too, the server answers": likewise for globs. */
  #answerStillCovered(name: ResourceName, asked: string): void {
    const glob = this.#globs.get(globKeyOf(name));
    if (!glob) return;
    this.#leftNames.set(name.key, asked);
    this.#owner.handleLaneReady();
  }

  close(nowMs: number): void {
    for (const { entry } of this.#names.values()) this.#cache.unsubscribeName(entry, this, nowMs);
    for (const glob of this.#globs.values()) {
      glob.entry.collection.readers.delete(glob);
      this.#cache.unsubscribeGlob(glob.entry, this, nowMs);
    }
    this.#names.clear();
    this.#globs.clear();
  }

  // ---- changes ------------------------------------------------------------------------------

  handleNameChanged(key: string): void {
    const known = this.#names.get(key);
    if (!known) return;
    const gone = known.entry.state.kind === 'absent' && known.sentVersion !== undefined;
    (gone ? this.#goneNames : this.#pending).add(key);
    (gone ? this.#pending : this.#goneNames).delete(key);
    this.#owner.handleLaneReady();
  }

  handleGlobChanged(): void {
    this.#globsPending = true;
    this.#owner.handleLaneReady();
  }

  handleClusterChanged(edsKeys: readonly string[]): void {
    this.#owner.handleClusterChanged(edsKeys);
  }

  // ---- answers ------------------------------------------------------------------------------

  /** Is anything asked that nothing can be said about yet? */
  get isWaiting(): boolean {
    for (const { entry } of this.#names.values()) if (entry.state.kind === 'waiting') return true;
    for (const { entry } of this.#globs.values()) {
      if (!entry.collection.complete && !entry.error && entry.collection.members.size === 0) {
        return true;
      }
    }
    return false;
  }

  get hasAdditions(): boolean {
    return this.#pending.size > 0 || this.#globsPending || this.#leftNames.size > 0;
  }

  get hasRemovals(): boolean {
    if (this.#goneNames.size > 0) return true;
    for (const { entry, removedSeq } of this.#globs.values()) {
      if (entry.collection.tombstones.lastSeq > removedSeq) return true;
    }
    return false;
  }

  /**
   * The next answer of content, and of names that never were there; at most about `maxBytes`.
   * Undefined when there is nothing to say (any more).
   */
  takeAdditions(maxBytes: number): Answer | undefined {
    const draft = new Draft(maxBytes);
    this.#takeNames(draft);
    if (!draft.isFull) this.#takeGlobs(draft);
    return draft.finish();
  }

  #takeNames(draft: Draft): void {
    for (const [key, asked] of this.#leftNames) {
      this.#leftNames.delete(key);
      this.#answerLeft(draft, key, asked);
    }
    for (const key of this.#pending) {
      if (draft.isFull) return;
      this.#pending.delete(key);
      const known = this.#names.get(key);
      if (known) this.#answerName(draft, known);
    }
  }

  #answerName(draft: Draft, known: NameSubscription): void {
    const { state, name } = known.entry;
    switch (state.kind) {
      case 'waiting':
        return;
      case 'present': {
        const suffix = this.#isAssignment ? this.#owner.versionSuffix(name.key) : '';
        const version = state.projection.version + suffix;
        if (known.sentVersion === version) return;
        draft.add(state.projection, suffix, known.sentVersion === undefined);
        known.sentVersion = version;
        known.toldAbsent = false;
        return;
      }
      case 'absent':
        if (known.toldAbsent || this.#silentAbsence) return;
        known.toldAbsent = true;
        draft.remove(known.asked);
        return;
      case 'error':
        if (known.toldAbsent) return;
        known.toldAbsent = true;
        draft.fail({ name: known.asked, status: state.status });
        // Not "unreachable": the data do not exist for this client, and one without TP3 must know.
        if (state.status.code !== STATUS_CODE.unavailable) draft.remove(known.asked);
        return;
    }
  }

  /** Left as a name, still covered by a glob: resent, or removed if it is not there. */
  #answerLeft(draft: Draft, key: string, asked: string): void {
    for (const { entry } of this.#globs.values()) {
      const member = entry.collection.member(key);
      if (member) {
        draft.add(member.projection, '', false);
        return;
      }
    }
    draft.remove(asked);
  }

  #takeGlobs(draft: Draft): void {
    this.#globsPending = false;
    for (const glob of this.#globs.values()) {
      if (!this.#takeMembers(glob, draft)) {
        this.#globsPending = true;
        return;
      }
      const { collection, error } = glob.entry;
      const empty = collection.members.size === 0;
      if (empty && !glob.toldEmpty && (collection.complete || error)) {
        glob.toldEmpty = true;
        if (error) draft.fail({ name: glob.asked, status: error });
        if (error?.code !== STATUS_CODE.unavailable) draft.remove(glob.asked);
      }
      if (collection.complete) this.#removeUnknownResumed(collection, draft);
    }
  }

  /** @returns whether all members that changed since the client's place are in the draft. */
  #takeMembers(glob: GlobSubscription, draft: Draft): boolean {
    const { collection } = glob.entry;
    const resumed = this.#resumed.get(collection.glob.key);
    const fromSeq = glob.sentSeq;
    for (const member of collection.members.since(fromSeq)) {
      if (draft.isFull) return false;
      glob.sentSeq = member.seq;
      glob.toldEmpty = false;
      // An explicit interest in a member is answered by itself: never twice in one response.
      if (this.#names.has(member.key)) continue;
      const resumedVersion = resumed?.get(member.key);
      resumed?.delete(member.key);
      if (resumedVersion === member.projection.version) continue;
      draft.add(member.projection, '', member.joinedSeq > fromSeq && resumedVersion === undefined);
    }
    glob.sentSeq = collection.members.lastSeq;
    return true;
  }

  /** The client resumed with members that are no more. */
  #removeUnknownResumed(collection: Collection, draft: Draft): void {
    const globKey = collection.glob.key;
    for (const key of this.#resumed.get(globKey)?.keys() ?? []) {
      if (!collection.member(key) && !this.#names.has(key)) draft.remove(key);
    }
    this.#resumed.delete(globKey);
  }

  /** The next answer of removals only. */
  takeRemovals(maxNames: number): Answer | undefined {
    const draft = new Draft(Infinity);
    for (const key of this.#goneNames) {
      if (draft.removedCount >= maxNames) break;
      this.#goneNames.delete(key);
      const known = this.#names.get(key);
      if (known?.entry.state.kind !== 'absent') continue;
      known.sentVersion = undefined;
      known.toldAbsent = true;
      draft.remove(known.asked);
    }
    for (const glob of this.#globs.values()) {
      const { tombstones } = glob.entry.collection;
      for (const tombstone of tombstones.since(glob.removedSeq)) {
        if (draft.removedCount >= maxNames) return draft.finish();
        glob.removedSeq = tombstone.seq;
        if (!this.#names.has(tombstone.key)) draft.remove(tombstone.key);
      }
      glob.removedSeq = tombstones.lastSeq;
    }
    return draft.finish();
  }
}

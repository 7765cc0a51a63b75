/**
 * What one client asks of one type and one authority, what it holds of that, and what it must still
 * be told. Few answers are unacknowledged at a time (invariant 5), and changes merge meanwhile: the
 * latest content wins, so memory is bounded by what is subscribed and never by the rate of updates.
 *
 * A lane carries one authority only (invariant 16), because Envoy withholds the ACK of clusters that
 * warm, and one sick authority must not hold up another. Bulk machine without IO.
 */
import type { Projection } from '../../../authorities/index.js';
import { isDataError, type RpcStatus } from '../../../protos/discovery.js';
import { isListName } from '../../../protos/list-collection.js';
import {
  globKeyOf,
  isOldStyle,
  wireText,
  type ResourceName,
} from '../../../protos/resource-name.js';
import { TYPE_URL, typeRank } from '../../../protos/type-urls.js';
import { Draft, type Answer } from '../session/answer.js';
import type { ClaimingLane } from './claims.js';
import { LOG_START } from '../cache/change-log.js';
import type {
  DeltaSubscriptionsOptions,
  SubscriptionsOwner,
} from '../session/subscriptions-owner.js';
import type { PushLane } from '../session/push-order.js';
import { ResumedMembers } from './resumed-members.js';
import {
  isDoubtful,
  type GlobEntry,
  type GlobSubscriber,
  type NameSubscriber,
  type ResourceCache,
} from '../cache/resource-cache.js';
import {
  answerAbsent,
  answerEmpty,
  answerWithheld,
  leftName,
  tellError,
  unsaidGlob,
  type ClustersBehind,
  type GlobSubscription,
  type GoneMember,
  type LeftName,
  type NameSubscription,
  type Pass,
  type Standing,
} from './subscription.js';
import { Unacknowledged } from '../session/unacknowledged.js';

/** Never filled: there is nothing to delete from it either. */
const NO_GLOBS: Map<GlobSubscription, number> = new Map();

const NO_CLUSTERS: ClustersBehind = { suffix: '', settled: true };

export class DeltaSubscriptions implements NameSubscriber, GlobSubscriber, PushLane, ClaimingLane {
  readonly typeUrl: string;
  readonly authority: string;
  /** Place of the type in the push order. */
  readonly rank: number;
  readonly createdAtMs: number;
  readonly #cache: ResourceCache;
  readonly #owner: SubscriptionsOwner;
  readonly #isAssignment: boolean;
  readonly #silentAbsence: boolean;
  readonly #names = new Map<string, NameSubscription>();
  readonly #globs = new Map<string, GlobSubscription>();
  /** Those of them that are lists, whose members may have any name, also of other authorities. */
  readonly #lists = new Set<GlobSubscription>();
  readonly #resumed = new ResumedMembers();
  /** Names left one by one that a glob still covers, by key, with the client's spelling. */
  readonly #leftNames = new Map<string, LeftName>();

  /** The answer that is being sent, while it takes several responses. */
  #pass: Pass | undefined;
  /** The response before belongs to that answer. */
  #answerGoesOn = false;

  // Work: names to look at, in two lists because removals come last.
  #pending = new Set<NameSubscription>();
  /** Empty; takes turns with `#pending`, since a delivery should not cost a new Set. */
  #spare = new Set<NameSubscription>();
  /** With the reason, where there is one. */
  readonly #goneNames = new Map<NameSubscription, RpcStatus | undefined>();
  /** Members that a client has and that are no more, by key. */
  readonly #goneMembers = new Map<string, GoneMember>();
  #globsPending = false;

  readonly unacknowledged = new Unacknowledged();
  /** Since when content, or removals, have been waiting for what has to go before them. */
  waitingSinceMs: number | undefined;
  removalsSinceMs: number | undefined;

  constructor(options: DeltaSubscriptionsOptions) {
    this.typeUrl = options.typeUrl;
    this.authority = options.authority;
    this.rank = typeRank(options.typeUrl);
    this.createdAtMs = options.nowMs;
    this.#cache = options.cache;
    this.#owner = options.owner;
    this.#isAssignment = options.typeUrl === TYPE_URL.clusterLoadAssignment;
    this.#silentAbsence = options.silentAbsence;
  }

  get nameCount(): number {
    return this.#names.size + this.#globs.size;
  }

  get hasLists(): boolean {
    return this.#lists.size > 0;
  }

  /** Keys of the lists that it asks for. */
  get listKeys(): readonly string[] {
    return [...this.#lists].map(({ entry }) => entry.collection.glob.key);
  }

  get isEmpty(): boolean {
    return this.nameCount === 0 && this.unacknowledged.isEmpty;
  }

  /** The next response goes on with the answer that is on its way. */
  get isMidAnswer(): boolean {
    return this.#pass !== undefined;
  }

  handleSent(nonce: string, { bringsNew }: Answer, nowMs: number): void {
    this.unacknowledged.handleSent(nonce, bringsNew, this.#answerGoesOn, nowMs);
    this.#answerGoesOn = this.isMidAnswer;
  }

  /** Since when an answer has been on its way; undefined: none is. */
  get inFlightSinceMs(): number | undefined {
    return this.unacknowledged.sinceMs;
  }

  /** @returns when the answer was begun; undefined: the nonce is of no answer of this lane. */
  handleAcknowledged(nonce: string): number | undefined {
    const sentMs = this.unacknowledged.handleAcknowledged(nonce);
    if (this.unacknowledged.isEmpty) this.#resumed.forgetLeft();
    return sentMs;
  }

  /** Does this client ask for this resource, and was it sent this version? */
  standingOf({ name, version }: Projection): Standing {
    const known = this.#names.get(name.key);
    if (known) return known.sentVersion === version ? 'sent' : 'unsent';
    const glob = this.#globOf(name);
    if (!glob) return 'not_asked';
    const member = glob.entry.collection.member(name.key);
    return member && member.seq <= glob.sentSeq ? 'sent' : 'unsent';
  }

  /** The collection through which the client gets this name. */
  #globOf(name: ResourceName): GlobSubscription | undefined {
    const glob = this.#globs.get(globKeyOf(name));
    if (glob) return glob;
    for (const list of this.#lists) if (list.entry.collection.member(name.key)) return list;
    return undefined;
  }

  /** Does the client still ask for this, by itself or through a collection that has it? */
  covers(key: string): boolean {
    if (this.#names.has(key)) return true;
    for (const { entry } of this.#globs.values()) if (entry.collection.member(key)) return true;
    return false;
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
    // Left and asked again before that was answered: one answer, not two.
    this.#leftNames.delete(name.key);
    const known = this.#names.get(name.key);
    // Where absence is not told, what the client may have is still to be taken from it.
    const wasSent = known?.sentVersion !== undefined || this.#resumed.isOnItsWay(name);
    const sentVersion = knownVersion ?? (this.#silentAbsence && wasSent ? '' : undefined);
    const isClaim = knownVersion !== undefined;
    if (isClaim) this.#owner.handleClaimed(this, name);
    const unsaid = { asked, sentVersion, isClaim, toldAbsent: false, toldCode: undefined };
    if (known) {
      Object.assign(known, unsaid);
    } else {
      const entry = this.#cache.subscribeName(this.typeUrl, name, this);
      // The entry's own strings, which all clients share: a copy for each would cost more than the rest.
      const { key } = entry.name;
      this.#names.set(key, { entry, ...unsaid, asked: asked === key ? key : asked });
    }
    this.handleNameChanged(name.key);
  }

  #subscribeGlob(glob: ResourceName, asked: string): void {
    const known = this.#globs.get(glob.key);
    if (known) {
      Object.assign(known, unsaidGlob(known.entry, asked));
      // What went out of the present answer is not sent again before its ACK.
      this.#pass?.globs.delete(known);
      this.#resumed.forgetVersions(glob.key);
    } else {
      const entry = this.#cache.subscribeGlob(this.typeUrl, glob, this);
      const subscription = unsaidGlob(entry, asked);
      entry.collection.readers.add(subscription);
      this.#resumed.takeLeft(glob.key);
      this.#globs.set(glob.key, subscription);
      if (isListName(this.typeUrl, glob)) this.#lists.add(subscription);
    }
    this.#globsPending = true;
    this.#owner.handleLaneReady();
  }

  /** Is this collection asked for? */
  hasCollection(collectionKey: string): boolean {
    return this.#globs.has(collectionKey);
  }

  /** A resuming client has this member of a collection in this version. */
  noteResumedVersion(collectionKey: string, key: string, version: string): void {
    const glob = this.#globs.get(collectionKey);
    if (!glob) return;
    this.#resumed.note(collectionKey, key, { version, isClaim: true });
    this.#owner.handleClaimed(this, glob.entry.collection.glob);
  }

  /** Of names that count as asked no more, or as members only: those that are still to be answered. */
  get owedCount(): number {
    return this.#resumed.count + this.#leftNames.size + this.#goneMembers.size;
  }

  unsubscribe(name: ResourceName, nowMs: number): void {
    if (name.isGlob) {
      const glob = this.#globs.get(name.key);
      if (!glob) return;
      this.#globs.delete(name.key);
      this.#lists.delete(glob);
      this.#pass?.globs.delete(glob);
      this.#resumed.delete(name.key);
      if (!this.unacknowledged.isEmpty && glob.sentSeq > LOG_START)
        this.#resumed.noteGlobLeft(name.key);
      glob.entry.collection.readers.delete(glob);
      this.#cache.unsubscribeGlob(glob.entry, this, nowMs);
      return;
    }
    const known = this.#names.get(name.key);
    if (!known) return;
    this.#names.delete(name.key);
    this.#pending.delete(known);
    this.#pass?.names.delete(known);
    this.#goneNames.delete(known);
    const left = leftName(known);
    this.#cache.unsubscribeName(known.entry, this, nowMs);
    if (!this.unacknowledged.isEmpty) this.#resumed.noteLeft(left);
    // "If a name is unsubscribed that a wildcard covers too, the server answers": likewise for globs.
    if (!this.#globOf(name)) return;
    this.#leftNames.set(name.key, left);
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
    this.#lists.clear();
  }

  // ---- changes ------------------------------------------------------------------------------

  /** @param isDue to be sent again, in whatever version the client has it */
  handleNameChanged(key: string, isDue = false): void {
    const known = this.#names.get(key);
    if (!known) return;
    if (isDue && known.sentVersion !== undefined) known.sentVersion = '';
    const { state } = known.entry;
    if (state.kind === 'absent' && known.sentVersion !== undefined) {
      if (known.isClaim && isDoubtful(state)) this.#owner.handleDoubt({ key, lane: this });
      else this.#goneNames.set(known, state.status);
      this.#pending.delete(known);
      this.#pass?.names.delete(known);
    } else {
      this.#pending.add(known);
      this.#goneNames.delete(known);
    }
    this.#owner.handleLaneReady();
  }

  /** Is it still to be heard whether a name exists that the client claims? */
  get hasOpenClaims(): boolean {
    for (const { isClaim, entry } of this.#names.values()) {
      if (isClaim && entry.state.kind === 'waiting') return true;
    }
    for (const [key, { entry }] of this.#globs) {
      // What is missing of a collection that was proven just now is noted with the next answer.
      const isOpen = !entry.collection.proven || this.#globsPending;
      if (isOpen && !entry.error && (this.#resumed.of(key)?.size ?? 0) > 0) return true;
    }
    return false;
  }

  isCurrent(key: string): boolean {
    const known = this.#names.get(key)?.entry;
    if (known && !this.#cache.isCurrent(this.typeUrl, known.name)) return false;
    for (const glob of this.#globsClaimedBy(key)) {
      if (!this.#cache.isCurrent(this.typeUrl, glob.entry.collection.glob)) return false;
    }
    return true;
  }

  /** The collections through which the client may hold this name. */
  *#globsClaimedBy(key: string): IterableIterator<GlobSubscription> {
    for (const [collectionKey, glob] of this.#globs) {
      if (this.#resumed.of(collectionKey)?.has(key)) yield glob;
    }
  }

  /** What a client claims and no source has was judged: it goes, if that is still so. */
  settleDoubt(key: string): void {
    const known = this.#names.get(key);
    if (known?.isClaim && known.entry.state.kind === 'absent') {
      known.isClaim = false;
      this.handleNameChanged(key);
    }
    for (const glob of this.#globsClaimedBy(key)) {
      this.#resumed.of(glob.entry.collection.glob.key)?.delete(key);
      // If it came meanwhile, it is covered, and not told to be gone.
      this.#goneMembers.set(key, { asked: wireText(key), glob });
    }
    this.#owner.handleLaneReady();
  }

  handleGlobChanged(entry: GlobEntry): void {
    const glob = this.#globs.get(entry.collection.glob.key);
    // What other lanes wait for has to be something that this one will say.
    this.#globsPending ||= glob !== undefined && this.#hasNews(glob);
    this.#owner.handleLaneReady();
  }

  #hasNews({
    entry: { collection, error },
    sentSeq,
    toldEmpty,
    toldCode,
  }: GlobSubscription): boolean {
    const isEmptyUntold = collection.members.size === 0 && (!toldEmpty || toldCode !== error?.code);
    const mayHaveGone = (this.#resumed.of(collection.glob.key)?.size ?? 0) > 0;
    return collection.members.lastSeq > sentSeq || isEmptyUntold || mayHaveGone;
  }

  // ---- answers ------------------------------------------------------------------------------

  /** Is anything asked that nothing can be said about yet? */
  get isWaiting(): boolean {
    for (const { entry } of this.#names.values()) if (entry.state.kind === 'waiting') return true;
    for (const { entry } of this.#globs.values()) {
      if (!entry.collection.complete && entry.collection.members.size === 0) return true;
    }
    return false;
  }

  /** Sources answer what it asks: what is missing comes. */
  get isUnderWay(): boolean {
    for (const { entry } of this.#names.values()) {
      if (entry.state.kind === 'present' || entry.state.kind === 'absent') return true;
    }
    for (const { entry } of this.#globs.values()) {
      if (entry.collection.complete || entry.collection.members.size > 0) return true;
    }
    return false;
  }

  /** It asks for a wildcard, and the client was told nothing of that. */
  get awaitsWildcard(): boolean {
    for (const { entry, sentSeq, toldEmpty } of this.#globs.values()) {
      const isUntold = sentSeq === LOG_START && !toldEmpty;
      if (isUntold && isOldStyle(entry.collection.glob)) return true;
    }
    return false;
  }

  /** In this flavour nothing is asked that could replace what a source removed. */
  readonly awaitsReplacement = false;

  mayAdd(): boolean {
    return this.hasAdditions;
  }

  get hasAdditions(): boolean {
    return (
      this.#pending.size > 0 ||
      this.#globsPending ||
      this.#pass !== undefined ||
      this.#leftNames.size > 0
    );
  }

  /** The client was stuck for so long that removals it has not heard of were forgotten. */
  get hasMissedRemovals(): boolean {
    for (const { entry, removedSeq } of this.#globs.values()) {
      if (removedSeq < entry.collection.droppedSeq) return true;
    }
    return false;
  }

  get hasRemovals(): boolean {
    if (this.#goneNames.size + this.#goneMembers.size > 0) return true;
    for (const glob of this.#globs.values()) {
      const { tombstones } = glob.entry.collection;
      if (isBegun(glob) && tombstones.lastSeq > glob.removedSeq) return true;
    }
    return false;
  }

  /**
   * The next response of content, and of names that never were there; at most about `maxBytes`. What
   * is due when an answer begins goes out in as many responses as it takes; what changes meanwhile is
   * for the next answer, so that no name is sent again before this one is acknowledged.
   *
   * @returns undefined when there is nothing to say (any more).
   */
  takeAdditions(maxBytes: number): Answer | undefined {
    const draft = new Draft(maxBytes, this.#owner.limit);
    this.#pass ??= this.#beginPass(draft);
    for (const known of this.#pass.names) {
      const next = this.#owner.limit.contentOf(known.entry.state);
      if (draft.isFullFor(next)) return draft.finish();
      this.#pass.names.delete(known);
      this.#answerName(draft, known, next);
    }
    for (const [glob, untilSeq] of this.#pass.globs) {
      if (!this.#takeMembers(glob, untilSeq, draft)) return draft.finish();
      this.#pass.globs.delete(glob);
      const { collection } = glob.entry;
      if (collection.members.size === 0) this.#answerEmpty(glob, draft);
      if (collection.proven) this.#noteGoneMembers(glob);
    }
    this.#spare = this.#pass.names;
    this.#pass = undefined;
    return draft.finish();
  }

  #answerEmpty(glob: GlobSubscription, draft: Draft): void {
    const { collection, error } = glob.entry;
    const isOther = collection.proven && !isOldStyle(collection.glob);
    // An Envoy would take it for the answer to its wildcard.
    if (isOther && this.#owner.awaitsWildcard(this.typeUrl)) this.#globsPending = true;
    else answerEmpty(glob, collection.proven, error, draft);
  }

  #beginPass(draft: Draft): Pass {
    for (const left of this.#leftNames.values()) this.#answerLeft(draft, left);
    this.#leftNames.clear();
    const names = this.#pending;
    this.#pending = this.#spare;
    if (!this.#globsPending) return { names, globs: NO_GLOBS };
    this.#globsPending = false;
    const due = [...this.#globs.values()].map((glob) => {
      return [glob, glob.entry.collection.members.lastSeq] as const;
    });
    return { names, globs: new Map(due) };
  }

  /** @param projection what the client can be sent of what is present */
  #answerName(draft: Draft, known: NameSubscription, projection: Projection | undefined): void {
    const { state, name } = known.entry;
    switch (state.kind) {
      case 'waiting':
        return;
      case 'present': {
        const isNew =
          known.sentVersion === undefined || (known.isClaim && known.sentVersion === '');
        known.isClaim = false;
        if (!projection) {
          answerWithheld(known, draft);
          return;
        }
        const behind = this.#isAssignment ? this.#owner.clustersBehind(name.key) : NO_CLUSTERS;
        const version = projection.version + behind.suffix;
        if (known.sentVersion === version) return;
        // Its cluster is about to go, and this will be looked at again then.
        if (!behind.settled && known.sentVersion?.split('.')[0] === projection.version) return;
        this.#add(draft, projection, behind.suffix, isNew);
        Object.assign(known, { sentVersion: version, toldAbsent: false, toldCode: undefined });
        return;
      }
      case 'absent':
        if (this.#owner.awaitsWildcard(this.typeUrl)) {
          this.#pending.add(known);
          return;
        }
        // The client has it as a member: what it holds is not removed beside additions.
        if (this.#wentAsMember(name)) this.#goneNames.set(known, state.status);
        else answerAbsent(known, state.status, this.#silentAbsence, draft);
        return;
      case 'error':
        if (this.#owner.awaitsWildcard(this.typeUrl)) this.#pending.add(known);
        else tellError(known, state.status, draft);
    }
  }

  #wentAsMember(name: ResourceName): boolean {
    const glob = this.#globs.get(globKeyOf(name));
    return glob !== undefined && glob.entry.collection.wentAfter(name.key, glob.removedSeq);
  }

  #add(draft: Draft, projection: Projection, suffix: string, isNew: boolean): void {
    draft.add(projection, suffix, isNew);
    this.#noteSent(projection, isNew);
  }

  #noteSent(projection: Projection, isNew: boolean): void {
    if (projection.edsKey !== undefined) this.#owner.handleClusterSent(projection.edsKey, isNew);
  }

  /** Left as a name, still covered by a glob: resent, or removed (later) if it is not there. */
  #answerLeft(draft: Draft, { name, asked, isHeld, isGone }: LeftName): void {
    const glob = this.#globOf(name);
    if (!glob) return;
    const { collection } = glob.entry;
    const member = collection.member(name.key);
    const content = member && this.#owner.limit.admit(member.projection);
    // Of the name itself there was proof, while the collection may wait for some source for ever.
    if (!member && (isGone || collection.proven)) this.#goneMembers.set(name.key, { asked, glob });
    // Not known yet: like a member that a resuming client has, perhaps from an earlier stream.
    else if (!member) {
      const held = { version: isHeld ? '' : undefined, isClaim: false };
      this.#resumed.note(collection.glob.key, name.key, held);
    }
    // What changed since is still to come with the glob: never twice in one response.
    else if (content && member.seq <= glob.sentSeq) draft.add(content, '', false);
  }

  /** @returns whether all members that changed since the client's place are in the draft. */
  #takeMembers(glob: GlobSubscription, untilSeq: number, draft: Draft): boolean {
    const { collection } = glob.entry;
    const isWildcard = isOldStyle(collection.glob);
    const resumed = this.#resumed.of(collection.glob.key);
    for (const member of collection.members.since(glob.sentSeq)) {
      if (member.seq > untilSeq) break;
      const projection = this.#owner.limit.admit(member.projection);
      if (draft.isFullFor(projection)) return false;
      glob.sentSeq = member.seq;
      // Whom a wildcard was answered for needs no empty answer when the last member goes.
      glob.toldEmpty = isWildcard;
      glob.toldCode = undefined;
      // An explicit interest in a member is answered by itself, and so is one that ended while this
      // answer is on its way: never twice in one answer.
      if (this.#names.has(member.key) || this.#leftNames.has(member.key)) continue;
      const resumedVersion = resumed?.get(member.key)?.version;
      resumed?.delete(member.key);
      if (!projection) continue;
      if (resumedVersion === projection.version) {
        // As good as sent: the version of its endpoints can be told now.
        this.#noteSent(projection, true);
        continue;
      }
      const isUntold = resumedVersion === undefined;
      draft.add(projection, '', isUntold && member.joinedSeq > glob.surelySeq);
      this.#noteSent(projection, isUntold && member.joinedSeq > glob.passFromSeq);
    }
    glob.sentSeq = untilSeq;
    glob.passFromSeq = untilSeq;
    // A member that changed meanwhile moved behind this answer, and was perhaps never sent.
    if (collection.members.lastSeq === untilSeq) glob.surelySeq = untilSeq;
    return true;
  }

  /** What the client holds or may hold, and the collection lacks. */
  #noteGoneMembers(glob: GlobSubscription): void {
    const { collection, error } = glob.entry;
    const isLost = error !== undefined && isDataError(error);
    const resumed = this.#resumed.of(collection.glob.key);
    for (const [key, { isClaim }] of resumed ?? []) {
      // Nobody saw it go: a source that has just started may bring it yet.
      const isDoubted = isClaim && !isLost && !collection.isBuried(key);
      if (collection.member(key)) resumed?.delete(key);
      else if (isDoubted) this.#owner.handleDoubt({ key, lane: this });
      else {
        resumed?.delete(key);
        this.#goneMembers.set(key, { asked: wireText(key), glob });
      }
    }
  }

  /** A member went that is asked for by itself too: silence of that name would leave it with the client. */
  #takeFromHolder(key: string): void {
    const known = this.#names.get(key);
    if (!known || known.toldAbsent) return;
    known.sentVersion ??= '';
    this.handleNameChanged(key);
  }

  /** The next answer of removals only; at most so many names, and about so many bytes. */
  takeRemovals(maxNames: number, maxBytes: number): Answer | undefined {
    const draft = new Draft(maxBytes, this.#owner.limit);
    for (const [known, status] of this.#goneNames) {
      if (draft.removedCount >= maxNames || draft.isFull) break;
      this.#goneNames.delete(known);
      tellError(known, status, draft);
      known.sentVersion = undefined;
      known.toldAbsent = true;
      draft.remove(known.asked);
    }
    for (const [key, { asked, glob }] of this.#goneMembers) {
      if (draft.removedCount >= maxNames || draft.isFull) break;
      this.#goneMembers.delete(key);
      // Who left the collection meanwhile has left all of it.
      const isAsked = this.#globs.get(glob.entry.collection.glob.key) === glob;
      if (isAsked && !this.#owner.covers(this.typeUrl, key)) draft.remove(asked);
    }
    for (const glob of this.#globs.values()) {
      const { tombstones, glob: name } = glob.entry.collection;
      if (!isBegun(glob)) continue;
      for (const { key, seq } of tombstones.since(glob.removedSeq)) {
        if (draft.removedCount >= maxNames || draft.isFull) return draft.finish();
        glob.removedSeq = seq;
        // What it resumed with it has no more: if it returns, it is sent.
        this.#resumed.of(name.key)?.delete(key);
        if (!this.#owner.covers(this.typeUrl, key)) draft.remove(wireText(key));
        else if (this.#silentAbsence) this.#takeFromHolder(key);
      }
      glob.removedSeq = tombstones.lastSeq;
    }
    return draft.finish();
  }
}

/** Was the client told of it? Before that a removal would end an Envoy's wait for its first clusters. */
const isBegun = ({ entry, sentSeq }: GlobSubscription): boolean =>
  entry.collection.complete || sentSeq > LOG_START;

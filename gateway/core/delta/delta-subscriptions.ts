/**
 * The subscriptions of one client to one type of one authority: what it subscribes to, what it
 * holds, and what is still to be sent. Few responses are unacknowledged at a time (invariant 5).
 * Changes merge meanwhile and the latest content wins, so memory is bounded by the number of
 * subscriptions, not by the rate of updates.
 *
 * Authorities are kept apart (invariant 16): Envoy withholds the ACK of clusters that warm, and one
 * sick authority must not hold up another. Pure core, no IO.
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
import { Draft, type ResponseContent } from '../session/response-draft.js';
import type { ClaimingSubscriptions } from './claims.js';
import { mayHold } from '../cache/collection.js';
import { LOG_START } from '../cache/change-log.js';
import type { DeltaSubscriptionsOptions, SubscriptionsOwner } from './subscriptions-owner.js';
import type { TypeSubscriptions } from '../session/push-order.js';
import {
  dutyOf,
  isVersionOf,
  MAYBE_HELD,
  NOT_HELD,
  PossiblyHeld,
  type Held,
} from '../session/holdings.js';
import {
  isDoubtful,
  reportedWith,
  type GlobEntry,
  type GlobSubscriber,
  type NameSubscriber,
} from '../cache/entries.js';
import {
  answerAbsent,
  answerEmpty,
  answerWithheld,
  hasNews,
  isBegun,
  isTombstoneDue,
  unsubscribedName,
  newGlobSubscription,
  placeOf,
  sentMembersOf,
  tellError,
  type ClustersBehind,
  type GlobSubscription,
  type UnsubscribedName,
  type NameSubscription,
} from './subscription.js';
import { DueChanges } from './due-changes.js';
import { SentVariants } from './sent-variants.js';
import { SubscribedNames } from './subscribed-names.js';
import type { GrantedCache } from '../rights/granted-cache.js';
import { Unacknowledged } from '../session/unacknowledged.js';

const NO_CLUSTERS: ClustersBehind = { suffix: '', settled: true };

export class DeltaSubscriptions
  implements NameSubscriber, GlobSubscriber, TypeSubscriptions, ClaimingSubscriptions
{
  readonly typeUrl: string;
  readonly authority: string;
  /** Position of the type in the push order. */
  readonly rank: number;
  readonly createdAtMs: number;
  readonly #cache: GrantedCache;
  readonly #owner: SubscriptionsOwner;
  readonly #isAssignment: boolean;
  readonly #silentAbsence: boolean;
  readonly subscribed = new SubscribedNames();
  readonly #names = this.subscribed.names;
  readonly #variants: SentVariants;
  readonly #possiblyHeld = new PossiblyHeld();
  readonly #due = new DueChanges();
  #answerGoesOn = false;
  #isIdle = false;

  readonly unacknowledged = new Unacknowledged();
  // See `TypeSubscriptions`.
  waitingSinceMs: number | undefined;
  heldSinceMs: number | undefined;
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
    this.#variants = new SentVariants(this.#names, (key) =>
      this.#owner.covers(options.typeUrl, key),
    );
  }

  get nameCount(): number {
    return this.subscribed.size;
  }

  get authorities(): readonly string[] {
    return [this.authority];
  }

  /** Was a response sent, or does the client hold content from an earlier stream? */
  get wasSent(): boolean {
    return this.unacknowledged.hasSent || this.subscribed.isHeld;
  }

  get isEmpty(): boolean {
    return this.nameCount === 0 && this.unacknowledged.isEmpty;
  }

  /** The next chunk continues the current response, or begins it: a look at many globs may have found nothing to send yet. */
  get isMidAnswer(): boolean {
    return this.#due.isMidPass;
  }

  /** The next chunk belongs to the same response as the one before, so it does not wait again (seed 48530). */
  get answerGoesOn(): boolean {
    return this.#answerGoesOn;
  }

  handleSent(nonce: string, { bringsNew }: ResponseContent, nowMs: number): void {
    this.unacknowledged.handleSent(nonce, bringsNew, this.#answerGoesOn, nowMs);
    this.#answerGoesOn = this.isMidAnswer;
  }

  /** When the oldest unacknowledged response was sent; undefined: all are acknowledged. */
  get inFlightSinceMs(): number | undefined {
    return this.unacknowledged.sinceMs;
  }

  /**
   * @returns when the first chunk of the response was sent; undefined: not a nonce of these
   * subscriptions.
   */
  handleAcknowledged(nonce: string): number | undefined {
    const sentMs = this.unacknowledged.handleAcknowledged(nonce);
    if (this.unacknowledged.isEmpty) this.#possiblyHeld.forgetInFlight();
    return sentMs;
  }

  // ---- subscribing ---------------------------------------------------------------------------

  /**
   * A name subscribed again is sent again, whatever the client has (xDS protocol, "Subscribing to
   * resources").
   *
   * @param asked the client's spelling
   * @param claim what a resuming client claims to hold; undefined: it claims nothing
   */
  subscribe(name: ResourceName, asked: string, claim: Held | undefined): void {
    if (name.isGlob) {
      this.#subscribeGlob(name, asked);
      return;
    }
    // Unsubscribed and subscribed again before the response: send it once, not twice.
    this.#due.forgetUnsubscribed(name.key);
    const known = this.#names.get(name.key);
    // With silent absence, only names that were sent are removed. So remember that the client may
    // hold it, in an unknown version.
    const wasSent =
      (known && known.held !== NOT_HELD) ||
      this.#possiblyHeld.isOnItsWay(name) ||
      (this.#silentAbsence && this.#wasSentAsMember(name));
    const held = claim ?? (this.#silentAbsence && wasSent ? MAYBE_HELD : NOT_HELD);
    const isClaim = claim !== undefined;
    if (known?.isClaim === true) this.#leaveClaim(name.key);
    if (isClaim) this.#owner.handleClaimed(this, name);
    this.#possiblyHeld.forgetVersion(globKeyOf(name), name.key);
    for (const { entry } of this.subscribed.lists)
      this.#possiblyHeld.forgetVersion(entry.collection.glob.key, name.key);
    const toldAbsent = false;
    const lastErrorCode = undefined;
    if (known) {
      Object.assign(known, { asked, held, isClaim, toldAbsent, lastErrorCode });
    } else {
      const entry = this.#cache.subscribeName(this.typeUrl, name, this, this.#owner.payer);
      // Use the strings of the entry, which all clients share: a copy per client would cost more
      // memory than the rest.
      const { key } = entry.name;
      const text = asked === key ? key : asked;
      const made = { asked: text, entry, held, isClaim, toldAbsent, lastErrorCode };
      this.#names.set(key, made);
      if (name.parameters !== undefined) this.#noteVariant(name);
    }
    this.handleNameChanged(name.key);
  }

  /** May the client hold it through a collection? */
  #wasSentAsMember(name: ResourceName): boolean {
    const glob = this.subscribed.globOf(name);
    if (!glob) return false;
    const { collection } = glob.entry;
    const member = collection.member(name.key);
    const { sentSeq, removedSeq } = placeOf(glob);
    return member
      ? mayHold(member, sentSeq, removedSeq)
      : collection.wentAfter(name.key, removedSeq);
  }

  #subscribeGlob(glob: ResourceName, asked: string): void {
    let subscription = this.subscribed.globs.get(glob.key);
    if (subscription) {
      const known = subscription;
      const formerSeq = Math.max(known.formerSeq, known.sentSeq);
      Object.assign(known, newGlobSubscription(known.entry, asked), { formerSeq });
      // What went out in the running pass is not sent again before its ACK.
      this.#due.leavePass(known);
      this.#possiblyHeld.forgetVersions(glob.key);
    } else {
      const entry = this.#cache.subscribeGlob(this.typeUrl, glob, this, this.#owner.payer);
      subscription = newGlobSubscription(entry, asked);
      entry.collection.readers.add(subscription);
      this.#possiblyHeld.notePossiblyInFlight(glob.key);
      this.subscribed.addGlob(subscription, isListName(this.typeUrl, glob));
    }
    this.#due.queueGlob(subscription);
    this.#handleReady();
  }

  /** Sends all that the client may hold once more, whatever it has accepted. */
  sendAgain(): void {
    for (const key of this.#names.keys()) {
      if (this.#names.get(key)?.held !== NOT_HELD) this.handleNameChanged(key, true);
    }
    for (const glob of this.subscribed.globs.values())
      this.#subscribeGlob(glob.entry.collection.glob, glob.asked);
  }

  /** A resuming client claims this member of a collection, in this version. */
  noteClaim(collectionKey: string, key: string, held: Held): void {
    const glob = this.subscribed.globs.get(collectionKey);
    if (!glob) return;
    this.#possiblyHeld.note(collectionKey, key, { held, isClaim: true });
    this.#owner.handleClaimed(this, glob.entry.collection.glob);
  }

  /** @returns why the client may not request this name with one more set of parameters (TP2); undefined: it may */
  refusalOf(name: ResourceName): RpcStatus | undefined {
    return this.#variants.refusalOf(name);
  }

  /** Number of names and members beside `nameCount` for which a response may still be due. */
  get owedCount(): number {
    return this.#possiblyHeld.count + this.#due.unsubscribedNames.size + this.#due.goneMembers.size;
  }

  unsubscribe(name: ResourceName, nowMs: number): void {
    if (name.isGlob) {
      const glob = this.subscribed.globs.get(name.key);
      if (!glob) return;
      this.subscribed.deleteGlob(glob);
      this.#due.forgetGlob(glob);
      this.#leaveClaims(name.key);
      this.#possiblyHeld.delete(name.key);
      if (!this.unacknowledged.isEmpty && glob.sentSeq > LOG_START)
        this.#possiblyHeld.noteGlobInFlight(name.key);
      glob.entry.collection.readers.delete(glob);
      this.#cache.unsubscribeGlob(glob.entry, this, 'unsubscribed', nowMs);
      return;
    }
    const known = this.#names.get(name.key);
    if (!known) return;
    if (known.isClaim) this.#leaveClaim(name.key);
    this.#names.delete(name.key);
    this.#variants.noteUnsubscribed(name);
    this.#due.forgetName(known);
    const unsubscribed = unsubscribedName(known);
    this.#cache.unsubscribeName(known.entry, this, 'unsubscribed', nowMs);
    if (!this.unacknowledged.isEmpty && unsubscribed.isHeld) this.#possiblyHeld.noteInFlight(name);
    // xDS protocol: a server responds for a name that a client unsubscribes while a wildcard covers
    // it. The same applies to globs.
    if (!this.subscribed.globOf(name)) return;
    this.#due.noteUnsubscribed(name.key, unsubscribed);
    this.#handleReady();
  }

  /**
   * Claims of names that the client unsubscribes, or subscribes again, leave the guard's total. Else a source without the rest
   * would not trigger it (seeds 54291, 421393).
   */
  #leaveClaims(collectionKey: string): void {
    for (const [key, { isClaim }] of this.#possiblyHeld.of(collectionKey) ?? [])
      if (isClaim) this.#leaveClaim(key);
  }

  #leaveClaim(key: string): void {
    this.#owner.handleClaimGone({ key, subscriptions: this });
  }

  close(nowMs: number): void {
    for (const { entry } of this.#names.values())
      this.#cache.unsubscribeName(entry, this, 'disconnected', nowMs);
    for (const glob of this.subscribed.globs.values()) {
      const { entry } = glob;
      this.#cache.notePlaceRead(entry, placeOf(glob), nowMs);
      entry.collection.readers.delete(glob);
      this.#cache.unsubscribeGlob(entry, this, 'disconnected', nowMs);
    }
    this.subscribed.clear();
  }

  /** Takes back what the client may no longer ask for, and subscribes to what it may ask for now. */
  handleRightsChanged(nowMs: number): void {
    for (const [key, known] of this.#names) {
      if (this.#cache.isUpToDate(known.entry)) continue;
      known.entry = this.#cache.renewName(known.entry, this, this.#owner.payer, nowMs);
      known.lastErrorCode = undefined;
      this.handleNameChanged(key);
    }
    for (const glob of this.subscribed.globs.values()) {
      if (this.#cache.isUpToDate(glob.entry)) continue;
      this.#possiblyHeld.noteSent(glob.entry.collection.glob.key, sentMembersOf(glob));
      // If the stream ends before the client has the removals, its next stream brings them.
      this.#cache.notePlaceRead(glob.entry, placeOf(glob), nowMs);
      glob.entry.collection.readers.delete(glob);
      const entry = this.#cache.renewGlob(glob.entry, this, this.#owner.payer, nowMs);
      Object.assign(glob, newGlobSubscription(entry, glob.asked));
      entry.collection.readers.add(glob);
      this.#due.leavePass(glob);
      this.#due.queueGlob(glob);
      this.#handleReady();
    }
  }

  // ---- what is due ----------------------------------------------------------------------------

  #handleReady(): void {
    this.#isIdle = false;
    this.#owner.handleReady();
  }

  /** Nothing was due at the last look, and nothing has changed since. Saves looks: a client may have 10,000 subscriptions. */
  get isIdle(): boolean {
    return this.#isIdle;
  }

  noteIdle(): void {
    this.#isIdle = !this.hasWork;
  }

  get hasWork(): boolean {
    return !this.#isIdle && (this.hasAdditions || this.hasRemovals);
  }

  // ---- cache changes -------------------------------------------------------------------------

  /** @param isDue send it again, whatever version the client has */
  handleNameChanged(key: string, isDue = false): void {
    const known = this.#names.get(key);
    if (!known) return;
    if (isDue && known.held !== NOT_HELD) known.held = MAYBE_HELD;
    const { state } = known.entry;
    if (state.kind === 'absent' && dutyOf('absent', known.held) === 'remove') {
      if (known.isClaim && isDoubtful(state)) this.#owner.handleDoubt({ key, subscriptions: this });
      else {
        if (known.isClaim) this.#leaveClaim(key);
        known.isClaim = false;
        this.#due.noteGone(known, state.status);
      }
      this.#due.forgetContent(known);
    } else {
      this.#due.queueName(known);
      this.#due.goneNames.delete(known);
    }
    this.#handleReady();
  }

  /** Do claimed names remain, and may the sources still say whether they exist? */
  get hasOpenClaims(): boolean {
    return this.subscribed.hasOpenClaims(this.#possiblyHeld, this.#due.globs, (glob) =>
      this.#cache.isCurrent(this.typeUrl, glob.entry.collection.glob),
    );
  }

  isCurrent(key: string): boolean {
    const known = this.#names.get(key)?.entry;
    if (known && !this.#cache.isCurrent(this.typeUrl, known.name)) return false;
    for (const glob of this.subscribed.globsClaimedBy(key, this.#possiblyHeld)) {
      if (!this.#cache.isCurrent(this.typeUrl, glob.entry.collection.glob)) return false;
    }
    return true;
  }

  claimGuardedUntilMs(key: string): number {
    let untilMs = -Infinity;
    const known = this.#names.get(key)?.entry;
    if (known) untilMs = this.#cache.guardedUntilMs(this.typeUrl, known.name);
    for (const { entry } of this.subscribed.globsClaimedBy(key, this.#possiblyHeld)) {
      const { glob } = entry.collection;
      untilMs = Math.max(untilMs, this.#cache.guardedUntilMs(this.typeUrl, glob));
    }
    return untilMs;
  }

  /** The deletion guard let a claimed name pass: remove it, unless it exists by now. */
  settleDoubt(key: string): void {
    const known = this.#names.get(key);
    if (known?.isClaim && known.entry.state.kind === 'absent') {
      known.isClaim = false;
      this.handleNameChanged(key);
    }
    for (const glob of this.subscribed.globsClaimedBy(key, this.#possiblyHeld)) {
      this.#possiblyHeld.of(glob.entry.collection.glob.key)?.delete(key);
      // If it appeared meanwhile, `takeRemovals` skips it as covered.
      this.#due.noteGoneMember(key, wireText(key), glob);
    }
    this.#handleReady();
  }

  handleGlobChanged(entry: GlobEntry): void {
    const glob = this.subscribed.globs.get(entry.collection.glob.key);
    if (glob) {
      this.#due.noteShrunk(glob);
      // Other types wait while globs are pending, so mark them only if a response will follow.
      if (hasNews(glob) || this.#possiblyHeld.hasAny(entry.collection.glob.key))
        this.#due.queueGlob(glob);
    }
    this.#handleReady();
  }

  // ---- responses -----------------------------------------------------------------------------

  /** In the delta flavour no requested name replaces a removed resource. */
  readonly awaitsReplacement = false;

  /**
   * After a restart of the gateway, the routes of a returning client may name clusters that come only with the source's first
   * answer for a collection. Envoy brings no versions for members of globs, so a client counts as returning if it brought
   * versions of any type.
   */
  holdsFirstSet(): boolean {
    return this.#owner.isResuming && this.subscribed.awaitsCollection;
  }

  readonly guardedUntilMs = undefined;

  mayAdd(): boolean {
    return this.hasAdditions;
  }

  get hasAdditions(): boolean {
    return this.#due.hasAdditions;
  }

  get isUnderWay(): boolean {
    return this.subscribed.isUnderWay;
  }

  get hasRemovals(): boolean {
    return this.#due.hasRemovals;
  }

  /**
   * Takes the next chunk of at most about `maxBytes`: content, and removals of names that never
   * existed. Everything due when a response begins is sent in as many chunks as needed. Changes
   * made meanwhile go into the next response, so that no name is sent again before this one is
   * acknowledged.
   *
   * @param maxGlobs to look at while there is nothing to send
   * @returns undefined: there is nothing to send, or `isMidAnswer`, and the caller leaves the rest to another turn
   */
  takeAdditions(maxBytes: number, maxGlobs: number): ResponseContent | undefined {
    const sharesMembers = this.subscribed.lists.size > 0;
    const draft = new Draft(maxBytes, this.#owner.limit, this.#variants.areKnown, sharesMembers);
    for (const one of this.#due.takeUnsubscribed()) this.#answerUnsubscribed(draft, one);
    const pass = this.#due.beginPass();
    for (const known of pass.names) {
      const next = this.#owner.limit.contentOf(known.entry.state);
      if (draft.isFullFor(next)) return draft.finish();
      pass.names.delete(known);
      this.#answerName(draft, known, next);
    }
    let globsLeft = maxGlobs;
    for (const [glob, untilSeq] of pass.globs) {
      // With something to send, the size of a chunk bounds the rest.
      if (globsLeft-- <= 0 && draft.isEmpty) return undefined;
      if (!this.#takeMembers(glob, untilSeq, draft)) return draft.finish();
      pass.globs.delete(glob);
      const { collection } = glob.entry;
      if (collection.members.size === 0) this.#answerEmpty(glob, draft);
      if (collection.proven) this.#noteGoneMembers(glob);
    }
    this.#due.endPass(pass);
    const last = draft.finish();
    // The chunk before turned out to be the last.
    if (!last) this.#answerGoesOn = false;
    return last;
  }

  #answerEmpty(glob: GlobSubscription, draft: Draft): void {
    const { collection, error } = glob.entry;
    const isOther = collection.proven && !isOldStyle(collection.glob);
    // Envoy would take a removal of another glob for the response to its wildcard: wait.
    if (isOther && this.#owner.awaitsWildcard(this.typeUrl)) this.#due.queueGlob(glob);
    else answerEmpty(glob, collection.proven, error, draft);
  }

  /** @param content what the client can be sent, if the name is present */
  #answerName(draft: Draft, known: NameSubscription, content: Projection | undefined): void {
    const { state, name } = known.entry;
    if (state.kind === 'present') {
      // It may hold newer content than the disk has.
      if (content && dutyOf(reportedWith(content), known.held, content.version) === 'wait') return;
      if (content) this.#answerPresent(draft, known, content);
      else answerWithheld(known, draft);
      known.isClaim = false;
      return;
    }
    if (state.kind === 'waiting') return;
    if (this.#owner.awaitsWildcard(this.typeUrl)) this.#due.queueName(known);
    else if (state.kind === 'error') tellError(known, state.status, draft);
    // The client holds it as a member, and removals of held resources are not sent beside additions.
    else if (this.subscribed.wentAsMember(name)) this.#due.noteGone(known, state.status);
    else {
      const remove = (one: NameSubscription): void => {
        this.#variants.remove(draft, one);
      };
      answerAbsent(known, state.status, this.#silentAbsence, remove, draft);
    }
  }

  #answerPresent(draft: Draft, known: NameSubscription, content: Projection): void {
    const { held, isClaim } = known;
    const behind = this.#isAssignment ? this.#owner.clustersBehind(content.name.key) : NO_CLUSTERS;
    const version = content.version + behind.suffix;
    if (dutyOf('present', held, version) === 'nothing' && this.#isSent(known, content)) {
      // The same text, in one copy for all clients.
      known.held = version;
      this.#variants.noteSent(known, content);
      return;
    }
    // A cluster that uses it is still to be sent. Sending that cluster triggers this again.
    if (!behind.settled && isVersionOf(held, content)) return;
    // MAYBE_HELD assignments are mostly resends after their cluster.
    const mayBeNew = held === MAYBE_HELD && (isClaim || !this.#isAssignment);
    this.#variants.replace(draft, known, content);
    const isNew = held === NOT_HELD || mayBeNew;
    draft.add(content, behind.suffix, isNew);
    this.#tellClusterSent(content, isNew);
    known.held = version;
    known.toldAbsent = false;
    known.lastErrorCode = undefined;
  }

  /** A version by itself does not tell whether a name without parameters was sent with its constraints. */
  #isSent(known: NameSubscription, content: Projection): boolean {
    return known.isClaim || this.#variants.isSent(known, content);
  }

  /** From the first name with parameters on, the client is sent constraints: also of the names that it has. */
  #noteVariant(name: ResourceName): void {
    const isFirst = !this.#variants.areKnown;
    this.#variants.noteAsked(name);
    if (isFirst) for (const key of this.#names.keys()) this.handleNameChanged(key);
  }

  #tellClusterSent(projection: Projection, isNew: boolean): void {
    if (projection.edsKey !== undefined) this.#owner.handleClusterSent(projection.edsKey, isNew);
  }

  /**
   * Unsubscribed as a name, still covered by a glob: resend it, or remove it later if it does not
   * exist.
   */
  #answerUnsubscribed(draft: Draft, unsubscribed: UnsubscribedName): void {
    const { name, asked, isHeld, isGone, isClaim } = unsubscribed;
    const glob = this.subscribed.globOf(name);
    if (!glob) return;
    const { collection } = glob.entry;
    const member = collection.member(name.key);
    if (member) {
      const content = this.#owner.limit.admit(member.projection);
      // Later changes are sent with the glob: never twice in one response.
      if (!content || member.seq > glob.sentSeq) return;
      draft.addMember(content, !isHeld);
      this.#tellClusterSent(content, !isHeld);
    } else if (isClaim) {
      // Its source may have just started, so the deletion guard judges it as a member of the glob (seed 57078).
      this.noteClaim(collection.glob.key, name.key, MAYBE_HELD);
      this.#due.queueGlob(glob);
    } else if (isGone || collection.proven) {
      // The name itself was proven absent; the collection may wait forever for one of its sources.
      this.#due.noteGoneMember(name.key, asked, glob);
    } else {
      // Unknown: it counts as a possibly held member.
      const held = isHeld ? MAYBE_HELD : NOT_HELD;
      this.#possiblyHeld.note(collection.glob.key, name.key, { held, isClaim: false });
    }
  }

  /** @returns whether all members up to `untilSeq` that the client lacks are in the draft. */
  #takeMembers(glob: GlobSubscription, untilSeq: number, draft: Draft): boolean {
    const { collection } = glob.entry;
    const isWildcard = isOldStyle(collection.glob);
    const possibly = this.#possiblyHeld.of(collection.glob.key);
    for (const member of collection.members.since(glob.sentSeq)) {
      if (member.seq > untilSeq) break;
      const projection = this.#owner.limit.admit(member.projection);
      if (draft.isFullFor(projection)) return false;
      glob.sentSeq = member.seq;
      // A wildcard that got a response needs no empty one when its last member goes.
      glob.toldEmpty = isWildcard;
      glob.lastErrorCode = undefined;
      // A member subscribed by name too is sent by that subscription, and one unsubscribed by name
      // while this response is sent gets its own response: never twice in one response.
      if (this.#names.has(member.key) || this.#due.unsubscribedNames.has(member.key)) continue;
      const held = possibly?.get(member.key)?.held ?? NOT_HELD;
      possibly?.delete(member.key);
      if (!projection) continue;
      if (dutyOf('present', held, projection.version) === 'nothing') {
        // The client holds this version, so it counts as sent, and the version of its endpoints can
        // be computed.
        this.#tellClusterSent(projection, true);
        continue;
      }
      const isUntold = held === NOT_HELD;
      const mayBeNew = isUntold || (held === MAYBE_HELD && !this.#isAssignment);
      draft.addMember(projection, mayBeNew && member.joinedSeq > glob.certainlySentSeq);
      this.#tellClusterSent(projection, isUntold && member.joinedSeq > glob.passFromSeq);
    }
    glob.sentSeq = untilSeq;
    glob.passFromSeq = untilSeq;
    // A member that changed during the pass moved behind `untilSeq`, and may never have been sent.
    if (collection.members.lastSeq === untilSeq) glob.certainlySentSeq = untilSeq;
    return true;
  }

  /** Finds members that the client holds or may hold and the collection lacks. */
  #noteGoneMembers(glob: GlobSubscription): void {
    const { collection, error } = glob.entry;
    const isLost = (error !== undefined && isDataError(error)) || glob.entry.denial !== undefined;
    const possibly = this.#possiblyHeld.of(collection.glob.key);
    for (const [key, { isClaim }] of possibly ?? []) {
      // No removal was observed: a source that has just started may still load it.
      const isDoubted = isClaim && !isLost && !collection.isBuried(key);
      if (collection.member(key)) possibly?.delete(key);
      else if (isDoubted) this.#owner.handleDoubt({ key, subscriptions: this });
      else {
        if (isClaim) this.#leaveClaim(key);
        possibly?.delete(key);
        this.#due.noteGoneMember(key, wireText(key), glob);
      }
    }
  }

  /**
   * Marks a removed member that is subscribed by name too as sent. With silent absence the name
   * would otherwise stay with the client.
   */
  #takeFromHolder(key: string): void {
    const known = this.#names.get(key);
    if (!known || known.toldAbsent) return;
    if (known.held === NOT_HELD) known.held = MAYBE_HELD;
    this.handleNameChanged(key);
  }

  /** A member came back before its removal was sent. Until its content is sent, the client may hold the former one. */
  #noteReturned(key: string, { entry: { collection }, sentSeq }: GlobSubscription): void {
    const member = collection.member(key);
    if (!member || member.seq <= sentSeq) return;
    this.#possiblyHeld.note(collection.glob.key, key, { held: MAYBE_HELD, isClaim: false });
  }

  /** Takes the next response of removals only: at most `maxNames` names and about `maxBytes`. */
  takeRemovals(maxNames: number, maxBytes: number): ResponseContent | undefined {
    const draft = new Draft(maxBytes, this.#owner.limit, this.#variants.areKnown);
    for (const [known, status] of this.#due.goneNames) {
      if (draft.removedCount >= maxNames || draft.isFull) break;
      this.#due.goneNames.delete(known);
      tellError(known, status, draft);
      known.held = NOT_HELD;
      known.toldAbsent = true;
      this.#variants.remove(draft, known);
    }
    for (const [key, { asked, glob }] of this.#due.goneMembers) {
      if (draft.removedCount >= maxNames || draft.isFull) break;
      this.#due.goneMembers.delete(key);
      // A client that unsubscribed the collection meanwhile dropped all of its members.
      const isAsked = this.subscribed.globs.get(glob.entry.collection.glob.key) === glob;
      if (!isAsked) continue;
      if (!this.#owner.covers(this.typeUrl, key)) {
        // The next loop says it, if its tombstone is still to be sent.
        if (asked === wireText(key) && isTombstoneDue(glob, key)) continue;
        this.#possiblyHeld.forgetMember(key);
        draft.remove(asked);
        continue;
      }
      if (this.#silentAbsence) this.#takeFromHolder(key);
      this.#noteReturned(key, glob);
    }
    for (const glob of this.#due.shrunkGlobs) {
      const { tombstones, glob: name } = glob.entry.collection;
      if (!isBegun(glob)) continue;
      for (const { key, seq } of tombstones.since(glob.removedSeq)) {
        if (draft.removedCount >= maxNames || draft.isFull) return draft.finish();
        glob.removedSeq = seq;
        // Forget that the client may hold it: if the member returns, it has to be sent.
        this.#possiblyHeld.of(name.key)?.delete(key);
        if (!this.#owner.covers(this.typeUrl, key)) {
          this.#possiblyHeld.forgetMember(key);
          draft.remove(wireText(key));
        } else if (this.#silentAbsence) this.#takeFromHolder(key);
      }
      glob.removedSeq = tombstones.lastSeq;
      this.#due.shrunkGlobs.delete(glob);
    }
    return draft.finish();
  }
}

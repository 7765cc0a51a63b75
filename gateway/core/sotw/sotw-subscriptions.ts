/**
 * The subscriptions of one state-of-the-world client to one type, and its unacknowledged responses.
 * A request names all wanted resources of the type, so each request is compared with the one
 * before. `Responses` decides the contents of responses: `AllRequiredResponses` where the client deletes what a
 * response leaves out, `SelectiveResponses` where it keeps that. Pure core, no IO.
 *
 * All authorities of a type share one object, because in this flavour a type has one version.
 */
import type { Projection } from '../../../authorities/index.js';
import type { ResourceError, RpcStatus } from '../../../protos/discovery.js';
import { isListName } from '../../../protos/list-collection.js';
import { noSet, ownSet } from '../../../protos/empty-collections.js';
import { globKeyOf, type ResourceName } from '../../../protos/resource-name.js';
import { TYPE_URL, typeRank } from '../../../protos/type-urls.js';
import { spokenName, type NameReader } from '../session/asked-name.js';
import { LOG_START } from '../cache/change-log.js';
import { MAYBE_HELD, NOT_HELD } from '../session/holdings.js';
import type { MessageLimit } from '../session/message-limit.js';
import type { Member } from '../cache/collection.js';
import type { TypeSubscriptions } from '../session/push-order.js';
import {
  isAnswered,
  isKnown,
  isStuck,
  reportedOf,
  type NameEntry,
  type GlobEntry,
  type GlobSubscriber,
  type NameSubscriber,
} from '../cache/entries.js';
import { SetDigest } from '../cache/set-digest.js';
import type { GrantedCache } from '../rights/granted-cache.js';
import type { SubscriptionsView } from '../session/stream-session.js';
import type { StreamNames } from '../quotas/stream-names.js';
import { Unacknowledged } from '../session/unacknowledged.js';
import { RefusedNames, type RefusedName, type ToldWithoutRoom } from './refused-names.js';
import type { Responses, SotwContent } from './responses.js';
import { newSotwGlob, newSotwName, type SotwGlob, type SotwName } from './sotw-subscription.js';

export interface SotwSubscriptionsOptions {
  readonly typeUrl: string;
  readonly cache: GrantedCache;
  readonly names: NameReader;
  /** The client's message limit. */
  readonly limit: MessageLimit;
  /** The quotas of the client's peer; default: none. */
  readonly nameQuota?: StreamNames | undefined;
  /** Of the stream. */
  readonly toldWithoutRoom: ToldWithoutRoom;
  readonly nowMs: number;
  /**
   * `version_info` of the first request. If it is not empty, the client may hold the resources that
   * the request names.
   */
  readonly resumedVersion: string;
  readonly onReady: () => void;
  readonly responsesOf: (subscriptions: SotwSubscriptions) => Responses;
}

const ROUTE_RANK = typeRank(TYPE_URL.routeConfiguration);
const WILDCARD: readonly string[] = ['*'];
/** Equals the version of no set. */
const NO_VERSION = '-';
const SEVERAL = '(several)';

export class SotwSubscriptions
  implements SubscriptionsView, TypeSubscriptions, NameSubscriber, GlobSubscriber
{
  readonly typeUrl: string;
  readonly rank: number;
  readonly createdAtMs: number;
  readonly limit: MessageLimit;
  readonly names = new Map<string, SotwName>();
  readonly globs = new Map<string, SotwGlob>();
  /** The globs that are lists: their members may have any name. */
  readonly #lists = new Set<SotwGlob>();
  /** Names to process. */
  readonly pending = new Set<SotwName>();
  globsPending = false;
  readonly refused: RefusedNames;
  /** Subscriptions that no source has settled yet, and whose resources the client may hold from an earlier stream. */
  readonly unsettled = new Set<SotwName | SotwGlob>();
  /** Names that the client cannot hold, requested while `unsettled` has others: they may replace those. */
  added: Set<SotwName> = noSet();
  /** Digest of the content sent by name. */
  readonly digest = new SetDigest();
  /** Until the first response: the version that the client brought. */
  resumedVersion: string;
  /** The client brought a version: it holds something. */
  readonly isResuming: boolean;
  readonly unacknowledged = new Unacknowledged();
  /** The names of the last request, encoded; undefined: not kept. */
  encodedNames: Uint8Array | undefined;
  readonly #cache: GrantedCache;
  readonly #onReady: () => void;
  readonly #authorities = new Map<string, number>();
  /** Names for which no source has sent anything. */
  readonly #unanswered = new Set<SotwName>();
  /**
   * The client unsubscribed a resource that it held: its version covers more than it has, until the
   * next response.
   */
  #versionCoversMore = false;
  #isFirst = true;
  #wasNamed = false;
  #mark = 0;
  /** Of the present request; empty once `#takeLeaving` has looked at them. */
  #texts: readonly string[] = [];
  #acknowledgedNonce = '';
  // See `TypeSubscriptions`.
  waitingSinceMs: number | undefined;
  heldSinceMs: number | undefined;
  removalsSinceMs: number | undefined;

  readonly #reader: NameReader;
  readonly #nameQuota: StreamNames | undefined;
  readonly responses: Responses;

  constructor(options: SotwSubscriptionsOptions) {
    this.typeUrl = options.typeUrl;
    this.rank = typeRank(options.typeUrl);
    this.createdAtMs = options.nowMs;
    this.resumedVersion = options.resumedVersion;
    this.isResuming = options.resumedVersion !== '';
    this.#cache = options.cache;
    this.#reader = options.names;
    this.#nameQuota = options.nameQuota;
    this.limit = options.limit;
    this.refused = new RefusedNames(options.toldWithoutRoom);
    this.#onReady = options.onReady;
    this.responses = options.responsesOf(this);
  }

  /**
   * The session sends nothing before this time, because it does not know which resources the client
   * holds. Undefined: it may send now.
   *
   * @param isRelease the response would drop removed resources
   */
  blockedUntilMs(nowMs: number, isRelease = false): number | undefined {
    return this.responses.blockedUntilMs(nowMs, isRelease);
  }

  get hasRemovals(): boolean {
    return this.responses.hasRemovals;
  }

  /** Is this name here, and do its sources answer now? */
  isPresent({ name, state }: NameEntry): boolean {
    return state.kind === 'present' && this.#cache.isCurrent(this.typeUrl, name);
  }

  /** Do the sources of this name answer now, and is there no trace of the name? */
  isSilent({ name }: NameEntry): boolean {
    return this.#cache.isSilentAbout(this.typeUrl, name);
  }

  get nameCount(): number {
    return this.names.size + this.globs.size + this.refused.size;
  }

  get authorities(): readonly string[] {
    return [...this.#authorities.keys()];
  }

  /** Was a response sent, or does the client hold content from an earlier stream? */
  get wasSent(): boolean {
    const globs = [...this.globs.values()];
    const names = [...this.names.values()];
    return (
      this.unacknowledged.hasSent ||
      globs.some(({ included }) => included) ||
      names.some(({ sent }) => sent !== undefined)
    );
  }

  get authority(): string {
    const [authority, ...more] = this.#authorities.keys();
    return more.length > 0 ? SEVERAL : (authority ?? '');
  }

  /**
   * The client requests names for which no source has sent anything. A gRPC client requests a
   * cluster only after it accepted the route that names it, and needs the old cluster until the new
   * one arrives (GRPC 9).
   */
  get awaitsReplacement(): boolean {
    return this.rank <= ROUTE_RANK && this.#unanswered.size > 0;
  }

  /**
   * A source has answered some of these subscriptions, and none has failed. Within the timeout of a
   * name, each missing resource arrives, or its source counts as unreachable.
   */
  get isUnderWay(): boolean {
    if ([...this.unsettled].some(({ entry }) => isStuck(entry))) return false;
    return [...this.names.values(), ...this.globs.values()].some(({ entry }) => isAnswered(entry));
  }

  /** Is a name or collection subscribed that its source may still answer for the first time? */
  get awaitsAnswers(): boolean {
    if (this.#unanswered.size > 0) return true;
    for (const { entry } of this.globs.values()) {
      if (!entry.collection.complete && entry.error === undefined) return true;
    }
    return false;
  }

  holdsFirstSet(nowMs: number): boolean {
    return this.responses.holdsFirstSet(nowMs);
  }

  get guardedUntilMs(): number | undefined {
    return this.responses.guardedUntilMs;
  }

  mayAdd(nowMs: number): boolean {
    return this.hasAdditions && this.blockedUntilMs(nowMs) === undefined;
  }

  /** Is anything to be sent? */
  get hasWork(): boolean {
    return this.hasAdditions || this.hasRemovals;
  }

  /** Is anything to be sent apart from removals? */
  get hasAdditions(): boolean {
    return (
      this.pending.size > 0 ||
      this.globsPending ||
      this.refused.hasUntold ||
      this.#versionCoversMore
    );
  }

  // ---- responses in flight ------------------------------------------------------------------

  get inFlightSinceMs(): number | undefined {
    return this.unacknowledged.sinceMs;
  }

  handleSent(nonce: string, { bringsNew, versionInfo }: SotwContent, nowMs: number): void {
    this.unacknowledged.handleSent(nonce, bringsNew, false, nowMs);
    this.responses.handleSent(versionInfo);
  }

  /**
   * @returns when the acknowledged response was sent. `known`: it was acknowledged before, so this
   * request changes names. `stale`: the nonce belongs to no response.
   */
  handleNonce(nonce: string): number | 'known' | 'stale' {
    const sentMs = this.unacknowledged.handleAcknowledged(nonce);
    if (sentMs === undefined) return nonce === this.#acknowledgedNonce ? 'known' : 'stale';
    this.#acknowledgedNonce = nonce;
    return sentMs;
  }

  // ---- subscribing ---------------------------------------------------------------------------

  /**
   * Processes the full list of names of a request. Every ACK repeats that list, so a list without
   * changes costs one look-up per name. Yields after each new or dropped name: the error of a newly
   * refused name, once, else undefined.
   *
   * @param clock the time of the present step, in ms
   */
  *ask(texts: readonly string[], clock: () => number): Generator<ResourceError | undefined, void> {
    if (texts.length > 0) this.#wasNamed = true;
    const mark = ++this.#mark;
    this.#texts = texts;
    let distinct = 0;
    for (const text of this.#wasNamed ? texts : WILDCARD) {
      // Most names are spelled canonically, and the canonical spelling is the key.
      const known = this.#known(text);
      const one = known ?? this.#read(text, clock());
      if (one.mark !== mark) distinct++;
      one.mark = mark;
      if (known) continue;
      yield 'entry' in one || one.isSilent
        ? undefined
        : { name: spokenName(text), status: one.status };
    }
    this.#isFirst = false;
    this.#texts = [];
    if (distinct < this.nameCount) yield* this.#dropAllBut(mark, clock);
  }

  #known(text: string): SotwName | SotwGlob | RefusedName | undefined {
    return this.names.get(text) ?? this.globs.get(text) ?? this.refused.get(text);
  }

  /** The number of names that the request drops. Their quota is free for its new names. Call it once for each request. */
  readonly #takeLeaving = (): number => {
    const kept = new Set(
      this.#texts.map((text) => this.#known(text) ?? this.#knownOtherwise(text)),
    );
    kept.delete(undefined);
    const isAsked = this.#texts.length > 0;
    this.#texts = [];
    return isAsked ? this.nameCount - kept.size : 0;
  };

  /** By another spelling. */
  #knownOtherwise(text: string): SotwName | SotwGlob | undefined {
    const asked = this.#reader.read(this.typeUrl, text);
    if (!asked.ok) return undefined;
    return this.names.get(asked.name.key) ?? this.globs.get(asked.name.key);
  }

  #read(text: string, nowMs: number): SotwName | SotwGlob | RefusedName {
    const asked = this.#reader.read(this.typeUrl, text);
    if (!asked.ok) {
      const full = this.#nameQuota?.take(true, nowMs, this.#takeLeaving);
      return full ? this.#unremembered(full) : this.refused.refuse(text, asked.status);
    }
    const { name } = asked;
    const known = this.names.get(name.key) ?? this.globs.get(name.key);
    if (known) return known;
    const tooMany = this.#cache.variantRefusal(this.typeUrl, name);
    if (tooMany) return this.refused.refuse(text, tooMany);
    const isWatched = this.#cache.isWatched(this.typeUrl, name);
    const full = this.#nameQuota?.take(isWatched, nowMs, this.#takeLeaving);
    if (full) return this.#refuseWithoutRoom(text, full);
    // The resumed version covers only the names of the first request. A client may have held A and
    // B under this version and dropped B. If it now requests A first and B later, the set {A, B}
    // would look current, though the client lacks B.
    if (!this.#isFirst && this.resumedVersion !== '') this.resumedVersion = NO_VERSION;
    this.#countAuthority(name.authority, 1);
    return name.isGlob ? this.#addGlob(name, text) : this.#addName(name, text, nowMs);
  }

  /**
   * A client that may hold the name would delete it if a set came without it, so its stream ends: it
   * keeps what it holds, and tries again.
   */
  #refuseWithoutRoom(text: string, status: RpcStatus): RefusedName {
    if (this.#mayHold) this.refused.end(status);
    return this.refused.refuseWithoutRoom(text, status) ?? this.#unremembered(status);
  }

  /** Remembering a refused name takes memory. Without room, the client gets no error, and its next request names it anew. */
  #unremembered(status: RpcStatus): RefusedName {
    return { status, isSilent: true, mark: this.#mark };
  }

  #addName(name: ResourceName, asked: string, nowMs: number): SotwName {
    const entry = this.#cache.subscribeName(this.typeUrl, name, this, this.#nameQuota);
    const known = newSotwName(entry, spokenName(asked), nowMs, this.#mayHold);
    // It was sent before as a member of a glob, which the client may be about to unsubscribe.
    const covering = this.coveringOf(name);
    const wasSent = covering?.glob.included && covering.member.joinedSeq <= covering.glob.sentSeq;
    const sent = wasSent ? this.limit.admit(covering.member.projection) : undefined;
    if (covering && sent) {
      this.noteSent(known, sent);
      known.hadContent = true;
      // Its cluster may have been sent since: then an assignment has to follow, even unchanged (ENVOY 5).
      const isAssignment = this.typeUrl === TYPE_URL.clusterLoadAssignment;
      if (isAssignment || covering.member.seq > covering.glob.sentSeq) known.held = MAYBE_HELD;
    }
    this.#takeLingering(known);
    this.names.set(entry.name.key, known);
    if (!this.#mayHold && this.unsettled.size > 0) this.added = ownSet(this.added).add(known);
    if (this.#mayHold && !this.#isSettledName(entry)) this.unsettled.add(known);
    if (entry.state.kind === 'waiting') this.#unanswered.add(known);
    this.pending.add(known);
    return known;
  }

  /**
   * The client holds it through a collection that lacks it: from now on it is kept or removed as a
   * name.
   */
  #takeLingering(known: SotwName): void {
    const { key } = known.entry.name;
    for (const { lingering } of this.globs.values()) {
      const held = lingering.get(key);
      if (!held) continue;
      lingering.delete(key);
      this.noteSent(known, held.projection);
      if (!held.wasSent) known.held = MAYBE_HELD;
      known.hadContent = true;
    }
  }

  #addGlob(name: ResourceName, asked: string): SotwGlob {
    const entry = this.#cache.subscribeGlob(this.typeUrl, name, this, this.#nameQuota);
    const glob = newSotwGlob(entry, asked, this.#mayHold);
    this.globs.set(name.key, glob);
    if (isListName(this.typeUrl, name)) this.#lists.add(glob);
    if (glob.mayBeHeld && !this.#isSettled(entry)) this.unsettled.add(glob);
    this.globsPending = true;
    return glob;
  }

  /**
   * Only resources of a first request can be held from an earlier stream. A client that rejected a
   * part of its first response holds the rest, and reconnects without a version.
   */
  get #mayHold(): boolean {
    // It changed its names before its first response, and a list may contain, under any name, what it still holds.
    if (this.resumedVersion === NO_VERSION && this.#lists.size > 0) return true;
    return this.#isFirst && (this.isResuming || this.responses.isWhole);
  }

  /** Is it known what the client is to hold of this name? A client that returns may hold newer content than the disk has. */
  #isSettledName({ state }: NameEntry): boolean {
    return isKnown(state) && !(this.isResuming && reportedOf(state) === 'restored');
  }

  /** Are the members known, as far as this client needs them? */
  #isSettled({ collection }: GlobEntry): boolean {
    if (collection.isDoubted) return false;
    // An alternative may have sent all of its members; only the primary proves that other names do
    // not exist.
    return this.isResuming ? collection.proven : collection.complete;
  }

  *#dropAllBut(mark: number, clock: () => number): IterableIterator<undefined> {
    const isResuming = this.resumedVersion !== '';
    if (isResuming) this.resumedVersion = NO_VERSION;
    this.refused.dropAllBut(mark);
    for (const [key, known] of this.names) {
      if (known.mark === mark) continue;
      this.names.delete(key);
      if (isResuming) this.#noteUnknownGlob(known.entry.name);
      this.#versionCoversMore ||= known.sent !== undefined;
      this.#forget(known);
      this.noteSent(known, undefined);
      this.#countAuthority(known.entry.name.authority, -1);
      this.#cache.unsubscribeName(known.entry, this, 'unsubscribed', clock());
      yield;
    }
    for (const [key, glob] of this.globs) {
      if (glob.mark === mark) continue;
      this.globs.delete(key);
      this.#lists.delete(glob);
      if (isResuming) this.#noteUnknownMembers(glob.entry.collection.glob);
      this.#versionCoversMore ||= glob.sentSeq > LOG_START || glob.lingering.size > 0;
      this.unsettled.delete(glob);
      this.responses.handleGlobLeft(glob);
      this.#countAuthority(glob.entry.collection.glob.authority, -1);
      this.#cache.unsubscribeGlob(glob.entry, this, 'unsubscribed', clock());
      yield;
    }
  }

  /** The client may hold a name that it unsubscribed and now gets through this glob. */
  #noteUnknownGlob(left: ResourceName): void {
    for (const glob of this.#collectionsFor(left)) {
      glob.mayBeHeld = true;
      if (!this.#isSettled(glob.entry)) this.unsettled.add(glob);
    }
  }

  /**
   * The client may hold members of a glob that it unsubscribed and now gets by name or through a
   * list.
   */
  #noteUnknownMembers(left: ResourceName): void {
    const isList = isListName(this.typeUrl, left);
    for (const glob of this.globs.values()) {
      const { collection } = glob.entry;
      if (!isList && !isListName(this.typeUrl, collection.glob)) continue;
      glob.mayBeHeld = true;
      if (!this.#isSettled(glob.entry)) this.unsettled.add(glob);
    }
    for (const known of this.names.values()) {
      const { name } = known.entry;
      if (!isList && globKeyOf(name) !== left.key) continue;
      known.mayBeHeld = true;
      if (!this.#isSettledName(known.entry)) this.unsettled.add(known);
    }
  }

  /** Does the client subscribe to it, by itself or through a collection that contains it? */
  covers(name: ResourceName): boolean {
    return this.names.has(name.key) || this.coveringOf(name) !== undefined;
  }

  /**
   * The subscribed collection that contains this name, if any: its glob before lists.
   *
   * @param isMeant of these collections; default: all
   */
  coveringOf(
    name: ResourceName,
    isMeant: (glob: SotwGlob) => boolean = () => true,
  ): { glob: SotwGlob; member: Member } | undefined {
    for (const glob of this.#collectionsFor(name)) {
      if (!isMeant(glob)) continue;
      const member = glob.entry.collection.member(name.key);
      if (member) return { glob, member };
    }
    return undefined;
  }

  /**
   * The client holds this resource and unsubscribed its name. This collection may send it again: the
   * glob of the name, or a list.
   */
  heirOf(name: ResourceName): SotwGlob | undefined {
    const glob = this.globs.get(globKeyOf(name));
    return glob?.included === false ? glob : (this.#unansweredList() ?? glob);
  }

  /** A list may have members of other collections. No two globs have a member in common. */
  isList(glob: SotwGlob): boolean {
    return this.#lists.has(glob);
  }

  /** The first list that is not complete yet. */
  #unansweredList(): SotwGlob | undefined {
    for (const list of this.#lists) {
      const { complete, isDoubted } = list.entry.collection;
      if (!complete || isDoubted) return list;
    }
    return undefined;
  }

  #collectionsFor(name: ResourceName): readonly SotwGlob[] {
    const glob = this.globs.get(globKeyOf(name));
    return glob ? [glob, ...this.#lists] : [...this.#lists];
  }

  /** The client no longer subscribes to it. */
  #forget(known: SotwName): void {
    this.pending.delete(known);
    this.unsettled.delete(known);
    this.added.delete(known);
    this.#unanswered.delete(known);
    this.responses.handleNameLeft(known);
  }

  #countAuthority(authority: string, change: number): void {
    const count = (this.#authorities.get(authority) ?? 0) + change;
    if (count === 0) this.#authorities.delete(authority);
    else this.#authorities.set(authority, count);
  }

  close(nowMs: number): void {
    for (const { entry } of this.names.values())
      this.#cache.unsubscribeName(entry, this, 'disconnected', nowMs);
    for (const { entry } of this.globs.values())
      this.#cache.unsubscribeGlob(entry, this, 'disconnected', nowMs);
    this.names.clear();
    this.globs.clear();
  }

  /** Takes back what the client may no longer ask for, and subscribes to what it may ask for now. */
  handleRightsChanged(nowMs: number): void {
    for (const [key, known] of this.names) {
      if (this.#cache.isUpToDate(known.entry)) continue;
      known.entry = this.#cache.renewName(known.entry, this, this.#nameQuota, nowMs);
      known.told = undefined;
      if (known.entry.state.kind === 'waiting') this.#unanswered.add(known);
      this.handleNameChanged(key);
    }
    for (const glob of this.globs.values()) {
      if (this.#cache.isUpToDate(glob.entry)) continue;
      for (const member of glob.entry.collection.members.since(LOG_START)) {
        this.responses.handleMemberGone(glob, member);
      }
      glob.entry = this.#cache.renewGlob(glob.entry, this, this.#nameQuota, nowMs);
      // A granted collection stays out of responses until it is complete. A denied one is complete: a
      // client that had its answer before is not sent an unchanged set.
      const wasIncluded = glob.included || glob.wasIncluded;
      const included = wasIncluded && glob.entry.denial !== undefined;
      Object.assign(glob, { sentSeq: LOG_START, included, wasIncluded, told: undefined });
      this.unsettled.delete(glob);
      this.globsPending = true;
      this.#onReady();
    }
    if (!this.responses.dropUnsent((name) => this.#cache.mayAsk(this.typeUrl, name))) return;
    this.#versionCoversMore = true;
    this.#onReady();
  }

  // ---- cache changes -------------------------------------------------------------------------

  handleNameChanged(key: string): void {
    const known = this.names.get(key);
    if (!known) return;
    const { state } = known.entry;
    if (this.#isSettledName(known.entry)) this.unsettled.delete(known);
    if (state.kind !== 'waiting') this.#unanswered.delete(known);
    this.pending.add(known);
    this.#onReady();
  }

  handleGlobChanged(entry: GlobEntry, gone?: Member): void {
    const glob = this.globs.get(entry.collection.glob.key);
    // Other types wait while globs are pending, so mark them only if a response will follow.
    this.globsPending ||=
      glob !== undefined &&
      (!glob.included ||
        entry.collection.members.lastSeq > glob.sentSeq ||
        this.responses.isWithheld ||
        entry.error !== undefined);
    if (glob && this.#isSettled(entry)) this.unsettled.delete(glob);
    // The source was lost before the first response, and returned with less (seed 76313).
    else if (glob?.mayBeHeld && entry.collection.isDoubted && !this.unacknowledged.hasSent)
      this.unsettled.add(glob);
    if (glob && gone) this.responses.handleMemberGone(glob, gone);
    this.#onReady();
  }

  /** A cluster was sent: its endpoints have to follow, even unchanged (ENVOY 5). */
  handleClusterSent(edsKey: string): void {
    const known = this.names.get(edsKey);
    if (!known) return;
    if (known.held !== NOT_HELD) known.held = MAYBE_HELD;
    this.handleNameChanged(edsKey);
  }

  // ---- for the responses --------------------------------------------------------------------

  noteSent(known: SotwName, projection: Projection | undefined): void {
    if (known.sent) this.digest.delete(known.sent);
    if (projection) this.digest.add(projection);
    known.sent = projection;
    known.held = projection?.version ?? NOT_HELD;
  }

  /** @returns whether a response is due because the client's version covers more than it holds. */
  takeVersionCoversMore(): boolean {
    const coversMore = this.#versionCoversMore;
    this.#versionCoversMore = false;
    return coversMore;
  }
}

/**
 * What one state-of-the-world client asks of one type, and which answers it has not acknowledged.
 * A request names everything that is wanted of the type, so each is compared with the one before. What
 * to answer is for its two kinds: `AllRequiredSubscriptions` and `SelectiveSubscriptions`. Bulk machine without IO.
 *
 * A lane has all authorities of its type: in this flavour a type has one version.
 */
import type { Projection } from '../../../authorities/index.js';
import {
  isDataError,
  STATUS_CODE,
  type ResourceError,
  type RpcStatus,
} from '../../../protos/discovery.js';
import { isListName } from '../../../protos/list-collection.js';
import { globKeyOf, type ResourceName } from '../../../protos/resource-name.js';
import { TYPE_URL, typeRank } from '../../../protos/type-urls.js';
import { spokenName, type NameReader } from '../session/asked-name.js';
import { LOG_START } from '../cache/change-log.js';
import { TOO_LARGE, type MessageLimit } from '../session/message-limit.js';
import type { Member } from '../cache/collection.js';
import type { PushLane } from '../session/push-order.js';
import type {
  GlobEntry,
  GlobSubscriber,
  NameEntry,
  NameState,
  NameSubscriber,
  ResourceCache,
} from '../cache/resource-cache.js';
import { SetDigest } from './set-digest.js';
import type { LaneView } from '../session/stream-session.js';
import { Unacknowledged } from '../session/unacknowledged.js';

/** Interest in one name. */
export interface SotwName {
  /** Spelling of the client, by which errors name it. */
  asked: string;
  readonly entry: NameEntry;
  readonly sinceMs: number;
  /** What the client was sent last and is to hold; undefined: nothing. */
  sent: Projection | undefined;
  /** It was sent what is true of it: no placeholder may follow. */
  hadContent: boolean;
  /** Stands in for what cannot be had. */
  placeholder: Projection | undefined;
  /** To be sent again though unchanged. */
  isDueAgain: boolean;
  /** The error that was told last. */
  told: RpcStatus | undefined;
  /** The request that named it last. */
  mark: number;
}

/** Interest in a glob: numbers, however many members. */
export interface SotwGlob {
  asked: string;
  readonly entry: GlobEntry;
  sentSeq: number;
  /** It was part of an answer once. */
  included: boolean;
  /** What the client has and is not among the members (any more, or yet), until that may be told. */
  readonly lingering: Map<string, Projection>;
  told: RpcStatus | undefined;
  mark: number;
}

interface Refused {
  readonly status: RpcStatus;
  mark: number;
}

/** What one response is made of. */
export interface SotwAnswer {
  readonly resources: readonly Projection[];
  readonly versionInfo: string;
  readonly errors: readonly ResourceError[];
  /** How many that the client held are not among them any more. */
  readonly removed: number;
  /** It brings names that the client did not have. */
  readonly bringsNew: boolean;
  /** Clusters that are new or changed in it, whose assignments have to follow. */
  readonly clusters: readonly Projection[];
}

export interface TakeOptions {
  readonly maxBytes: number;
  /** The client has had no response on this stream yet: one is due though nothing is new. */
  readonly greet: boolean;
  /** What went may be left out. */
  readonly release: boolean;
}

export interface SotwSubscriptionsOptions {
  readonly typeUrl: string;
  readonly cache: ResourceCache;
  readonly names: NameReader;
  /** What this client can be sent. */
  readonly limit: MessageLimit;
  readonly nowMs: number;
  /** Of the first request: the client may hold what it asks for in it, unless this is empty. */
  readonly resumedVersion: string;
  readonly onReady: () => void;
}

/** A client waits this long at most for all that it may hold before it is told a part of that. */
export const FIRST_ANSWER_WAIT_MS = 3_000;

const ROUTE_RANK = typeRank(TYPE_URL.routeConfiguration);
const WILDCARD: readonly string[] = ['*'];
const NOT_FOUND: RpcStatus = { code: STATUS_CODE.notFound, message: 'it does not exist' };
/** Of no set. */
const NO_VERSION = '-';
const SEVERAL = '(several)';

export abstract class SotwSubscriptions
  implements LaneView, PushLane, NameSubscriber, GlobSubscriber
{
  readonly typeUrl: string;
  readonly rank: number;
  readonly createdAtMs: number;
  protected readonly limit: MessageLimit;
  protected readonly names = new Map<string, SotwName>();
  protected readonly globs = new Map<string, SotwGlob>();
  /** Those of them that are lists, whose members may have any name. */
  readonly #lists = new Set<SotwGlob>();
  /** Names to look at. */
  protected readonly pending = new Set<SotwName>();
  protected globsPending = false;
  /** What the client may hold from an earlier stream, and nothing is known about yet. */
  protected readonly unknown = new Set<SotwName | SotwGlob>();
  /** Of what was sent by name. */
  protected readonly digest = new SetDigest();
  /** Until the first answer: the version with which the client came. */
  protected resumedVersion: string;
  /** The client came with a version: it holds something. */
  protected readonly isResuming: boolean;
  readonly unacknowledged = new Unacknowledged();
  readonly #cache: ResourceCache;
  readonly #onReady: () => void;
  readonly #authorities = new Map<string, number>();
  readonly #refused = new Map<string, Refused>();
  /** Those of them that the client was not told of; as many as it asks for, however often it asks. */
  readonly #untold = new Map<string, RpcStatus>();
  /** Names that no source has said anything about. */
  readonly #unanswered = new Set<SotwName>();
  /** The client left what it held: its version says more than it has, until it gets another one. */
  #hasLeft = false;
  #isFirst = true;
  #wasNamed = false;
  #mark = 0;
  #acknowledgedNonce = '';
  /** Since when content, or removals, have been waiting for what has to go before them. */
  waitingSinceMs: number | undefined;
  removalsSinceMs: number | undefined;

  readonly #reader: NameReader;

  constructor(options: SotwSubscriptionsOptions) {
    this.typeUrl = options.typeUrl;
    this.rank = typeRank(options.typeUrl);
    this.createdAtMs = options.nowMs;
    this.resumedVersion = options.resumedVersion;
    this.isResuming = options.resumedVersion !== '';
    this.#cache = options.cache;
    this.#reader = options.names;
    this.limit = options.limit;
    this.#onReady = options.onReady;
  }

  /** Until when nothing may be said, because it is not known what the client holds; undefined: now. */
  abstract blockedUntilMs(nowMs: number, isRelease?: boolean): number | undefined;

  /** @returns the next response, or undefined when there is nothing to say. */
  abstract take(options: TakeOptions): SotwAnswer | undefined;

  abstract get hasRemovals(): boolean;

  get nameCount(): number {
    return this.names.size + this.globs.size + this.#refused.size;
  }

  get authority(): string {
    const [authority, ...more] = this.#authorities.keys();
    return more.length > 0 ? SEVERAL : (authority ?? '');
  }

  /**
   * It asks for what no source has said anything about. A gRPC client asks for a cluster only when it has
   * accepted the route that names it; until that cluster is there it needs the one before it.
   */
  get awaitsReplacement(): boolean {
    return this.rank <= ROUTE_RANK && this.#unanswered.size > 0;
  }

  /**
   * Sources answer what it asks, and none has failed to: what is missing comes, or is found out to be
   * beyond reach, within the time that any name may take.
   */
  get isUnderWay(): boolean {
    if ([...this.unknown].some(isStuck)) return false;
    return [...this.names.values(), ...this.globs.values()].some(isAnswered);
  }

  mayAdd(nowMs: number): boolean {
    return this.hasWork && this.blockedUntilMs(nowMs) === undefined;
  }

  get hasWork(): boolean {
    return this.pending.size > 0 || this.globsPending || this.#untold.size > 0 || this.#hasLeft;
  }

  // ---- responses on their way ---------------------------------------------------------------

  get inFlightSinceMs(): number | undefined {
    return this.unacknowledged.sinceMs;
  }

  handleSent(nonce: string, { bringsNew }: SotwAnswer, nowMs: number): void {
    this.unacknowledged.handleSent(nonce, bringsNew, false, nowMs);
  }

  /**
   * @returns when the response was sent that this nonce acknowledges; `known`: it was acknowledged
   * before, so that this is a change of names; `stale`: it is of no response.
   */
  handleNonce(nonce: string): number | 'known' | 'stale' {
    const sentMs = this.unacknowledged.handleAcknowledged(nonce);
    if (sentMs === undefined) return nonce === this.#acknowledgedNonce ? 'known' : 'stale';
    this.#acknowledgedNonce = nonce;
    return sentMs;
  }

  // ---- demand -------------------------------------------------------------------------------

  /**
   * Takes the full list of names of a request. A list that asks for nothing new costs a look-up for
   * each name, since every ACK repeats it.
   *
   * @returns what cannot be served, each told once
   */
  ask(texts: readonly string[], nowMs: number): readonly ResourceError[] {
    if (texts.length > 0) this.#wasNamed = true;
    const mark = ++this.#mark;
    const refusals: ResourceError[] = [];
    let distinct = 0;
    for (const text of this.#wasNamed ? texts : WILDCARD) {
      // Most are spelled canonically, which is the key.
      const known = this.names.get(text) ?? this.globs.get(text) ?? this.#refused.get(text);
      const one = known ?? this.#read(text, refusals, nowMs);
      if (one.mark !== mark) distinct++;
      one.mark = mark;
    }
    this.#isFirst = false;
    if (distinct < this.nameCount) this.#dropAllBut(mark, nowMs);
    return refusals;
  }

  #read(text: string, refusals: ResourceError[], nowMs: number): SotwName | SotwGlob | Refused {
    const asked = this.#reader.read(this.typeUrl, text);
    if (!asked.ok) {
      const refused = { status: asked.status, mark: 0 };
      this.#refused.set(text, refused);
      this.#untold.set(text, asked.status);
      refusals.push({ name: spokenName(text), status: asked.status });
      return refused;
    }
    const { name } = asked;
    const known = this.names.get(name.key) ?? this.globs.get(name.key);
    if (known) return known;
    // The version that a client brings is of what it asks for first. What it asks for later it may
    // have left before, so that the same set would look current.
    if (!this.#isFirst && this.resumedVersion !== '') this.resumedVersion = NO_VERSION;
    this.#countAuthority(name.authority, 1);
    return name.isGlob ? this.#addGlob(name, text) : this.#addName(name, text, nowMs);
  }

  #addName(name: ResourceName, asked: string, nowMs: number): SotwName {
    const entry = this.#cache.subscribeName(this.typeUrl, name, this);
    // The entry's own strings, which all clients share.
    const { key } = entry.name;
    const known: SotwName = {
      asked: asked === key ? key : asked,
      entry,
      sinceMs: nowMs,
      sent: undefined,
      hadContent: false,
      placeholder: undefined,
      isDueAgain: false,
      told: undefined,
      mark: 0,
    };
    // Sent before as a member of a glob, which the client may be about to leave.
    const covering = this.coveringOf(name);
    if (covering?.glob.included && covering.member.joinedSeq <= covering.glob.sentSeq) {
      this.noteSent(known, covering.member.projection);
      known.hadContent = true;
      known.isDueAgain = covering.member.seq > covering.glob.sentSeq;
    }
    this.#takeLingering(known);
    this.names.set(key, known);
    if (this.#mayHold && !isKnown(entry.state)) this.unknown.add(known);
    if (entry.state.kind === 'waiting') this.#unanswered.add(known);
    this.pending.add(known);
    return known;
  }

  /** The client has it of a collection that lacks it: it goes, or stays, as a name from now on. */
  #takeLingering(known: SotwName): void {
    const { key } = known.entry.name;
    for (const { lingering } of this.globs.values()) {
      const held = lingering.get(key);
      if (!held) continue;
      lingering.delete(key);
      this.noteSent(known, held);
      known.hadContent = true;
    }
  }

  #addGlob(name: ResourceName, asked: string): SotwGlob {
    const entry = this.#cache.subscribeGlob(this.typeUrl, name, this);
    const glob: SotwGlob = {
      asked,
      entry,
      sentSeq: LOG_START,
      included: false,
      lingering: new Map(),
      told: undefined,
      mark: 0,
    };
    this.globs.set(name.key, glob);
    if (isListName(this.typeUrl, name)) this.#lists.add(glob);
    if (this.#mayHold && !this.#isSettled(entry)) this.unknown.add(glob);
    this.globsPending = true;
    return glob;
  }

  /**
   * Only what is asked in a first request can be held from an earlier stream. A client that refused a part
   * of its first response holds the rest, and comes without a version.
   */
  get #mayHold(): boolean {
    return this.#isFirst && (this.isResuming || this.isWhole);
  }

  /** A response has all resources of the type that the client is to hold. */
  protected abstract readonly isWhole: boolean;

  /** Is it known which members there are, as far as this client needs it? */
  #isSettled({ collection }: GlobEntry): boolean {
    if (collection.isDoubted) return false;
    // An alternative may have all it has said, and yet that is no proof that other names do not exist.
    return this.isResuming ? collection.proven : collection.complete;
  }

  #dropAllBut(mark: number, nowMs: number): void {
    const isResuming = this.resumedVersion !== '';
    if (isResuming) this.resumedVersion = NO_VERSION;
    for (const [text, refused] of this.#refused) {
      if (refused.mark === mark) continue;
      this.#refused.delete(text);
      this.#untold.delete(text);
    }
    for (const [key, known] of this.names) {
      if (known.mark === mark) continue;
      this.names.delete(key);
      if (isResuming) this.#noteUnknownGlob(known.entry.name);
      this.#hasLeft ||= known.sent !== undefined;
      this.forget(known);
      this.noteSent(known, undefined);
      this.#countAuthority(known.entry.name.authority, -1);
      this.#cache.unsubscribeName(known.entry, this, nowMs);
    }
    for (const [key, glob] of this.globs) {
      if (glob.mark === mark) continue;
      this.globs.delete(key);
      this.#lists.delete(glob);
      if (isResuming) this.#noteUnknownMembers(glob.entry.collection.glob);
      this.#hasLeft ||= glob.sentSeq > LOG_START || glob.lingering.size > 0;
      this.unknown.delete(glob);
      this.forgetGlob(glob);
      this.#countAuthority(glob.entry.collection.glob.authority, -1);
      this.#cache.unsubscribeGlob(glob.entry, this, nowMs);
    }
  }

  /** What the client may hold of a name that it left is now asked for by this glob. */
  #noteUnknownGlob(left: ResourceName): void {
    for (const glob of this.#collectionsFor(left)) {
      if (!this.#isSettled(glob.entry)) this.unknown.add(glob);
    }
  }

  /** What the client may hold of a glob that it left is now asked for by name, or by a list. */
  #noteUnknownMembers(left: ResourceName): void {
    const isList = isListName(this.typeUrl, left);
    for (const glob of this.globs.values()) {
      const { collection } = glob.entry;
      const mayHave = isList || isListName(this.typeUrl, collection.glob);
      if (mayHave && !this.#isSettled(glob.entry)) this.unknown.add(glob);
    }
    for (const known of this.names.values()) {
      const { name, state } = known.entry;
      const wasCovered = isList || globKeyOf(name) === left.key;
      if (wasCovered && !isKnown(state)) this.unknown.add(known);
    }
  }

  /** Is it asked for, by itself or as a member? */
  covers(name: ResourceName): boolean {
    return this.names.has(name.key) || this.coveringOf(name) !== undefined;
  }

  /** The collection that has this name, if one that is asked for does. */
  protected coveringOf(name: ResourceName): { glob: SotwGlob; member: Member } | undefined {
    for (const glob of this.#collectionsFor(name)) {
      const member = glob.entry.collection.member(name.key);
      if (member) return { glob, member };
    }
    return undefined;
  }

  /** Where what the client has and left by its name may come again: its glob, or a list. */
  protected heirOf(name: ResourceName): SotwGlob | undefined {
    const glob = this.globs.get(globKeyOf(name));
    return glob?.included === false ? glob : (this.unansweredList() ?? glob);
  }

  /** The first of those that are not there yet. */
  protected unansweredList(): SotwGlob | undefined {
    for (const list of this.#lists) if (!list.entry.collection.complete) return list;
    return undefined;
  }

  #collectionsFor(name: ResourceName): readonly SotwGlob[] {
    const glob = this.globs.get(globKeyOf(name));
    return glob ? [glob, ...this.#lists] : [...this.#lists];
  }

  /** It is not asked for any more. */
  protected forget(known: SotwName): void {
    this.pending.delete(known);
    this.unknown.delete(known);
    this.#unanswered.delete(known);
  }

  protected abstract forgetGlob(glob: SotwGlob): void;

  #countAuthority(authority: string, change: number): void {
    const count = (this.#authorities.get(authority) ?? 0) + change;
    if (count === 0) this.#authorities.delete(authority);
    else this.#authorities.set(authority, count);
  }

  close(nowMs: number): void {
    for (const { entry } of this.names.values()) this.#cache.unsubscribeName(entry, this, nowMs);
    for (const { entry } of this.globs.values()) this.#cache.unsubscribeGlob(entry, this, nowMs);
    this.names.clear();
    this.globs.clear();
  }

  // ---- changes ------------------------------------------------------------------------------

  handleNameChanged(key: string): void {
    const known = this.names.get(key);
    if (!known) return;
    const { state } = known.entry;
    if (isKnown(state)) this.unknown.delete(known);
    if (state.kind !== 'waiting') this.#unanswered.delete(known);
    this.pending.add(known);
    this.#onReady();
  }

  handleGlobChanged(entry: GlobEntry, gone?: Member): void {
    const glob = this.globs.get(entry.collection.glob.key);
    // What other types wait for has to be something that this one will say.
    this.globsPending ||=
      glob !== undefined &&
      (!glob.included ||
        entry.collection.members.lastSeq > glob.sentSeq ||
        entry.error !== undefined);
    if (glob && this.#isSettled(entry)) this.unknown.delete(glob);
    if (glob && gone) this.handleMemberGone(glob, gone);
    this.#onReady();
  }

  protected abstract handleMemberGone(glob: SotwGlob, gone: Member): void;

  /** A cluster went out: its endpoints have to follow, though unchanged. */
  handleClusterSent(edsKey: string): void {
    const known = this.names.get(edsKey);
    if (!known) return;
    known.isDueAgain = true;
    this.handleNameChanged(edsKey);
  }

  // ---- for answers --------------------------------------------------------------------------

  protected noteSent(known: SotwName, projection: Projection | undefined): void {
    if (known.sent) this.digest.delete(known.sent);
    if (projection) this.digest.add(projection);
    known.sent = projection;
  }

  /** @returns whether a response is due so that the client's version says what it has. */
  protected takeLeft(): boolean {
    const hasLeft = this.#hasLeft;
    this.#hasLeft = false;
    return hasLeft;
  }

  /** What cannot be served at all. */
  protected takeRefusals(): ResourceError[] {
    const refused = [...this.#untold];
    this.#untold.clear();
    return refused.map(([text, status]) => ({ name: spokenName(text), status }));
  }

  /** Says why there is no content; once for each reason. */
  protected explain(known: SotwName, errors: ResourceError[]): void {
    const { state } = known.entry;
    if (state.kind === 'waiting') return;
    const status = state.kind === 'present' ? TOO_LARGE : state.status;
    tellOnce(known, status ?? NOT_FOUND, errors);
  }

  protected explainGlob(glob: SotwGlob, errors: ResourceError[]): void {
    const { error } = glob.entry;
    if (!error) glob.told = undefined;
    // That a source cannot be reached is no answer to a collection: it would read as "empty".
    else if (isDataError(error)) tellOnce(glob, error, errors);
  }
}

function tellOnce(to: SotwName | SotwGlob, status: RpcStatus, errors: ResourceError[]): void {
  if (to.told?.code === status.code && to.told.message === status.message) return;
  to.told = status;
  errors.push({ name: to.asked, status });
}

/** A source spoke of it, if not of all of it. */
function isAnswered({ entry }: SotwName | SotwGlob): boolean {
  if (!('collection' in entry)) return isKnown(entry.state);
  return entry.collection.complete || entry.collection.members.size > 0;
}

/** Nobody is going to say more, of what is not known yet. An alternative's word is all that it has. */
function isStuck({ entry }: SotwName | SotwGlob): boolean {
  if (!('collection' in entry)) return entry.state.kind === 'error';
  return entry.collection.complete || entry.error !== undefined;
}

/** Its source cannot be asked. */
export function isUnreachable({ entry }: SotwName | SotwGlob): boolean {
  return 'collection' in entry ? entry.error !== undefined : entry.state.kind === 'error';
}

/** Does it exist? An error ("unreachable") says nothing about that. */
export function isKnown({ kind }: NameState): boolean {
  return kind === 'present' || kind === 'absent';
}

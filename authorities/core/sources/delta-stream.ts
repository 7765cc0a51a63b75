/**
 * The client side of one delta ADS stream to a management server: what to ask, how to read the
 * answers, and what to acknowledge. Bulk machine over `SourceContents`; it outlives streams and
 * starts anew with each (`handleOpened`).
 *
 * Assumptions about servers are those of the xDS protocol page; where peers differ the comment says
 * so. What is to be asked waits here as names, merged, until the shell takes it.
 */
import type {
  DeltaRequest,
  DeltaResponse,
  RpcStatus,
  WireResource,
} from '../../../protos/discovery.js';
import { isDataError, STATUS_CODE } from '../../../protos/discovery.js';
import {
  isXdstp,
  oldStyleName,
  wireText,
  type ResourceName,
} from '../../../protos/resource-name.js';
import { typeRank } from '../../../protos/type-urls.js';
import { Fifo } from './fifo.js';
import { PendingNames } from './pending-names.js';
import { readResource } from '../projection.js';
import { readPublishedName, type PublishingRights } from './published-name.js';
import type { SourceContents, SourceSubscription } from './source-contents.js';
import { UnsureAnswers } from './unsure-answers.js';

interface Unanswered {
  readonly subscription: SourceSubscription;
  readonly deadlineMs: number;
}

/** One resource of a response that is not taken, and why. */
export interface Refusal {
  readonly name: string;
  readonly reason: string;
}

/** What one response came to. */
export interface ResponseOutcome {
  readonly accepted: number;
  readonly refused: readonly Refusal[];
}

export interface DeltaStreamOptions extends PublishingRights {
  /** The encoded Node, for the first request of a stream. */
  readonly node: Uint8Array;
  /** How long a name may stay unanswered on a stream. */
  readonly resourceTimeoutMs: number;
  /** Silence for so long about versions that the server was told, on a stream that answers, is assent. */
  readonly quietResumeMs: number;
}

/**
 * Servers cut large answers into responses of one to some MiB, and nothing says which is the last. So a
 * collection is not taken to be whole by a large one until a small one follows, or nothing for a while.
 */
const PARTIAL_ANSWER_BYTES = 512 * 1_024;
const PARTIAL_QUIET_MS = 500;

/** As old-style names have it. */
const WILDCARD = '*';
const NO_VERSIONS: ReadonlyMap<string, string> = new Map();
/** Enough to find the mistake by; the whole list would not fit a header. */
const MAX_REFUSALS_REPORTED = 10;

export class DeltaStream {
  readonly #contents: SourceContents;
  readonly #options: DeltaStreamOptions;

  // Of the present stream; all reset by `opened`.
  #nodeSent = false;
  #acks: DeltaRequest[] = [];
  #initialTypes: string[] = [];
  /** Types whose first response on this stream has come: what it removes later is no resync. */
  readonly #answeredTypes = new Set<string>();
  /** Subscriptions that the server was told the versions of: silence about them means "unchanged". */
  readonly #resumed = new Map<string, SourceSubscription[]>();
  /** Per type of which a large response came last: when its answer counts as whole. */
  readonly #partial = new Map<string, number>();
  #quietAtMs: number | undefined;
  readonly #unsure: UnsureAnswers;
  /** How many there were. */
  #streams = 0;

  /** In order of deadline, since all names wait equally long; answered ones drop out when reached. */
  readonly #unanswered = new Fifo<Unanswered>();

  // Of the subscriptions; names changed while no stream is open are found by `opened`.
  readonly #pending = new PendingNames();
  #open = false;

  constructor(contents: SourceContents, options: DeltaStreamOptions) {
    this.#contents = contents;
    this.#options = options;
    this.#unsure = new UnsureAnswers(options.quietResumeMs, options.resourceTimeoutMs);
  }

  /** A name was added to the contents. */
  handleSubscribed(subscription: SourceSubscription, nowMs: number): void {
    if (!this.#open) return;
    this.#pending.subscribe(subscription);
    this.#unsure.handleAsked(subscription, nowMs);
  }

  handleUnsubscribed(subscription: SourceSubscription, nowMs: number): void {
    if (!this.#open) return;
    this.#pending.unsubscribe(subscription);
    const { typeUrl, name } = subscription;
    this.#unsure.handleLeft(subscription, this.#contents.globOf(typeUrl, name), nowMs);
  }

  /**
   * Asks for a name once more, whatever was said of it. What is held is held meanwhile, and no
   * deadline moves. What is not held is left first, since go-control-plane answers only then; what is
   * held is not: a server that deletes it between the two requests would never say so.
   */
  handleAskedAgain(subscription: SourceSubscription): void {
    const { typeUrl, name, status } = subscription;
    if (status === 'requested') return;
    const [held] = name.isGlob
      ? this.#contents.members(typeUrl, name)
      : [this.#contents.entry(typeUrl, name)];
    this.#pending.askAgain(subscription, !held);
  }

  handleOpened(): void {
    this.#open = true;
    this.#streams++;
    this.#nodeSent = false;
    this.#acks = [];
    this.#pending.clear();
    this.#answeredTypes.clear();
    this.#resumed.clear();
    this.#partial.clear();
    this.#unsure.clear();
    this.#quietAtMs = undefined;
    this.#contents.restart();
    this.#initialTypes = [...this.#contents.types()].sort((a, b) => typeRank(a) - typeRank(b));
  }

  handleEnded(): void {
    this.#open = false;
    this.#partial.clear();
    this.#unsure.clear();
    this.#acks = [];
    this.#initialTypes = [];
    this.#unanswered.clear();
    this.#quietAtMs = undefined;
    this.#pending.clear();
    for (const typeUrl of this.#contents.types()) {
      // No stream, no deadline: unreachable is not the same as unanswered.
      for (const subscription of this.#contents.subscriptions(typeUrl)) {
        subscription.deadlineMs = undefined;
      }
    }
  }

  /** Is there a name on this stream that the server has not been told a version of, and must answer? */
  answerOwed(): boolean {
    for (const typeUrl of this.#contents.types()) {
      const resumed = new Set(this.#resumed.get(typeUrl));
      for (const subscription of this.#contents.subscriptions(typeUrl)) {
        if (subscription.status === 'requested' && !resumed.has(subscription)) return true;
      }
    }
    return false;
  }

  /** The server lives though it said nothing, since all that it was told is current. */
  handleQuietResume(): void {
    for (const typeUrl of this.#resumed.keys()) this.#settleResumed(typeUrl);
  }

  /** Is there anything to write? What it is goes on merging until it is polled. */
  get hasRequest(): boolean {
    return this.#acks.length + this.#initialTypes.length > 0 || !this.#pending.isEmpty;
  }

  /** The next request to write, or undefined. ACKs first, then first requests by type, then changes. */
  pollRequest(nowMs: number): DeltaRequest | undefined {
    const request = this.#acks.shift() ?? this.#initialRequest(nowMs) ?? this.#changeRequest(nowMs);
    if (!request || this.#nodeSent) return request;
    this.#nodeSent = true;
    return { ...request, node: this.#options.node };
  }

  /** @param bytes size of the response: a large one may be part of an answer. */
  handleResponse(response: DeltaResponse, bytes: number, nowMs: number): ResponseOutcome {
    const { typeUrl } = response;
    const partial = bytes >= PARTIAL_ANSWER_BYTES;
    const duplicate = firstDuplicate(response);
    if (duplicate !== undefined) {
      const refused = [{ name: duplicate, reason: 'is twice in one response' }];
      this.#acknowledge(response, refused);
      return { accepted: 0, refused };
    }
    // The answers to a resume may be several, what went apart from what changed.
    const resync = !this.#answeredTypes.has(typeUrl) || this.#quietAtMs !== undefined;
    const refused: Refusal[] = [];
    const { entriesAdded } = this.#contents;
    let accepted = 0;
    for (const resource of response.resources) {
      const reason = this.#take(typeUrl, resource, resync, partial, nowMs);
      if (reason === undefined) accepted++;
      else refused.push({ name: resource.name, reason });
    }
    if (this.#contents.entriesAdded > entriesAdded) this.#contents.noteArrival(typeUrl, nowMs);
    const explained = new Set<string>();
    for (const { name, status } of response.errors) {
      if (isDataError(status)) explained.add(name);
      this.#remove(typeUrl, name, resync, nowMs, status);
    }
    for (const text of response.removed) {
      // Said twice for clients that do not know TP3.
      if (explained.has(text)) continue;
      const reason = this.#remove(typeUrl, text, resync, nowMs);
      if (reason !== undefined) refused.push({ name: text, reason });
    }
    this.#answeredTypes.add(typeUrl);
    if (partial) this.#partial.set(typeUrl, nowMs + PARTIAL_QUIET_MS);
    else {
      this.#settleResumed(typeUrl);
      this.#settleWildcard(response, nowMs);
    }
    this.#acknowledge(response, refused);
    return { accepted, refused };
  }

  /** Nothing on the wire says that a wildcard has no resources, but a response that brings none does. */
  #settleWildcard({ typeUrl, resources, removed, errors }: DeltaResponse, nowMs: number): void {
    const { oldStyle } = this.#options;
    if (!oldStyle || errors.length > 0 || removed.some(isXdstp)) return;
    const wildcard = this.#contents.subscription(typeUrl, oldStyleName(oldStyle.scope, WILDCARD));
    if (wildcard?.status !== 'requested' && wildcard?.status !== 'timed_out') return;
    // On a stream that serves both kinds of names this one answers the other kind; or single names.
    const isAsked = (name: string): boolean =>
      this.#contents.subscription(typeUrl, oldStyleName(oldStyle.scope, name)) !== undefined;
    if (resources.some(({ name }) => isXdstp(name) || isAsked(name))) return;
    // A removal answers names that were asked before; they may be left by now.
    const isUnsure = removed.length > 0 || this.#unsure.isDoubted(wildcard);
    if (isUnsure) this.#unsure.noteTold(wildcard, nowMs);
    else this.#contents.settleKnown(wildcard);
  }

  #take(
    typeUrl: string,
    resource: WireResource,
    resync: boolean,
    partial: boolean,
    nowMs: number,
  ): string | undefined {
    const published = readPublishedName(typeUrl, resource.name, this.#options);
    if (!published.ok) return published.reason;
    const { name } = published;
    // Sent before our unsubscribe arrived, or never asked for: no fault, no use.
    if (name.isGlob || !this.#contents.isWanted(typeUrl, name)) return undefined;
    const { ttlMs } = resource;
    const expiresAtMs = ttlMs === undefined ? undefined : nowMs + ttlMs;
    if (!resource.body) return this.#renew(typeUrl, name, resource.version, expiresAtMs);
    const isDoubted = this.#unsure.isDoubted(this.#contents.globOf(typeUrl, name));
    const projected = readResource(name, typeUrl, resource.typeUrl, resource.body);
    if (!projected.ok) {
      const refusedOf = this.#contents.refuse(typeUrl, name);
      if (refusedOf) this.#noteTold(refusedOf, isDoubted, nowMs);
      return projected.reason;
    }
    const { projection } = projected;
    const entry = { projection, upstreamVersion: resource.version, expiresAtMs };
    const glob = this.#contents.put(entry, resync, partial || isDoubted);
    if (!glob || glob.status === 'present') return undefined;
    const isAsked = this.#contents.subscription(typeUrl, name) !== undefined;
    this.#noteTold(glob, isAsked || isDoubted, nowMs);
    return undefined;
  }

  /** A member came of a glob that is not settled by it. */
  #noteTold(glob: SourceSubscription, isUnsure: boolean, nowMs: number): void {
    if (isUnsure) this.#unsure.noteTold(glob, nowMs);
    else this.#settleLater(glob);
  }

  /** xDS protocol, "TTL": a resource without content says that what was sent before is still good. */
  #renew(
    typeUrl: string,
    name: ResourceName,
    version: string,
    expiresAtMs: number | undefined,
  ): string | undefined {
    const entry = this.#contents.entry(typeUrl, name);
    if (entry?.upstreamVersion === version) {
      this.#contents.renew(entry, expiresAtMs);
      return undefined;
    }
    if (entry) return `has no content, and its version ${version} was not sent before`;
    // It expired here and not there: asked again, it has to be sent whole.
    const subscription = this.#contents.subscription(typeUrl, name);
    if (subscription) {
      this.#pending.unsubscribe(subscription);
      this.#pending.subscribe(subscription);
      return undefined;
    }
    // All members are sent for the sake of one, so not for one that was never held, or was refused.
    const glob = this.#contents.globOf(typeUrl, name);
    // While it is unanswered, the next heartbeat will do.
    if (!glob?.lapsed || glob.status === 'requested') return undefined;
    glob.lapsed = false;
    this.handleAskedAgain(glob);
    return undefined;
  }

  #remove(
    typeUrl: string,
    text: string,
    resync: boolean,
    nowMs: number,
    status?: RpcStatus,
  ): string | undefined {
    const published = readPublishedName(typeUrl, text, this.#options);
    if (!published.ok) return published.reason;
    const { name } = published;
    const glob = name.isGlob ? this.#contents.subscription(typeUrl, name) : undefined;
    if (status && !isDataError(status)) this.#contents.fail(typeUrl, name, status);
    else if (glob && this.#unsure.isDoubted(glob)) this.#unsure.noteTold(glob, nowMs);
    else this.#contents.remove(typeUrl, name, resync, status);
    return undefined;
  }

  #acknowledge(response: DeltaResponse, refused: readonly Refusal[]): void {
    this.#acks.push({
      node: undefined,
      typeUrl: response.typeUrl,
      subscribe: [],
      unsubscribe: [],
      initialVersions: NO_VERSIONS,
      responseNonce: response.nonce,
      errorDetail: refused.length === 0 ? undefined : nackDetail(refused),
    });
  }

  #initialRequest(nowMs: number): DeltaRequest | undefined {
    for (;;) {
      const typeUrl = this.#initialTypes.shift();
      if (typeUrl === undefined) return undefined;
      this.#pending.forget(typeUrl);
      const subscriptions = [...this.#contents.subscriptions(typeUrl)];
      if (subscriptions.length === 0) continue;
      this.#startTimers(subscriptions, nowMs);
      const initialVersions = this.#resumeVersions(typeUrl, subscriptions);
      if (initialVersions.size > 0) this.#quietAtMs ??= nowMs + this.#options.quietResumeMs;
      const asked = subscriptions.map(textOf);
      // As the protocol's first wildcards were asked, which every server understands.
      const isWildcard = asked.length === 1 && asked[0] === WILDCARD;
      return requestFor(typeUrl, isWildcard ? [] : asked, [], initialVersions);
    }
  }

  /**
   * The versions to resume by, all but one per type: a server that has nothing new to say owes no
   * answer, and a healthy silence would look like a hung server. The name left out must be sent. It
   * is one that is asked for itself: of a glob's member that is gone, a server that was not told of
   * it says nothing, and it would be held for ever.
   */
  #resumeVersions(
    typeUrl: string,
    subscriptions: readonly SourceSubscription[],
  ): ReadonlyMap<string, string> {
    const versions = new Map<string, string>();
    for (const { projection, upstreamVersion } of this.#contents.entries(typeUrl)) {
      versions.set(wireText(projection.name.key), upstreamVersion);
    }
    const known = new Set<SourceSubscription>();
    const singletons: SourceSubscription[] = [];
    for (const subscription of subscriptions) {
      const [member] = subscription.name.isGlob
        ? this.#contents.members(typeUrl, subscription.name)
        : [];
      if (!versions.has(textOf(subscription)) && !member) continue;
      known.add(subscription);
      if (!subscription.name.isGlob) singletons.push(subscription);
    }
    // Another one each time: go-control-plane never answers for a name that was deleted meanwhile.
    const provoking = singletons[this.#streams % singletons.length];
    if (provoking) known.delete(provoking);
    if (provoking) versions.delete(textOf(provoking));
    this.#resumed.set(typeUrl, [...known]);
    return versions;
  }

  #changeRequest(nowMs: number): DeltaRequest | undefined {
    const names = this.#pending.take();
    if (!names) return undefined;
    this.#startTimers(names.added, nowMs);
    return requestFor(names.typeUrl, names.asked, names.left, NO_VERSIONS);
  }

  nextDeadlineMs(): number | undefined {
    const unanswered = this.#unansweredDueMs() ?? Infinity;
    const quiet = Math.min(this.#quietAtMs ?? Infinity, this.#unsure.nextDeadlineMs ?? Infinity);
    const atMs = Math.min(unanswered, quiet, ...this.#partial.values());
    return atMs === Infinity ? undefined : atMs;
  }

  /** When the longest unanswered name counts as timed out. */
  #unansweredDueMs(): number | undefined {
    for (;;) {
      const { first } = this.#unanswered;
      if (!first) return undefined;
      if (first.subscription.deadlineMs === first.deadlineMs) return first.deadlineMs;
      this.#unanswered.shift();
    }
  }

  handleTimer(nowMs: number): void {
    for (const [typeUrl, dueMs] of this.#partial) {
      if (dueMs <= nowMs) this.#settleResumed(typeUrl);
    }
    for (const glob of this.#unsure.takeDue(nowMs)) {
      if (glob.status !== 'present') this.#contents.settleKnown(glob);
    }
    if (this.#quietAtMs !== undefined && this.#quietAtMs <= nowMs) {
      this.#quietAtMs = undefined;
      // Globs that are told whole owe nothing: without this they would keep a group from its primary
      // until they time out. A stream without any answer is for the health of the source to judge.
      if (this.#answeredTypes.size > 0) this.handleQuietResume();
    }
    for (
      let dueMs = this.#unansweredDueMs();
      dueMs !== undefined;
      dueMs = this.#unansweredDueMs()
    ) {
      if (dueMs > nowMs) return;
      const due = this.#unanswered.shift();
      if (due) this.#contents.timeOut(due.subscription);
    }
  }

  #startTimers(subscriptions: readonly SourceSubscription[], nowMs: number): void {
    const deadlineMs = nowMs + this.#options.resourceTimeoutMs;
    for (const subscription of subscriptions) {
      if (subscription.status !== 'requested') continue;
      subscription.deadlineMs = deadlineMs;
      this.#unanswered.push({ subscription, deadlineMs });
    }
  }

  #settleLater(glob: SourceSubscription): void {
    const { typeUrl } = glob;
    const waiting = this.#resumed.get(typeUrl) ?? [];
    if (waiting.at(-1) !== glob && !waiting.includes(glob)) waiting.push(glob);
    this.#resumed.set(typeUrl, waiting);
  }

  #settleResumed(typeUrl: string): void {
    this.#partial.delete(typeUrl);
    for (const subscription of this.#resumed.get(typeUrl) ?? []) {
      if (subscription.status === 'requested') this.#contents.settleKnown(subscription);
    }
    this.#resumed.delete(typeUrl);
  }
}

const textOf = ({ name }: { readonly name: ResourceName }): string => wireText(name.key);

function requestFor(
  typeUrl: string,
  subscribe: readonly string[],
  unsubscribe: readonly string[],
  initialVersions: ReadonlyMap<string, string>,
): DeltaRequest {
  return {
    node: undefined,
    typeUrl,
    subscribe,
    unsubscribe,
    initialVersions,
    responseNonce: '',
    errorDetail: undefined,
  };
}

/** xDS protocol: a name twice in one response, removed or not, is an error of the whole response. */
function firstDuplicate({ resources, removed }: DeltaResponse): string | undefined {
  if (resources.length + removed.length < 2) return undefined;
  const seen = new Set<string>();
  for (const { name } of resources) {
    if (seen.has(name)) return name;
    seen.add(name);
  }
  for (const name of removed) {
    if (seen.has(name)) return name;
    seen.add(name);
  }
  return undefined;
}

function nackDetail(refused: readonly Refusal[]): RpcStatus {
  const shown = refused
    .slice(0, MAX_REFUSALS_REPORTED)
    .map(({ name, reason }) => `${name} ${reason}`);
  const more = refused.length - shown.length;
  const message = shown.join('; ') + (more > 0 ? `; and ${more} more` : '');
  return { code: STATUS_CODE.invalidArgument, message };
}

/**
 * The client side of one delta ADS stream to a management server: which requests to send, how to
 * read responses, which ones to ACK or NACK. Bulk machine over `SourceContents`. It outlives
 * streams and restarts with each one (`handleOpened`).
 *
 * Servers are assumed to follow the xDS protocol page; comments name those that differ. Names to
 * subscribe or unsubscribe are merged here until the shell polls a request.
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
import { Answers, type AnswerWaits } from './answers.js';
import { PendingNames } from './pending-names.js';
import { readResource } from '../projection.js';
import { readPublishedName, type PublishingRights } from './published-name.js';
import type { SourceContents, SourceSubscription } from './source-contents.js';

/** A resource of a response that the gateway rejects, and why. */
export interface Refusal {
  readonly name: string;
  readonly reason: string;
}

/** The result of one response. */
export interface ResponseOutcome {
  readonly accepted: number;
  readonly refused: readonly Refusal[];
}

export interface DeltaStreamOptions extends PublishingRights, AnswerWaits {
  /** The encoded Node, for the first request of a stream. */
  readonly node: Uint8Array;
}

/** A response of this size may be a part of a larger one, and nothing marks the last part. */
const PARTIAL_RESPONSE_BYTES = 512 * 1_024;

/** The wildcard in its old-style spelling. */
const WILDCARD = '*';
const NO_VERSIONS: ReadonlyMap<string, string> = new Map();
/** Enough to find the mistake; the whole list would exceed a header. */
const MAX_REFUSALS_REPORTED = 10;

export class DeltaStream {
  readonly #contents: SourceContents;
  readonly #options: DeltaStreamOptions;

  // State of the present stream; `handleOpened` resets it.
  #nodeSent = false;
  #acks: DeltaRequest[] = [];
  #initialTypes: string[] = [];
  /** Types that had a response on this stream. Later removals of these types are not a resync. */
  readonly #answeredTypes = new Set<string>();
  /**
   * Until then removals may be a part of the response to the resume: a server may send them apart
   * from the changes.
   */
  #resyncUntilMs = -Infinity;
  readonly #answers: Answers;
  /** Number of streams opened so far. */
  #streams = 0;

  // Changes of subscriptions. Those made while no stream is open are not kept here: `handleOpened`
  // subscribes all names anew.
  readonly #pending = new PendingNames();
  #open = false;

  constructor(contents: SourceContents, options: DeltaStreamOptions) {
    this.#contents = contents;
    this.#options = options;
    this.#answers = new Answers(contents, options);
  }

  /** The contents have a new subscription. */
  handleSubscribed(subscription: SourceSubscription, nowMs: number): void {
    if (!this.#open) return;
    this.#pending.subscribe(subscription);
    this.#answers.handleSubscribed(subscription, nowMs);
  }

  handleUnsubscribed(subscription: SourceSubscription, nowMs: number): void {
    if (!this.#open) return;
    this.#pending.unsubscribe(subscription);
    this.#answers.handleUnsubscribed(subscription, nowMs);
  }

  /**
   * Requests a name again, whatever its status. Held content stays, and no deadline moves. A name
   * that is not held is unsubscribed first, since go-control-plane responds only then. A held name
   * is not: if the server deleted it between the two requests, it would never send the removal.
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
    this.#resyncUntilMs = -Infinity;
    this.#answers.restart();
    this.#contents.restart();
    this.#initialTypes = [...this.#contents.types()].sort((a, b) => typeRank(a) - typeRank(b));
  }

  handleEnded(): void {
    this.#open = false;
    this.#answers.restart();
    this.#acks = [];
    this.#initialTypes = [];
    this.#pending.clear();
    this.#contents.stopTimers();
  }

  /**
   * Does the server owe a response on this stream? It does for any name whose version was not sent.
   */
  owesResponse(): boolean {
    for (const typeUrl of this.#contents.types()) {
      for (const subscription of this.#contents.subscriptions(typeUrl)) {
        const isOwed = subscription.status === 'requested';
        if (isOwed && !this.#answers.isResumed(subscription)) return true;
      }
    }
    return false;
  }

  /** The server sent nothing, but is alive: all versions it was sent are current. */
  handleQuietResume(nowMs: number): void {
    this.#answers.handleQuiet(nowMs);
  }

  /** Is there a request to write? Changes are merged until it is polled. */
  get hasRequest(): boolean {
    return this.#acks.length + this.#initialTypes.length > 0 || !this.#pending.isEmpty;
  }

  /**
   * The next request to write, or undefined. ACKs and NACKs first, then the first request of each
   * type, then changes.
   */
  pollRequest(nowMs: number): DeltaRequest | undefined {
    const request = this.#acks.shift() ?? this.#initialRequest(nowMs) ?? this.#changeRequest(nowMs);
    if (!request || this.#nodeSent) return request;
    this.#nodeSent = true;
    return { ...request, node: this.#options.node };
  }

  /** @param bytes size of the response; a large one may be a part. */
  handleResponse(response: DeltaResponse, bytes: number, nowMs: number): ResponseOutcome {
    const { typeUrl } = response;
    const partial = bytes >= PARTIAL_RESPONSE_BYTES;
    const duplicate = firstDuplicate(response);
    if (duplicate !== undefined) {
      const refused = [{ name: duplicate, reason: 'occurs twice in one response' }];
      this.#acknowledge(response, refused);
      return { accepted: 0, refused };
    }
    const resync = !this.#answeredTypes.has(typeUrl) || nowMs < this.#resyncUntilMs;
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
      // The removal repeats a resource error, for clients without TP3.
      if (explained.has(text)) continue;
      const reason = this.#remove(typeUrl, text, resync, nowMs);
      if (reason !== undefined) refused.push({ name: text, reason });
    }
    this.#answeredTypes.add(typeUrl);
    this.#answers.handleResponse(typeUrl, partial, nowMs);
    if (!partial) this.#settleWildcard(response, nowMs);
    this.#acknowledge(response, refused);
    return { accepted, refused };
  }

  /**
   * The delta protocol cannot report an empty wildcard. A response of the type without members of
   * the wildcard does.
   */
  #settleWildcard({ typeUrl, resources, removed, errors }: DeltaResponse, nowMs: number): void {
    const { oldStyle } = this.#options;
    if (!oldStyle || errors.length > 0 || removed.some(isXdstp)) return;
    const wildcard = this.#contents.subscription(typeUrl, oldStyleName(oldStyle.scope, WILDCARD));
    if (wildcard?.status !== 'requested' && wildcard?.status !== 'timed_out') return;
    // A response with xdstp names or with names that are subscribed singly does not answer the
    // wildcard.
    const isAsked = (name: string): boolean =>
      this.#contents.subscription(typeUrl, oldStyleName(oldStyle.scope, name)) !== undefined;
    if (resources.some(({ name }) => isXdstp(name) || isAsked(name))) return;
    // A removal may answer an earlier subscription that has since been unsubscribed.
    if (removed.length > 0) this.#answers.handleMember(wildcard, 'shared', nowMs);
    else this.#answers.handleEmpty(wildcard, nowMs);
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
    // Sent before the unsubscribe arrived, or never requested: ignored, and no reason for a NACK.
    if (name.isGlob || !this.#contents.isWanted(typeUrl, name)) return undefined;
    const { ttlMs } = resource;
    const expiresAtMs = ttlMs === undefined ? undefined : nowMs + ttlMs;
    if (!resource.body) return this.#renew(typeUrl, name, resource.version, expiresAtMs);
    const projected = readResource(name, typeUrl, resource.typeUrl, resource.body);
    if (!projected.ok) {
      const glob = this.#contents.refuse(typeUrl, name);
      if (glob) this.#answers.handleMember(glob, 'part', nowMs);
      return projected.reason;
    }
    const { projection } = projected;
    const entry = { projection, upstreamVersion: resource.version, expiresAtMs };
    const glob = this.#contents.put(entry, resync);
    const isAsked = this.#contents.subscription(typeUrl, name) !== undefined;
    const event = isAsked ? 'shared' : partial ? 'part' : 'member';
    if (glob) this.#answers.handleMember(glob, event, nowMs);
    return undefined;
  }

  /**
   * xDS protocol, "TTL": a resource without a body is a heartbeat, which renews the version sent
   * before.
   */
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
    // It expired here but not at the server. Subscribing again makes the server send the body.
    const subscription = this.#contents.subscription(typeUrl, name);
    if (subscription) {
      this.#pending.unsubscribe(subscription);
      this.#pending.subscribe(subscription);
      return undefined;
    }
    // A glob is requested again only if a member's TTL ended here, not for a member that was never
    // held or was rejected: the server resends every member for the sake of one.
    const glob = this.#contents.globOf(typeUrl, name);
    // While the glob is unanswered, the next heartbeat will do.
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
    else if (glob) this.#answers.handleEmpty(glob, nowMs, status);
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
      this.#answers.handleRequested(subscriptions, nowMs);
      const initialVersions = this.#resumeVersions(typeUrl, subscriptions, nowMs);
      const asked = subscriptions.map(textOf);
      // The first form of a wildcard in the protocol, which every server understands: no names.
      const isWildcard = asked.length === 1 && asked[0] === WILDCARD;
      return requestFor(typeUrl, isWildcard ? [] : asked, [], initialVersions);
    }
  }

  /**
   * The versions for `initial_resource_versions`: all but one per type. A server without news owes
   * no response, and its silence would look like a hung server; the omitted name forces a response.
   * That name must be a singleton. If it were a glob member that the server has deleted, a server
   * that does not know the client's version never reports the removal, and the member would be held
   * for ever.
   */
  #resumeVersions(
    typeUrl: string,
    subscriptions: readonly SourceSubscription[],
    nowMs: number,
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
    // Omit another name on each stream: go-control-plane never answers for a name deleted
    // meanwhile.
    const provoking = singletons[this.#streams % singletons.length];
    if (provoking) known.delete(provoking);
    if (provoking) versions.delete(textOf(provoking));
    if (known.size === 0) return versions;
    if (this.#resyncUntilMs < nowMs) this.#resyncUntilMs = nowMs + this.#options.quietResumeMs;
    this.#answers.handleResumed(typeUrl, known, this.#resyncUntilMs);
    return versions;
  }

  #changeRequest(nowMs: number): DeltaRequest | undefined {
    const names = this.#pending.take();
    if (!names) return undefined;
    this.#answers.handleRequested(names.added, nowMs);
    return requestFor(names.typeUrl, names.asked, names.left, NO_VERSIONS);
  }

  nextDeadlineMs(): number | undefined {
    return this.#answers.nextDeadlineMs();
  }

  handleTimer(nowMs: number): void {
    this.#answers.handleTimer(nowMs, this.#answeredTypes.size > 0);
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

/**
 * xDS protocol: a name that occurs twice in one response, removed or not, invalidates the response.
 */
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

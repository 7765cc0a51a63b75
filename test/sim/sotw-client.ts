/**
 * A state-of-the-world client that behaves like Envoy's mux or gRPC's clients (docs/GRPC.md): each
 * request contains every wanted name of its type, a missing listener or cluster is deleted, and a
 * new stream starts with the last accepted version. It has no transport.
 */
import { MOST_DRIFT } from './clocks.js';
import { checkKeepsEndpoints, checkNotOlder, checkRemoved, type RemovalAt } from './held-checks.js';
import { checkPace, MOST_UNACKNOWLEDGED } from './in-flight.js';
import type { ModelClient, Received, WhichResponse, Written } from './model-client.js';
import { CDS, EDS, globOf, isGlob, LDS, markOf, partsOf, rankOf, wireName } from './names.js';
import { Violation, type Oracle } from './oracle.js';
import { mayHaveBeenDenied } from './rights.js';
import { checkPlaceholder } from './placeholders.js';
import { Random } from './random.js';
import { checkFirstMembers } from './sotw-sets.js';
import { checkErrors, checkKnown } from './said-nothing.js';
import { SotwOrder } from './sotw-order.js';
import { SotwSaid } from './sotw-said.js';
import {
  decodeResponse,
  encodeRequest,
  nodeBytes,
  resourcesByName,
  type SotwResponse,
} from './sotw-wire.js';
import type { SotwManners } from './sotw-manners.js';
import type { Resume } from './resumes.js';
import { newSotw, owes, startStream, wants, type Sotw, type SotwHeld } from './sotw-state.js';
import { checkWarming } from './warming.js';
import type { ClientSpec, WorldSpec } from './world.js';

export const isWhole = (typeUrl: string): boolean => typeUrl === LDS || typeUrl === CDS;

/**
 * With these faults a source may be silent long enough that a collection counts as whole (SPEC.md).
 */
const SILENCES = [
  'mute_names',
  'slow',
  'stall',
  'half_open',
  'partition',
  'black_hole',
  'spoil',
] as const;
/** 12 s, shortened by the error of the gateway's clock. */
const UNANSWERABLE_AFTER_MS = 12_000 * (1 - 2 * MOST_DRIFT);
const NOBODYS = { publications: [], reference: '' };

export class SotwClient implements ModelClient {
  readonly spec: ClientSpec;
  readonly manners: SotwManners;
  readonly #world: WorldSpec;
  readonly #oracle: Oracle;
  readonly #dice: Random;
  readonly #types = new Map<string, Sotw>();
  readonly excused = new Set<string>();
  readonly nacked = new Set<string>();
  /** Counts any response, also one without resources. */
  hasRefused = false;
  /** Every name subscribed on this stream: a response may be on its way when it is unsubscribed. */
  readonly #everAsked = new Set<string>();
  /** Names that this stream sent with real content. */
  readonly hadContent = new Set<string>();
  readonly #nonces = new Set<string>();
  readonly #order: SotwOrder;
  readonly #said: SotwSaid;
  #requests = 0;
  #responses = 0;
  #responsesOfStream = 0;
  #firstRequestMs = Infinity;
  #connectedMs = 0;
  /** Its request for clusters is still to come (ENVOY 24). */
  #isWarming = false;
  #process = '';
  /** Number of its present stream. */
  stream = 0;

  constructor(spec: ClientSpec, manners: SotwManners, world: WorldSpec, oracle: Oracle) {
    this.spec = spec;
    this.manners = manners;
    this.#world = world;
    this.#oracle = oracle;
    this.#order = new SotwOrder(oracle);
    this.#said = new SotwSaid(world.hasColdRules, spec.node, oracle);
    this.#dice = new Random(world.seed, spec.name);
  }

  get responses(): number {
    return this.#responses;
  }

  get responsesOfStream(): number {
    return this.#responsesOfStream;
  }

  get unacknowledgedSinceMs(): number | undefined {
    return this.#order.unansweredSinceMs(this.spec.acks?.mutedType);
  }

  isFull(typeUrl: string): boolean {
    return this.#order.waiting(typeUrl).length >= MOST_UNACKNOWLEDGED;
  }

  get typeUrls(): readonly string[] {
    return [...this.#types.keys()];
  }

  type(typeUrl: string): Sotw {
    let state = this.#types.get(typeUrl);
    if (!state) this.#types.set(typeUrl, (state = newSotw()));
    return state;
  }

  /** None: nothing would show which list a member came from (lists.ts). */
  listOf(): undefined {
    return undefined;
  }

  /**
   * Not an assignment that came as a member before it was subscribed by name, nor one that was
   * deleted and cannot be removed (GRPC 10).
   */
  expectsAgain(assignment: string): boolean {
    const { asked, offered } = this.type(EDS);
    const askedMs = asked.get(assignment)?.atMs ?? Infinity;
    if (typeof this.#oracle.truth(assignment) === 'string') return false;
    return askedMs <= (offered.get(assignment)?.sentMs ?? -Infinity);
  }

  // ---- requests -----------------------------------------------------------------------------

  hasAsked(typeUrl: string): boolean {
    return this.type(typeUrl).asked.size > 0;
  }

  change(
    typeUrl: string,
    subscribe: readonly string[],
    unsubscribe: readonly string[],
    nowMs: number,
  ): Uint8Array {
    const state = this.type(typeUrl);
    this.#ask(state, subscribe, nowMs);
    for (const name of unsubscribe) {
      // A request is a set: a name unsubscribed and subscribed in one request stays.
      if (subscribe.includes(name)) continue;
      state.subscribed.delete(name);
      state.named.delete(name);
      state.asked.delete(name);
      // It may be on its way by itself.
      state.seen.add(name);
      if (state.offered.has(name)) this.#noteMember(typeUrl, name);
    }
    for (const [name, { sentMs }] of state.offered) {
      if (wants(state, name)) continue;
      const request = state.untold.leave(name, this.#requests + 1);
      const hasEnded = this.#oracle.ends?.mayHaveEnded(this.#process, name, sentMs, nowMs) === true;
      // For the other types, only a version without the name reports the end of a TTL.
      const isUntold = request === undefined || (hasEnded && !isWhole(typeUrl));
      if (!isUntold) state.left.set(name, request);
    }
    for (const name of this.hadContent) {
      if (partsOf(name).typeUrl === typeUrl && !wants(state, name)) this.hadContent.delete(name);
    }
    const onTheirWay = this.#order.of(typeUrl).map(({ offered }) => offered);
    for (const map of [state.offered, state.held, ...onTheirWay]) {
      for (const name of map.keys()) if (!wants(state, name)) map.delete(name);
    }
    return this.#encode(typeUrl, {});
  }

  /** For types with whole sets, the version contains every held name, however it is subscribed. */
  #noteMember(typeUrl: string, name: string): void {
    const { subscribed, untold } = this.type(typeUrl);
    if (isWhole(typeUrl) || subscribed.has(name) || !subscribed.has(globOf(name))) return;
    untold.noteMoved(name, this.#requests + 1);
  }

  #ask(state: Sotw, names: readonly string[], atMs: number): void {
    const { subscribed, asked } = state;
    const isFirst = asked.size === 0 && state.nonce === '';
    for (const name of names) {
      subscribed.add(name);
      state.untold.noteAsked(name);
      this.#everAsked.add(name);
      // A name that a subscribed glob covers already is not a new request.
      const covering = asked.get(globOf(name));
      const request = covering?.request ?? this.#requests + 1;
      if (!asked.has(name)) asked.set(name, { request, atMs });
    }
    this.#firstRequestMs = Math.min(this.#firstRequestMs, atMs);
    if (!isFirst) return;
    for (const name of names) if (!isGlob(name)) state.named.add(name);
    // Such a first request looks the same whether the client still holds the names that it left
    // (GRPC 6).
    for (const name of state.left.keys()) if (wants(state, name)) this.excused.add(name);
  }

  #encode(typeUrl: string, parts: RequestParts): Uint8Array {
    const state = this.type(typeUrl);
    const isFirst = this.#requests++ === 0;
    const names = [...state.subscribed].map(wireName);
    const { shuffles, wraps, repeatsNode } = this.manners;
    const inOrder = shuffles ? this.#dice.shuffled(names) : names;
    this.#said.noteRequest(typeUrl, [...names, ...(parts.more ?? [])], this.#requests);
    return encodeRequest({
      versionInfo: parts.versionInfo ?? state.version,
      node: isFirst || repeatsNode ? nodeBytes(this.spec.told.node, wraps) : undefined,
      names: [...inOrder, ...(parts.more ?? [])],
      typeUrl,
      responseNonce: parts.nonce ?? state.nonce,
      isRefused: parts.isRefused ?? false,
    });
  }

  oddRequest(typeUrl: string, kind: number): Uint8Array {
    const { version, lastNonce, nonce, subscribed } = this.type(typeUrl);
    // A late ACK of a response that was answered already.
    const stale = this.#dice.chance(0.5) && lastNonce !== '' ? lastNonce : 'never sent';
    if (kind === 0) return this.#encode(typeUrl, { nonce: stale });
    if (kind === 2) return this.#encode(typeUrl, { nonce: stale, isRefused: true });
    const isAnswered = this.#order.of(typeUrl).length === 0;
    if (this.#dice.chance(0.5) && isAnswered && subscribed.size > 0) {
      return this.#encode(typeUrl, { nonce, versionInfo: `${version}?` });
    }
    const stranger = `xdstp://stranger/${typeUrl.slice(typeUrl.indexOf('/') + 1)}/x`;
    this.#everAsked.add(stranger);
    return this.#encode(typeUrl, {
      more: [stranger, 'xdstp://', ...[...subscribed].map(wireName)],
    });
  }

  lie(): void {
    for (const state of this.#types.values()) {
      if (state.version !== '') state.version = 'never given';
      for (const map of [state.held, state.offered, state.left, state.untold]) map.clear();
    }
  }

  /** Drops some names that it subscribes, while its version claims them. */
  dropSome(dice: Random): void {
    for (const { held, subscribed } of this.#types.values()) {
      for (const name of dice.some([...subscribed], 0.6)) held.delete(name);
    }
  }

  noteCrash(): void {}

  claimed(): readonly (readonly [string, SotwHeld])[] {
    const claiming = this.typeUrls.filter((typeUrl) => this.type(typeUrl).claims === 'all');
    return claiming.filter(isWhole).flatMap((typeUrl) => [...this.type(typeUrl).held]);
  }

  /** The gateway may end only a stream that never had a response (gRFC A71). */
  noteEnded(nowMs: number): void {
    const isDue =
      nowMs - this.#firstRequestMs >= UNANSWERABLE_AFTER_MS && this.#responsesOfStream === 0;
    if (this.#world.sotw.endsUnanswerable && isDue) return;
    throw new Violation('19', `${this.spec.name} has its stream ended`);
  }

  acknowledge(
    accept: boolean,
    nowMs: number,
    which: WhichResponse = () => true,
  ): Uint8Array | undefined {
    const answered = this.#order.take(nowMs, which);
    if (!answered) return undefined;
    const { typeUrl, nonce, versionInfo, readRequests, order, offered } = answered;
    const state = this.type(typeUrl);
    if (order > state.nonceOrder) {
      state.lastNonce = state.nonce;
      state.nonce = nonce;
      state.nonceOrder = order;
    } else state.lastNonce = nonce;
    const takes = accept || this.manners.tellsRefusedVersion;
    // The client holds what the newest accepted response says.
    if (takes && order > state.acceptedOrder) {
      state.acceptedOrder = order;
      state.untold.noteAccepted(readRequests, state.version === versionInfo);
      state.version = versionInfo;
      state.covered = answered.covered;
      state.held.clear();
      for (const [name, one] of offered) state.held.set(name, one);
      for (const [name, request] of state.left) {
        if (readRequests >= request) state.left.delete(name);
      }
    }
    this.#said.noteAnswered(answered, accept ? undefined : this.#requests + 1);
    if (!accept) {
      this.hasRefused = true;
      for (const name of state.offered.keys()) this.nacked.add(name);
    }
    return this.#encode(typeUrl, { nonce, isRefused: !accept });
  }

  reconnect(
    process: string,
    resume: Resume,
    nowMs: number,
    isWarming: boolean,
  ): readonly Uint8Array[] {
    this.#nonces.clear();
    this.#order.clear();
    this.#said.clear();
    this.#everAsked.clear();
    this.hadContent.clear();
    this.stream++;
    this.#requests = 0;
    this.#responsesOfStream = 0;
    this.#process = process;
    this.#firstRequestMs = Infinity;
    this.#connectedMs = nowMs;
    this.#isWarming = isWarming;
    const all = [...this.#types].sort(([a], [b]) => rankOf(a) - rankOf(b));
    for (const [, state] of all) startStream(state, resume);
    const inOrder = this.manners.shuffles ? this.#dice.shuffled(all) : all;
    const first = inOrder.filter(([typeUrl]) => !isWarming || typeUrl !== CDS);
    return first.flatMap(([typeUrl, state]) => this.#resume(typeUrl, state, nowMs) ?? []);
  }

  endWarming(nowMs: number): Uint8Array | undefined {
    this.#isWarming = false;
    return this.#resume(CDS, this.type(CDS), nowMs);
  }

  /** @returns the first request for a type on this stream, if the client has subscriptions of the type */
  #resume(typeUrl: string, state: Sotw, nowMs: number): Uint8Array | undefined {
    if (state.subscribed.size === 0) return undefined;
    this.#ask(state, [...state.subscribed], nowMs);
    // While its source is unreachable, the name is in no version of this stream either.
    if (!isWhole(typeUrl)) {
      for (const name of state.held.keys()) state.untold.noteMoved(name, this.#requests + 1);
    }
    return this.#encode(typeUrl, {});
  }

  // ---- responses ----------------------------------------------------------------------------

  receive(written: Written): Received {
    const { bytes, sentMs, readRequests } = written;
    const response = decodeResponse(bytes, this.spec.node);
    this.#responses++;
    this.#responsesOfStream++;
    const { typeUrl, nonce, versionInfo } = response;
    const arrived = resourcesByName(response);
    this.#checkEnvelope(response, arrived, sentMs);
    const state = this.type(typeUrl);
    const isOwed = (name: string): boolean => owes(state, name, readRequests);
    // Not new: what came before this subscription, and what the client's version claims.
    const isNews = (name: string): boolean =>
      isOwed(name) && !state.offered.has(name) && !state.seen.has(name) && !this.excused.has(name);
    const bringsNew = [...arrived.keys()].some(isNews);
    if (isWhole(typeUrl)) {
      const { faults, extras } = this.#world;
      const isTold = extras.size === 0 && SILENCES.every((fault) => !faults.has(fault));
      if (isTold && !this.#world.map.clients)
        checkFirstMembers(this.#oracle, state, arrived, readRequests);
      state.seen.clear();
      // An empty set reports every subscribed name as absent.
      if (arrived.size === 0 && this.#world.hasColdRules) {
        const owed = [...state.subscribed].filter(
          (name) => isOwed(name) && !this.#mayBeDenied(name),
        );
        checkKnown(this.#oracle, this.#process, owed);
      }
    }
    for (const name of arrived.keys()) {
      state.seen.add(name);
      state.untold.noteArrived(name, readRequests);
    }
    const removed = isWhole(typeUrl)
      ? [...state.offered.keys()].filter((name) => !arrived.has(name) && isOwed(name))
      : [];
    // A placeholder goes when its name is unsubscribed, even if the glob is still subscribed.
    const standsIn = (name: string): boolean => state.offered.get(name)?.publications.length === 0;
    const went = removed.filter((name) => this.hadContent.has(name) && !standsIn(name));
    this.#order.check({ typeUrl, resources: arrived.size, removed: went, sentMs });
    if (this.#isWarming && this.#toldOfClusters(typeUrl, readRequests)) {
      const hasContent = arrived.size > 0 && went.length === 0;
      checkWarming(this.spec.name, { typeUrl, hasContent, sentMs }, this.#connectedMs);
    }
    for (const [name, body] of arrived) {
      const taken = this.#take(typeUrl, name, body, written);
      if (taken && isOwed(name)) state.offered.set(name, taken);
    }
    // Resources that the client does not claim may come later than the others (GRPC 8).
    const isLate = (name: string): boolean =>
      state.claims === 'nothing' &&
      arrived.size > 0 &&
      state.offered.get(name)?.stream !== this.stream;
    for (const name of removed) if (!isLate(name)) this.#remove(state, name, sentMs);
    if (isWhole(typeUrl)) {
      for (const name of state.offered.keys()) if (!arrived.has(name)) state.offered.delete(name);
      this.#oracle.checkSet(typeUrl, versionInfo, arrived);
    }
    const order = this.#responses;
    const names = [...arrived.keys()];
    const sent = { typeUrl, nonce, versionInfo, readRequests, sentMs, order, bringsNew, names };
    this.#said.check(sent, arrived);
    // A set has exactly its names. A part adds to what came before, and the gateway may not know yet what
    // the client left.
    const before = isWhole(typeUrl) ? [] : [...state.offered.keys(), ...state.left.keys()];
    const covered = new Set([...names, ...before]);
    this.#order.push({ ...sent, offered: new Map(state.offered), covered, isPassedOver: false });
    const errors = response.errors.map(({ name, code }) => `${name} ${code}`);
    return { typeUrl, nonce, resources: names.map((name) => ({ name })), removed, errors };
  }

  /** Does the gateway know that the client has clusters, or wait for the request that says so? */
  #toldOfClusters(typeUrl: string, readRequests: number): boolean {
    const { asked, toldOfClusters } = this.type(EDS);
    if (!toldOfClusters || asked.size === 0) return false;
    const isRead = [...asked.values()].some(({ request }) => request <= readRequests);
    const { subscribed, claims } = this.type(typeUrl);
    // gRPC clients have no collections.
    const mayWait = typeUrl === LDS && claims !== 'nothing' && [...subscribed].some(isGlob);
    return isRead || mayWait;
  }

  #checkEnvelope(
    response: SotwResponse,
    arrived: ReadonlyMap<string, Uint8Array>,
    sentMs: number,
  ): void {
    const { nonce, typeUrl, errors } = response;
    if (nonce === '' || this.#nonces.has(nonce)) {
      throw new Violation('5', `nonce ${nonce} is not new`);
    }
    this.#nonces.add(nonce);
    checkPace(typeUrl, this.#order.waiting(typeUrl), sentMs);
    for (const name of arrived.keys()) {
      if (this.#everAsked.has(name) || this.#everAsked.has(globOf(name))) continue;
      throw new Violation('12', `${name} was not subscribed`);
    }
    if (this.#world.hasColdRules) checkErrors(this.#oracle, this.#process, errors, []);
  }

  /** @returns what the client now holds, if it wants it. */
  #take(
    typeUrl: string,
    name: string,
    body: Uint8Array,
    { sentMs, readRequests }: Written,
  ): SotwHeld | undefined {
    const state = this.type(typeUrl);
    const before = state.offered.get(name);
    const isPlaceholder = this.#world.sotw.placeholders && markOf(body) === undefined;
    // The gateway cannot know of held resources that the client does not claim.
    const isUnsaid = state.claims === 'nothing' && before?.stream !== this.stream;
    if (isPlaceholder) {
      checkPlaceholder(this, name, body, { sentMs, readRequests }, isUnsaid ? undefined : before);
    }
    const { publications, reference } = isPlaceholder
      ? NOBODYS
      : this.#oracle.checkContent(name, undefined, body);
    const hasContent = before !== undefined && before.publications.length > 0;
    const isReplaced = isPlaceholder && hasContent && before.stream === this.stream;
    if (isReplaced && !this.#mayBeDenied(name)) {
      checkRemoved(this.#oracle, name, before, this.#removalAt(state, sentMs));
    }
    if (!wants(state, name)) return undefined;
    if (!isPlaceholder) this.hadContent.add(name);
    checkNotOlder(name, publications, before, this.#process);
    const sent = { body, publications, process: this.#process, sentMs };
    checkKeepsEndpoints(this.#oracle, name, sent, before, this.#connectedMs);
    // A client that sees a new resource, or new endpoints, initializes it anew without a resend.
    const renewed = before?.reference !== reference;
    const same = before && Buffer.compare(before.body, body) === 0;
    this.excused.delete(name);
    return {
      body,
      publications,
      reference,
      stream: this.stream,
      order: this.#responses,
      changedAt: renewed ? 0 : same ? before.changedAt : this.#responses,
      process: this.#process,
      sentMs,
    };
  }

  /**
   * It may have been denied to this client, or granted again after it was. A name that was unsubscribed while its glob
   * stays subscribed is a member of that glob from then on, and goes if the glob is denied (seed 111285).
   */
  #mayBeDenied(name: string): boolean {
    const { subscribed } = this.type(partsOf(name).typeUrl);
    const glob = globOf(name);
    const isMember = !subscribed.has(name) && subscribed.has(glob);
    const { maps } = this.#oracle.history;
    return [name, ...(isMember ? [glob] : [])].some((one) =>
      mayHaveBeenDenied(maps, this.spec.name, one),
    );
  }

  #removalAt({ claims }: Sotw, sentMs: number): RemovalAt {
    return { process: this.#process, sentMs, isClaimed: claims === 'all' };
  }

  /** The set lacks the name, which deletes it (invariants 3, 17, 19). */
  #remove(state: Sotw, name: string, sentMs: number): void {
    const { offered, asked } = state;
    const held = offered.get(name);
    if (!held) return;
    if (held.publications.length === 0) {
      // It must stay while the name is subscribed, on its stream.
      if (held.stream !== this.stream || (asked.get(name)?.atMs ?? Infinity) > held.sentMs) return;
      throw new Violation('19', `${name} has lost its placeholder`);
    }
    if (this.#mayBeDenied(name)) return;
    checkRemoved(this.#oracle, name, held, this.#removalAt(state, sentMs));
    if (!this.hadContent.has(name)) {
      // A resumed version that matches exactly counts as sent.
      this.hadContent.add(name);
      return;
    }
    const untilMs = this.#oracle.guardedUntil(name, [...offered.keys()], this.#firstRequestMs) ?? 0;
    const hasEnded = this.#oracle.ends?.mayHaveEnded(this.#process, name, 0, sentMs) === true;
    if (sentMs < untilMs && !hasEnded)
      throw new Violation('guard', `${name} is left out unguarded`);
  }
}

interface RequestParts {
  readonly versionInfo?: string;
  readonly nonce?: string;
  readonly isRefused?: boolean;
  readonly more?: readonly string[];
}

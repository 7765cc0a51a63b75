/**
 * The simulated delta client: its subscriptions, what it holds, and the rules of the protocol and
 * of docs/SPEC.md that every response must keep. It has no transport.
 */
import { decodeDeltaResponse } from '../../protos/delta-codec.js';
import {
  checkEnvelope,
  encodeRequest,
  namedResponse,
  oddParts,
  type RequestParts,
} from './delta-wire.js';
import {
  checkKeepsEndpoints,
  checkNotOlder,
  checkRemoved,
  instanceOf,
  sinceOf,
} from './held-checks.js';
import { DeltaOrder, WHOLE_BYTES } from './delta-order.js';
import { DeltaStream, type DeltaHeld, type TypeState, type Unanswered } from './delta-state.js';
import { checkPace, LastSaid, MOST_UNACKNOWLEDGED, waitingOf } from './in-flight.js';
import type { Held, ModelClient, Received, WhichResponse, Written } from './model-client.js';
import {
  isGlob,
  isList,
  isListed,
  CDS,
  EDS,
  authorityOf,
  globOf,
  partsOf,
  rankOf,
  RDS,
} from './names.js';
import { Violation, type Oracle } from './oracle.js';
import { Random } from './random.js';
import { checkErrors, checkKnown } from './said-nothing.js';
import { mayHaveBeenDenied } from './rights.js';
import { checkWarming } from './warming.js';
import { hasClusterMark, toldVersions, type Resume } from './resumes.js';
import type { ClientSpec, WorldSpec } from './world.js';

const NO_AUTHORITY = '';
/** The state file may be out of date by this much. */
const STATE_FILE_LAG_MS = 3_000;

interface ResourceSent {
  readonly typeUrl: string;
  readonly name: string;
  readonly version: string;
  readonly body: Uint8Array;
}

export class Client implements ModelClient {
  readonly spec: ClientSpec;
  readonly #world: WorldSpec;
  readonly #oracle: Oracle;
  readonly #types = new Map<string, TypeState>();
  /** Members whose removal no instance can know of; docs/SPEC.md names these limits. */
  readonly excused = new Set<string>();
  /** Names not held, though the client claimed them. */
  readonly #lies = new Set<string>();
  /**
   * Names held until unsubscribed or subscribed again: a response then on its way brings no news.
   */
  readonly #forgotten = new Set<string>();
  /** Names of refused responses: all names in such a response count as refused. */
  readonly nacked = new Set<string>();
  readonly #order: DeltaOrder;
  readonly #listAskedMs = new Map<string, number>();
  /** By name: every version that it ever had. */
  readonly #versions = new Map<string, Set<string>>();
  readonly #lastSaid: LastSaid;
  #orders = 0;
  readonly #dice: Random;
  #stream = new DeltaStream('', 0);

  constructor(spec: ClientSpec, world: WorldSpec, oracle: Oracle) {
    this.spec = spec;
    this.#world = world;
    this.#oracle = oracle;
    this.#lastSaid = new LastSaid(world.hasColdRules, oracle);
    this.#dice = new Random(world.seed, `resumes of ${spec.name}`);
    this.#order = new DeltaOrder(spec.name, world);
  }

  get responses(): number {
    return this.#orders;
  }

  get unacknowledgedSinceMs(): number | undefined {
    const mutedType = this.spec.acks?.mutedType;
    return this.#stream.unacknowledged.find(({ typeUrl }) => typeUrl !== mutedType)?.sentMs;
  }

  isFull(typeUrl: string, name: string): boolean {
    // Its present list is due the name, whichever lists the client had before (seed 22639).
    const list = isListed(name) ? this.listOf(typeUrl) : undefined;
    const own = this.#waiting(
      typeUrl,
      list === undefined ? this.#subscriptionsOf(typeUrl, [name]) : authorityOf(list),
    );
    // An empty response may answer the wildcard of any authority (seed 17084).
    const empty = this.#waiting(typeUrl, NO_AUTHORITY);
    return own.length + empty.length >= MOST_UNACKNOWLEDGED;
  }

  #waiting(typeUrl: string, authority: string): readonly Unanswered[] {
    return waitingOf(this.#stream.unacknowledged).filter(
      (one) => one.typeUrl === typeUrl && one.authority === authority,
    );
  }

  get typeUrls(): readonly string[] {
    return [...this.#types.keys()];
  }

  type(typeUrl: string): TypeState {
    let state = this.#types.get(typeUrl);
    if (!state) {
      state = { subscribed: new Set(), offered: new Map(), held: new Map() };
      this.#types.set(typeUrl, state);
    }
    return state;
  }

  #wants(typeUrl: string, name: string): boolean {
    const { subscribed } = this.type(typeUrl);
    return subscribed.has(name) || this.#isMember(typeUrl, name);
  }

  /** Is it a member of a subscribed glob or list? */
  #isMember(typeUrl: string, name: string): boolean {
    if (!isListed(name)) return this.type(typeUrl).subscribed.has(globOf(name));
    const list = this.listOf(typeUrl);
    return list !== undefined && this.#oracle.everListed(list, name);
  }

  /** The list of this type that is subscribed. */
  listOf(typeUrl: string): string | undefined {
    for (const name of this.type(typeUrl).subscribed) if (isList(name)) return name;
    return undefined;
  }

  // ---- requests -----------------------------------------------------------------------------

  /** A name that is subscribed again is forgotten, since the server must resend it. */
  change(
    typeUrl: string,
    subscribe: readonly string[],
    unsubscribe: readonly string[],
    nowMs: number,
  ): Uint8Array {
    const state = this.type(typeUrl);
    for (const name of unsubscribe) {
      state.subscribed.delete(name);
      this.#stream.left.add(name);
      // A glob that covers it may now send it.
      this.#lastSaid.noteAsked(name, this.#stream.requests + 1);
      for (const one of this.#stream.untold) {
        if (globOf(one) === name && state.subscribed.has(one)) this.#excuse(typeUrl, one, false);
      }
    }
    this.#dropUnwanted(typeUrl);
    for (const name of subscribe) {
      if (state.subscribed.has(name)) this.#forget(typeUrl, name);
      state.subscribed.add(name);
      this.#lastSaid.noteAsked(name, this.#stream.requests + 1);
      if (isList(name)) this.#listAskedMs.set(typeUrl, nowMs);
      this.#stream.everAsked.add(name);
      // The next message is a response to this request, whatever the client holds.
      if (state.offered.has(name)) this.#stream.untold.add(name);
    }
    return this.#encode({ typeUrl, subscribe, unsubscribe });
  }

  /** The first request of a stream carries the Node. */
  #encode(parts: RequestParts): Uint8Array {
    const { node, told } = this.spec;
    const saysNode = node !== undefined && !this.#stream.saidNode;
    this.#stream.saidNode = true;
    this.#stream.requests++;
    return encodeRequest(parts, saysNode ? told.node : undefined);
  }

  /** Drops what was unsubscribed, even if a later subscription covers it. */
  #dropUnwanted(typeUrl: string): void {
    this.#drop(typeUrl, (name) => !this.#wants(typeUrl, name));
  }

  #forget(typeUrl: string, asked: string): void {
    const { subscribed } = this.type(typeUrl);
    this.#drop(typeUrl, (name) => {
      if (isList(asked)) return isListed(name);
      return name === asked || (globOf(name) === asked && !subscribed.has(name));
    });
  }

  #drop(typeUrl: string, isMeant: (name: string) => boolean): void {
    const { held, offered } = this.type(typeUrl);
    const onTheirWay = this.#stream.unacknowledged.filter((one) => one.typeUrl === typeUrl);
    for (const map of [held, offered, ...onTheirWay.map(({ taken }) => taken)]) {
      for (const name of [...map.keys()].filter(isMeant)) {
        map.delete(name);
        this.#forgotten.add(name);
      }
    }
  }

  /** The client loses what it holds and will send versions that no server gave it. */
  lie(): void {
    for (const { held, offered } of this.#types.values()) {
      for (const name of held.keys()) this.#lies.add(name);
      held.clear();
      offered.clear();
    }
  }

  dropSome(dice: Random): void {
    for (const { held } of this.#types.values()) {
      for (const name of dice.some([...held.keys()], 0.5)) held.delete(name);
    }
  }

  expectsAgain(assignment: string): boolean {
    return this.type(EDS).subscribed.has(assignment);
  }

  /** Has this stream sent a request for this type? An empty first request would be a wildcard. */
  hasAsked(typeUrl: string): boolean {
    return [...this.#stream.everAsked].some((name) => partsOf(name).typeUrl === typeUrl);
  }

  oddRequest(typeUrl: string, kind: number): Uint8Array {
    return this.#encode(oddParts(typeUrl, kind));
  }

  /** A process died; its knowledge of members is lost unless the state file has it. */
  noteCrash(instance: string, nowMs: number): void {
    const { extras } = this.#world;
    // A bad disk may lose the file, and a clock that was set forward may expire it.
    const isKept = !extras.has('disk') && !extras.has('clocks') && !this.#world.hasColdStarts;
    const hasStateFile = this.#world.hasStateFile && isKept;
    for (const { held } of this.#types.values()) {
      for (const [name, one] of held) {
        const isWritten = hasStateFile && nowMs - one.sentMs > STATE_FILE_LAG_MS;
        if (instanceOf(one.process) !== instance || isWritten) continue;
        this.excused.add(name);
        // No process knows it as a member any more, whatever the ending stream still says.
        held.set(name, { ...one, asMember: false });
      }
    }
  }

  /** A refused response changes nothing. */
  acknowledge(accept: boolean, nowMs: number, which?: WhichResponse): Uint8Array | undefined {
    const at = this.#stream.unacknowledged.findIndex((one) => which?.(one) ?? true);
    const [received] = at < 0 ? [] : this.#stream.unacknowledged.splice(at, 1);
    if (!received) return undefined;
    const { order } = received;
    for (const one of this.#stream.unacknowledged) {
      // A response without names may be of any authority (seed 305967).
      const isSame = received.authority === NO_AUTHORITY || one.authority === received.authority;
      if (one.typeUrl === received.typeUrl && isSame) {
        one.isPassedOver ||= one.order < received.order;
      }
    }
    this.#order.noteAnswered(received, waitingOf(this.#stream.unacknowledged), nowMs);
    const { typeUrl, nonce, removed } = received.response;
    const refused = accept ? undefined : { request: this.#stream.requests + 1, atMs: nowMs };
    for (const name of received.names) this.#lastSaid.noteAnswered(name, order, refused);
    if (!accept) for (const name of received.names) this.nacked.add(name);
    const parts = { typeUrl, responseNonce: nonce };
    if (!accept) return this.#encode({ ...parts, errorDetail: { code: 13, message: 'refused' } });
    const { held } = this.type(typeUrl);
    // A newer accepted response about a name takes precedence.
    const isNewest = (name: string): boolean => (this.#stream.accepted.get(name) ?? 0) < order;
    for (const [name, one] of received.taken) {
      if (isNewest(name) && this.#wants(typeUrl, name)) held.set(name, one);
    }
    for (const name of removed) if (isNewest(name)) held.delete(name);
    for (const name of received.names) if (isNewest(name)) this.#stream.accepted.set(name, order);
    return this.#encode(parts);
  }

  noteEnded(): void {}

  /** It has no sets. */
  claimed(): readonly [] {
    return [];
  }

  /** @returns the first requests on a new stream, in Envoy's order. */
  reconnect(
    process: string,
    resume: Resume,
    nowMs: number,
    isWarming: boolean,
  ): readonly Uint8Array[] {
    this.#lastSaid.clear();
    this.#stream = new DeltaStream(process, nowMs);
    this.#stream.clustersResume = isWarming ? resume : undefined;
    const inOrder = [...this.#types].sort(([a], [b]) => rankOf(a) - rankOf(b));
    for (const [, { offered, held }] of inOrder) {
      offered.clear();
      for (const [name, one] of held) offered.set(name, one);
    }
    const first = inOrder.filter(([typeUrl]) => !isWarming || typeUrl !== CDS);
    return first.flatMap(([typeUrl, state]) => this.#resume(typeUrl, state, resume) ?? []);
  }

  endWarming(): Uint8Array | undefined {
    const { clustersResume } = this.#stream;
    this.#stream.clustersResume = undefined;
    return clustersResume && this.#resume(CDS, this.type(CDS), clustersResume);
  }

  /** @returns the first request for a type on this stream, if the client has subscriptions of the type */
  #resume(typeUrl: string, state: TypeState, resume: Resume): Uint8Array | undefined {
    const { subscribed, held } = state;
    for (const name of subscribed) {
      this.#stream.everAsked.add(name);
      this.#lastSaid.noteAsked(name, this.#stream.requests + 1);
    }
    if (subscribed.size === 0) return undefined;
    const mayTell = [...held].filter(([name]) => this.spec.resumesMembers || subscribed.has(name));
    const told = new Map(toldVersions(mayTell, resume, this.#dice));
    for (const [name, { asMember, process: from }] of held) {
      if (told.has(name)) continue;
      this.#stream.untold.add(name);
      const { process } = this.#stream;
      this.#excuse(typeUrl, name, !asMember || instanceOf(from) !== instanceOf(process));
    }
    for (const name of this.#lies) {
      const isOurs = partsOf(name).typeUrl === typeUrl && this.#wants(typeUrl, name);
      if (isOurs) told.set(name, 'never given');
    }
    this.#stream.toldOfClusters ||= typeUrl === EDS && [...told.values()].some(hasClusterMark);
    return this.#encode({ typeUrl, subscribe: [...subscribed], initialVersions: told });
  }

  /** Which held names that the client does not mention are beyond the gateway's knowledge. */
  #excuse(typeUrl: string, name: string, isUnknown: boolean): void {
    const isSilent = this.#world.silentAbsentRoutes && typeUrl === RDS;
    const asName = this.type(typeUrl).subscribed.has(name);
    if (asName && !isSilent) this.excused.delete(name);
    else if (asName || isUnknown) this.excused.add(name);
  }

  // ---- responses ----------------------------------------------------------------------------

  receive({ bytes, sentMs, readRequests }: Written): Received {
    this.#orders++;
    const decoded = decodeDeltaResponse(bytes, Infinity);
    if (!decoded.ok) throw new Violation('wire', decoded.reason);
    const response = namedResponse(decoded.message, this.spec.node);
    const { typeUrl, nonce, resources, removed } = response;
    const names = [...resources.map(({ name }) => name), ...removed];
    const received: Unanswered = {
      ...{ typeUrl, nonce, readRequests, response, order: this.#orders, isPassedOver: false },
      names,
      taken: new Map(),
      authority: this.#subscriptionsOf(typeUrl, [
        ...names,
        ...response.errors.map(({ name }) => name),
      ]),
      sentMs,
      bringsNew: resources.some(({ name }) => this.#isNews(typeUrl, name)),
    };
    this.#checkEnvelope(received);
    const { offered } = this.type(typeUrl);
    const gone = removed.filter((name) => {
      const held = offered.get(name);
      if (!held || this.#stream.untold.has(name)) return false;
      // It answers a later request, and may come at any time (seed 102568).
      const isOurs =
        held.process === this.#stream.process && held.sentMs >= this.#stream.connectedMs;
      return !isOurs || !this.#lastSaid.isAskedSince(name, held.readRequests);
    });
    if (received.authority !== NO_AUTHORITY) {
      this.#order.check(received, waitingOf(this.#stream.unacknowledged), gone);
    }
    const { toldOfClusters, clustersResume, connectedMs } = this.#stream;
    if (toldOfClusters && clustersResume) {
      checkWarming(
        this.spec.name,
        { typeUrl, hasContent: resources.length > 0, sentMs },
        connectedMs,
      );
    }
    for (const { name, version, body } of resources) {
      if (body === undefined) throw new Violation('wire', `${name} has no content`);
      const taken = this.#take({ typeUrl, name, version, body }, { sentMs, readRequests });
      if (taken) received.taken.set(name, taken);
    }
    this.#checkGuard(removed, sentMs);
    for (const name of removed) this.#remove(typeUrl, name, sentMs);
    this.#stream.unacknowledged.push(received);
    const errors = response.errors.map(({ name, status: { code } }) => `${name} ${code}`);
    return { typeUrl, nonce, resources, removed, errors };
  }

  #isNews(typeUrl: string, name: string): boolean {
    const isKnown = this.type(typeUrl).offered.has(name) || this.#lies.has(name);
    return this.#wants(typeUrl, name) && !isKnown && !this.#forgotten.has(name);
  }

  #checkEnvelope(received: Unanswered): void {
    const { response, names } = received;
    const { nonce } = response;
    if (nonce === '' || this.#stream.nonces.has(nonce)) {
      throw new Violation('5', `nonce ${nonce} is not new`);
    }
    this.#stream.nonces.add(nonce);
    checkEnvelope(response, names);
    for (const name of names) {
      if (this.#stream.everAsked.has(name) || this.#stream.everAsked.has(globOf(name))) continue;
      if (isListed(name) && this.#wasListed(name)) continue;
      throw new Violation('12', `${name} was not subscribed`);
    }
    if (this.#world.hasColdRules) {
      const { process, toldEmpty } = this.#stream;
      const errors = response.errors.map(({ name, status: { code } }) => ({ name, code }));
      checkErrors(this.#oracle, process, errors, [...toldEmpty, ...names]);
    }
    this.#checkInFlight(received);
  }

  #checkInFlight({ response, names, authority, ...sent }: Unanswered): void {
    const { typeUrl, resources } = response;
    // A response in several parts goes on without an ACK. Members of a list may be of any
    // authority.
    const isPlain = authority !== NO_AUTHORITY && !names.some(isListed);
    if (isPlain && this.#world.chunkBytes >= WHOLE_BYTES) {
      const waiting = this.#waiting(typeUrl, authority);
      const plain = waiting.filter((one) => !one.names.some(isListed));
      checkPace(`${typeUrl} of ${authority}`, plain, sent.sentMs);
    }
    const versions = new Map(resources.map(({ name, version }) => [name, version]));
    const lists = [...this.#stream.everAsked].filter(isList);
    for (const name of names) {
      // Lists of two authorities may lead to one name, and each sends it.
      if (isListed(name) && lists.length > 1) continue;
      const questions = isListed(name) ? lists : [name, globOf(name), ...this.#clustersOf(name)];
      const clusters = typeUrl === EDS ? this.#heldClustersOf(name) : [];
      this.#lastSaid.check(name, versions.get(name), sent, questions, clusters);
    }
  }

  /** An assignment follows its cluster, which is resent if it is subscribed again. */
  #clustersOf(name: string): readonly string[] {
    const { authority, typeUrl } = partsOf(name);
    if (typeUrl !== EDS) return [];
    return [...this.#stream.everAsked].filter((one) => {
      const asked = partsOf(one);
      return asked.typeUrl === CDS && asked.authority === authority;
    });
  }

  #heldClustersOf(assignment: string): readonly string[] {
    const held = [...this.type(CDS).offered];
    return held.filter(([, { reference }]) => reference === assignment).map(([name]) => name);
  }

  #wasListed(name: string): boolean {
    return [...this.#stream.everAsked].some(
      (one) => isList(one) && this.#oracle.everListed(one, name),
    );
  }

  /**
   * The authority of a response. List members count for their list; a response without names, or of members of a list
   * of one of several authorities (seed 5004267), for none.
   */
  #subscriptionsOf(typeUrl: string, names: readonly string[]): string {
    const [first] = names;
    if (first === undefined) return NO_AUTHORITY;
    const plain = names.find((name) => !isListed(name));
    if (plain !== undefined) return authorityOf(plain);
    const lists = [...this.#stream.everAsked].filter(
      (one) => isList(one) && partsOf(one).typeUrl.startsWith(typeUrl),
    );
    const [authority, ...others] = new Set(lists.map(authorityOf));
    return others.length > 0 ? NO_AUTHORITY : (authority ?? authorityOf(first));
  }

  /** @returns what the client now holds, if it wants it. */
  #take(
    { typeUrl, name, version, body }: ResourceSent,
    { sentMs, readRequests }: Omit<Written, 'bytes'>,
  ): DeltaHeld | undefined {
    const { publications, reference } = this.#oracle.checkContent(name, version, body);
    if (!this.#wants(typeUrl, name) || this.#isOfOtherList(typeUrl, name, sentMs)) return undefined;
    const { offered } = this.type(typeUrl);
    const before = offered.get(name);
    checkNotOlder(name, publications, before, this.#stream.process);
    // A client that sees a new resource, or new endpoints, initializes it anew without a resend.
    const renewed = before?.reference !== reference;
    const same = before && Buffer.compare(before.body, body) === 0;
    // The gateway cannot know of a resource that changed and changed back while not mentioned.
    const isBack = this.#hadBefore(name, version) && this.#stream.untold.has(name);
    const taken: DeltaHeld = {
      version,
      body: Uint8Array.from(body),
      publications,
      reference,
      order: this.#orders,
      changedAt: renewed || isBack ? 0 : same ? before.changedAt : this.#orders,
      process: this.#stream.process,
      sentMs,
      asMember: this.#isMember(typeUrl, name),
      readRequests,
    };
    checkKeepsEndpoints(this.#oracle, name, taken, before, this.#stream.connectedMs);
    offered.set(name, taken);
    this.excused.delete(name);
    this.#stream.untold.delete(name);
    this.#lies.delete(name);
    this.#forgotten.delete(name);
    return taken;
  }

  /** @returns whether it ever had this name in this version. */
  #hadBefore(name: string, version: string): boolean {
    const had = this.#versions.get(name) ?? new Set<string>();
    this.#versions.set(name, had);
    return had.size === had.add(version).size;
  }

  /** Written before the present list was requested, so it belongs to a previous list. */
  #isOfOtherList(typeUrl: string, name: string, sentMs: number): boolean {
    return isListed(name) && sentMs < (this.#listAskedMs.get(typeUrl) ?? 0);
  }

  /**
   * Names that a source lost at once are held back for a while (docs/FAILOVER.md, "Deletion
   * guard").
   */
  #checkGuard(removed: readonly string[], sentMs: number): void {
    for (const name of removed) {
      const { offered } = this.type(partsOf(name).typeUrl);
      const held = offered.get(name);
      if (held?.process !== this.#stream.process || this.#stream.untold.has(name) || isListed(name))
        continue;
      const untilMs =
        this.#oracle.guardedUntil(name, [...offered.keys()], this.#stream.connectedMs) ?? 0;
      const mayGo = this.#mayHaveEnded(name, 0, sentMs) || this.#mayBeDenied(name);
      if (sentMs < untilMs && !mayGo) throw new Violation('guard', `${name} is removed unguarded`);
    }
  }

  #remove(typeUrl: string, name: string, sentMs: number): void {
    const { offered } = this.type(typeUrl);
    const held = offered.get(name);
    this.excused.delete(name);
    offered.delete(name);
    if (isGlob(name)) this.#stream.toldEmpty.add(name);
    if (this.#mayBeDenied(name)) return;
    if (!held) {
      if (this.#world.hasColdRules) checkKnown(this.#oracle, this.#stream.process, [name]);
      const isAllowed = isList(name)
        ? this.#oracle.mayBeEmpty(name)
        : isListed(name) ||
          this.#oracle.mayBeAbsent(name, 0) ||
          this.#oracle.mayHaveTimedOut(name, sentMs);
      if (!isAllowed && !this.#mayHaveEnded(name, 0, sentMs)) {
        throw new Violation('3', `${name} is reported absent, but never was`);
      }
      return;
    }
    const isLeaving = isListed(name) && this.#mayLeaveList(typeUrl, name, held, sentMs);
    // The instance does not know of a name that the client subscribes but did not mention.
    const isClaimed = !this.#stream.untold.has(name) || !this.type(typeUrl).subscribed.has(name);
    const removal = { process: this.#stream.process, sentMs, isClaimed };
    if (!isLeaving) checkRemoved(this.#oracle, name, held, removal);
  }

  /**
   * It may have been denied to this client, or granted again after it was. A name that was unsubscribed
   * while its glob stays subscribed is a member of that glob from then on, and goes if the glob is denied: its
   * own right no longer counts (docs/SECURITY.md: a client gets what it requests, and a glob needs all of its
   * directory). Found by seed 7226.
   */
  #mayBeDenied(name: string): boolean {
    const { maps } = this.#oracle.history;
    const { everAsked, left } = this.#stream;
    const isMember = !this.type(partsOf(name).typeUrl).subscribed.has(name) || left.has(name);
    const glob = isMember && everAsked.has(globOf(name)) ? [globOf(name)] : [];
    return [name, ...glob].some((one) => mayHaveBeenDenied(maps, this.spec.name, one));
  }

  /** A resource with a TTL expires without a removal by its source. */
  #mayHaveEnded(name: string, sinceMs: number, atMs: number): boolean {
    return this.#oracle.ends?.mayHaveEnded(this.#stream.process, name, sinceMs, atMs) ?? false;
  }

  #mayLeaveList(typeUrl: string, name: string, held: Held, sentMs: number): boolean {
    const list = this.listOf(typeUrl);
    const sinceMs = sinceOf(held, this.#stream.process);
    if (!list || this.#oracle.mayLeaveList(list, name, sinceMs)) return true;
    return this.#mayHaveEnded(list, sinceMs, sentMs);
  }
}

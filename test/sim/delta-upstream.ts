/** The side of a simulated server of one delta stream. */
import { decodeDeltaRequest } from '../../protos/delta-codec.js';
import type { DeltaRequest } from '../../protos/discovery.js';
import {
  globOf,
  isGlob,
  lengthDelimited,
  markOf,
  nameOfWire,
  partsOf,
  rankOf,
  wireName,
} from './names.js';
import { Violation } from './oracle.js';
import type { Upstream } from './upstream.js';
import {
  encodeHeartbeat,
  encodeResource,
  isAccepted,
  type Delivered,
  type ServerStream,
  type StreamPort,
} from './upstream-wire.js';

/** Subscribed names, each with the versions that its request sent. */
type Subscribed = ReadonlyMap<string, ReadonlyMap<string, string>>;

interface TypeState {
  readonly names: Set<string>;
  readonly known: Map<string, string>;
}

export class DeltaUpstreamStream implements ServerStream {
  readonly #server: Upstream;
  readonly #peer: string;
  readonly #port: StreamPort;
  readonly #types = new Map<string, TypeState>();
  /** Nonces without an ACK, with the names sent under them. */
  readonly #unacknowledged = new Map<string, readonly string[]>();
  /** Those with heartbeats. */
  readonly #heartbeats = new Set<string>();
  #hasAnswered = false;
  /** The node, which identifies old-style names. */
  #node: string | undefined;
  /** By type: names that were subscribed during a silence, each with the versions of its request. */
  readonly #owed = new Map<string, Subscribed>();

  constructor(server: Upstream, peer: string, port: StreamPort) {
    this.#server = server;
    this.#peer = peer;
    this.#port = port;
  }

  get unacknowledgedCount(): number {
    return this.#unacknowledged.size - this.#heartbeats.size;
  }

  subscribed(): readonly string[] {
    return [...this.#types.values()].flatMap(({ names }) => [...names]);
  }

  receive(bytes: Uint8Array): void {
    const decoded = decodeDeltaRequest(bytes, Infinity);
    if (!decoded.ok)
      throw new Violation('wire', `a request that cannot be read: ${decoded.reason}`);
    const request = this.#named(decoded.message);
    if (this.#node === undefined && !request.node)
      throw new Violation('wire', 'a first request without node');
    this.#node ??= this.#port.nodeOf(request.node!);
    this.#takeNonce(request);
    this.#checkVersions(request);
    this.#answer(request);
  }

  /** The request with names that include their node. */
  #named(request: DeltaRequest): DeltaRequest {
    const { typeUrl, subscribe, unsubscribe, initialVersions } = request;
    const isAck = this.#types.has(typeUrl) && subscribe.length + unsubscribe.length === 0;
    if (isAck && initialVersions.size === 0) return request;
    const node = this.#node ?? (request.node && this.#port.nodeOf(request.node));
    const named = (wire: string): string => nameOfWire(wire, typeUrl, node);
    // The first request of a type without names is a wildcard.
    const isFirst = request.responseNonce === '' && !this.#types.has(typeUrl);
    const isWildcard = isFirst && subscribe.length === 0;
    const versions = [...initialVersions].map(([wire, one]) => [named(wire), one] as const);
    return {
      ...request,
      subscribe: isWildcard ? [named('*')] : subscribe.map(named),
      unsubscribe: unsubscribe.map(named),
      initialVersions: new Map(versions),
    };
  }

  /** Every response is acknowledged or refused exactly once (invariant 5). */
  #takeNonce({ responseNonce }: DeltaRequest): void {
    this.#heartbeats.delete(responseNonce);
    if (responseNonce === '' || this.#unacknowledged.delete(responseNonce)) return;
    throw new Violation('5', `nonce ${responseNonce} is acknowledged, but was not waiting for it`);
  }

  /** A server receives only versions that it gave (invariant 10). */
  #checkVersions({ initialVersions }: DeltaRequest): void {
    const issued = this.#server.issuedTo(this.#peer);
    for (const [name, version] of initialVersions) {
      if (issued.get(name)?.has(version)) continue;
      throw new Violation(
        '10',
        `${this.#server.name} gets version ${version} of ${name}, which it never gave`,
      );
    }
  }

  #answer({ typeUrl, subscribe, unsubscribe, initialVersions }: DeltaRequest): void {
    const state = this.#state(typeUrl);
    for (const [name, version] of initialVersions) state.known.set(name, version);
    for (const name of unsubscribe) this.#leave(state, name);
    for (const name of subscribe) state.names.add(name);
    const asked = new Map(subscribe.map((name) => [name, initialVersions] as const));
    if (this.#server.missing?.isSilent === true) this.#owe(typeUrl, asked, unsubscribe);
    else this.#answerNames(typeUrl, asked);
  }

  #owe(typeUrl: string, asked: Subscribed, unsubscribed: readonly string[]): void {
    const owed = new Map(this.#owed.get(typeUrl));
    for (const name of unsubscribed) owed.delete(name);
    for (const [name, versions] of asked) owed.set(name, versions);
    this.#owed.set(typeUrl, owed);
  }

  /**
   * A server sends every name that a request subscribes, also if it believes that the client has it
   * (`resource_names_subscribe` of DeltaDiscoveryRequest): only the versions in that request count.
   * Found by seed 9519, where it sent nothing to a collection.
   */
  answerAll(): void {
    for (const [typeUrl] of this.#inPushOrder()) {
      const owed = this.#owed.get(typeUrl);
      if (owed) this.#answerNames(typeUrl, owed);
    }
    this.#owed.clear();
  }

  #answerNames(typeUrl: string, names: Subscribed): void {
    const server = this.#server;
    const { stateOfTheWorld, mute } = server.temper;
    const due = new Set<string>();
    const removed = new Set<string>();
    for (const [name, versions] of names) {
      if (mute.has(name)) continue;
      const isKnown = (one: string): boolean =>
        !stateOfTheWorld && versions.get(one) === server.told(one)?.version;
      if (isGlob(name)) this.#answerGlob(name, this.#state(typeUrl), isKnown, due, removed);
      else if (!server.told(name)) removed.add(name);
      else if (!isKnown(name)) due.add(name);
    }
    if (due.size + removed.size > 0) this.#push(typeUrl, due, removed, true);
  }

  #answerGlob(
    glob: string,
    { known }: TypeState,
    isKnown: (name: string) => boolean,
    due: Set<string>,
    removed: Set<string>,
  ): void {
    const members = this.#server.toldNames.filter((name) => globOf(name) === glob);
    for (const member of members) if (!isKnown(member)) due.add(member);
    for (const name of known.keys()) {
      if (globOf(name) === glob && !members.includes(name)) removed.add(name);
    }
    if (members.length === 0) removed.add(glob);
  }

  announce(names: readonly string[]): void {
    if (this.#server.missing?.isSilent === true) return;
    for (const [typeUrl, state] of this.#inPushOrder()) {
      const { names: asked } = state;
      const isWanted = (name: string): boolean =>
        (asked.has(name) && !this.#isMute(name)) ||
        (asked.has(globOf(name)) && !this.#isMute(globOf(name)));
      const concerned = names.filter((name) => partsOf(name).typeUrl === typeUrl && isWanted(name));
      if (concerned.length === 0) continue;
      const all = this.#server.temper.stateOfTheWorld;
      const due = all ? this.#server.toldNames.filter((name) => isWanted(name)) : concerned;
      const ofType = due.filter((name) => partsOf(name).typeUrl === typeUrl);
      const gone = concerned.filter((name) => !this.#server.get(name));
      this.#push(typeUrl, new Set(ofType), new Set(gone), false);
    }
  }

  renew(names: readonly string[]): void {
    for (const [typeUrl, { names: asked, known }] of this.#types) {
      const due = names.filter((name) => {
        const isAsked = asked.has(name) || asked.has(globOf(name));
        return isAsked && known.get(name) === this.#server.told(name)?.version;
      });
      if (due.length === 0) continue;
      const resources = due.map((name) => encodeHeartbeat(name, this.#server.get(name)!));
      const delivered = due.map((name) => this.#delivered(name, true));
      this.#heartbeats.add(this.sendResponse(typeUrl, resources, [], due, delivered));
    }
  }

  #delivered(name: string, isHeartbeat: boolean): Delivered {
    const { ttlMs, body, isRedirect } = this.#server.get(name)!;
    return { name, ttlMs, mark: isHeartbeat || isRedirect ? undefined : markOf(body) };
  }

  #isMute(name: string): boolean {
    return this.#server.temper.mute.has(name);
  }

  #inPushOrder(): readonly (readonly [string, TypeState])[] {
    return [...this.#types].sort(([one], [other]) => rankOf(one) - rankOf(other));
  }

  /** Sends the present state of these resources, and these removals. */
  #push(
    typeUrl: string,
    names: ReadonlySet<string>,
    removed: ReadonlySet<string>,
    isAnswer: boolean,
  ): void {
    // A stream that is about to end sends no further pieces.
    const pieces = this.#server.temper.flapAfterMs === undefined ? this.#server.pieces : undefined;
    const all = [...names];
    const cut = pieces?.cut(all, isAnswer) ?? [{ items: all, afterMs: 0 }];
    const deathMs = pieces?.deathMs(cut);
    const said = cut.filter(({ afterMs }) => deathMs === undefined || afterMs <= deathMs);
    for (const piece of said) {
      const isLast = piece === cut.at(-1);
      this.#sendPiece(typeUrl, piece.items, isLast ? removed : new Set(), piece.afterMs);
    }
    if (deathMs !== undefined) this.#port.end(this.#server.temper.slowMs + deathMs);
  }

  #sendPiece(
    typeUrl: string,
    names: readonly string[],
    removed: ReadonlySet<string>,
    afterMs: number,
  ): void {
    const { known } = this.#state(typeUrl);
    const resources = names.flatMap((name) => {
      const resource = this.#server.told(name);
      if (!resource) return [];
      known.set(name, resource.version);
      this.#noteIssued(name, resource.version);
      return [encodeResource(typeUrl, name, resource)];
    });
    for (const name of removed) known.delete(name);
    const isTaken = (name: string): boolean => isAccepted(this.#server.told(name));
    const there = this.#server.ttlFor ? names.filter(isTaken) : [];
    const delivered = there.map((name) => this.#delivered(name, false));
    this.sendResponse(typeUrl, resources, [...removed], names, delivered, afterMs);
  }

  #noteIssued(name: string, version: string): void {
    const issued = this.#server.issuedTo(this.#peer);
    const versions = issued.get(name);
    if (versions) versions.add(version);
    else issued.set(name, new Set([version]));
  }

  sendResponse(
    typeUrl: string,
    resources: readonly Buffer[],
    removed: readonly string[],
    names: readonly string[] = [],
    delivered: readonly Delivered[] = [],
    afterMs = 0,
  ): string {
    const nonce = this.#server.nextNonce();
    this.#unacknowledged.set(nonce, names);
    const fields = [
      ...resources.map((resource) => lengthDelimited(2, resource)),
      lengthDelimited(4, Buffer.from(typeUrl)),
      lengthDelimited(5, Buffer.from(nonce)),
      ...removed.map((name) => lengthDelimited(6, Buffer.from(wireName(name)))),
    ];
    const { slowMs, flapAfterMs } = this.#server.temper;
    this.#port.write(Buffer.concat(fields), slowMs + afterMs, delivered);
    if (!this.#hasAnswered && flapAfterMs !== undefined) this.#port.end(slowMs + flapAfterMs);
    this.#hasAnswered = true;
    return nonce;
  }

  sendBytes(bytes: Buffer): void {
    this.#port.write(bytes, 0, []);
  }

  end(): void {
    this.#port.end(0);
  }

  /**
   * A name that is on its way when it is unsubscribed may be taken for a member of a glob
   * subscribed next, so it counts as known until the ACK.
   */
  #leave({ names, known }: TypeState, name: string): void {
    names.delete(name);
    const onTheirWay = new Set([...this.#unacknowledged.values()].flat());
    for (const member of [...known.keys()]) {
      const left = member === name || (isGlob(name) && globOf(member) === name);
      const wanted = names.has(member) || names.has(globOf(member));
      if (left && !wanted && !onTheirWay.has(member)) known.delete(member);
    }
  }

  #state(typeUrl: string): TypeState {
    let state = this.#types.get(typeUrl);
    if (!state) this.#types.set(typeUrl, (state = { names: new Set(), known: new Map() }));
    return state;
  }
}

/**
 * A simulated management server. It publishes, and it responds on delta streams correctly or with
 * one of the failures of real servers. Its messages go through `StreamPort`.
 */
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
  REDIRECT,
  wireName,
} from './names.js';
import type { Missing } from './missing.js';
import { Violation } from './oracle.js';
import { SotwUpstreamStream } from './sotw-upstream.js';
import type { Pieces } from './pieces.js';

export interface Resource {
  readonly version: string;
  readonly body: Buffer;
  readonly isRedirect: boolean;
  /** Its TTL, if no heartbeat comes. */
  readonly ttlMs?: number | undefined;
}

/** Its present failures; healing resets all of them. */
export interface Temper {
  /** New streams are refused, refused with a permanent status, or get no response. */
  reachability: 'up' | 'refuse' | 'reject' | 'black_hole';
  /** Each change resends all resources of its type, and `initial_resource_versions` are ignored. */
  stateOfTheWorld: boolean;
  /** Delay of each response. */
  slowMs: number;
  /** Time from the first response of a stream to its end. */
  flapAfterMs: number | undefined;
  /** Names that get no response. */
  readonly mute: Set<string>;
  /** Resources with a TTL get no heartbeat. */
  noHeartbeats: boolean;
}

/** A resource that reached a process, with content or as a heartbeat. */
export interface Delivered {
  readonly name: string;
  /** Undefined: no TTL. */
  readonly ttlMs: number | undefined;
  /** The mark of its content when it was sent. */
  readonly mark: number | undefined;
}

/** The way from the server to one client. */
export interface StreamPort {
  /** @param delivered the resources in it, for the check of TTLs */
  write(bytes: Buffer, delayMs: number, delivered: readonly Delivered[]): void;
  /** Ends the stream after everything written. */
  end(afterMs: number): void;
}

/** The server's side of one stream. */
export interface ServerStream {
  /** Heartbeats are not counted: one is always on its way. */
  readonly unacknowledgedCount: number;
  subscribed(): readonly string[];
  receive(bytes: Uint8Array): void;
  /** Responds to every subscription, after a silence. */
  answerAll(): void;
  /** Sends the present state of these names. */
  announce(names: readonly string[]): void;
  /** Sends heartbeats for names whose present version the stream has received. */
  renew(names: readonly string[]): void;
  /** Sends any response, including one that no correct server would send. @returns its nonce. */
  sendResponse(typeUrl: string, resources: readonly Buffer[], removed: readonly string[]): string;
  sendBytes(bytes: Buffer): void;
  end(): void;
}

interface TypeState {
  readonly names: Set<string>;
  readonly known: Map<string, string>;
}

export class Upstream {
  readonly name: string;
  readonly temper: Temper = {
    reachability: 'up',
    stateOfTheWorld: false,
    slowMs: 0,
    flapAfterMs: undefined,
    mute: new Set(),
    noHeartbeats: false,
  };
  /** Its streams are of the state of the world. */
  readonly isSotw: boolean;
  readonly streams = new Set<ServerStream>();
  /** Undefined: each response is one message. */
  pieces: Pieces | undefined;
  /** Undefined: it started long ago and has its full content. */
  missing: Missing | undefined;
  /** The TTL of the next publication; undefined: none ever. */
  ttlFor: (() => number | undefined) | undefined;
  /** Replaces the streams if this is a directory. */
  onAnnounced: ((names: readonly string[]) => void) | undefined;
  readonly #resources = new Map<string, Resource>();
  /** By receiving process: the versions of each name that it was sent. */
  readonly #issued = new Map<string, Map<string, Set<string>>>();
  #versions = 0;
  #nonces = 0;

  constructor(name: string, isSotw: boolean) {
    this.name = name;
    this.isSotw = isSotw;
  }

  mend(): void {
    const { temper } = this;
    temper.reachability = 'up';
    temper.stateOfTheWorld = false;
    temper.slowMs = 0;
    temper.flapAfterMs = undefined;
    temper.mute.clear();
    temper.noHeartbeats = false;
  }

  /** Sends heartbeats for all resources with a TTL on every stream. */
  renew(): void {
    const withTtl = this.names.filter((name) => this.get(name)?.ttlMs !== undefined);
    for (const stream of this.streams) stream.renew(withTtl);
  }

  /** It has its full content from now on. */
  release(): void {
    const { missing } = this;
    if (!missing) return;
    this.missing = undefined;
    if (missing.isSilent) for (const stream of this.streams) stream.answerAll();
    else this.announce(this.names.filter((name) => !missing.kept.has(name)));
  }

  /** The resource as the server sends it now. */
  told(name: string): Resource | undefined {
    const { missing } = this;
    return missing && !missing.kept.has(name) ? undefined : this.#resources.get(name);
  }

  get toldNames(): readonly string[] {
    return this.missing ? this.names.filter((name) => this.told(name)) : this.names;
  }

  get names(): readonly string[] {
    return [...this.#resources.keys()];
  }

  get(name: string): Resource | undefined {
    return this.#resources.get(name);
  }

  set(name: string, body: Buffer, isRedirect: boolean): void {
    const version = `${this.name}.${++this.#versions}`;
    this.#resources.set(name, { version, body, isRedirect, ttlMs: this.ttlFor?.() });
  }

  delete(name: string): void {
    this.#resources.delete(name);
  }

  /** Sends the present state of these names on every stream. */
  announce(names: readonly string[]): void {
    for (const stream of this.streams) stream.announce(names);
    this.onAnnounced?.(names);
  }

  nextNonce(): string {
    return `${this.name}:${++this.#nonces}`;
  }

  open(peer: string, port: StreamPort): ServerStream {
    const stream = this.isSotw
      ? new SotwUpstreamStream(this, port)
      : new DeltaUpstreamStream(this, peer, port);
    this.streams.add(stream);
    return stream;
  }

  /** @param peer one process of one gateway */
  issuedTo(peer: string): Map<string, Set<string>> {
    let issued = this.#issued.get(peer);
    if (!issued) this.#issued.set(peer, (issued = new Map<string, Set<string>>()));
    return issued;
  }
}

class DeltaUpstreamStream implements ServerStream {
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
    this.#node ??= nodeIdOf(request.node!);
    this.#takeNonce(request);
    this.#checkVersions(request);
    this.#answer(request);
  }

  /** The request with names that include their node. */
  #named(request: DeltaRequest): DeltaRequest {
    const { typeUrl, subscribe, unsubscribe, initialVersions } = request;
    const isAck = this.#types.has(typeUrl) && subscribe.length + unsubscribe.length === 0;
    if (isAck && initialVersions.size === 0) return request;
    const node = this.#node ?? (request.node && nodeIdOf(request.node));
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
    this.#answerNames(typeUrl, subscribe, initialVersions);
  }

  answerAll(): void {
    for (const [typeUrl, { names, known }] of this.#inPushOrder()) {
      this.#answerNames(typeUrl, [...names], new Map(known));
    }
  }

  #answerNames(
    typeUrl: string,
    names: readonly string[],
    versions: ReadonlyMap<string, string>,
  ): void {
    const server = this.#server;
    const { stateOfTheWorld, mute } = server.temper;
    if (server.missing?.isSilent === true) return;
    const isKnown = (one: string): boolean =>
      !stateOfTheWorld && versions.get(one) === server.told(one)?.version;
    const due = new Set<string>();
    const removed = new Set<string>();
    for (const name of names) {
      if (mute.has(name)) continue;
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
    const there = this.#server.ttlFor ? names.filter((name) => this.#server.told(name)) : [];
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

/** `envoy.service.discovery.v3.Resource` */
export function encodeResource(typeUrl: string, name: string, resource: Resource): Buffer {
  const { version, body, isRedirect, ttlMs } = resource;
  const any = Buffer.concat([
    lengthDelimited(1, Buffer.from(isRedirect ? REDIRECT : typeUrl)),
    lengthDelimited(2, body),
  ]);
  return Buffer.concat([
    lengthDelimited(1, Buffer.from(version)),
    lengthDelimited(2, any),
    lengthDelimited(3, Buffer.from(wireName(name))),
    ...(ttlMs === undefined ? [] : [ttlField(ttlMs)]),
  ]);
}

/** The same without a body. */
export function encodeHeartbeat(name: string, { version, ttlMs = 0 }: Resource): Buffer {
  return Buffer.concat([
    lengthDelimited(1, Buffer.from(version)),
    lengthDelimited(3, Buffer.from(wireName(name))),
    ttlField(ttlMs),
  ]);
}

/** A `google.protobuf.Duration` of less than 128 s. */
const ttlField = (ttlMs: number): Buffer =>
  lengthDelimited(6, Buffer.from([0x08, Math.floor(ttlMs / 1_000)]));

/** Field 1 of a Node comes first. */
export const nodeIdOf = (node: Uint8Array): string =>
  Buffer.from(node.subarray(2, 2 + node[1]!)).toString();

/**
 * The side of a simulated server of one state-of-the-world stream. It sends whole sets of listeners
 * and clusters, and any part of the other types. As cruel as the protocol allows: it ignores
 * requests with an old nonce, sends what was requested long ago, and says nothing about names that
 * it lacks.
 */
import { decodeSotwRequest } from '../../protos/sotw-codec.js';
import {
  globOf,
  isGlob,
  isList,
  lengthDelimited,
  markOf,
  nameOfWire,
  partsOf,
  rankOf,
} from './names.js';
import { Violation } from './oracle.js';
import type { Upstream } from './upstream.js';
import {
  encodeHeartbeat,
  encodeResource,
  isAccepted,
  isWholeType,
  type Delivered,
  type ServerStream,
  type StreamPort,
} from './upstream-wire.js';

const RESOURCE = 'type.googleapis.com/envoy.service.discovery.v3.Resource';

interface TypeState {
  names: ReadonlySet<string>;
  /** The first request had no names, and no later one had any. */
  isWildcard: boolean;
  lastNonce: string;
  readonly nonces: Set<string>;
  readonly versions: Set<string>;
  /** Names that were sent, with their versions. */
  readonly known: Map<string, string>;
  /** It withholds the answer, since it has not all of the names. */
  isOwed: boolean;
}

export class SotwUpstreamStream implements ServerStream {
  readonly #server: Upstream;
  readonly #port: StreamPort;
  readonly #types = new Map<string, TypeState>();
  readonly #unacknowledged = new Set<string>();
  readonly #heartbeats = new Set<string>();
  #hasAnswered = false;
  #node: string | undefined;

  constructor(server: Upstream, port: StreamPort) {
    this.#server = server;
    this.#port = port;
  }

  get unacknowledgedCount(): number {
    return this.#unacknowledged.size - this.#heartbeats.size;
  }

  /** A wildcard that was requested without names cannot be left. */
  subscribed(): readonly string[] {
    return [...this.#types.values()].flatMap(({ names, isWildcard }) =>
      isWildcard ? [] : [...names],
    );
  }

  receive(bytes: Uint8Array): void {
    const decoded = decodeSotwRequest(bytes, Infinity);
    if (!decoded.ok) {
      throw new Violation('wire', `a request that cannot be read: ${decoded.reason}`);
    }
    const { typeUrl, names: wires, versionInfo, responseNonce, node } = decoded.message;
    if (this.#node === undefined && !node)
      throw new Violation('wire', 'a first request without node');
    this.#node ??= this.#port.nodeOf(node!);
    const before = this.#types.get(typeUrl);
    this.#checkRequest(typeUrl, versionInfo, responseNonce);
    const isCurrent = responseNonce === (before?.lastNonce ?? '');
    this.#heartbeats.delete(responseNonce);
    this.#unacknowledged.delete(responseNonce);
    if (!isCurrent) return;
    const names = new Set(wires.map((wire) => nameOfWire(wire, typeUrl, this.#node)));
    if (names.size < wires.length) throw new Violation('9', `${typeUrl} has a name twice`);
    const isWildcard = names.size === 0 && (before?.isWildcard ?? true);
    if (isWildcard) names.add(nameOfWire('*', typeUrl, this.#node));
    const state = before ?? {
      names,
      isWildcard,
      lastNonce: '',
      nonces: new Set<string>(),
      versions: new Set<string>(),
      known: new Map<string, string>(),
      isOwed: false,
    };
    const added = [...names].filter((name) => !before?.names.has(name));
    state.names = names;
    state.isWildcard = isWildcard;
    this.#types.set(typeUrl, state);
    for (const name of [...state.known.keys()]) {
      if (!names.has(name) && !names.has(globOf(name))) state.known.delete(name);
    }
    if (!before || added.length > 0) this.#answer(typeUrl, state, added);
  }

  #checkRequest(typeUrl: string, version: string, nonce: string): void {
    const state = this.#types.get(typeUrl);
    if (version !== '' && state?.versions.has(version) !== true) {
      throw new Violation(
        '10',
        `${this.#server.name} gets version ${version}, which it never gave`,
      );
    }
    // A request for other names repeats a nonce.
    if (nonce !== '' && state?.nonces.has(nonce) !== true) {
      throw new Violation('5', `nonce ${nonce} was never sent on this stream`);
    }
  }

  answerAll(): void {
    for (const [typeUrl, state] of this.#inPushOrder()) {
      this.#answer(typeUrl, state, [...state.names]);
    }
  }

  announce(names: readonly string[]): void {
    for (const [typeUrl, state] of this.#inPushOrder()) {
      const concerned = names.filter((name) => isOf(state, typeUrl, name));
      // Seed 1721: what it withheld beside a mute name is due too, although no client requests that name any more.
      if (concerned.length === 0 && !state.isOwed) continue;
      const isAll = isWholeType(typeUrl) || this.#server.temper.stateOfTheWorld;
      this.#answer(typeUrl, state, isAll ? [...state.names] : concerned);
    }
  }

  /** Sends what it has of these names and globs; of a whole type everything, if only that nothing. */
  #answer(typeUrl: string, state: TypeState, names: readonly string[]): void {
    const { mute } = this.#server.temper;
    if (this.#server.missing?.isSilent === true) return;
    const isWhole = isWholeType(typeUrl);
    // Without the names that it withholds, the set would not be whole.
    state.isOwed = isWhole && [...mute].some((name) => isOf(state, typeUrl, name));
    if (state.isOwed) return;
    const asked = new Set(isWhole ? state.names : names);
    const sent = this.#server.toldNames.filter(
      (name) =>
        partsOf(name).typeUrl === typeUrl &&
        !mute.has(name) &&
        ((asked.has(name) && isOf(state, typeUrl, name)) || asked.has(globOf(name))),
    );
    if (sent.length > 0 || isWhole) this.#send(typeUrl, state, sent, []);
  }

  renew(names: readonly string[]): void {
    for (const [typeUrl, state] of this.#types) {
      const due = names.filter((name) => {
        const version = this.#server.told(name)?.version;
        return isOf(state, typeUrl, name) && state.known.get(name) === version;
      });
      if (due.length === 0) continue;
      const fields = due.map((name) => wrap(encodeHeartbeat(name, this.#server.get(name)!)));
      const delivered = due.map((name) => this.#delivered(name, true));
      this.#heartbeats.add(this.#write(typeUrl, state, fields, delivered));
    }
  }

  /** In a whole type, the present set comes before these resources: nothing else seems deleted. */
  sendResponse(typeUrl: string, resources: readonly Buffer[]): string {
    const state = this.#types.get(typeUrl);
    // A set without its full content would delete the rest.
    if (!state || (this.#server.missing && isWholeType(typeUrl))) return '';
    const present = this.#server.toldNames.filter((name) => isOf(state, typeUrl, name));
    return this.#send(typeUrl, state, isWholeType(typeUrl) ? present : [], resources.map(wrap));
  }

  #send(
    typeUrl: string,
    state: TypeState,
    names: readonly string[],
    more: readonly Buffer[],
  ): string {
    const fields = names.map((name) => {
      const resource = this.#server.told(name)!;
      state.known.set(name, resource.version);
      // Only a wrapper has the name of a redirect or list.
      const isPlain = !resource.isRedirect && resource.isSpoiled !== true;
      const isBare = isPlain && !isList(name) && resource.ttlMs === undefined;
      return isBare ? any(typeUrl, resource.body) : wrap(encodeResource(typeUrl, name, resource));
    });
    for (const name of [...state.known.keys()]) {
      if (isWholeType(typeUrl) && !names.includes(name)) state.known.delete(name);
    }
    const there = this.#server.ttlFor
      ? names.filter((name) => isAccepted(this.#server.told(name)))
      : [];
    const delivered = there.map((name) => this.#delivered(name, false));
    return this.#write(typeUrl, state, [...fields, ...more], delivered);
  }

  #delivered(name: string, isHeartbeat: boolean): Delivered {
    const { ttlMs, body, isRedirect } = this.#server.get(name)!;
    return { name, ttlMs, mark: isHeartbeat || isRedirect ? undefined : markOf(body) };
  }

  #write(
    typeUrl: string,
    state: TypeState,
    fields: readonly Buffer[],
    delivered: readonly Delivered[],
  ): string {
    const nonce = this.#server.nextNonce();
    const version = `w${nonce}`;
    state.lastNonce = nonce;
    state.nonces.add(nonce);
    state.versions.add(version);
    this.#unacknowledged.add(nonce);
    const { slowMs, flapAfterMs } = this.#server.temper;
    const bytes = Buffer.concat([
      lengthDelimited(1, Buffer.from(version)),
      ...fields,
      lengthDelimited(4, Buffer.from(typeUrl)),
      lengthDelimited(5, Buffer.from(nonce)),
    ]);
    this.#port.write(bytes, slowMs, delivered);
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

  #inPushOrder(): readonly (readonly [string, TypeState])[] {
    return [...this.#types].sort(([one], [other]) => rankOf(one) - rankOf(other));
  }
}

/** Is this name, which is not a glob, wanted on the stream? */
const isOf = ({ names }: TypeState, typeUrl: string, name: string): boolean =>
  partsOf(name).typeUrl === typeUrl &&
  !isGlob(name) &&
  (names.has(name) || names.has(globOf(name)));

/** An Any in field 2. */
const any = (typeUrl: string, value: Buffer): Buffer =>
  lengthDelimited(
    2,
    Buffer.concat([lengthDelimited(1, Buffer.from(typeUrl)), lengthDelimited(2, value)]),
  );

const wrap = (resource: Buffer): Buffer => any(RESOURCE, resource);

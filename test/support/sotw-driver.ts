/**
 * A client that follows the state-of-the-world protocol and throws when a server violates it, on a
 * session over the cache of an `Instance`. It requests wrapped resources, since the contents of
 * these tests do not carry their names.
 */
import assert from 'node:assert/strict';
import type { ResourceCache } from '../../gateway/core/cache/resource-cache.js';
import { SotwSession, type SotwOptions } from '../../gateway/core/sotw/sotw-session.js';
import { wholeOf } from '../../protos/discovery-fields.js';
import type { RpcStatus, SotwRequest } from '../../protos/discovery.js';
import { isListName } from '../../protos/list-collection.js';
import { parseResourceName } from '../../protos/resource-name.js';
import { decodeSotwRequest, encodeSotwRequest } from '../../protos/sotw-codec.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { decodeSotwResponse, type SotwResponse } from './discovery-messages.js';
import { nameOf } from './fake-directory.js';
import { handleWhole } from './session-driver.js';

/** A Node with `client_features: ["xds.config.resource-in-sotw"]`. */
const FEATURE = 'xds.config.resource-in-sotw';
export const WRAPPING_NODE = Buffer.concat([
  Buffer.from([0x52, FEATURE.length]),
  Buffer.from(FEATURE),
]);

const WHOLE = new Set<string>([TYPE_URL.listener, TYPE_URL.cluster]);

/** A response, and the content of the client after it. */
interface Received {
  readonly response: SotwResponse;
  readonly order: number;
  readonly held: Map<string, string>;
}

/** A glob or a list. */
function isCollection(typeUrl: string, text: string): boolean {
  const parsed = parseResourceName(text);
  return text.endsWith('*') || (parsed.ok && isListName(typeUrl, parsed.value));
}

/** The maximum number of answers of a type without an ACK (invariant 5). */
const MAX_UNACKNOWLEDGED = 4;

interface TypeState {
  names: readonly string[];
  /** Content by name, accepted or not: earlier content, updated by the responses of this stream. */
  held: Map<string, string>;
  /** The same as of the last ACK: the initial state of a new stream. */
  accepted: Map<string, string>;
  /**
   * The number of responses after which the client last dropped a name; until a later response, its
   * version covers more than it holds. -1: never.
   */
  leftAfter: number;
  version: string;
  /** The nonce of the response that it answered last. */
  nonce: string;
  /** Oldest first. */
  unacknowledged: Received[];
  /** Nonces that a later ACK covered. */
  passedOver: string[];
  /**
   * The number of responses before the last change of the requested names, or the last deletion.
   */
  askedAt: number;
  /** The same for members of globs that changed, by key. */
  readonly changedMembers: Map<string, number>;
  /** The number of the response in which each name came last, and last changed. */
  readonly order: Map<string, number>;
  readonly changedAt: Map<string, number>;
}

export type SotwSettings = Partial<Omit<SotwOptions, 'cache' | 'onReady'>>;

/** The parts of an instance that a client needs. */
export interface Served {
  readonly cache: ResourceCache;
  readonly nowMs: number;
  readonly settings: Pick<
    SotwOptions,
    'maxNames' | 'chunkBytes' | 'ackDeadlineMs' | 'namesPerPortion' | 'membersPerPortion'
  >;
  readonly betweenPortions?: () => void;
}

export class SotwClient {
  #instance: Served;
  readonly #settings: SotwSettings;
  readonly types = new Map<string, TypeState>();
  session: SotwSession;
  responses = 0;
  readyCalls = 0;
  /** Called before a response is applied. */
  check: (response: SotwResponse, held: ReadonlyMap<string, string>) => void = () => undefined;
  #nonces = new Set<string>();

  constructor(instance: Served, settings: SotwSettings = {}) {
    this.#instance = instance;
    this.#settings = settings;
    this.session = this.#open();
  }

  #open(): SotwSession {
    this.#nonces = new Set();
    const { cache, settings } = this.#instance;
    return new SotwSession({
      scopeOf: () => ({ kind: 'not_served' }),
      maxNames: settings.maxNames,
      chunkBytes: settings.chunkBytes,
      ackDeadlineMs: settings.ackDeadlineMs,
      ...(settings.namesPerPortion && { namesPerPortion: settings.namesPerPortion }),
      ...(settings.membersPerPortion && { membersPerPortion: settings.membersPerPortion }),
      placeholderAfterMs: undefined,
      unanswerableAfterMs: undefined,
      ...this.#settings,
      cache,
      onReady: () => {
        this.readyCalls++;
      },
    });
  }

  type(typeUrl: string): TypeState {
    let state = this.types.get(typeUrl);
    if (!state) {
      state = {
        names: [],
        held: new Map(),
        accepted: new Map(),
        leftAfter: -1,
        version: '',
        nonce: '',
        unacknowledged: [],
        passedOver: [],
        askedAt: 0,
        changedMembers: new Map(),
        order: new Map(),
        changedAt: new Map(),
      };
      this.types.set(typeUrl, state);
    }
    return state;
  }

  wants(typeUrl: string, key: string): boolean {
    const { names } = this.type(typeUrl);
    return names.some((text) => {
      const name = nameOf(text);
      return name.isGlob ? key.startsWith(name.key.slice(0, -1)) : name.key === key;
    });
  }

  // ---- requests -----------------------------------------------------------------------------

  send(parts: Partial<SotwRequest> & { readonly typeUrl: string }): RpcStatus | undefined {
    const request: SotwRequest = {
      versionInfo: '',
      node: WRAPPING_NODE,
      names: [],
      responseNonce: '',
      errorDetail: undefined,
      ...parts,
    };
    return this.#deliver(request);
  }

  /** As a stream does. The encoder knows no locators. */
  #deliver(request: SotwRequest): RpcStatus | undefined {
    if (request.locators) return handleWhole(this.session, request, this.#instance);
    const bytes = encodeSotwRequest(request);
    if (this.session.handleAck(bytes, this.#instance.nowMs)) return undefined;
    const decoded = decodeSotwRequest(bytes, Infinity);
    assert.ok(decoded.ok, 'the request can be read');
    return handleWhole(this.session, decoded.message, this.#instance);
  }

  #sendState(typeUrl: string, errorDetail?: RpcStatus): RpcStatus | undefined {
    const { names, version, nonce } = this.type(typeUrl);
    return this.send({ typeUrl, names, versionInfo: version, responseNonce: nonce, errorDetail });
  }

  /** Sets all requested names of the type. */
  ask(typeUrl: string, ...names: readonly string[]): RpcStatus | undefined {
    const state = this.type(typeUrl);
    state.names = names;
    state.askedAt = this.responses;
    const later = state.unacknowledged.map(({ held }) => held);
    for (const map of [state.held, state.accepted, ...later]) {
      for (const key of map.keys()) {
        if (this.wants(typeUrl, key)) continue;
        map.delete(key);
        state.leftAfter = this.responses;
      }
    }
    return this.#sendState(typeUrl);
  }

  /** @returns whether there was anything to ACK. */
  ack(typeUrl?: string): boolean {
    return this.#answer(typeUrl, undefined);
  }

  nack(typeUrl?: string): boolean {
    return this.#answer(typeUrl, { code: 3, message: 'refused by the test' });
  }

  /** ACKs the newest response, which covers the earlier ones, whose ACKs come late, or never. */
  ackNewest(typeUrl: string): boolean {
    const state = this.type(typeUrl);
    const passed = state.unacknowledged.splice(0, state.unacknowledged.length - 1);
    state.passedOver.push(...passed.map(({ response }) => response.nonce));
    return this.ack(typeUrl);
  }

  /** Sends an ACK that was covered by a later one. */
  ackLate(typeUrl: string): boolean {
    const state = this.type(typeUrl);
    const responseNonce = state.passedOver.shift();
    if (responseNonce === undefined) return false;
    const { names, version } = state;
    this.send({ typeUrl, names, versionInfo: version, responseNonce });
    return true;
  }

  #answer(typeUrl: string | undefined, errorDetail: RpcStatus | undefined): boolean {
    for (const [type, state] of this.types) {
      if (typeUrl !== undefined && type !== typeUrl) continue;
      const oldest = state.unacknowledged.shift();
      if (!oldest) continue;
      state.nonce = oldest.response.nonce;
      if (!errorDetail) {
        state.version = oldest.response.versionInfo;
        if (oldest.order > state.leftAfter) state.leftAfter = -1;
        state.accepted = new Map(oldest.held);
      }
      this.#sendState(type, errorDetail);
      return true;
    }
    return false;
  }

  /** A member that changes is sent again, even with earlier content; a name is not. */
  noteChanged(typeUrl: string, key: string): void {
    const { names, changedMembers } = this.type(typeUrl);
    if (!names.includes(key)) changedMembers.set(key, this.responses);
  }

  /** A deleted resource is sent again when it comes back, even unchanged. */
  noteWent(): void {
    for (const state of this.types.values()) state.askedAt = this.responses;
  }

  disconnect(): void {
    this.session.close(this.#instance.nowMs);
  }

  /** Opens a new stream, at the same or another instance, and resumes the held content. */
  reconnect(to: Served = this.#instance): void {
    this.#reopen(to);
    for (const typeUrl of this.types.keys()) this.#sendFirst(typeUrl);
  }

  /** See `ConnectedClient.reconnectWarming`. */
  reconnectWarming(to: Served = this.#instance): () => void {
    this.#reopen(to);
    const { cluster } = TYPE_URL;
    for (const typeUrl of this.types.keys()) if (typeUrl !== cluster) this.#sendFirst(typeUrl);
    return () => {
      this.#sendFirst(cluster);
    };
  }

  #reopen(to: Served): void {
    this.#instance = to;
    this.session = this.#open();
    for (const state of this.types.values()) {
      state.nonce = '';
      // If the client resubscribed a name that it had dropped, the server could not know (GRPC 6):
      // the only case that these tests leave out.
      if (state.leftAfter >= 0 && state.version !== '') state.version = 'of old';
      state.leftAfter = -1;
      state.held = new Map(state.accepted);
      state.unacknowledged = [];
      state.passedOver = [];
    }
  }

  #sendFirst(typeUrl: string): void {
    if (this.type(typeUrl).names.length > 0) this.#sendState(typeUrl);
  }

  // ---- responses ----------------------------------------------------------------------------

  poll(): SotwResponse | undefined {
    const response = this.session.takeResponse(this.#instance.nowMs);
    return response && this.#receive(wholeOf(response.chunks));
  }

  pollAll(): readonly SotwResponse[] {
    const all: SotwResponse[] = [];
    for (let polls = 0; ; polls++) {
      assert.ok(polls < 10_000, 'it comes to rest');
      const ready = this.readyCalls;
      const one = this.poll();
      if (one) all.push(one);
      else if (this.readyCalls === ready) return all;
    }
  }

  /** ACKs and polls until there is no further response. */
  settle(): readonly SotwResponse[] {
    const all = [...this.pollAll()];
    while (this.ack()) {
      all.push(...this.pollAll());
      assert.ok(all.length < 10_000, 'the exchange ends');
    }
    return all;
  }

  /** @throws AssertionError on a response that the protocol forbids. */
  #receive(bytes: Uint8Array): SotwResponse {
    const response = decodeSotwResponse(bytes);
    const { typeUrl, nonce } = response;
    const order = ++this.responses;
    const state = this.type(typeUrl);
    assert.ok(nonce !== '' && !this.#nonces.has(nonce), `nonce ${nonce} is new`);
    this.#nonces.add(nonce);
    assert.ok(
      state.unacknowledged.length < MAX_UNACKNOWLEDGED,
      `at most ${MAX_UNACKNOWLEDGED} unacknowledged responses per type (invariant 5)`,
    );
    this.#checkNews(response, state);
    const keys = response.resources.map(({ name }) => nameOf(name ?? '').key);
    assert.equal(new Set(keys).size, keys.length, `no name twice in ${keys.join(' ')}`);
    this.check(response, state.held);
    if (WHOLE.has(typeUrl)) {
      for (const key of state.held.keys()) if (!keys.includes(key)) state.held.delete(key);
    }
    for (const [at, key] of keys.entries()) {
      const content = response.resources[at]?.body.toString() ?? '';
      if (!this.wants(typeUrl, key)) continue;
      if (state.held.get(key) !== content) state.changedAt.set(key, order);
      state.order.set(key, order);
      state.held.set(key, content);
    }
    state.unacknowledged.push({ response, order, held: new Map(state.held) });
    return response;
  }

  /**
   * In-flight content is not sent again, unless it was requested since, or its cluster was sent.
   */
  #checkNews({ typeUrl, versionInfo, resources }: SotwResponse, state: TypeState): void {
    const last = state.unacknowledged.at(-1);
    // A collection that turns out to be empty is answered by the unchanged set.
    const asksByName = state.names.every((text) => !isCollection(typeUrl, text));
    if (last && WHOLE.has(typeUrl) && asksByName && state.askedAt < last.order) {
      assert.notEqual(versionInfo, last.response.versionInfo, 'another set (invariant 5)');
    }
    if (WHOLE.has(typeUrl)) return;
    for (const { name, version } of resources) {
      const before = state.unacknowledged.findLast((one) => {
        return one.response.resources.some((other) => other.name === name);
      });
      const changedAt = state.changedMembers.get(nameOf(name ?? '').key) ?? 0;
      if (!before || Math.max(state.askedAt, changedAt) >= before.order) continue;
      const clusters = this.type(TYPE_URL.cluster).order.values();
      const mayFollow =
        typeUrl === TYPE_URL.clusterLoadAssignment &&
        [...clusters].some((order) => order > before.order);
      const said = before.response.resources.find((other) => other.name === name)?.version;
      assert.ok(mayFollow || said !== version, `${name} is on its way (invariant 5)`);
    }
  }
}

/** The content of a response, for comparison: type, and names with contents. */
export function said(response: SotwResponse | undefined): unknown {
  if (!response) return undefined;
  return [
    response.typeUrl.slice(response.typeUrl.lastIndexOf('.') + 1),
    ...response.resources.map(({ name, body }) => `${idOf(name ?? '')}=${body.toString()}`).sort(),
  ];
}

const idOf = (text: string): string => {
  const { authority, id } = nameOf(text);
  return authority === 'cloud' ? id : `${authority}:${id}`;
};

/**
 * A client of the delta protocol that does what the protocol says, and throws when a server does
 * not: a repeated nonce or name, two authorities in one response, a name or a (type, authority) that
 * is sent again before its last response was acknowledged. It has no transport: requests and
 * responses are handed over.
 */
import assert from 'node:assert/strict';
import { decodeDeltaResponse } from '../../protos/delta-codec.js';
import type { DeltaRequest, DeltaResponse, RpcStatus } from '../../protos/discovery.js';
import { globKeyOf, isXdstp, parseResourceName } from '../../protos/resource-name.js';

export interface Held {
  readonly version: string;
  readonly content: string;
  /** Of all responses of this client, the one in which it came last. */
  readonly order: number;
  /** The one in which it came with another content than the client had. */
  readonly changedAt: number;
}

export interface ModelClientOptions {
  /** Names members of globs, too, in `initial_resource_versions`; Envoy does not. */
  readonly resumesMembers: boolean;
}

interface TypeState {
  /** Spelling by canonical name. */
  readonly subscribed: Map<string, string>;
  /** What the server sent last, refused or not. */
  readonly offered: Map<string, Held>;
  /** What was accepted. */
  readonly held: Map<string, Held>;
  firstRequest: boolean;
}

const keyOf = (text: string): string => {
  const parsed = parseResourceName(text);
  return parsed.ok ? parsed.value.key : text;
};

const authorityOf = (text: string): string => {
  const parsed = parseResourceName(text);
  return parsed.ok ? parsed.value.authority : '';
};

const covering = (key: string): string => {
  const parsed = parseResourceName(key);
  return parsed.ok ? globKeyOf(parsed.value) : '*';
};

export class ModelClient {
  readonly #options: ModelClientOptions;
  readonly #types = new Map<string, TypeState>();
  #nonces = new Set<string>();
  #unacknowledged: DeltaResponse[] = [];
  #responses = 0;

  constructor(options: Partial<ModelClientOptions> = {}) {
    this.#options = { resumesMembers: false, ...options };
  }

  get unacknowledged(): readonly DeltaResponse[] {
    return this.#unacknowledged;
  }

  /** How many responses it has got, over all its streams. */
  get responses(): number {
    return this.#responses;
  }

  type(typeUrl: string): TypeState {
    let state = this.#types.get(typeUrl);
    if (!state) {
      state = { subscribed: new Map(), offered: new Map(), held: new Map(), firstRequest: true };
      this.#types.set(typeUrl, state);
    }
    return state;
  }

  get typeUrls(): readonly string[] {
    return [...this.#types.keys()];
  }

  /** Is there an interest of this client that this name falls under? */
  wants(typeUrl: string, key: string): boolean {
    const { subscribed } = this.type(typeUrl);
    return subscribed.has(key) || subscribed.has(covering(key));
  }

  // ---- requests -----------------------------------------------------------------------------

  /** A spontaneous request. */
  change(typeUrl: string, subscribe: readonly string[], unsubscribe: readonly string[] = []) {
    const state = this.type(typeUrl);
    state.firstRequest = false;
    for (const text of unsubscribe) state.subscribed.delete(keyOf(text));
    for (const text of subscribe) state.subscribed.set(keyOf(text), text);
    for (const map of [state.held, state.offered]) {
      for (const key of map.keys()) if (!this.wants(typeUrl, key)) map.delete(key);
    }
    return request({ typeUrl, subscribe, unsubscribe });
  }

  /** Accepts the oldest response that is not acknowledged yet (of this type). */
  ack(typeUrl?: string): DeltaRequest | undefined {
    const response = this.#take(typeUrl);
    if (!response) return undefined;
    const { held } = this.type(response.typeUrl);
    const order = this.#orderOf(response);
    for (const { name, version, body } of response.resources) {
      if (!this.wants(response.typeUrl, keyOf(name))) continue;
      held.set(keyOf(name), heldNext(held.get(keyOf(name)), version, textOf(body), order));
    }
    for (const text of response.removed) held.delete(keyOf(text));
    return request({ typeUrl: response.typeUrl, responseNonce: response.nonce });
  }

  /** Refuses it: the old state stays. */
  nack(typeUrl?: string, message = 'refused by the test'): DeltaRequest | undefined {
    const response = this.#take(typeUrl);
    if (!response) return undefined;
    const errorDetail: RpcStatus = { code: 13, message };
    return request({ typeUrl: response.typeUrl, responseNonce: response.nonce, errorDetail });
  }

  /** The stream broke. @returns the first requests on the next one, in Envoy's order. */
  reconnect(): readonly DeltaRequest[] {
    this.#nonces = new Set();
    this.#unacknowledged = [];
    const requests: DeltaRequest[] = [];
    for (const [typeUrl, state] of this.#types) {
      state.offered.clear();
      for (const [key, held] of state.held) state.offered.set(key, held);
      if (state.subscribed.size === 0) continue;
      const known = [...state.held].filter(
        ([key]) => this.#options.resumesMembers || state.subscribed.has(key),
      );
      requests.push(
        request({
          typeUrl,
          subscribe: [...state.subscribed.values()],
          initialVersions: new Map(
            known.map(([key, { version }]) => [state.subscribed.get(key) ?? key, version]),
          ),
        }),
      );
    }
    return requests;
  }

  #take(typeUrl: string | undefined): DeltaResponse | undefined {
    const at = this.#unacknowledged.findIndex(
      (one) => typeUrl === undefined || one.typeUrl === typeUrl,
    );
    return at === -1 ? undefined : this.#unacknowledged.splice(at, 1)[0];
  }

  // ---- responses ----------------------------------------------------------------------------

  readonly #orders = new WeakMap<DeltaResponse, number>();

  #orderOf(response: DeltaResponse): number {
    return this.#orders.get(response) ?? 0;
  }

  /** @throws AssertionError on a response that the protocol or the invariants forbid. */
  receive(bytes: Uint8Array): DeltaResponse {
    const decoded = decodeDeltaResponse(bytes, Infinity);
    assert.ok(decoded.ok, 'a response decodes');
    const response = decoded.message;
    this.#orders.set(response, ++this.#responses);
    this.#check(response);
    const { offered } = this.type(response.typeUrl);
    for (const { name, version, body } of response.resources) {
      if (!this.wants(response.typeUrl, keyOf(name))) continue;
      const before = offered.get(keyOf(name));
      offered.set(keyOf(name), heldNext(before, version, textOf(body), this.#responses));
    }
    for (const text of response.removed) offered.delete(keyOf(text));
    this.#unacknowledged.push(response);
    return response;
  }

  #check(response: DeltaResponse): void {
    const { nonce, typeUrl } = response;
    assert.ok(nonce !== '' && !this.#nonces.has(nonce), `nonce ${nonce} is new (invariant 5)`);
    this.#nonces.add(nonce);
    const texts = namesIn(response);
    const keys = texts.map(keyOf);
    assert.equal(new Set(keys).size, keys.length, `no name twice in ${keys.join(' ')}`);
    const authorities = new Set(texts.filter(isXdstp).map(authorityOf));
    assert.ok(authorities.size <= 1, 'one authority in a response (invariant 16)');
    for (const other of this.#unacknowledged) {
      if (other.typeUrl !== typeUrl) continue;
      // An answer may take several responses, but what it brought is not sent again before its ACK.
      const again = namesIn(other)
        .map(keyOf)
        .filter((key) => isXdstp(key) && keys.includes(key));
      assert.deepEqual(again, [], `no name again while it is unacknowledged (invariant 5)`);
    }
    for (const { typeUrl: inside } of response.resources) assert.equal(inside, typeUrl);
  }
}

function heldNext(before: Held | undefined, version: string, content: string, order: number): Held {
  const changedAt = before?.content === content ? before.changedAt : order;
  return { version, content, order, changedAt };
}

function namesIn({ resources, removed }: DeltaResponse): readonly string[] {
  return [...resources.map(({ name }) => name), ...removed];
}

const textOf = (body: Uint8Array | undefined): string => Buffer.from(body ?? []).toString();

/** A request with what a test cares about. */
export function request(parts: Partial<DeltaRequest> & { readonly typeUrl: string }): DeltaRequest {
  return {
    node: undefined,
    subscribe: [],
    unsubscribe: [],
    initialVersions: new Map(),
    responseNonce: '',
    errorDetail: undefined,
    ...parts,
  };
}

/**
 * A client that follows the delta protocol, and throws when a server violates it: a repeated nonce
 * or name, two authorities in one response, content sent again while in flight, too many responses
 * without an ACK. It has no transport: the test passes requests and responses.
 */
import assert from 'node:assert/strict';
import { decodeDeltaResponse } from '../../protos/delta-codec.js';
import type { DeltaRequest, DeltaResponse, RpcStatus } from '../../protos/discovery.js';
import { globKeyOf, isXdstp, parseResourceName } from '../../protos/resource-name.js';
import { TYPE_URL } from '../../protos/type-urls.js';

export interface Held {
  readonly version: string;
  readonly content: string;
  /** The number of the response in which it came last, over all responses of this client. */
  readonly order: number;
  /** The number of the response in which it came with different content than held. */
  readonly changedAt: number;
}

export interface ModelClientOptions {
  /** Includes members of globs in `initial_resource_versions`, unlike Envoy. */
  readonly resumesMembers: boolean;
  /** Per type and authority; Infinity where an answer may take several responses (invariant 5). */
  readonly maxUnacknowledged: number;
}

interface TypeState {
  /** Spelling by canonical name. */
  readonly subscribed: Map<string, string>;
  /** The content sent last, accepted or not. */
  readonly offered: Map<string, Held>;
  /** The accepted content. */
  readonly held: Map<string, Held>;
  /** The content of refused responses: Envoy keeps what is good in them, but claims none of it. */
  readonly refused: Map<string, Held>;
  /** The number of the last accepted response with this name: ACKs may come in any order. */
  readonly acceptedAt: Map<string, number>;
  /**
   * By name or glob: the number of responses before its last subscription, unsubscription or
   * deletion.
   */
  readonly requestedAt: Map<string, number>;
  /** The same for globs that lost a member. */
  readonly emptiedAt: Map<string, number>;
  firstRequest: boolean;
}

/** The statement of one response about a name: its version, or its absence. */
interface Said {
  readonly order: number;
  readonly version: string | undefined;
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
  /** By type and name: the last statement. */
  readonly #said = new Map<string, Said>();
  /** The newest accepted response of the stream: those before it have arrived too. */
  #acceptedUpTo = -1;
  /** By type and authority: an ACK covers the earlier responses. */
  readonly #passedUpTo = new Map<string, number>();
  /** By type and authority: the number of responses before the last NACK. */
  readonly #refusedAt = new Map<string, number>();
  #responses = 0;

  constructor(options: Partial<ModelClientOptions> = {}) {
    this.#options = { resumesMembers: false, maxUnacknowledged: Infinity, ...options };
  }

  get unacknowledged(): readonly DeltaResponse[] {
    return this.#unacknowledged;
  }

  /** The number of responses, over all its streams. */
  get responses(): number {
    return this.#responses;
  }

  type(typeUrl: string): TypeState {
    let state = this.#types.get(typeUrl);
    if (!state) {
      state = {
        subscribed: new Map(),
        offered: new Map(),
        held: new Map(),
        refused: new Map(),
        acceptedAt: new Map(),
        requestedAt: new Map(),
        emptiedAt: new Map(),
        firstRequest: true,
      };
      this.#types.set(typeUrl, state);
    }
    return state;
  }

  get typeUrls(): readonly string[] {
    return [...this.#types.keys()];
  }

  /** Whether a subscription of this client covers this name. */
  wants(typeUrl: string, key: string): boolean {
    const { subscribed } = this.type(typeUrl);
    return subscribed.has(key) || subscribed.has(covering(key));
  }

  // ---- requests -----------------------------------------------------------------------------

  /** A request that is no ACK. */
  change(typeUrl: string, subscribe: readonly string[], unsubscribe: readonly string[] = []) {
    const state = this.type(typeUrl);
    state.firstRequest = false;
    for (const text of unsubscribe) state.subscribed.delete(keyOf(text));
    for (const text of [...subscribe, ...unsubscribe]) {
      state.requestedAt.set(keyOf(text), this.#responses);
    }
    for (const map of [state.held, state.offered]) {
      for (const key of map.keys()) if (!this.wants(typeUrl, key)) map.delete(key);
    }
    // An unsubscribed name is gone even if the same request subscribes its glob: that brings every
    // member.
    for (const text of subscribe) state.subscribed.set(keyOf(text), text);
    return request({ typeUrl, subscribe, unsubscribe });
  }

  /** ACKs the oldest unacknowledged response (of this type). */
  ack(typeUrl?: string): DeltaRequest | undefined {
    return this.#accept(this.#take(typeUrl));
  }

  /** ACKs the newest, so that the ACKs of earlier ones come late, or never. */
  ackNewest(typeUrl: string): DeltaRequest | undefined {
    const at = this.#unacknowledged.findLastIndex((one) => one.typeUrl === typeUrl);
    return this.#accept(at === -1 ? undefined : this.#unacknowledged.splice(at, 1)[0]);
  }

  #accept(response: DeltaResponse | undefined): DeltaRequest | undefined {
    if (!response) return undefined;
    const { held, acceptedAt } = this.type(response.typeUrl);
    const order = this.#orderOf(response);
    const isNewest = (key: string): boolean => {
      if ((acceptedAt.get(key) ?? -1) > order) return false;
      acceptedAt.set(key, order);
      return true;
    };
    for (const { name, version, body } of response.resources) {
      const key = keyOf(name);
      if (!isNewest(key) || !this.wants(response.typeUrl, key)) continue;
      held.set(key, heldNext(held.get(key), version, textOf(body), order));
    }
    for (const text of response.removed) if (isNewest(keyOf(text))) held.delete(keyOf(text));
    // The ACK of an earlier one may come late.
    const passed = this.#passedUpTo.get(subscriptionsOf(response)) ?? -1;
    this.#passedUpTo.set(subscriptionsOf(response), Math.max(passed, order));
    this.#acceptedUpTo = Math.max(this.#acceptedUpTo, order);
    return request({ typeUrl: response.typeUrl, responseNonce: response.nonce });
  }

  /** NACKs the oldest unacknowledged response: the old state stays. */
  nack(typeUrl?: string, message = 'refused by the test'): DeltaRequest | undefined {
    const response = this.#take(typeUrl);
    if (!response) return undefined;
    this.#refusedAt.set(subscriptionsOf(response), this.#responses);
    const { offered, refused } = this.type(response.typeUrl);
    for (const { name } of response.resources) {
      const one = offered.get(keyOf(name));
      if (one) refused.set(keyOf(name), one);
    }
    const errorDetail: RpcStatus = { code: 13, message };
    return request({ typeUrl: response.typeUrl, responseNonce: response.nonce, errorDetail });
  }

  /** A member that changes is sent again, even with earlier content; a name is not. */
  noteChanged(typeUrl: string, key: string): void {
    const { subscribed, requestedAt } = this.type(typeUrl);
    if (!subscribed.has(key)) requestedAt.set(key, this.#responses);
  }

  /** A deleted resource is sent again when it comes back, even unchanged. */
  noteWent(typeUrl: string, key: string): void {
    this.type(typeUrl).requestedAt.set(key, this.#responses);
    this.type(typeUrl).emptiedAt.set(covering(key), this.#responses);
  }

  /**
   * The stream broke.
   *
   * @returns the first requests on the next one, in Envoy's order.
   */
  reconnect(): readonly DeltaRequest[] {
    for (const response of this.#unacknowledged) {
      if (this.#orderOf(response) < this.#acceptedUpTo) this.#accept(response);
    }
    this.#acceptedUpTo = -1;
    this.#nonces = new Set();
    this.#unacknowledged = [];
    this.#passedUpTo.clear();
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
    const { offered, refused } = this.type(response.typeUrl);
    for (const { name, version, body } of response.resources) {
      if (!this.wants(response.typeUrl, keyOf(name))) continue;
      const before = offered.get(keyOf(name)) ?? refused.get(keyOf(name));
      offered.set(keyOf(name), heldNext(before, version, textOf(body), this.#responses));
    }
    for (const text of response.removed) offered.delete(keyOf(text));
    for (const text of namesIn(response)) refused.delete(keyOf(text));
    this.#unacknowledged.push(response);
    return response;
  }

  #check(response: DeltaResponse): void {
    const { nonce, typeUrl } = response;
    assert.ok(nonce !== '' && !this.#nonces.has(nonce), `nonce ${nonce} is new (invariant 5)`);
    this.#nonces.add(nonce);
    const texts = namesIn(response);
    const keys = texts.slice(0, texts.length - response.errors.length).map(keyOf);
    assert.equal(new Set(keys).size, keys.length, `no name twice in ${keys.join(' ')}`);
    const authorities = new Set(texts.filter(isXdstp).map(authorityOf));
    assert.ok(authorities.size <= 1, 'one authority in a response (invariant 16)');
    for (const [key, { version }] of this.#saidIn(response)) {
      const before = this.#onItsWay(typeUrl, key);
      if (!before || before.version !== version) continue;
      if (this.#mayComeAgain(typeUrl, key, before) || this.#isRetried(response, before)) continue;
      assert.fail(`${key} is on its way as it is sent again (invariant 5)`);
    }
    for (const [key, said] of this.#saidIn(response)) this.#said.set(`${typeUrl} ${key}`, said);
    const passedUpTo = this.#passedUpTo.get(subscriptionsOf(response)) ?? -1;
    const waiting = this.#unacknowledged.filter((one) => {
      return subscriptionsOf(one) === subscriptionsOf(response) && this.#orderOf(one) > passedUpTo;
    });
    const most = this.#options.maxUnacknowledged;
    assert.ok(waiting.length < most, `at most ${most} responses without an ACK (invariant 5)`);
    for (const { typeUrl: inside } of response.resources) assert.equal(inside, typeUrl);
  }

  #saidIn(response: DeltaResponse): ReadonlyMap<string, Said> {
    const order = this.#orderOf(response);
    const said = new Map<string, Said>();
    for (const { name, version } of response.resources) said.set(keyOf(name), { order, version });
    for (const text of response.removed) said.set(keyOf(text), { order, version: undefined });
    return said;
  }

  /** The last statement about the name, if it is unacknowledged. */
  #onItsWay(typeUrl: string, key: string): Said | undefined {
    const said = this.#said.get(`${typeUrl} ${key}`);
    const isIt = (one: DeltaResponse): boolean => this.#orderOf(one) === said?.order;
    return this.#unacknowledged.some(isIt) ? said : undefined;
  }

  /** A NACK was sent since, and everything in flight was acknowledged then: a retry repeats it. */
  #isRetried(response: DeltaResponse, { order }: Said): boolean {
    const one = subscriptionsOf(response);
    const refusedAt = this.#refusedAt.get(one) ?? -1;
    return order <= refusedAt && order <= (this.#passedUpTo.get(one) ?? -1);
  }

  /**
   * The name was subscribed again or deleted since, or is an assignment whose cluster was sent,
   * which it must follow.
   */
  #mayComeAgain(typeUrl: string, key: string, { order }: Said): boolean {
    const { requestedAt, emptiedAt } = this.type(typeUrl);
    const last = [requestedAt.get(key), requestedAt.get(covering(key)), emptiedAt.get(key)];
    if (last.some((at) => at !== undefined && at >= order)) return true;
    return (
      typeUrl === TYPE_URL.clusterLoadAssignment &&
      this.#unacknowledged.some(
        (one) => one.typeUrl === TYPE_URL.cluster && this.#orderOf(one) > order,
      )
    );
  }
}

function heldNext(before: Held | undefined, version: string, content: string, order: number): Held {
  const changedAt = before?.content === content ? before.changedAt : order;
  return { version, content, order, changedAt };
}

function namesIn({ resources, removed, errors }: DeltaResponse): readonly string[] {
  return [...resources.map(({ name }) => name), ...removed, ...errors.map(({ name }) => name)];
}

/** Answers come one at a time per type and authority; refusals of invalid names are separate. */
const subscriptionsOf = (response: DeltaResponse): string =>
  `${response.typeUrl} ${authorityOf(namesIn(response)[0] ?? '')}`;

const textOf = (body: Uint8Array | undefined): string => Buffer.from(body ?? []).toString();

/** A request with the fields that a test sets. */
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

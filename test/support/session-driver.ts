/** A cache, and model clients on sessions over it, with a manual clock. */
import assert from 'node:assert/strict';
import { DEFAULT_FAILOVER } from '../../config/defaults.js';
import { DeltaSession, type SessionOptions } from '../../gateway/core/delta/delta-session.js';
import { ResourceCache, type CacheOptions } from '../../gateway/core/cache/resource-cache.js';
import type { StreamSession } from '../../gateway/core/session/stream-session.js';
import { wholeOf } from '../../protos/discovery-fields.js';
import { encodeDeltaRequest } from '../../protos/delta-codec.js';
import type { DeltaRequest, DeltaResponse, RpcStatus } from '../../protos/discovery.js';
import { FakeDirectory } from './fake-directory.js';
import { CDS } from './mesh-names.js';
import { ModelClient, type ModelClientOptions } from './model-client.js';

/**
 * From the failover defaults: how long unannounced removals wait, and how much longer if they are
 * too many.
 */
export const SWITCH_WAIT_MS = DEFAULT_FAILOVER.switchWaitMs;
export const GUARD_WAIT_MS = DEFAULT_FAILOVER.deletionGuard.waitMs;

export type Settings = CacheOptions &
  Omit<SessionOptions, 'cache' | 'onReady'> & {
    readonly directory: FakeDirectory;
  };

export class Instance {
  readonly settings: Settings;
  readonly directory: FakeDirectory;
  readonly cache: ResourceCache;
  nowMs = 0;
  /** Called between two portions of a long request. */
  betweenPortions: () => void = () => undefined;

  constructor(settings: Partial<Settings> = {}) {
    this.settings = {
      directory: new FakeDirectory(),
      maxNames: 1_000,
      chunkBytes: 1_000_000,
      ackDeadlineMs: 16_000,
      silentAbsentRoutes: false,
      scopeOf: () => ({ kind: 'not_served' }),
      tombstonesPerCollection: 1_000,
      tombstoneMaxAgeMs: 3_600_000,
      unsubscribedLingerMs: 30_000,
      maxUnsubscribedNames: 1_000,
      ...settings,
    };
    this.directory = this.settings.directory;
    this.cache = new ResourceCache(this.directory, this.settings);
  }

  advance(ms: number): void {
    this.nowMs += ms;
    this.directory.nowMs = this.nowMs;
    while (this.cache.handleTimer(this.nowMs));
  }

  connect(options: Partial<ModelClientOptions> = {}): ConnectedClient {
    return new ConnectedClient(this, new ModelClient(options));
  }
}

export class ConnectedClient {
  #instance: Instance;
  readonly model: ModelClient;
  session: DeltaSession;
  readyCalls = 0;

  constructor(instance: Instance, model: ModelClient) {
    this.#instance = instance;
    this.model = model;
    this.session = this.#open();
  }

  #open(): DeltaSession {
    const { cache, settings } = this.#instance;
    const onReady = (): void => {
      this.readyCalls++;
    };
    return new DeltaSession({ ...settings, cache, onReady });
  }

  send(request: DeltaRequest | undefined): RpcStatus | undefined {
    assert.ok(request, 'there is something to acknowledge');
    const bytes = encodeDeltaRequest(request);
    if (this.session.handleAck(bytes, this.#instance.nowMs)) return undefined;
    return handleWhole(this.session, request, this.#instance);
  }

  subscribe(typeUrl: string, ...names: readonly string[]): RpcStatus | undefined {
    return this.send(this.model.change(typeUrl, names));
  }

  unsubscribe(typeUrl: string, ...names: readonly string[]): RpcStatus | undefined {
    return this.send(this.model.change(typeUrl, [], names));
  }

  /** The next response, if there is one now. */
  poll(): DeltaResponse | undefined {
    const response = this.session.takeResponse(this.#instance.nowMs);
    return response && this.model.receive(wholeOf(response.chunks));
  }

  /** All current responses, without ACKs. */
  pollAll(): readonly DeltaResponse[] {
    const all: DeltaResponse[] = [];
    for (let polls = 0; ; polls++) {
      assert.ok(polls < 10_000, 'it comes to rest');
      const ready = this.readyCalls;
      const one = this.poll();
      if (one) all.push(one);
      else if (this.readyCalls === ready) return all;
    }
  }

  ack(typeUrl?: string): void {
    this.send(this.model.ack(typeUrl));
  }

  /** ACKs and polls until there is no further response. */
  settle(): readonly DeltaResponse[] {
    const all: DeltaResponse[] = [...this.pollAll()];
    while (this.model.unacknowledged.length > 0) {
      this.ack();
      all.push(...this.pollAll());
      assert.ok(all.length < 10_000, 'the exchange ends');
    }
    return all;
  }

  /** Advances the clock of its instance first. */
  settleAfter(ms: number): readonly DeltaResponse[] {
    this.#instance.advance(ms);
    return this.settle();
  }

  disconnect(): void {
    this.session.close(this.#instance.nowMs);
  }

  /** Opens a new stream, at the same or another instance, and resumes the held content. */
  reconnect(to: Instance = this.#instance): void {
    for (const request of this.reopen(to)) this.send(request);
  }

  /**
   * Reconnects as Envoy does while a cluster warms: without its request for clusters (ENVOY 24).
   *
   * @returns sends that request
   */
  reconnectWarming(to: Instance = this.#instance): () => void {
    const requests = this.reopen(to);
    const ofClusters = requests.filter(({ typeUrl }) => typeUrl === CDS);
    for (const request of requests) if (!ofClusters.includes(request)) this.send(request);
    return () => {
      for (const request of ofClusters) this.send(request);
    };
  }

  /** Opens a new stream. @returns its first requests, which are not sent */
  reopen(to: Instance = this.#instance): readonly DeltaRequest[] {
    this.#instance = to;
    this.session = this.#open();
    return this.model.reconnect();
  }
}

/** Handles a request with all its portions. @returns a status to end the stream with */
export function handleWhole<Request>(
  session: StreamSession<Request>,
  request: Request,
  at: { readonly nowMs: number; betweenPortions?(): void },
): RpcStatus | undefined {
  let refusal = session.handleRequest(request, at.nowMs);
  while (session.isMidRequest) {
    assert.equal(session.takeResponse(at.nowMs), undefined, 'nothing is sent between two portions');
    assert.equal(session.nextDeadlineMs, undefined);
    at.betweenPortions?.();
    refusal = session.continueRequest(at.nowMs);
  }
  return refusal;
}

/** The names in a response, for comparison. */
export function gist(response: DeltaResponse | undefined): unknown {
  if (!response) return undefined;
  return {
    type: response.typeUrl.slice(response.typeUrl.lastIndexOf('.') + 1),
    resources: response.resources.map(({ name }) => name),
    removed: response.removed,
  };
}

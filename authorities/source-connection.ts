/**
 * The shell of one management server: performs the effects of its machine on a transport, and
 * passes IO events back with the epoch of their attempt. It decides nothing.
 */
import type { GrpcSourceSpec } from '../config/model.js';
import { STATUS_CODE } from '../protos/discovery.js';
import type { AttemptEvent, ServerEffect } from './core/sources/management-server.js';
import type { DialIdentity } from './core/sources/client-identity.js';
import { isRefusal, type StreamEnd } from './core/sources/source-health.js';
import { CredentialFiles } from './credential-files.js';
import { SourceBreaker, type BreakerState, type GuardedAttempt } from './source-breaker.js';
import type { Attempt, LoadCall, LoadCallHandlers, Transport } from './transport.js';

export interface SourceConnectionHandlers {
  onMessage(epoch: number, bytes: Uint8Array): void;
  onEvent(epoch: number, event: AttemptEvent): void;
  /** The source refused the client, and its credential files have changed since. */
  onCredentialsChanged(): void;
}

export class SourceConnection {
  readonly #spec: GrpcSourceSpec;
  readonly #identity: DialIdentity;
  readonly #transport: Transport;
  readonly #handlers: SourceConnectionHandlers;
  readonly #breaker: SourceBreaker;
  readonly #files: CredentialFiles;

  // State of the present attempt.
  #epoch = 0;
  #attempt: Attempt | undefined;
  #guarded: GuardedAttempt | undefined;
  #probeTimer: NodeJS.Timeout | undefined;

  constructor(
    spec: GrpcSourceSpec,
    identity: DialIdentity,
    transport: Transport,
    handlers: SourceConnectionHandlers,
  ) {
    this.#spec = spec;
    this.#identity = identity;
    this.#transport = transport;
    this.#handlers = handlers;
    this.#files = new CredentialFiles(spec, identity, () => {
      handlers.onCredentialsChanged();
    });
    this.#breaker = new SourceBreaker(spec.name, spec.timers.firstResponseTimeoutMs);
  }

  get breakerState(): BreakerState {
    return this.#breaker.state;
  }

  perform(effect: ServerEffect): void {
    switch (effect.kind) {
      case 'dial':
        this.#dial(effect.epoch);
        return;
      case 'send':
        // Not from the dial: a stream on which nothing was requested yet owes no response (`prewarm: connected`).
        if (this.#attempt) this.#guarded ??= this.#beginGuarded();
        this.#attempt?.send(effect);
        return;
      case 'pause':
        this.#attempt?.pause?.();
        return;
      case 'resume':
        this.#attempt?.resume?.();
        return;
      case 'up':
        this.#guarded ??= this.#beginGuarded();
        this.#guarded.succeeded();
        return;
      case 'hang_up':
        this.#drop();
        return;
      case 'malformed':
        this.#endWith({
          code: STATUS_CODE.internal,
          message: `unreadable response: ${effect.reason}`,
          detectedBy: 'stream',
        });
        return;
      case 'unread':
        this.#endWith({
          code: STATUS_CODE.resourceExhausted,
          message: effect.reason,
          detectedBy: 'stream',
        });
        return;
      case 'tripped':
        this.#breaker.trip();
        return;
      case 'lost':
        if (isRefusal(effect.end)) this.#files.watch();
        return;
      case 'refused':
      case 'received':
      case 'type_unserved':
        return;
    }
  }

  /** Opens a stream of load reports beside the present attempt. @returns undefined: it cannot. */
  reportLoads(handlers: LoadCallHandlers): LoadCall | undefined {
    return this.#attempt?.reportLoads?.(handlers);
  }

  close(): void {
    this.#drop();
    this.#files.close();
    this.#breaker.close();
  }

  #dial(epoch: number): void {
    this.#drop();
    this.#epoch = epoch;
    this.#files.noteUsed();
    const tell = (event: AttemptEvent): void => {
      this.#handlers.onEvent(epoch, event);
    };
    this.#attempt = this.#transport.dial(this.#spec, this.#identity, {
      onMessage: (bytes) => {
        this.#handlers.onMessage(epoch, bytes);
      },
      onWritable: () => {
        tell({ kind: 'writable' });
      },
      onBlocked: () => {
        tell({ kind: 'blocked' });
      },
      onAlive: () => {
        tell({ kind: 'alive' });
      },
      onTypeUnserved: (typeUrl, reason) => {
        tell({ kind: 'type_unserved', typeUrl, reason });
      },
      onEnd: (end) => {
        if (epoch !== this.#epoch) return;
        this.#drop();
        tell({ kind: 'ended', end });
      },
    });
    const { probeIntervalMs } = this.#spec.timers;
    if (probeIntervalMs > 0) {
      this.#probeTimer = setInterval(() => {
        void this.#probe(epoch);
      }, probeIntervalMs);
      this.#probeTimer.unref();
    }
  }

  /** Begins an attempt at the circuit breaker. The breaker ends it if the first response is overdue. */
  #beginGuarded(): GuardedAttempt {
    const epoch = this.#epoch;
    return this.#breaker.attempt((reason) => {
      if (epoch !== this.#epoch) return;
      this.#endWith({ code: STATUS_CODE.unavailable, message: reason, detectedBy: 'deadline' });
    });
  }

  /** Not HTTP/2 pings: servers limit them, and a proxy may answer them for a dead process. */
  async #probe(epoch: number): Promise<void> {
    const alive = (await this.#attempt?.probe(this.#spec.timers.probeTimeoutMs)) ?? true;
    if (alive || epoch !== this.#epoch || !this.#attempt) return;
    this.#endWith({
      code: STATUS_CODE.deadlineExceeded,
      message: 'the liveness probe was not answered',
      detectedBy: 'probe',
    });
  }

  /** The gateway itself ends the stream. */
  #endWith(end: StreamEnd): void {
    const epoch = this.#epoch;
    this.#drop();
    this.#handlers.onEvent(epoch, { kind: 'ended', end });
  }

  #drop(): void {
    clearInterval(this.#probeTimer);
    this.#probeTimer = undefined;
    this.#guarded?.failed();
    this.#guarded = undefined;
    this.#attempt?.cancel();
    this.#attempt = undefined;
  }
}

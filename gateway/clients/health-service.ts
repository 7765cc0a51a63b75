/**
 * The health service of gRPC (`grpc.health.v1.Health`, gRPC's doc/health-checking.md), for load balancers
 * and for gRPC's own health checks. It says what `/ready` says, and NOT_SERVING while the gateway drains.
 * Every service that the gateway serves to clients has the health of the whole gateway.
 */
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import {
  decodeHealthRequest,
  encodeHealthResponse,
  type HealthStatus,
} from '../../protos/health.js';
import type { CallHandlers, GrpcCall } from './grpc-call.js';

/** The part of a call that a health check uses. */
export type HealthCall = Pick<GrpcCall, 'write' | 'end'>;

export interface HealthServiceOptions {
  /** The full names of the services that it knows, besides the empty name of the whole gateway. */
  readonly services: readonly string[];
  readonly isReady: () => boolean;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
}

/** Whether the gateway is ready is computed at most this often, however many clients ask. Milliseconds. */
const FRESH_MS = 1_000;

const UNREADABLE: RpcStatus = {
  code: STATUS_CODE.invalidArgument,
  message: 'the request is not a HealthCheckRequest',
};
const NOT_ONE_MESSAGE: RpcStatus = {
  code: STATUS_CODE.internal,
  message: 'a health check has exactly one request',
};
const UNKNOWN_SERVICE: RpcStatus = {
  code: STATUS_CODE.notFound,
  message: 'the gateway does not serve this service',
};

export class HealthService {
  readonly #options: HealthServiceOptions;
  readonly #services: ReadonlySet<string>;
  readonly #watches = new Set<Watch>();
  #isDraining = false;
  #wasReady = false;
  #readAtMs = -Infinity;

  constructor(options: HealthServiceOptions) {
    this.#options = options;
    this.#services = new Set(['', ...options.services]);
  }

  /** One request, one response: NOT_FOUND for an unknown service. */
  check(call: HealthCall): CallHandlers {
    return {
      onMessage: (bytes) => {
        const status = this.#statusFor(bytes);
        if (typeof status !== 'string') call.end(status);
        else if (status === 'SERVICE_UNKNOWN') call.end(UNKNOWN_SERVICE);
        else {
          call.write([encodeHealthResponse(status)]);
          call.end(undefined);
        }
      },
      // One small message: there is no other to wait for.
      onDrain: () => undefined,
      onEnd: () => {
        call.end(NOT_ONE_MESSAGE);
      },
      onClosed: () => undefined,
    };
  }

  /** One request; a response at once, and one for each change. An unknown service stays unknown. */
  watch(call: HealthCall): CallHandlers {
    let watch: Watch | undefined;
    return {
      onMessage: (bytes) => {
        const status = watch ? NOT_ONE_MESSAGE : this.#statusFor(bytes);
        if (typeof status !== 'string') {
          call.end(status);
          return;
        }
        watch = new Watch(call, status);
        this.#watches.add(watch);
      },
      onDrain: () => {
        watch?.handleDrain();
      },
      // The client sends nothing after its request.
      onEnd: () => {
        if (!watch) call.end(NOT_ONE_MESSAGE);
      },
      onClosed: () => {
        if (watch) this.#watches.delete(watch);
      },
    };
  }

  /** The open watches. */
  get watches(): ReadonlySet<{ end(status: RpcStatus): void }> {
    return this.#watches;
  }

  /** Tells each watching client what changed. Call it about once a second. */
  handleTimer(): void {
    if (this.#watches.size === 0) return;
    const status = this.#statusNow();
    for (const watch of this.#watches) watch.handleChange(status);
  }

  /** From now on the gateway is NOT_SERVING. */
  handleDraining(): void {
    this.#isDraining = true;
    this.handleTimer();
  }

  #statusFor(bytes: Uint8Array): HealthStatus | RpcStatus {
    const decoded = decodeHealthRequest(bytes);
    if (!decoded.ok) return UNREADABLE;
    return this.#services.has(decoded.message) ? this.#statusNow() : 'SERVICE_UNKNOWN';
  }

  #statusNow(): HealthStatus {
    const nowMs = this.#options.clock();
    if (nowMs - this.#readAtMs >= FRESH_MS) {
      this.#readAtMs = nowMs;
      this.#wasReady = this.#options.isReady();
    }
    return this.#wasReady && !this.#isDraining ? 'SERVING' : 'NOT_SERVING';
  }
}

/** A client that watches. One that does not read gets the latest status when it reads again. */
class Watch {
  readonly #call: HealthCall;
  #isWritable = true;
  #due: HealthStatus;
  #told: HealthStatus | undefined;

  constructor(call: HealthCall, first: HealthStatus) {
    this.#call = call;
    this.#due = first;
    this.#tell();
  }

  /** @param status of the gateway, whatever service is watched */
  handleChange(status: HealthStatus): void {
    if (this.#due === 'SERVICE_UNKNOWN') return;
    this.#due = status;
    this.#tell();
  }

  handleDrain(): void {
    this.#isWritable = true;
    this.#tell();
  }

  end(status: RpcStatus): void {
    this.#call.end(status);
  }

  #tell(): void {
    if (!this.#isWritable || this.#due === this.#told) return;
    this.#told = this.#due;
    this.#isWritable = this.#call.write([encodeHealthResponse(this.#due)]);
  }
}

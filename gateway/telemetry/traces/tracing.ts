/**
 * Joins the parts that trace changes. The gateway has one only if `traces.endpoint` is set; otherwise nothing calls it.
 * Tracing never throws into its callers: an exception would end a stream of a client or a source.
 */
import type { Chunks } from '../../../protos/discovery-fields.js';
import type { FederationEffect } from '../../../authorities/index.js';
import type { ClientStreamEvent } from '../../clients/client-stream.js';
import type { HeldChange } from '../../core/cache/resource-cache.js';
import type { Telemetry } from '../telemetry.js';
import { ChangeTraces, type TracedStream } from './change-traces.js';
import { OtlpExporter } from './otlp-exporter.js';

export interface TracingOptions {
  readonly endpoint: string;
  /** The node id of the gateway. */
  readonly instance: string;
  readonly telemetry: Telemetry;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
}

const INTERVAL_MS = 1_000;

export class Tracing {
  readonly #changes: ChangeTraces;
  readonly #exporter: OtlpExporter;
  readonly #telemetry: Telemetry;
  readonly #clock: () => number;
  #timer: NodeJS.Timeout | undefined;

  constructor({ telemetry, clock, ...options }: TracingOptions) {
    this.#telemetry = telemetry;
    this.#clock = clock;
    this.#changes = new ChangeTraces(clock);
    this.#exporter = new OtlpExporter({
      ...options,
      clock,
      onResult: (traces, failure) => {
        telemetry.onTraces(traces, failure);
      },
    });
  }

  readonly handleFederation = (effect: FederationEffect): void => {
    this.#guard(() => {
      this.#changes.handleFederation(effect);
    });
  };

  readonly handleHeld = (change: HeldChange): void => {
    this.#guard(() => {
      this.#changes.handleHeld(change);
    });
  };

  readonly handleWritten = (stream: TracedStream, message: Chunks, atMs: number): void => {
    this.#guard(() => {
      this.#changes.handleWritten(stream, message, atMs);
    });
  };

  readonly handleClient = (stream: TracedStream, event: ClientStreamEvent): void => {
    this.#guard(() => {
      this.#changes.handleClient(stream, event);
    });
  };

  /** From now on, finished traces are sent every second. */
  start(): void {
    this.#timer = setInterval(() => {
      this.#send();
    }, INTERVAL_MS);
    this.#timer.unref();
  }

  #send(): void {
    this.#guard(() => {
      this.#telemetry.setDroppedTraces(this.#changes.dropped);
      void this.#exporter.send(this.#changes.takeFinished(this.#clock()));
    });
  }

  /** Sends all traces. Never rejects. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#exporter.finish();
    await this.#exporter.send(this.#changes.takeAll());
  }

  #guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#telemetry.onHandlerError(error);
    }
  }
}

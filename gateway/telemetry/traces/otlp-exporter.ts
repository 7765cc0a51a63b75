/** Sends traces to an OpenTelemetry collector (OTLP/HTTP, JSON). A collector that is slow or away costs traces only. */
import { VERSION } from '../../version.js';
import type { ChangeTrace } from './change-traces.js';
import { otlpRequest } from './otlp-request.js';

export interface OtlpExporterOptions {
  /** The full URL, such as `http://127.0.0.1:4318/v1/traces`. */
  readonly endpoint: string;
  /** The node id of the gateway. */
  readonly instance: string;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
  /** @param failure why the collector did not take the traces; undefined: it took them. Must not throw. */
  readonly onResult: (traces: number, failure: string | undefined) => void;
}

const WITHIN_MS = 5_000;

export class OtlpExporter {
  readonly #options: OtlpExporterOptions;
  #sending: Promise<void> | undefined;

  constructor(options: OtlpExporterOptions) {
    this.#options = options;
  }

  /** Sends them, or drops them while an earlier request is under way. Never rejects. */
  async send(traces: readonly ChangeTrace[]): Promise<void> {
    if (traces.length === 0) return;
    if (this.#sending) {
      this.#options.onResult(traces.length, 'the collector has not answered the request before');
      return;
    }
    this.#sending = this.#post(traces);
    await this.#sending;
    this.#sending = undefined;
  }

  /** Resolves when no request is under way. */
  async finish(): Promise<void> {
    await this.#sending;
  }

  async #post(traces: readonly ChangeTrace[]): Promise<void> {
    const { endpoint, instance, clock, onResult } = this.#options;
    const service = { version: VERSION, instance };
    try {
      const response = await fetch(endpoint, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(otlpRequest(traces, service, Date.now() - clock())),
        redirect: 'error',
        signal: AbortSignal.timeout(WITHIN_MS),
      });
      await response.body?.cancel();
      onResult(
        traces.length,
        response.ok ? undefined : `the collector answered ${response.status}`,
      );
    } catch (error) {
      const { message, cause } = error as Error;
      onResult(traces.length, cause instanceof Error ? cause.message : message);
    }
  }
}

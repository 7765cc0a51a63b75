/** Telemetry of the exchange with peer instances. */
import type { Logger } from 'pino';
import type { IgnoredReason, RevalidationCause } from '../core/peers/peer-hints.js';
import { say } from './log.js';
import type { Metrics } from './metrics.js';
import type { Repeats } from './repeats.js';
import type { Sinks } from './sinks.js';

export class PeerTelemetry {
  readonly #log: Logger;
  readonly #metrics: Metrics;
  readonly #repeats: Repeats;
  readonly #clock: () => number;
  readonly onError: (error: unknown) => void;

  constructor({ log, metrics, repeats, clock }: Sinks, onError: (error: unknown) => void) {
    this.#log = log;
    this.#metrics = metrics;
    this.#repeats = repeats;
    this.#clock = clock;
    this.onError = onError;
  }

  onConnected(server: string): void {
    say(this.#log, 'peers_connected', { server });
  }

  /** @param servers the addresses that the settings have */
  onDisconnected(reason: string, servers: readonly string[]): void {
    say(this.#log, 'peers_lost', { reason, servers });
  }

  onRefused(reason: string): void {
    const repeated = this.#repeats.tell(`peers_refused ${reason}`, this.#clock(), 'peer instances');
    if (repeated === undefined) return;
    say(this.#log, 'peers_refused', { reason, repeated });
  }

  onSent(): void {
    this.#metrics.tally('tributary_peer_messages_sent_total').count++;
  }

  onDropped(): void {
    this.#metrics.tally('tributary_peer_messages_dropped_total').count++;
  }

  onReceived(): void {
    this.#metrics.tally('tributary_peer_messages_received_total').count++;
  }

  onIgnored(reason: IgnoredReason): void {
    this.#metrics.tally('tributary_peer_messages_ignored_total', reason).count++;
  }

  onNotTold(names: number): void {
    this.#metrics.tally('tributary_peer_names_not_told_total').count += names;
  }

  onRevalidated(cause: RevalidationCause, names: number): void {
    this.#metrics.tally('tributary_revalidations_total', cause).count += names;
  }
}

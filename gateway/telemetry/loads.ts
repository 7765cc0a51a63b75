/** Telemetry of load reports: those of clients, and the streams on which sources receive their sums. */
import type { Logger } from 'pino';
import { scopeOfSource, sourceNameOf, type LoadStreamEvent } from '../../authorities/index.js';
import type { LoadReportStream, LoadReportStreamEvent } from '../clients/load-report-stream.js';
import { hostOf } from './line-rate.js';
import { say } from './log.js';
import type { Metrics, Tally } from './metrics.js';
import type { Repeats } from './repeats.js';
import type { Sinks } from './sinks.js';
import type { StreamLog } from './stream-log.js';

export class LoadTelemetry {
  readonly #log: Logger;
  readonly #metrics: Metrics;
  readonly #repeats: Repeats;
  readonly #streamLog: StreamLog;
  readonly #clock: () => number;
  readonly #reports: Tally;
  readonly #unknown: Tally;
  readonly #limited: Tally;

  constructor({ log, metrics, repeats, clock }: Sinks, streamLog: StreamLog) {
    this.#streamLog = streamLog;
    this.#log = log;
    this.#metrics = metrics;
    this.#repeats = repeats;
    this.#clock = clock;
    this.#reports = metrics.tally('tributary_load_reports_total');
    this.#unknown = metrics.tally('tributary_load_dropped_total', 'unknown');
    this.#limited = metrics.tally('tributary_load_dropped_total', 'limit');
  }

  handleClient(stream: LoadReportStream, event: LoadReportStreamEvent): void {
    const ids = { client: stream.id, peer: stream.peer, node: stream.nodeId };
    switch (event.kind) {
      case 'opened':
        this.#streamLog.say('client_opened', {
          client: stream.id,
          peer: stream.peer,
          protocol: 'lrs',
        });
        return;
      case 'closed':
        this.#streamLog.say('client_closed', { ...ids, reason: event.reason });
        return;
      case 'malformed':
        this.#metrics.tally('tributary_client_malformed_total').count++;
        this.#tellOnce('client_malformed', event.reason, { ...ids, reason: event.reason });
        return;
      case 'report': {
        const { clusters, unknown } = event;
        this.#reports.count++;
        if (this.#log.isLevelEnabled('trace')) {
          say(this.#log, 'client_load_report', {
            ...ids,
            clusters,
            unknown: unknown.length,
          });
        }
        const [first] = unknown;
        if (first === undefined) return;
        this.#unknown.count += unknown.length;
        const fields = { ...ids, clusters: unknown.length, first };
        this.#tellOnce('client_load_unknown', first, fields);
        return;
      }
    }
  }

  /** @param source id of the source and its node group */
  handleSource(source: string, event: LoadStreamEvent): void {
    const name = sourceNameOf(source);
    const nodeGroup = source === name ? {} : { nodeGroup: scopeOfSource(source) };
    const told = { source: name, ...nodeGroup };
    switch (event.kind) {
      case 'reported':
        this.#metrics.tally('tributary_source_load_reports_total', name).count++;
        return;
      case 'refused':
        this.#limited.count += event.entries;
        return;
      case 'asked': {
        const { clusters, intervalMs, byEndpoint } = event.asked;
        const asked = clusters === 'all' ? clusters : clusters.length;
        const fields = { ...told, state: 'asked', clusters: asked, intervalMs, byEndpoint };
        say(this.#log, 'source_load_stream', fields);
        return;
      }
      case 'unimplemented':
        say(this.#log, 'source_load_stream', { ...told, state: 'unimplemented' });
        return;
      case 'ended': {
        const { code, message } = event.end;
        this.#tellOnce('source_load_stream', `${source} ended ${code}`, {
          ...told,
          state: 'ended',
          code,
          reason: message,
        });
        return;
      }
    }
  }

  #tellOnce(
    event: 'client_malformed' | 'client_load_unknown' | 'source_load_stream',
    key: string,
    fields: Readonly<Record<string, unknown>>,
  ): void {
    const { peer = fields['source'] } = fields;
    const repeated = this.#repeats.tell(`${event} ${key}`, this.#clock(), hostOf(String(peer)));
    if (repeated !== undefined) say(this.#log, event, { ...fields, repeated });
  }
}

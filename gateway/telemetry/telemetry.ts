/**
 * Turns the events of the state machines into logs and metrics. Telemetry decides nothing and never
 * throws, since an exception would reach the state machine that reported the event.
 */
import type { Logger } from 'pino';
import type { ContentStoreEvent, FederationEffect } from '../../authorities/index.js';
import type { AuthorityMap } from '../../config/model.js';
import type { ClientStream, ClientStreamEvent } from '../clients/client-stream.js';
import { clock } from '../clock.js';
import type { MemoryEvent } from '../state-file/collection-memory.js';
import type { MemoryLevel } from '../core/quotas/memory-level.js';
import type { QuotaRefusal } from '../core/quotas/quotas.js';
import type { HeldBack } from '../core/cache/missing-names.js';
import type { GatewayView } from '../gateway-view.js';
import type { CertificateEnds } from './certificate-ends.js';
import { LoopLag } from './loop-lag.js';
import { ClientTelemetry } from './clients.js';
import { putGauges } from './gauges.js';
import { GroupTelemetry } from './groups.js';
import { createKnownSeries } from './known-series.js';
import { LoadTelemetry } from './loads.js';
import { say } from './log.js';
import type { LostLines } from './log-destination.js';
import { MapReloads, type MapReload } from './map-reloads.js';
import { Metrics } from './metrics.js';
import type { EventName } from './event-names.js';
import { PeerTelemetry } from './peers.js';
import { QuotaTelemetry } from './quotas.js';
import { ProcessFacts } from './process-facts.js';
import { Repeats } from './repeats.js';
import type { Switches } from './switches.js';
import { StreamLog } from './stream-log.js';
import { SourceTelemetry, type SourceLoss } from './sources.js';
import { TypeWords } from './types.js';
import type { UnknownCall } from '../clients/grpc-http2.js';
import type { KeysEvent } from '../clients/client-tokens.js';
import type { TlsEvent } from '../clients/xds-server.js';

export interface TelemetryOptions {
  /** A repeated problem is logged once in this time, in milliseconds. Default: 60,000. */
  readonly repeatIntervalMs?: number;
  /** Milliseconds, monotonic. */
  readonly clock?: () => number;
  /** Unix time in milliseconds. */
  readonly wallClock?: () => number;
  /** Of the log; default: none is lost. */
  readonly lostLines?: LostLines;
}

const DEFAULT_REPEAT_INTERVAL_MS = 60_000;

const CONTENT_EVENTS = {
  opened: 'content_opened',
  refused: 'content_refused',
  damaged: 'content_damaged',
  write_failed: 'content_write_failed',
  recovered: 'content_recovered',
} as const;

export class Telemetry {
  readonly log: Logger;
  readonly metrics = new Metrics();
  readonly lag = new LoopLag();
  readonly peers: PeerTelemetry;
  readonly loads: LoadTelemetry;
  readonly #repeats: Repeats;
  readonly #clock: () => number;
  readonly #sources: SourceTelemetry;
  readonly #groups: GroupTelemetry;
  readonly #clients: ClientTelemetry;
  readonly #quotas: QuotaTelemetry;
  readonly #reloads: MapReloads;
  readonly #process = new ProcessFacts();
  readonly #lostLines: LostLines;
  #certificates: CertificateEnds | undefined;
  #stateTrouble: string | undefined;

  constructor(log: Logger, options: TelemetryOptions = {}) {
    this.log = log;
    this.#lostLines = options.lostLines ?? { count: 0 };
    this.#clock = options.clock ?? clock;
    this.#repeats = new Repeats(options.repeatIntervalMs ?? DEFAULT_REPEAT_INTERVAL_MS);
    const types = new TypeWords();
    const sinks = { log, metrics: this.metrics, repeats: this.#repeats, clock: this.#clock };
    const streamLog = new StreamLog(log, this.#repeats, this.#clock);
    this.#sources = new SourceTelemetry(sinks, types);
    const lossOf = this.#sources.lossOf.bind(this.#sources);
    this.#groups = new GroupTelemetry(sinks, lossOf);
    this.#clients = new ClientTelemetry(sinks, types, streamLog);
    this.#quotas = new QuotaTelemetry(sinks);
    this.#reloads = new MapReloads(this.metrics, options.wallClock ?? Date.now);
    this.loads = new LoadTelemetry(sinks, streamLog);
    this.peers = new PeerTelemetry(sinks, this.onHandlerError.bind(this));
  }

  /** From now on `/metrics` shows this gateway, and the ends of these certificates. */
  observe(gateway: GatewayView, certificates?: CertificateEnds): void {
    this.#certificates = certificates;
    this.#clients.hasAuthority = (authority) =>
      gateway.upstream.view.map.authorities.has(authority);
    this.metrics.collect = (put) => {
      this.#process.put(put);
      certificates?.put(put);
      return putGauges(put, {
        gateway,
        sources: this.#sources,
        lag: this.lag,
        reloads: this.#reloads,
        nowMs: this.#clock(),
      });
    };
    createKnownSeries(this.metrics, gateway.upstream.view.map);
    this.lag.start();
  }

  close(): void {
    this.lag.stop();
  }

  /** @param source id of the source and its node group. @returns undefined: it is not lost */
  lossOf(source: string): SourceLoss | undefined {
    return this.#sources.lossOf(source);
  }

  get switches(): Switches {
    return this.#groups.switches;
  }

  /** The body of `/metrics`. */
  async *metricsPieces(): AsyncGenerator<string> {
    await Promise.all([this.#process.read(this.metrics), this.#certificates?.read()]);
    this.metrics.tally('tributary_log_lines_withheld_total').count = this.#repeats.withheldTotal;
    this.metrics.tally('tributary_log_lines_lost_total').count = this.#lostLines.count;
    yield* this.metrics.pieces();
  }

  /** Logs an event of the process that has no metric. */
  say(event: EventName, fields: Readonly<Record<string, unknown>> = {}, message?: string): void {
    say(this.log, event, fields, message);
  }

  onFederation(effect: FederationEffect): void {
    switch (effect.kind) {
      case 'server':
        this.#sources.handle(effect.source, effect.effect);
        return;
      case 'closed':
        this.#sources.forget(effect.source);
        return;
      case 'group':
        this.#groups.handle(effect.group, effect.event);
        return;
      case 'file_refused':
        this.#sources.onFileRefused(effect.source, effect.name, effect.reason);
        return;
    }
  }

  onFileProblems(source: string, problems: readonly string[]): void {
    this.#sources.onFileProblems(source, problems);
  }

  onClient(stream: ClientStream, event: ClientStreamEvent): void {
    this.#clients.handle(stream, event);
  }

  onClientRequest(): void {
    this.#clients.requests.count++;
  }

  onUnknownMethod(call: UnknownCall): void {
    this.#clients.handleUnknownMethod(call);
  }

  onUnwritable(typeUrl: string, reason: string): void {
    this.#clients.handleUnwritable(typeUrl, reason);
  }

  onQuota(refusal: QuotaRefusal): void {
    this.#quotas.handleRefused(refusal);
  }

  onMemoryLevel(level: MemoryLevel, fullness: number): void {
    this.#quotas.handleLevel(level, fullness);
  }

  onTls(event: TlsEvent): void {
    const { listener } = event;
    if (event.kind === 'reloaded') this.say('tls_reloaded', { listener });
    else this.say('tls_refused', { listener, reason: event.reason });
  }

  onKeys(event: KeysEvent): void {
    if (event.kind === 'reloaded') this.say('jwks_reloaded');
    else this.say('jwks_refused', { reason: event.reason });
  }

  onHeldBack(held: HeldBack): void {
    this.#clients.handleHeldBack(held, {});
  }

  /** Why a restart would lose the names of collections: the state file cannot be used. */
  get stateTrouble(): string | undefined {
    return this.#stateTrouble;
  }

  onContentStore({ kind, ...fields }: ContentStoreEvent): void {
    this.say(CONTENT_EVENTS[kind], fields);
  }

  /** Logs a repeated write failure once, until a write succeeds. */
  onCollectionMemory(event: MemoryEvent): void {
    switch (event.kind) {
      case 'loaded':
        this.say('state_loaded', { collections: event.collections, names: event.names });
        return;
      case 'refused':
        this.say('state_refused', {
          file: event.file,
          reason: event.reason,
          setAside: event.setAside,
        });
        // Set aside, it is replaced by a new file.
        if (event.setAside === undefined) this.#stateTrouble = `${event.file}: ${event.reason}`;
        return;
      case 'written':
        this.metrics.tally('tributary_state_writes_total', 'written').count++;
        this.say(this.#stateTrouble === undefined ? 'state_written' : 'state_recovered');
        this.#stateTrouble = undefined;
        return;
      case 'write_failed':
        this.metrics.tally('tributary_state_writes_total', 'failed').count++;
        if (this.#stateTrouble === undefined) {
          this.say('state_write_failed', { file: event.file, reason: event.reason });
        }
        this.#stateTrouble = `${event.file}: cannot be written: ${event.reason}`;
        return;
    }
  }

  /** @param map the new map that is now in force; absent: the old one stays */
  onMapReload(result: MapReload, map?: AuthorityMap): void {
    this.#reloads.count(result);
    if (map) createKnownSeries(this.metrics, map);
  }

  /** @param failure why the collector did not take the traces; undefined: it took them */
  onTraces(traces: number, failure: string | undefined): void {
    const result = failure === undefined ? 'sent' : 'failed';
    this.metrics.tally('tributary_traces_total', result).count += traces;
    if (failure === undefined) return;
    const repeated = this.#repeats.tell(`traces_failed ${failure}`, this.#clock());
    if (repeated === undefined) return;
    this.say('traces_failed', { traces, reason: failure, repeated });
  }

  setDroppedTraces(total: number): void {
    this.metrics.tally('tributary_traces_total', 'dropped').count = total;
  }

  onHandlerError(error: unknown): void {
    this.metrics.tally('tributary_handler_errors_total').count++;
    say(this.log, 'handler_error', { err: error });
  }
}

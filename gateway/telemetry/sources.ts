/** Telemetry of sources: their streams, their responses, and the time of each loss. */
import type { Logger } from 'pino';
import {
  scopeOfSource,
  sourceNameOf,
  type ServerEffect,
  type StreamEnd,
  type TripReason,
} from '../../authorities/index.js';
import type { ResourceError } from '../../protos/discovery.js';
import { EVENTS } from './event-names.js';
import { say } from './log.js';
import type { Metrics, Tally } from './metrics.js';
import type { Repeats } from './repeats.js';
import type { Sinks } from './sinks.js';
import type { TypeWords } from './types.js';

/** When and how a source was lost; kept until the first response of its next stream. */
export interface SourceLoss {
  readonly atMs: number;
  readonly end: StreamEnd;
  /** How the latest attempt ended. */
  readonly last: StreamEnd;
  readonly trip: TripReason | undefined;
}

type EffectOf<K extends ServerEffect['kind']> = Extract<ServerEffect, { kind: K }>;

/** The gRPC status codes. A source may send any number; others share one label value, `other`. */
const STATUS_CODES: ReadonlySet<number> = new Set(Array.from({ length: 17 }, (_, code) => code));
const codeLabel = (code: number): string => (STATUS_CODES.has(code) ? String(code) : 'other');

/** Number of refused resources in a log line. */
const SHOWN_REFUSALS = 3;

export class SourceTelemetry {
  readonly #log: Logger;
  readonly #metrics: Metrics;
  readonly #repeats: Repeats;
  readonly #types: TypeWords;
  readonly #clock: () => number;
  readonly #losses = new Map<string, SourceLoss>();
  readonly #requests = new Map<string, Tally>();
  readonly fileProblems = new Map<string, number>();

  constructor({ log, metrics, repeats, clock }: Sinks, types: TypeWords) {
    this.#log = log;
    this.#metrics = metrics;
    this.#repeats = repeats;
    this.#types = types;
    this.#clock = clock;
  }

  lossOf(source: string): SourceLoss | undefined {
    return this.#losses.get(source);
  }

  /** The source of one node group was closed. */
  forget(id: string): void {
    this.#losses.delete(id);
    this.#requests.delete(id);
  }

  /** @param source id of the source and its node group; metrics have no label for the node group */
  handle(source: string, effect: ServerEffect): void {
    switch (effect.kind) {
      case 'send': {
        let requests = this.#requests.get(source);
        if (!requests) {
          requests = this.#metrics.tally('tributary_source_requests_total', sourceNameOf(source));
          this.#requests.set(source, requests);
        }
        requests.count++;
        return;
      }
      case 'received':
        this.#received(source, effect);
        return;
      case 'refused':
        // `lost` says why.
        return;
      case 'pause':
      case 'resume':
        // Of each large response.
        return;
      case 'dial':
        this.#metrics.tally('tributary_source_attempts_total', sourceNameOf(source)).count++;
        say(this.#log, 'source_dialing', { ...told(source), timeoutMs: effect.timeoutMs });
        return;
      case 'hang_up':
        say(this.#log, 'source_hung_up', { ...told(source), reason: effect.reason });
        return;
      case 'up':
        this.#up(source);
        return;
      case 'lost':
        this.#lost(source, effect);
        return;
      case 'tripped':
        this.#tripped(source, effect);
        return;
      case 'type_unserved':
        this.#tellOnce('source_type_unserved', `${source} ${effect.typeUrl}`, {
          ...told(source),
          typeUrl: effect.typeUrl,
          reason: effect.reason,
        });
        return;
      case 'unread':
        this.#tellOnce('source_unread', source, { ...told(source), reason: effect.reason });
        return;
      case 'malformed':
        this.#metrics.tally('tributary_source_malformed_total', sourceNameOf(source)).count++;
        this.#tellOnce('source_malformed', `${source} ${effect.reason}`, {
          ...told(source),
          reason: effect.reason,
        });
        return;
    }
  }

  onFileProblems(source: string, problems: readonly string[]): void {
    this.fileProblems.set(source, problems.length);
    if (problems.length > 0) say(this.#log, 'file_problems', { source, problems });
    else say(this.#log, 'file_problems_mended', { source });
  }

  onFileRefused(source: string, name: string, reason: string): void {
    this.#metrics.tally('tributary_source_refused_resources_total', source, 'other').count++;
    this.#tellOnce('file_refused', `${source} ${name} ${reason}`, { source, name, reason });
  }

  #up(source: string): void {
    const loss = this.#losses.get(source);
    this.#losses.delete(source);
    const away = loss ? { lostForMs: Math.round(this.#clock() - loss.atMs) } : {};
    say(this.#log, 'source_up', { ...told(source), ...away });
  }

  #lost(source: string, { end, livedMs }: EffectOf<'lost'>): void {
    const { code, message, detectedBy } = end;
    const known = this.#losses.get(source);
    if (!known || livedMs !== null)
      this.#losses.set(source, { atMs: this.#clock(), end, last: end, trip: known?.trip });
    else this.#losses.set(source, { ...known, last: end });
    this.#metrics.tally(
      'tributary_source_stream_ends_total',
      sourceNameOf(source),
      detectedBy,
      codeLabel(code),
    ).count++;
    const fields = { ...told(source), detectedBy, code, reason: message };
    if (livedMs === null) {
      // During an outage each attempt fails.
      this.#tellOnce('source_lost', `${source} ${detectedBy} ${code}`, fields);
      return;
    }
    this.#metrics.observe(
      'tributary_source_stream_life_seconds',
      [sourceNameOf(source)],
      livedMs / 1_000,
    );
    // What the gateway ends for a reason of its own, or a type explains, says nothing about the source.
    const level =
      detectedBy === 'gateway' || detectedBy === 'type'
        ? EVENTS.source_lost.sometimes
        : EVENTS.source_lost.level;
    say(this.#log, 'source_lost', { ...fields, livedMs: Math.round(livedMs) }, undefined, level);
  }

  #tripped(source: string, { reason, end }: EffectOf<'tripped'>): void {
    const atMs = this.#losses.get(source)?.atMs ?? this.#clock();
    this.#losses.set(source, { atMs, end, last: end, trip: reason });
    this.#metrics.tally('tributary_source_trips_total', sourceNameOf(source), reason).count++;
    const { code, message, detectedBy } = end;
    const sinceLossMs = Math.round(this.#clock() - atMs);
    say(this.#log, 'source_tripped', {
      ...told(source),
      reason,
      detectedBy,
      code,
      detail: message,
      sinceLossMs,
    });
  }

  #received(source: string, { typeUrl, outcome, errors }: EffectOf<'received'>): void {
    const { accepted, refused } = outcome;
    if (accepted > 0) this.#types.learn(typeUrl);
    const type = this.#types.word(typeUrl);
    if (errors.length > 0) this.#failed(source, type, errors);
    const metrics = this.#metrics;
    metrics.tally('tributary_source_responses_total', sourceNameOf(source), type).count++;
    metrics.tally('tributary_source_resources_total', sourceNameOf(source), type).count += accepted;
    if (this.#log.isLevelEnabled('trace'))
      say(this.#log, 'source_received', {
        ...told(source),
        type,
        accepted,
        refused: refused.length,
      });
    if (refused.length === 0) {
      metrics.tally('tributary_source_acks_total', sourceNameOf(source), type).count++;
      return;
    }
    metrics.tally('tributary_source_nacks_total', sourceNameOf(source), type).count++;
    metrics.tally('tributary_source_refused_resources_total', sourceNameOf(source), type).count +=
      refused.length;
    const [first] = refused;
    const toldType = this.#types.told(typeUrl);
    this.#tellOnce('source_refused', `${source} ${toldType} ${first?.name} ${first?.reason}`, {
      ...told(source),
      type: toldType,
      refused: refused.length,
      accepted,
      first: refused.slice(0, SHOWN_REFUSALS).map(({ name, reason }) => ({
        name,
        reason,
      })),
    });
  }

  #failed(source: string, type: string, errors: readonly ResourceError[]): void {
    for (const { status } of errors) {
      const code = codeLabel(status.code);
      const labels = [sourceNameOf(source), type, code] as const;
      this.#metrics.tally('tributary_source_resource_errors_total', ...labels).count++;
    }
    const [first] = errors;
    this.#tellOnce(
      'source_resource_errors',
      `${source} ${type} ${first?.name} ${first?.status.code}`,
      {
        ...told(source),
        type,
        errors: errors.length,
        first: errors.slice(0, SHOWN_REFUSALS).map(({ name, status: { code, message } }) => ({
          name,
          code,
          reason: message,
        })),
      },
    );
  }

  #tellOnce(
    event:
      | 'source_lost'
      | 'source_malformed'
      | 'source_unread'
      | 'source_type_unserved'
      | 'source_refused'
      | 'source_resource_errors'
      | 'file_refused',
    key: string,
    fields: Readonly<Record<string, unknown>>,
  ): void {
    const peer = `source ${String(fields['source'])}`;
    const repeated = this.#repeats.tell(`${event} ${key}`, this.#clock(), peer);
    if (repeated !== undefined) say(this.#log, event, { ...fields, repeated });
  }
}

/** The log fields that identify a source. */
function told(id: string): { readonly source: string; readonly nodeGroup?: string } {
  const source = sourceNameOf(id);
  return id === source ? { source } : { source, nodeGroup: scopeOfSource(id) };
}

/**
 * Telemetry of client streams. Every response passes through here, so the path only increments numbers
 * and builds no strings for look-ups.
 */
import type { Logger } from 'pino';
import { STATUS_CODE } from '../../protos/discovery.js';
import type { ClientStream, ClientStreamEvent } from '../clients/client-stream.js';
import type { UnknownCall } from '../clients/grpc-http2.js';
import { meaningOfUnserved } from '../clients/unserved-services.js';
import type { HeldBack } from '../core/cache/missing-names.js';
import { hostOf } from './line-rate.js';
import { say } from './log.js';
import type { CounterName, Metrics, Tally } from './metrics.js';
import type { EventName } from './event-names.js';
import type { Repeats } from './repeats.js';
import type { Sinks } from './sinks.js';
import type { StreamLog } from './stream-log.js';
import { OLD_STYLE, OTHER, type TypeWords } from './types.js';

/** The series of one authority and type. */
interface SeriesTallies {
  readonly responses: Tally;
  readonly resources: Tally;
  readonly removals: Tally;
  readonly errors: Tally;
  readonly bytes: Tally;
  readonly acks: Tally;
  readonly nacks: Tally;
}

/** One series for each authority and type, in the order of `SeriesTallies`. */
export const CLIENT_COUNTERS = [
  'tributary_client_responses_total',
  'tributary_client_resources_total',
  'tributary_client_removals_total',
  'tributary_client_errors_total',
  'tributary_client_bytes_total',
  'tributary_client_acks_total',
  'tributary_client_nacks_total',
] as const satisfies readonly CounterName[];

/** The `group` label for removals of remembered names, which belong to no group. */
const REMEMBERED = 'remembered';

export class ClientTelemetry {
  readonly #log: Logger;
  readonly #metrics: Metrics;
  readonly #repeats: Repeats;
  readonly #types: TypeWords;
  readonly #streamLog: StreamLog;
  readonly #clock: () => number;
  readonly #streams: Tally;
  readonly requests: Tally;
  readonly #malformed: Tally;
  readonly #talliesByAuthority = new Map<string, Map<string, SeriesTallies>>();
  /** Clients may request any authority; only those of the map become label values. */
  hasAuthority: (authority: string) => boolean = () => false;

  constructor({ log, metrics, repeats, clock }: Sinks, types: TypeWords, streamLog: StreamLog) {
    this.#log = log;
    this.#metrics = metrics;
    this.#repeats = repeats;
    this.#types = types;
    this.#streamLog = streamLog;
    this.#clock = clock;
    this.#streams = metrics.tally('tributary_client_streams_total');
    this.requests = metrics.tally('tributary_client_requests_total');
    this.#malformed = metrics.tally('tributary_client_malformed_total');
  }

  handle(stream: ClientStream, event: ClientStreamEvent): void {
    switch (event.kind) {
      case 'answer': {
        const tallies = this.#tallies(stream, event);
        tallies.responses.count++;
        tallies.resources.count += event.resources;
        tallies.removals.count += event.removed;
        tallies.errors.count += event.errors;
        tallies.bytes.count += event.bytes;
        if (this.#log.isLevelEnabled('trace'))
          say(this.#log, 'client_answer', { ...event, client: stream.id });
        return;
      }
      case 'ack':
        this.#tallies(stream, event).acks.count++;
        this.#metrics.observe('tributary_client_ack_seconds', [], event.sinceMs / 1_000);
        if (this.#log.isLevelEnabled('trace'))
          say(this.#log, 'client_ack', { ...event, client: stream.id });
        return;
      case 'nack':
        this.#nack(stream, event);
        return;
      case 'polled':
        this.#metrics.tally('tributary_client_polls_total', event.result).count++;
        return;
      case 'opened': {
        if (stream.flavour !== 'poll') this.#streams.count++;
        const { id: client, peer, flavour: protocol, service } = stream;
        this.#streamLog.say('client_opened', { client, peer, protocol, service });
        return;
      }
      case 'closed':
        this.#closed(stream, event);
        return;
      case 'versions_left_out': {
        const { typeUrl, versions } = event;
        const fields = { ...idsOf(stream), type: this.#types.word(typeUrl), versions };
        this.#tellOnce('client_versions_left_out', typeUrl, fields);
        return;
      }
      case 'malformed':
        this.#malformed.count++;
        this.#tellOnce('client_malformed', event.reason, {
          ...idsOf(stream),
          reason: event.reason,
        });
        return;
      case 'stale_nonce': {
        const type = this.#types.word(event.typeUrl);
        this.#metrics.tally('tributary_client_stale_nonces_total', type).count++;
        if (this.#log.isLevelEnabled('debug'))
          say(this.#log, 'client_stale_nonce', { ...idsOf(stream), type });
        return;
      }
      case 'held_back':
        this.handleHeldBack(event, idsOf(stream));
        return;
      case 'oversize':
        this.#oversize(stream, event);
        return;
      case 'withheld':
        this.#withheld(stream, event);
        return;
      case 'refused_name':
        this.#refusedName(stream, event);
        return;
    }
  }

  #closed(
    stream: ClientStream,
    { reason, code }: Extract<ClientStreamEvent, { kind: 'closed' }>,
  ): void {
    const fields = { ...idsOf(stream), reason };
    this.#streamLog.say('client_closed', fields);
    if (code === STATUS_CODE.resourceExhausted) this.#tellOnce('client_limited', reason, fields);
  }

  #refusedName(
    stream: ClientStream,
    { typeUrl, name, reason }: Extract<ClientStreamEvent, { kind: 'refused_name' }>,
  ): void {
    const type = this.#types.word(typeUrl);
    this.#metrics.tally('tributary_client_refused_names_total', type).count++;
    this.#tellOnce('client_refused_name', `${typeUrl} ${name} ${reason}`, {
      ...idsOf(stream),
      type,
      name,
      reason,
    });
  }

  /**
   * The guard holds back removals of names that a client or the state file claims. They belong to no
   * group.
   */
  handleHeldBack(held: HeldBack, holder: Readonly<Record<string, unknown>>): void {
    const { names } = held;
    const authority = this.hasAuthority(held.authority) ? held.authority : OTHER;
    const forMs = Math.round(held.untilMs - this.#clock());
    this.#metrics.tally('tributary_guarded_removals_total', authority, REMEMBERED).count += names;
    const fields = { ...holder, authority, group: REMEMBERED, names, forMs };
    this.#tellOnce('deletions_guarded', authority, fields);
  }

  /** A client that opens such a call again, on a new connection, is logged once per interval. */
  handleUnknownMethod({ path, peer }: UnknownCall): void {
    this.#metrics.tally('tributary_client_unknown_methods_total').count++;
    this.#tellOnce('client_unknown_method', `${hostOf(peer)} ${path}`, {
      peer,
      method: path,
      meaning: meaningOfUnserved(path),
    });
  }

  handleUnwritable(typeUrl: string, reason: string): void {
    const fields = { type: this.#types.word(typeUrl), reason };
    this.#tellOnce('client_unwritable', `${typeUrl} ${reason}`, fields);
  }

  #nack(stream: ClientStream, event: Extract<ClientStreamEvent, { kind: 'nack' }>): void {
    const { authority, typeUrl, detail } = event;
    this.#tallies(stream, event).nacks.count++;
    // Clients of all node groups that refuse the same resource share one line.
    const { nodeGroup } = stream;
    const [part, fields] =
      authority === nodeGroup ? ['', { nodeGroup }] : [authority, { authority }];
    this.#tellOnce('client_nack', `${part} ${typeUrl} ${detail.code} ${detail.message}`, {
      ...idsOf(stream),
      ...fields,
      type: this.#types.word(typeUrl),
      code: detail.code,
      reason: detail.message,
    });
  }

  #withheld(stream: ClientStream, event: Extract<ClientStreamEvent, { kind: 'withheld' }>): void {
    const { typeUrl, name, bytes, maxBytes } = event;
    const type = this.#types.word(typeUrl);
    this.#metrics.tally('tributary_client_withheld_total', type).count++;
    this.#tellOnce('client_withheld', `${typeUrl} ${name ?? ''}`, {
      ...idsOf(stream),
      type,
      ...(name === undefined ? { set: true } : { name }),
      bytes,
      maxBytes,
    });
  }

  #oversize(stream: ClientStream, event: Extract<ClientStreamEvent, { kind: 'oversize' }>): void {
    const { typeUrl, resources, bytes } = event;
    const type = this.#types.word(typeUrl);
    this.#metrics.tally('tributary_client_oversize_responses_total', type).count++;
    this.#tellOnce('client_oversize', typeUrl, { ...idsOf(stream), type, resources, bytes });
  }

  #tallies(
    { nodeGroup }: ClientStream,
    { authority, typeUrl }: { readonly authority: string; readonly typeUrl: string },
  ): SeriesTallies {
    // Authorities and types that a client invents share one series, so they cost no memory.
    const named = this.hasAuthority(authority) ? authority : OTHER;
    const known = authority === nodeGroup ? OLD_STYLE : named;
    const type = this.#types.isKnown(typeUrl) ? typeUrl : OTHER;
    let types = this.#talliesByAuthority.get(known);
    if (!types) this.#talliesByAuthority.set(known, (types = new Map<string, SeriesTallies>()));
    let tallies = types.get(type);
    if (!tallies) types.set(type, (tallies = this.#newTallies(known, this.#types.word(type))));
    return tallies;
  }

  #newTallies(authority: string, type: string): SeriesTallies {
    const metrics = this.#metrics;
    return {
      responses: metrics.tally('tributary_client_responses_total', authority, type),
      resources: metrics.tally('tributary_client_resources_total', authority, type),
      removals: metrics.tally('tributary_client_removals_total', authority, type),
      errors: metrics.tally('tributary_client_errors_total', authority, type),
      bytes: metrics.tally('tributary_client_bytes_total', authority, type),
      acks: metrics.tally('tributary_client_acks_total', authority, type),
      nacks: metrics.tally('tributary_client_nacks_total', authority, type),
    };
  }

  /** Logs once for all clients: a thousand clients may refuse the same resource. */
  #tellOnce(event: EventName, key: string, fields: Readonly<Record<string, unknown>>): void {
    const { peer } = fields;
    const host = typeof peer === 'string' ? hostOf(peer) : undefined;
    const repeated = this.#repeats.tell(`${event} ${key}`, this.#clock(), host);
    if (repeated !== undefined) say(this.#log, event, { ...fields, repeated });
  }
}

/** The fields of a log line that identify the client. */
function idsOf(stream: ClientStream): { readonly peer: string } & Record<string, unknown> {
  return { client: stream.id, peer: stream.peer, node: stream.node?.id };
}

/**
 * Traces of changes as an OTLP/HTTP request in JSON (opentelemetry.io, "OTLP Specification", and
 * opentelemetry/proto/trace/v1/trace.proto). The traces are complete when they are written, so the OpenTelemetry SDK,
 * which carries contexts through running code, would add dependencies and no function.
 */
import { randomBytes } from 'node:crypto';
import type { ChangeTrace, ClientSpan } from './change-traces.js';

export interface TracedService {
  readonly version: string;
  /** The node id of the gateway. */
  readonly instance: string;
}

/** `SpanKind` */
const INTERNAL = 1;
const CLIENT = 3;
/** `StatusCode` */
const ERROR = 2;
const NANOSECONDS_PER_MS = 1_000_000;
const MAX_TEXT = 1_000;

type Value = string | number | boolean | readonly string[];

/**
 * @param unixOffsetMs what to add to times of the monotonic clock
 * @returns the JSON of an `ExportTraceServiceRequest`
 */
export function otlpRequest(
  traces: readonly ChangeTrace[],
  { version, instance }: TracedService,
  unixOffsetMs: number,
): unknown {
  const resource = {
    'service.name': 'tributary',
    'service.version': version,
    'service.instance.id': instance,
  };
  return {
    resourceSpans: [
      {
        resource: { attributes: attributesOf(resource) },
        scopeSpans: [
          {
            scope: { name: 'tributary', version },
            spans: traces.flatMap((trace) => spansOf(trace, unixOffsetMs)),
          },
        ],
      },
    ],
  };
}

/** The change, from the response of the source to the last answer of a client, and a span for each client. */
function spansOf(trace: ChangeTrace, unixOffsetMs: number): readonly unknown[] {
  const { startMs, source, typeUrl, resources, names, clients, moreClients } = trace;
  const traceId = randomBytes(16).toString('hex');
  const spanId = randomBytes(8).toString('hex');
  const ends = clients.map(({ sentMs, answeredMs }) => answeredMs ?? sentMs);
  const acknowledged = clients.filter((one) => one.answeredMs !== undefined && !isRefused(one));
  const root = {
    traceId,
    spanId,
    name: 'change',
    kind: INTERNAL,
    ...times(startMs, Math.max(startMs, ...ends), unixOffsetMs),
    attributes: attributesOf({
      ...(source === undefined ? {} : { 'tributary.source': source }),
      'tributary.type_url': typeUrl,
      'tributary.resources': resources,
      'tributary.names': names,
      'tributary.clients': clients.length + moreClients,
      'tributary.clients.acknowledged': acknowledged.length,
      'tributary.clients.refused': clients.filter(isRefused).length,
    }),
  };
  const perClient = clients.map((one) => ({
    traceId,
    spanId: randomBytes(8).toString('hex'),
    parentSpanId: spanId,
    name: 'client response',
    kind: CLIENT,
    ...times(one.sentMs, one.answeredMs ?? one.sentMs, unixOffsetMs),
    attributes: attributesOf({
      'tributary.client': one.client,
      'tributary.client.node_id': one.nodeId,
      'tributary.client.protocol': one.protocol,
      'tributary.client.answered': one.answeredMs !== undefined,
    }),
    ...(one.refusal === undefined
      ? {}
      : { status: { code: ERROR, message: one.refusal.slice(0, MAX_TEXT) } }),
  }));
  return [root, ...perClient];
}

const isRefused = ({ refusal }: ClientSpan): boolean => refusal !== undefined;

/** Nanoseconds exceed the exact integers of JSON numbers, so OTLP writes them as text. */
function times(startMs: number, endMs: number, unixOffsetMs: number) {
  const nanoseconds = (ms: number): string =>
    BigInt(Math.round((ms + unixOffsetMs) * NANOSECONDS_PER_MS)).toString();
  return { startTimeUnixNano: nanoseconds(startMs), endTimeUnixNano: nanoseconds(endMs) };
}

function attributesOf(values: Readonly<Record<string, Value>>): readonly unknown[] {
  return Object.entries(values).map(([key, value]) => ({ key, value: valueOf(value) }));
}

function valueOf(value: Value): unknown {
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value === 'number') return { intValue: String(value) };
  if (typeof value === 'string') return { stringValue: value.slice(0, MAX_TEXT) };
  return { arrayValue: { values: value.map(valueOf) } };
}

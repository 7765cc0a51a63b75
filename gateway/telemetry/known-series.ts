/**
 * The series of counters whose labels are known before the first event. They exist from the start, at 0:
 * a series that begins at 1 hides its first event from `increase()` of Prometheus.
 */
import type { AuthorityMap } from '../../config/model.js';
import { QUOTAS } from '../core/quotas/limits.js';
import { QUOTA_SCOPES } from '../core/quotas/quotas.js';
import { CLIENT_COUNTERS } from './clients.js';
import type { CounterName, Metrics } from './metrics.js';
import { TRIP_REASONS } from '../../authorities/index.js';
import { STATUS_CODE } from '../../protos/discovery.js';
import { shortTypeOf, TYPE_URL } from '../../protos/type-urls.js';
import { OLD_STYLE, OTHER } from './types.js';

/** The types that nearly every client uses. Series of other types begin with their first event. */
const USUAL_TYPES = [
  TYPE_URL.listener,
  TYPE_URL.routeConfiguration,
  TYPE_URL.cluster,
  TYPE_URL.clusterLoadAssignment,
  TYPE_URL.secret,
].map(shortTypeOf);

/** With more authorities, the series of switches would make each scrape take a long turn. */
const MAX_AUTHORITIES = 500;
/** The same for the series of clients, which are more: one for each type. */
const MAX_AUTHORITIES_OF_CLIENTS = 100;

/** Why a group moves: the causes of `authorities/core/failover/failover.ts` that lead to a switch. */
const SWITCH_REASONS = {
  failover: ['primary_tripped', 'primary_slow', 'target_tripped', 'alternative_tripped', 'forced'],
  failback: [
    'primary_stable',
    'source_returned',
    'target_tripped',
    'alternative_tripped',
    'forced',
  ],
} as const;

const BY_REASON: readonly (readonly [CounterName, readonly string[]])[] = [
  ['tributary_map_reloads_total', ['applied', 'unchanged', 'refused']],
  ['tributary_state_writes_total', ['written', 'failed']],
  ['tributary_client_polls_total', ['sent', 'unchanged', 'unknown']],
  ['tributary_load_dropped_total', ['unknown', 'limit']],
  ['tributary_revalidations_total', ['hint', 'invalidation']],
];

const BY_SOURCE: readonly CounterName[] = [
  'tributary_source_attempts_total',
  'tributary_source_requests_total',
  'tributary_source_malformed_total',
  'tributary_source_load_reports_total',
];

const BY_SOURCE_AND_TYPE: readonly CounterName[] = [
  'tributary_source_responses_total',
  'tributary_source_acks_total',
  'tributary_source_nacks_total',
  'tributary_source_resources_total',
  'tributary_source_refused_resources_total',
];

const BY_TYPE: readonly CounterName[] = [
  'tributary_client_stale_nonces_total',
  'tributary_client_refused_names_total',
  'tributary_client_oversize_responses_total',
  'tributary_client_withheld_total',
];

/** How streams end (`StreamEnd`), with the gRPC status codes that each can have. */
const ENDS: readonly (readonly [string, readonly number[]])[] = [
  ['stream', Array.from({ length: 17 }, (_, code) => code)],
  ['probe', [STATUS_CODE.deadlineExceeded, STATUS_CODE.unavailable]],
  ['deadline', [STATUS_CODE.deadlineExceeded, STATUS_CODE.unavailable]],
  ['oversize', [STATUS_CODE.resourceExhausted]],
  ['gateway', [0]],
  ['type', [2]],
];

/** Creates what does not exist yet; counts stay. Call it again for a new map. */
export function createKnownSeries(metrics: Metrics, map: AuthorityMap): void {
  for (const [name, reasons] of BY_REASON) {
    for (const reason of reasons) metrics.tally(name, reason);
  }
  for (const quota of QUOTAS) {
    for (const scope of QUOTA_SCOPES) metrics.tally('tributary_quota_refusals_total', quota, scope);
  }
  for (const name of BY_TYPE) for (const type of USUAL_TYPES) metrics.tally(name, type);
  for (const source of map.sources.values()) {
    if (source.kind === 'grpc') createSource(metrics, source.name);
  }
  const specs = [
    ...map.authorities.values(),
    ...(map.oldStyle?.servedBy ?? []),
    ...(map.defaultSource ? [map.defaultSource] : []),
  ];
  if (specs.length > MAX_AUTHORITIES) return;
  for (const { name } of specs) {
    for (const [direction, reasons] of Object.entries(SWITCH_REASONS)) {
      for (const reason of reasons) {
        metrics.tally('tributary_switches_total', name, direction, reason);
      }
    }
  }
  if (map.authorities.size > MAX_AUTHORITIES_OF_CLIENTS) return;
  const oldStyle = map.oldStyle ? [OLD_STYLE] : [];
  for (const authority of [...map.authorities.keys(), ...oldStyle, OTHER]) {
    for (const name of CLIENT_COUNTERS) {
      for (const type of USUAL_TYPES) metrics.tally(name, authority, type);
    }
  }
}

function createSource(metrics: Metrics, source: string): void {
  for (const name of BY_SOURCE) metrics.tally(name, source);
  for (const name of BY_SOURCE_AND_TYPE) {
    for (const type of USUAL_TYPES) metrics.tally(name, source, type);
  }
  for (const reason of TRIP_REASONS) metrics.tally('tributary_source_trips_total', source, reason);
  for (const [detectedBy, codes] of ENDS) {
    for (const code of codes) {
      metrics.tally('tributary_source_stream_ends_total', source, detectedBy, String(code));
    }
  }
}

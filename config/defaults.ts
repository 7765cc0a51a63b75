import type { FailoverPolicy, GrpcSourceSpec, SourceTimers } from './model.js';

/**
 * The defaults of the authority map, in milliseconds and bytes as the names say.
 * `authority-map.schema.json` repeats them for editors, and a test keeps both equal.
 */
export const DEFAULT_TIMERS: SourceTimers = Object.freeze({
  backoffBaseMs: 500,
  backoffMaxMs: 30_000,
  keepaliveTimeMs: 30_000,
  keepaliveTimeoutMs: 10_000,
  probeIntervalMs: 10_000,
  probeTimeoutMs: 3_000,
  firstResponseTimeoutMs: 15_000,
  resourceTimeoutMs: 30_000,
  minStableMs: 30_000,
  shortStreamLimit: 3,
  shortStreamWindowMs: 300_000,
  failedAttemptLimit: 2,
  refusedRetryMs: 300_000,
  lingerMs: 30_000,
});

/** How the gateway speaks with a management server, unless its ConfigSource says otherwise. */
export const DEFAULT_PROTOCOL: Pick<GrpcSourceSpec, 'apiType' | 'resume'> = Object.freeze({
  apiType: 'AGGREGATED_DELTA_GRPC',
  resume: 'trusted',
});

/** Polls of a REST source. Envoy has no default for the first, and 1 s for the second. */
export const DEFAULT_REST = Object.freeze({ refreshDelayMs: 5_000, requestTimeoutMs: 5_000 });

/** The name of the spec of `default_config_source`, and of its group. */
export const DEFAULT_AUTHORITY = 'default/config_source';

export const DEFAULT_FAILOVER: FailoverPolicy = Object.freeze({
  useAlternativeWhen: Object.freeze({ kind: 'unreachable' as const }),
  holdMs: 30_000,
  holdMaxMs: 600_000,
  holdResetMs: 1_800_000,
  coldWaitMs: 10_000,
  switchWaitMs: 2_000,
  unavailableAfterMs: 15_000,
  prewarm: 'off',
  lingerMs: 30_000,
  deletionGuard: Object.freeze({ share: 0.5, count: 10, waitMs: 60_000, then: 'proceed' as const }),
});

/**
 * Largest accepted response of a source: Envoy's and gRPC's 4 MiB are too small for whole
 * collections.
 */
export const DEFAULT_MAX_RECEIVE_BYTES = 16 * 1_024 * 1_024;

/** Envoy's defaults for an empty `rate_limit_settings` (`RateLimitSettings`). */
export const DEFAULT_RATE_LIMIT = Object.freeze({ maxTokens: 100, fillRatePerSecond: 10 });

/** The operator's key of a field: `holdMaxMs` → `hold_max`, `shortStreamLimit` → `short_stream_limit`. */
export function settingKey(field: string): string {
  return toSnakeCase(field.replace(/(Ms|Bytes)$/, ''));
}

/** `apiConfigSource` → `api_config_source`. */
export function toSnakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** `api_config_source` → `apiConfigSource`, as proto3 JSON spells field names. */
export function toCamelCase(name: string): string {
  return name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** Reads how the gateway speaks with a management server: `api_type`, and the polls of REST. */
import type { Cursor } from './cursor.js';
import { DEFAULT_PROTOCOL, DEFAULT_REST } from './defaults.js';
import type { ApiType, GrpcSourceSpec } from './model.js';
import { didYouMean } from './nearest.js';

const API_TYPES: readonly ApiType[] = [
  'AGGREGATED_DELTA_GRPC',
  'DELTA_GRPC',
  'AGGREGATED_GRPC',
  'GRPC',
  'REST',
];

/** `ApiConfigSource.ApiType` by number, which proto3 JSON allows. */
const BY_NUMBER: Readonly<Record<number, ApiType>> = {
  1: 'REST',
  2: 'GRPC',
  3: 'DELTA_GRPC',
  5: 'AGGREGATED_GRPC',
  6: 'AGGREGATED_DELTA_GRPC',
};

/** Fields of an ApiConfigSource that only REST has. */
export const REST_FIELDS = ['cluster_names', 'refresh_delay', 'request_timeout'] as const;

/** @returns undefined after a problem, reported here or by the schema */
export function readApiType(at: Cursor, presence: 'needed' | 'optional'): ApiType | undefined {
  const field = at.field('api_type');
  const { value } = field;
  if (!field.present && presence === 'optional') return DEFAULT_PROTOCOL.apiType;
  if (!field.present) {
    at.problem('has no api_type', `write ${DEFAULT_PROTOCOL.apiType}`, 'key');
    return undefined;
  }
  if (typeof value !== 'string' && typeof value !== 'number') return undefined;
  const found = API_TYPES.find((one) => one === value) ?? BY_NUMBER[Number(value)];
  if (found === undefined) {
    field.problem(`unknown api_type ${value}`, didYouMean(String(value), API_TYPES));
  }
  return found;
}

/** The polls of a REST source. */
export function readPolling(at: Cursor): NonNullable<GrpcSourceSpec['rest']> {
  const ms = (name: string): number | undefined => at.field(name).durationMs('more than zero');
  return {
    refreshDelayMs: ms('refresh_delay') ?? DEFAULT_REST.refreshDelayMs,
    requestTimeoutMs: ms('request_timeout') ?? DEFAULT_REST.requestTimeoutMs,
  };
}

/**
 * The messages of the health service of gRPC (`grpc.health.v1`, gRPC's doc/health-checking.md). Written by
 * hand, not with the descriptors of `envoy-registry.ts`: a health check must not stop the process for 0.1 s
 * to load them.
 */
import { decode, field, maxFieldsFor, readTag, readText, wireTypeOf } from './discovery-fields.js';
import type { Decoded } from './discovery.js';
import { wireType } from './protobuf-fields.js';

export const HEALTH_SERVICE = 'grpc.health.v1.Health';

/** `SERVICE_UNKNOWN`: `Watch` was asked for a service that the server does not know. */
export type HealthStatus = 'SERVING' | 'NOT_SERVING' | 'SERVICE_UNKNOWN';

/** `HealthCheckResponse.ServingStatus`. */
const NUMBERS: Readonly<Record<HealthStatus, number>> = {
  SERVING: 1,
  NOT_SERVING: 2,
  SERVICE_UNKNOWN: 3,
};

/**
 * Decodes a `HealthCheckRequest`.
 *
 * @returns the full name of the service; empty: the whole server
 */
export function decodeHealthRequest(bytes: Uint8Array): Decoded<string> {
  return decode(bytes, (reader) => {
    reader.fieldsLeft = maxFieldsFor(0);
    let service = '';
    while (reader.pos < reader.len) {
      const tag = readTag(reader);
      if (field(tag) === 1 && wireTypeOf(tag) === wireType.bytes) service = readText(reader);
      else reader.skipType(wireTypeOf(tag));
    }
    return service;
  });
}

/** Encodes a `HealthCheckResponse`. */
export const encodeHealthResponse = (status: HealthStatus): Buffer =>
  Buffer.from([0x08, NUMBERS[status]]);

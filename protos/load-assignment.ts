/** Looks into a ClusterLoadAssignment (envoy.config.endpoint.v3) without decoding it. */
import { FieldCursor, wireType } from './protobuf-fields.js';

/** `endpoints` of ClusterLoadAssignment: its localities. */
const LOCALITIES = 2;
/** Of LocalityLbEndpoints: `lb_endpoints`, `load_balancer_endpoints` and `leds_cluster_locality_config`. */
const ENDPOINTS: ReadonlySet<number> = new Set([2, 7, 8]);

/**
 * Does a locality have endpoints, or name a collection of them (LEDS)?
 *
 * @param bytes have the encoded ClusterLoadAssignment from `start` to `end`
 * @returns true for bytes that cannot be read
 */
export function hasEndpoints(bytes: Uint8Array, start = 0, end = bytes.length): boolean {
  const fields = new FieldCursor(bytes, start, end);
  while (fields.next()) {
    if (fields.number !== LOCALITIES || fields.wire !== wireType.bytes) continue;
    const locality = new FieldCursor(bytes, fields.valueStart, fields.valueEnd);
    while (locality.next()) if (ENDPOINTS.has(locality.number)) return true;
    if (locality.malformed) return true;
  }
  return fields.malformed;
}

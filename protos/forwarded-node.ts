/**
 * A client's Node as sources get it (`forward_node: all`): the received bytes, without the features of
 * the client that would change the form of the responses towards the gateway.
 */
import { FieldCursor, wireType } from './protobuf-fields.js';

/** `Node.client_features`. */
const CLIENT_FEATURES = 10;

/**
 * Features that only the receiver of the stream can promise:
 * - A source may wrap state-of-the-world resources in `Resource` only if the gateway can unwrap them
 *   (xDS protocol, "TTL": `xds.config.supports-resource-in-sotw`; gRFC A47 and go-control-plane write
 *   `xds.config.resource-in-sotw`). The gateway's streams do not promise it.
 *
 * `xds.config.supports-resource-ttl` stays: the gateway enforces TTLs itself (invariant 20). All other
 * features speak of the content, which is the client's.
 */
export const GATEWAY_FEATURES: ReadonlySet<string> = new Set([
  'xds.config.resource-in-sotw',
  'xds.config.supports-resource-in-sotw',
]);

/** @returns `bytes` themselves if there is nothing to leave out, or if they are not a Node. */
export function forwardedNode(bytes: Uint8Array): Uint8Array {
  const kept: Uint8Array[] = [];
  const cursor = new FieldCursor(bytes, 0, bytes.length);
  let at = 0;
  let from = 0;
  while (cursor.next()) {
    const { number, wire, valueStart, valueEnd } = cursor;
    if (number === CLIENT_FEATURES && wire === wireType.bytes) {
      const feature = Buffer.from(bytes.subarray(valueStart, valueEnd)).toString();
      if (GATEWAY_FEATURES.has(feature)) {
        kept.push(bytes.subarray(from, at));
        from = valueEnd;
      }
    }
    at = valueEnd;
  }
  if (cursor.malformed || kept.length === 0) return bytes;
  return Buffer.concat([...kept, bytes.subarray(from)]);
}

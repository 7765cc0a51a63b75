/**
 * A client's Node as sources get it (`forward_node: all`): the received bytes, without the features of
 * the client that would change the form of the responses towards the gateway.
 */
import { SEND_ALL_CLUSTERS_FEATURE } from './load-stats.js';
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
const GATEWAY_FEATURES: ReadonlySet<string> = new Set([
  'xds.config.resource-in-sotw',
  'xds.config.supports-resource-in-sotw',
]);

/** A client adds this one to the Node of its load reports alone (`envoy.service.load_stats.v3`). */
const STREAM_FEATURES: ReadonlySet<string> = new Set([
  ...GATEWAY_FEATURES,
  SEND_ALL_CLUSTERS_FEATURE,
]);

/** @returns `bytes` themselves if there is nothing to leave out, or if they are not a Node. */
export const forwardedNode = (bytes: Uint8Array): Uint8Array =>
  withoutFeatures(bytes, GATEWAY_FEATURES);

/**
 * The part of a Node that all streams of one client have in common: its load reports must find the node
 * group of its resources. @returns as {@link forwardedNode}
 */
export const commonNode = (bytes: Uint8Array): Uint8Array =>
  withoutFeatures(bytes, STREAM_FEATURES);

function withoutFeatures(bytes: Uint8Array, features: ReadonlySet<string>): Uint8Array {
  const kept: Uint8Array[] = [];
  const cursor = new FieldCursor(bytes, 0, bytes.length);
  let at = 0;
  let from = 0;
  while (cursor.next()) {
    const { number, wire, valueStart, valueEnd } = cursor;
    if (number === CLIENT_FEATURES && wire === wireType.bytes) {
      const feature = Buffer.from(bytes.subarray(valueStart, valueEnd)).toString();
      if (features.has(feature)) {
        kept.push(bytes.subarray(from, at));
        from = valueEnd;
      }
    }
    at = valueEnd;
  }
  if (cursor.malformed || kept.length === 0) return bytes;
  return Buffer.concat([...kept, bytes.subarray(from)]);
}

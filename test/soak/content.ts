/** Clusters that say when they were published: content for programs that move much of it. */
import { TYPE_URL } from '../../protos/type-urls.js';
import { lengthDelimited } from '../sim/names.js';

export const CDS = TYPE_URL.cluster;

export function clusterName(authority: string, path: string): string {
  return `xdstp://${authority}/envoy.config.cluster.v3.Cluster/${path}`;
}

/** @param mark tells this publication from all others of the name; padded to `bytes`. */
export function clusterBody(name: string, mark: string, bytes: number): Buffer {
  return Buffer.concat([
    lengthDelimited(1, Buffer.from(name)),
    // `alt_stat_name`: a text that says nothing to the gateway.
    lengthDelimited(28, Buffer.from(`${mark} `.padEnd(bytes, 'x'))),
  ]);
}

/** The name in a body of {@link clusterBody}, of 127 bytes at most. */
export function nameIn(body: Uint8Array): string {
  return Buffer.from(body.subarray(2, 2 + (body[1] ?? 0))).toString();
}

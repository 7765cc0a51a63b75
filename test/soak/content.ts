/** Clusters and listeners that say when they were published: content for programs that move much of it. */
import { TYPE_URL } from '../../protos/type-urls.js';
import { lengthDelimited } from '../sim/names.js';

export const CDS = TYPE_URL.cluster;
export const LDS = TYPE_URL.listener;

/** @param path e.g. `all/7`, or `all/*` for the glob */
export function xdstpName(typeUrl: string, authority: string, path: string): string {
  return `xdstp://${authority}/${typeUrl.slice(typeUrl.lastIndexOf('/') + 1)}/${path}`;
}

/**
 * A Cluster or a Listener: both have their name as field 1, and as field 28 a text that says nothing to
 * the gateway (`alt_stat_name`, `stat_prefix`).
 *
 * @param mark tells this publication from all others of the name; padded to `bytes`.
 */
export function bodyOf(name: string, mark: string, bytes: number): Buffer {
  return Buffer.concat([
    lengthDelimited(1, Buffer.from(name)),
    lengthDelimited(28, Buffer.from(`${mark} `.padEnd(bytes, 'x'))),
  ]);
}

/** The name in a body of {@link bodyOf}, of 127 bytes at most. */
export function nameIn(body: Uint8Array): string {
  return Buffer.from(body.subarray(2, 2 + (body[1] ?? 0))).toString();
}

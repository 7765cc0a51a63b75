/**
 * A client that returns while a cluster warms gets listeners and routes after its request for clusters, or after the
 * deadline of that (ENVOY 24).
 */
import { LDS, RDS } from './names.js';
import { Violation } from './oracle.js';
import { ACK_DEADLINE_MS } from './world.js';

/** A response to such a client. */
interface Answer {
  readonly typeUrl: string;
  /** It has resources that are new to the client or changed. */
  readonly hasContent: boolean;
  readonly sentMs: number;
}

/**
 * @param connectedMs when the stream started, which has no request for clusters yet
 * @throws Violation
 */
export function checkWarming(
  client: string,
  { typeUrl, hasContent, sentMs }: Answer,
  connectedMs: number,
): void {
  if (!hasContent || (typeUrl !== LDS && typeUrl !== RDS)) return;
  if (sentMs - connectedMs > ACK_DEADLINE_MS / 2) return;
  throw new Violation('ENVOY 24', `${client} gets ${typeUrl} before its request for clusters`);
}

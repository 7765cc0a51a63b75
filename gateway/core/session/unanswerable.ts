/**
 * When does a stream without any response end? A client with a second server then connects there before
 * it gives up its names after 15 s (gRFC A71).
 */
import { STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';

/** Ends a stream that got no response, so that its client tries another server. */
export const UNANSWERABLE: RpcStatus = {
  code: STATUS_CODE.unavailable,
  message: 'no source could answer any requested resource',
};

/**
 * @param silentSinceMs when the stream got its first request; undefined: none came, or it had a response
 * @param afterMs how long a stream may be without a response; undefined: for ever
 * @param allSubscriptions a stream whose sources answer is kept: a doubted collection takes longer, and a
 *   client that reconnected each time would never get it whole
 */
export function isUnanswerable(
  silentSinceMs: number | undefined,
  afterMs: number | undefined,
  nowMs: number,
  allSubscriptions: readonly { readonly isUnderWay: boolean }[],
): boolean {
  if (silentSinceMs === undefined || afterMs === undefined) return false;
  if (nowMs < silentSinceMs + afterMs) return false;
  return !allSubscriptions.some((subscriptions) => subscriptions.isUnderWay);
}

/** Clients whose streams end without a response, again and again (GRPC 8, `unanswerable_stream: end`). */
import type { ModelClient } from './model-client.js';
import { isGlob, isList, partsOf } from './names.js';
import type { Scene } from './scene.js';
import { SotwClient } from './sotw-client.js';
import { isWholeType } from './upstream-wire.js';

/**
 * May a client go from instance to instance for ever, because no source says anything about its names? Each time the
 * instance opens a stream, which counts as live only when the source has been silent for a while, and the client has no
 * stream until it comes back. An absent cluster of a state-of-the-world source is proven absent only after
 * `resource_timeout`, and the stream ends before. Found by seeds 23014, 485 and 23451.
 */
export function mayWander(scene: Scene, client: ModelClient): boolean {
  if (!scene.spec.sotw.endsUnanswerable) return false;
  const names = client.typeUrls.flatMap((typeUrl) => [...client.type(typeUrl).subscribed]);
  if (names.length === 0) return false;
  return names.every((name) => isSilent(scene, name) || waitsForOthers(scene, client, name));
}

/**
 * A list without an answer for any of its entries is silent too (seed 89286). Without a linger, a collection that was left
 * with the last stream counts as empty only after `resource_timeout` (seed 129752).
 */
function isSilent({ oracle, spec }: Scene, name: string): boolean {
  if (oracle.maySayNothing(name, true)) return true;
  if (isGlob(name) && spec.unsubscribedLingerMs === 0 && !oracle.isThere(name)) return true;
  const entries = isList(name) ? oracle.entries(name) : [];
  return entries.length > 0 && entries.every((entry) => oracle.maySayNothing(entry, true));
}

/**
 * A set of listeners or clusters is not sent while a name is unknown that the client may hold, and never empty while
 * any name of it is unknown (GRPC 7, seed 87365).
 */
function waitsForOthers(scene: Scene, client: ModelClient, name: string): boolean {
  const { typeUrl } = partsOf(name);
  if (!(client instanceof SotwClient) || !isWholeType(typeUrl)) return false;
  const { subscribed, version } = client.type(typeUrl);
  const mayBeSent = version === '' && [...subscribed].some((one) => scene.oracle.isThere(one));
  return !mayBeSent && [...subscribed].some((one) => isSilent(scene, one));
}

/** Where a state-of-the-world client may wait for ever, because no source says anything about a name. */
import { partsOf } from './names.js';
import type { Oracle } from './oracle.js';
import { isWhole, type SotwClient } from './sotw-client.js';

/**
 * May the gateway send no set of this type? No source ever says whether an entry of a list exists that a
 * source of the state of the world lacks (docs/SPEC.md, "What each variant of a source does"). So it sends
 * none to a client that resumed the entry and may hold it, and to no client an empty one (GRPC 7). Found by
 * seeds 1178 and 5378.
 */
export function mayHaveNoSet(oracle: Oracle, client: SotwClient, typeUrl: string): boolean {
  const { subscribed, named, claims } = client.type(typeUrl);
  const unknown = [...subscribed].filter(
    (name) => partsOf(name).entryOf !== undefined && oracle.maySayNothing(name),
  );
  if (!isWhole(typeUrl) || unknown.length === 0) return false;
  if (claims !== 'nothing' && unknown.some((name) => named.has(name))) return true;
  return ![...subscribed].some((name) => oracle.isThere(name));
}

/** May the gateway have nothing to send at all? */
export function maySendNothing(oracle: Oracle, client: SotwClient): boolean {
  return client.typeUrls.every(
    (typeUrl) =>
      mayHaveNoSet(oracle, client, typeUrl) ||
      [...client.type(typeUrl).subscribed].every((name) => oracle.maySayNothing(name)),
  );
}

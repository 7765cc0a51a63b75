/**
 * Rules for clients in a simulated world, and what they allow: each client has a certificate with its
 * name, and the rules of its entry change while it is served (invariant 23).
 */
import type { AuthorityMap, ClientGrant, ClientRule, PathPattern } from '../../config/model.js';
import type { Requester } from '../../gateway/core/rights/requester.js';
import { isGlob, partsOf } from './names.js';
import type { Random } from './random.js';

const PATHS: readonly PathPattern[] = [
  { prefix: '' },
  { prefix: 'e/' },
  { prefix: 'f/' },
  { prefix: 'g/' },
  { id: 'x' },
  { id: 'e/x' },
  { id: 'g/1' },
];

const SPIFFE = 'spiffe://sim/';

/** How the instances know a client. */
export const requesterOf = (client: string): Requester => ({
  identity: { kind: 'certificate', uris: [SPIFFE + client], dnsNames: [] },
  address: '127.0.0.1',
});

/** Random rules for these clients; sometimes none for one of them. */
export function makeRules(
  dice: Random,
  map: AuthorityMap,
  clients: readonly string[],
): readonly ClientRule[] {
  return clients
    .filter(() => dice.chance(0.9))
    .map((client) => ({
      match: { spiffe: SPIFFE + client },
      allow: [...map.authorities.keys()].flatMap((authority): readonly ClientGrant[] =>
        dice.chance(0.2)
          ? []
          : [{ kind: 'xdstp', authority, paths: dice.some(PATHS, 0.4), types: undefined }],
      ),
      limits: {},
      hideExistence: dice.chance(0.3),
    }));
}

/** Does the map allow this client this name or glob? In other words than the gateway. */
export function isAllowed({ clients }: AuthorityMap, client: string, name: string): boolean {
  if (!clients) return true;
  const { authority, id } = partsOf(name);
  const rule = clients.find(({ match }) => match.spiffe === SPIFFE + client);
  return (rule?.allow ?? []).some((grant) => {
    if (grant.kind !== 'xdstp' || grant.authority !== authority) return false;
    return (grant.paths ?? []).some((path) =>
      'prefix' in path ? id.startsWith(path.prefix) : !isGlob(name) && id === path.id,
    );
  });
}

/** May any of the maps so far have denied it? Then the client may miss it for a while, or lose it. */
export function mayHaveBeenDenied(
  maps: readonly { readonly map: AuthorityMap }[],
  client: string,
  name: string,
): boolean {
  return maps.some(({ map }) => !isAllowed(map, client, name));
}

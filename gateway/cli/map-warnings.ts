/** What a start and each reload of the authority map warn of. */
import type { FederationView } from '../../authorities/index.js';
import type { AuthorityMap } from '../../config/model.js';
import { formatPath, formatProblem } from '../../config/problems.js';
import { isOpenToOthers, type Settings } from '../../config/settings.js';
import { identityWarnings } from '../../config/unmatched-rules.js';
import type { Telemetry } from '../telemetry/telemetry.js';

/** @param warnings of the file itself, one text each: `file:line:column: …` */
export function sayMapWarnings(
  map: Pick<AuthorityMap, 'clients'>,
  warnings: readonly string[],
  { client, authorityMap }: Pick<Settings, 'client' | 'authorityMap'>,
  telemetry: Pick<Telemetry, 'say'>,
): void {
  const unfitting = identityWarnings(map.clients, client, authorityMap).map(formatProblem);
  for (const warning of [...warnings, ...unfitting]) telemetry.say('map_warning', { warning });
  if (!map.clients && isOpenToOthers(client)) telemetry.say('clients_unrestricted');
}

/** The log lists at most as many authorities. */
const MAX_AUTHORITIES = 50;

/**
 * Warns of names that clients subscribe to and lose by a reload. Call this before it.
 *
 * @param file the path of the map
 */
export function sayLostNames(
  view: Pick<FederationView, 'map' | 'groupsOf'>,
  next: Pick<AuthorityMap, 'authorities' | 'defaultSource'>,
  file: string,
  telemetry: Pick<Telemetry, 'say'>,
): void {
  // It serves the names of all authorities that the map does not have.
  if (next.defaultSource) return;
  const gone = [...view.map.authorities.keys()].filter((name) => !next.authorities.has(name));
  const lost = gone.flatMap((name) => {
    const names = view.groupsOf(name).reduce((sum, { demandCount }) => sum + demandCount, 0);
    return names === 0 ? [] : [{ name, names }];
  });
  for (const { name, names } of lost.slice(0, MAX_AUTHORITIES)) {
    const field = formatPath(['authorities', name]);
    const remedy = 'to rename it, keep both until no client uses the old name';
    const message = `is not in the map any more: clients lose ${names} names or globs`;
    telemetry.say('map_warning', { warning: `${file}: ${field}: ${message} (${remedy})` });
  }
}

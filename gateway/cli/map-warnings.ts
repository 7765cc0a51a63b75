/** What a start and each reload of the authority map warn of. */
import type { AuthorityMap } from '../../config/model.js';
import { formatProblem } from '../../config/problems.js';
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

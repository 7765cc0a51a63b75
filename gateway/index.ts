/**
 * The library: a gateway inside another Node process.
 *
 *     const read = loadSettings({ argv: ['--authority-map', 'map.yaml'], env: process.env });
 *     if (!read.ok) throw new Error(read.problems.map(formatProblem).join('\n'));
 *     const loaded = loadAuthorityMap(read.settings.authorityMap);
 *     if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'));
 *     const gateway = embedGateway(read.settings, loaded.map);
 *     const port = await gateway.start();
 *
 * It installs no signal handlers, and does not read the authority map again: `gateway.reload(map)` applies another map. It does
 * read certificates, keys, tokens and the files of sources again. `gateway.stop()` drains the clients. `serve` (cli/serve.ts) is the same gateway as a process.
 */
import type { AuthorityMap } from '../config/model.js';
import type { Settings } from '../config/settings.js';
import { createGateway, type Gateway } from './compose.js';
import { createLog } from './telemetry/log.js';
import { Telemetry } from './telemetry/telemetry.js';

export { loadAuthorityMap, parseAuthorityMap } from '../config/authority-map.js';
export type { AuthorityMap } from '../config/model.js';
export { formatProblem, type Problem } from '../config/problems.js';
export { loadSettings, type Settings } from '../config/settings.js';
export type { Gateway } from './compose.js';

/** A gateway that logs and counts as its settings say; it does nothing before `start`. */
export function embedGateway(settings: Settings, map: AuthorityMap): Gateway {
  const repeatIntervalMs = settings.limits.nackLogIntervalMs;
  const telemetry = new Telemetry(createLog(settings.log), { repeatIntervalMs });
  return createGateway({ settings, map, telemetry });
}

/** A gateway in this process, with a map and settings as text, and all that it writes. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import type { Test } from 'tap';
import { parseAuthorityMap } from '../../config/authority-map.js';
import type { AuthorityMap } from '../../config/model.js';
import { parseSettings } from '../../config/settings.js';
import { createGateway, type Gateway } from '../../gateway/compose.js';
import { Telemetry } from '../../gateway/telemetry/telemetry.js';

export interface StartedGateway {
  readonly gateway: Gateway;
  /** The port of the client listener. */
  readonly port: number;
  /** host:port */
  readonly admin: string;
  readonly directory: string;
  /** The lines of the log, at level trace. */
  readonly lines: readonly string[];
  /** Puts another map in force. */
  reload(map: string): void;
}

export function readMap(directory: string, text: string): AuthorityMap {
  const map = parseAuthorityMap(text, { file: join(directory, 'map.yaml') });
  if (!map.ok) throw new Error(JSON.stringify(map.problems));
  return map.map;
}

/** @param flags more settings, as on the command line; `DIR` stands for a directory of the gateway */
export async function startGateway(
  t: Test,
  map: string,
  flags: readonly string[] = [],
): Promise<StartedGateway> {
  const directory = mkdtempSync(join(tmpdir(), 'tributary-identity-'));
  const file = join(directory, 'map.yaml');
  writeFileSync(file, map);
  const ports = ['--client-port', '0', '--admin-port', '0', '--drain-grace', '100ms'];
  const argv = ['--authority-map', file, ...ports, ...flags].map((one) =>
    one.replace('DIR', directory),
  );
  const settings = parseSettings({ argv, env: {} });
  if (!settings.ok) throw new Error(JSON.stringify(settings.problems));
  const lines: string[] = [];
  const log = pino({ level: 'trace' }, { write: (line: string) => lines.push(line) });
  const gateway = createGateway({
    settings: settings.settings,
    map: readMap(directory, map),
    telemetry: new Telemetry(log),
  });
  const port = await gateway.start();
  t.teardown(async () => {
    await gateway.stop();
    rmSync(directory, { recursive: true, force: true });
  });
  return {
    gateway,
    port,
    admin: gateway.admin.address,
    directory,
    lines,
    reload: (text) => {
      gateway.reload(readMap(directory, text));
    },
  };
}

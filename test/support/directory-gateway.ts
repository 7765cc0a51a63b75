/** A gateway in this process, with a directory of resources as its only source. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import type { Test } from 'tap';
import { parseAuthorityMap } from '../../config/authority-map.js';
import { parseSettings } from '../../config/settings.js';
import { createGateway, type Gateway } from '../../gateway/compose.js';
import { Telemetry } from '../../gateway/telemetry/telemetry.js';

export interface DirectoryGateway {
  readonly gateway: Gateway;
  /** For clients. */
  readonly port: number;
  /** `host:port` of the admin server. */
  readonly admin: string;
  /** Log lines, parsed. */
  readonly log: readonly Readonly<Record<string, unknown>>[];
  /** Writes one file with one resource. */
  put(file: string, resource: Readonly<Record<string, unknown>>): void;
  remove(file: string): void;
}

export interface DirectoryGatewayOptions {
  /** More flags of the command line. */
  readonly argv?: readonly string[];
  /** The sources of the map. Default: the directory, under the name `files`. */
  readonly sources?: Readonly<Record<'files', unknown>>;
  /** Called before the gateway starts. */
  readonly fill?: (gateway: Pick<DirectoryGateway, 'put'>) => void;
}

const DIRECTORY = { files: { path: 'files' } };

/** Serves the authority `cloud.test`, and old-style names, from the directory. */
export async function startDirectoryGateway(
  t: Test,
  { argv = [], fill = () => undefined, sources = DIRECTORY }: DirectoryGatewayOptions = {},
): Promise<DirectoryGateway> {
  const directory = mkdtempSync(join(tmpdir(), 'tributary-clients-'));
  mkdirSync(join(directory, 'files'));
  const put = (name: string, resource: Readonly<Record<string, unknown>>): void => {
    writeFileSync(join(directory, `files/${name}.json`), JSON.stringify(resource));
  };
  const file = join(directory, 'map.json');
  const text = JSON.stringify({
    sources,
    authorities: { 'cloud.test': { sources: ['files'] } },
    old_style_names: { served_by: [{ sources: ['files'] }] },
  });
  writeFileSync(file, text);
  fill({ put });
  const map = parseAuthorityMap(text, { file });
  const flags = ['--client-port', '0', '--admin-port', '0', '--drain-grace', '100ms', ...argv];
  const settings = parseSettings({ argv: ['--authority-map', file, ...flags], env: {} });
  if (!map.ok || !settings.ok) throw new Error(JSON.stringify([map, settings]));
  const log: Record<string, unknown>[] = [];
  const write = (line: string): void => {
    log.push(JSON.parse(line) as Record<string, unknown>);
  };
  const telemetry = new Telemetry(pino({ level: 'info' }, { write }));
  const gateway = createGateway({ settings: settings.settings, map: map.map, telemetry });
  const port = await gateway.start();
  t.teardown(async () => {
    await gateway.stop();
    rmSync(directory, { recursive: true, force: true });
  });
  const remove = (name: string): void => {
    rmSync(join(directory, `files/${name}.json`));
  };
  return { gateway, port, admin: gateway.admin.address, log, put, remove };
}

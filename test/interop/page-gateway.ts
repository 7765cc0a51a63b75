/** A gateway in this process whose page has something to show: sources, one of them lost, and any clients. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { parseAuthorityMap } from '../../config/authority-map.js';
import { parseSettings } from '../../config/settings.js';
import type { ClientStream } from '../../gateway/clients/client-stream.js';
import { nameFrom } from '../../gateway/admin/explain.js';
import { createGateway, type Gateway } from '../../gateway/compose.js';
import { Telemetry } from '../../gateway/telemetry/telemetry.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { httpRequest } from '../support/http.js';

export const WEB = 'xdstp://cloud.test/envoy.config.cluster.v3.Cluster/edge/web';
const LOST = WEB.replace('cloud.test', 'lost.test');
/** Nothing listens on the port of tcpmux. */
const GONE = '127.0.0.1:1';
export const TOKEN = 'a-token-of-the-test';

export interface PageGateway {
  /** With `http://`. */
  readonly url: string;
  readonly tokenFile: string;
  /** The page shows these clients from now on. */
  showClients(clients: readonly unknown[]): void;
  force(source: 'one' | 'two'): Promise<void>;
  stop(): Promise<void>;
}

/** Serves `cloud.test` from the directory `one`, or `two` after `force`, and `lost.test` from nowhere. */
export async function startPageGateway({ token = false } = {}): Promise<PageGateway> {
  const directory = mkdtempSync(join(tmpdir(), 'tributary-page-'));
  const map = writeSources(directory);
  const tokenFile = join(directory, 'token');
  writeFileSync(tokenFile, `${TOKEN}\n`);
  const flags = ['--client-port', '0', '--admin-port', '0', '--probe-port', '0'];
  const access = token ? ['--admin-token-file', tokenFile] : [];
  const argv = ['--authority-map', map.file, ...flags, '--drain-grace', '1ms', ...access];
  const settings = parseSettings({ argv, env: {} });
  if (!settings.ok) throw new Error(JSON.stringify(settings.problems));
  const telemetry = new Telemetry(pino({ level: 'silent' }));
  const gateway = createGateway({ settings: settings.settings, map: map.map, telemetry });
  await gateway.start();
  const url = `http://${gateway.admin.address}`;
  await subscribe(gateway, WEB);
  void subscribe(gateway, LOST);
  return {
    url,
    tokenFile,
    showClients: (clients) => {
      gateway.server.clients = () => clients as readonly ClientStream[];
    },
    force: async (source) => {
      const order = `${url}/authorities/cloud.test/force?source=${source}&for=10m`;
      const { status, body } = await httpRequest(order, { method: 'POST' });
      if (status !== 200) throw new Error(body);
    },
    stop: async () => {
      gateway.server.clients = () => [];
      await gateway.stop();
      rmSync(directory, { recursive: true });
    },
  };
}

/** Subscribes as a client does, which makes the group of the name, until the first content. */
async function subscribe({ cache }: Gateway, text: string): Promise<void> {
  const named = nameFrom(text);
  if (!named.ok) throw new Error(named.message);
  await new Promise<void>((resolve) => {
    const handleNameChanged = (): void => {
      resolve();
    };
    cache.subscribeName(named.typeUrl, named.name, { handleNameChanged });
  });
}

function writeSources(directory: string) {
  const text = JSON.stringify({
    sources: { one: { path: 'one' }, two: { path: 'two' }, gone: { target: GONE, insecure: true } },
    authorities: {
      'cloud.test': { sources: ['one'], alternative: 'onprem.test' },
      'onprem.test': { sources: ['two'] },
      'lost.test': { sources: ['gone'] },
    },
  });
  const file = join(directory, 'map.json');
  writeFileSync(file, text);
  for (const [folder, authority] of Object.entries({ one: 'cloud.test', two: 'onprem.test' })) {
    mkdirSync(join(directory, folder));
    const name = WEB.replace('cloud.test', authority);
    const timeout = folder === 'one' ? '1s' : '2s';
    const resource = { '@type': TYPE_URL.cluster, name, connect_timeout: timeout };
    writeFileSync(join(directory, folder, 'web.json'), JSON.stringify(resource));
  }
  const parsed = parseAuthorityMap(text, { file });
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
  return { file, map: parsed.map };
}

/** A client as the page reads it. @param reason the client rejects its clusters for it; absent: it does not */
export function shownClient(id: string, reason?: string): unknown {
  return {
    id,
    node: { id, cluster: 'edge' },
    peer: '127.0.0.1:40000',
    requester: { identity: { kind: 'anonymous' } },
    flavour: 'delta',
    openedAtMs: 0,
    endIfDue: () => undefined,
    session: { nameCount: 3 },
    rejections:
      reason === undefined
        ? []
        : [
            {
              typeUrl: TYPE_URL.cluster,
              authority: 'cloud.test',
              atMs: 0,
              detail: { code: 3, message: reason },
            },
          ],
  };
}

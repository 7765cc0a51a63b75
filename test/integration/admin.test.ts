/**
 * Goal: the admin side and the command line report what clients get from a running gateway, and
 * operator commands move clients.
 * Method: a gateway in this process with two directories as sources and one client over gRPC.
 */
import { once } from 'node:events';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, type TLSSocket } from 'node:tls';
import * as grpc from '@grpc/grpc-js';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { parseAuthorityMap } from '../../config/authority-map.js';
import { parseSettings } from '../../config/settings.js';
import { run } from '../../gateway/cli/run.js';
import { createGateway } from '../../gateway/compose.js';
import { Telemetry } from '../../gateway/telemetry/telemetry.js';
import { decodeDeltaResponse, encodeDeltaRequest } from '../../protos/delta-codec.js';
import { encodeNode } from '../../protos/node-codec.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { createCertificateAuthority, opensslMissing } from '../support/certificates.js';
import { httpJson, httpRequest } from '../support/http.js';
import { until } from '../support/until.js';

const urn = (authority: string, name: string): string =>
  `xdstp://${authority}/envoy.config.cluster.v3.Cluster/${name}`;
const NODE = { id: 'node-1', cluster: 'edge' };
const WEB = urn('cloud.test', 'edge/web');

const MAP = JSON.stringify({
  sources: { one: { path: 'one' }, two: { path: 'two' } },
  authorities: {
    'cloud.test': { sources: ['one'], alternative: 'onprem.test' },
    'onprem.test': { sources: ['two'] },
  },
});

function cluster(authority: string, seconds: number): unknown {
  const name = urn(authority, 'edge/web');
  return { '@type': TYPE_URL.cluster, name, connect_timeout: `${seconds}s` };
}

async function startGateway(t: Test, args: readonly string[] = []) {
  const directory = mkdtempSync(join(tmpdir(), 'tributary-admin-'));
  for (const name of ['one', 'two']) mkdirSync(join(directory, name));
  writeFileSync(join(directory, 'one/web.json'), JSON.stringify(cluster('cloud.test', 1)));
  writeFileSync(join(directory, 'two/web.json'), JSON.stringify(cluster('onprem.test', 2)));
  const file = join(directory, 'map.json');
  writeFileSync(file, MAP);
  const map = parseAuthorityMap(MAP, { file });
  if (!map.ok) throw new Error(JSON.stringify(map.problems));
  const ports = ['--client-port', '0', '--admin-port', '0', '--drain-grace', '100ms'];
  const settings = parseSettings({ argv: ['--authority-map', file, ...ports, ...args], env: {} });
  if (!settings.ok) throw new Error(JSON.stringify(settings.problems));
  const lines: string[] = [];
  const telemetry = new Telemetry(pino({}, { write: (line: string) => lines.push(line) }));
  const gateway = createGateway({ settings: settings.settings, map: map.map, telemetry });
  t.teardown(() => {
    rmSync(directory, { recursive: true, force: true });
  });
  const port = await gateway.start();
  const stop = async (): Promise<void> => {
    await gateway.stop();
  };
  return { gateway, port, lines, stop, admin: gateway.admin.address };
}

/** A client that subscribes one name and ACKs everything. */
function startClient(t: Test, port: number) {
  const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
  const asBytes = (bytes: Buffer): Buffer => bytes;
  const path = '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources';
  const call = client.makeBidiStreamRequest<Buffer, Buffer>(path, asBytes, asBytes, {});
  const send = (responseNonce: string, subscribe: readonly string[]): void => {
    const node = encodeNode({ ...NODE, userAgentName: 'test', userAgentVersion: '1' });
    const request = {
      node: responseNonce === '' ? node : undefined,
      typeUrl: TYPE_URL.cluster,
      subscribe,
      unsubscribe: [],
      initialVersions: new Map<string, string>(),
      responseNonce,
      errorDetail: undefined,
    };
    call.write(Buffer.from(encodeDeltaRequest(request)));
  };
  const versions: string[] = [];
  call.on('data', (bytes: Buffer) => {
    const decoded = decodeDeltaResponse(bytes, 100);
    if (!decoded.ok) throw new Error(decoded.reason);
    for (const { version } of decoded.message.resources) versions.push(version);
    send(decoded.message.nonce, []);
  });
  call.on('error', () => undefined);
  send('', [WEB]);
  t.teardown(() => {
    call.cancel();
    client.close();
  });
  return { versions };
}

async function cli(...argv: readonly string[]) {
  const said = { out: '', err: '' };
  const code = await run(argv, {
    env: {},
    out: (text) => (said.out += text),
    err: (text) => (said.err += text),
  });
  return { code, ...said };
}

t.test(
  'the admin side shows the content of a client, force moves it and release moves it back',
  async (t) => {
    const { port, lines, stop, admin } = await startGateway(t);
    const get = (path: string): Promise<unknown> => httpJson(`http://${admin}${path}`);
    t.match(await httpRequest(`http://${admin}/ready`), { status: 200 });
    t.match(await httpRequest(`http://${admin}/resources/${WEB}`), {
      status: 200,
      body: /"clients":0/,
    });

    const { versions } = startClient(t, port);
    await until('the client has its cluster', () => versions.length === 1);
    const shown = `/resources/${encodeURIComponent(WEB)}`;
    t.match(await get(shown), {
      name: WEB,
      version: versions[0],
      source: 'one',
      clients: 1,
      resource: { connect_timeout: '1s' },
    });
    t.strictSame(await get(`/resources/${WEB}`), await get(shown), 'plain or percent-encoded');
    t.match(await get('/clients'), {
      count: 1,
      clients: [
        {
          node: NODE,
          paused: false,
          subscriptions: [{ type: 'Cluster', authority: 'cloud.test', names: 1 }],
        },
      ],
    });
    t.match((await httpRequest(`http://${admin}/authorities`)).body, '"state":"primary"');

    const address = ['--admin', admin];
    const forced = await cli('force', 'cloud.test', 'two', '--for', '5m', ...address);
    t.equal(forced.code, 0, forced.err);
    await until('the client has the other content', () => versions.length === 2);
    t.match(await get('/authorities'), {
      authorities: [
        {
          authority: 'cloud.test',
          group: 'cloud.test/*',
          state: 'forced',
          active: 'two',
          candidates: [
            { source: 'one', live: true },
            { source: 'two', live: true },
          ],
          wanted: 1,
          served: 1,
          guarded: 0,
        },
        { authority: 'onprem.test' },
      ],
    });
    const yaml = await cli('get', WEB, ...address);
    t.match(parse(yaml.out), { source: 'two', resource: { name: WEB, connect_timeout: '2s' } });
    const told = await cli('explain', WEB, ...address);
    t.match(told, { code: 0, out: /state {6}forced.*\n {2}served {5}version \S+ from two\n/ });
    t.match(
      told.out,
      `2. two  (serves, connected)\n       requested as ${urn('onprem.test', 'edge/web')}`,
    );
    t.match(await cli('invalidate', WEB, ...address), { code: 0, out: /askedHere: true/ });
    const unused = await cli('invalidate', 'onprem.test', ...address);
    t.match(unused, {
      code: 1,
      err: /nothing was requested: no client subscribes to onprem\.test/,
    });
    const wrong = await cli('force', 'cloud.test', 'tow', ...address);
    t.match(wrong, { code: 1, err: /did you mean "two"\?/ });

    t.equal((await cli('release', 'cloud.test', ...address)).code, 0);
    const { body } = await httpRequest(`http://${admin}/metrics`);
    t.match(
      body,
      /^tributary_failover_state\{authority="cloud\.test",group="cloud\.test\/\*",state="forced"\} 0$/m,
    );
    t.match(
      body,
      /^tributary_client_resources_total\{authority="cloud\.test",type="Cluster"\} 2$/m,
    );
    t.match(body, /^tributary_switches_total\{.*direction="failover",reason="forced"\} 1$/m);
    t.match(body, /^tributary_clients 1$/m);
    t.notMatch(body, /edge\/web|node-1/, 'no name of a resource or node in metrics');
    const events = lines.map((line) => (JSON.parse(line) as { event: string }).event);
    for (const event of ['failover_forced', 'authority_switched', 'failover_released']) {
      t.ok(events.includes(event), event);
    }
    await stop();
    await t.rejects(httpRequest(`http://${admin}/live`), 'the admin side ends with the gateway');
  },
);

t.test('start reports a port in use, and nothing keeps running', async (t) => {
  const { port, stop } = await startGateway(t);
  await t.rejects(startGateway(t, ['--client-port', String(port)]), {
    message: new RegExp(`127\\.0\\.0\\.1:${port}.*EADDRINUSE`),
  });
  await stop();
});

const skip = await opensslMissing();

t.test('new certificates apply to new connections, without a restart', { skip }, async (t) => {
  const ca = await createCertificateAuthority();
  t.teardown(() => ca.remove());
  const live = { cert: join(ca.directory, 'live.pem'), key: join(ca.directory, 'live.key') };
  const use = async (name: string): Promise<void> => {
    const issued = await ca.issue({ name, dnsNames: [`${name}.test`] });
    copyFileSync(issued.cert, live.cert);
    copyFileSync(issued.key, live.key);
  };
  await use('first');
  const tls = ['--client-tls-cert', live.cert, '--client-tls-key', live.key];
  const { port, gateway, lines, stop } = await startGateway(t, tls);
  const names = async (): Promise<string | undefined> => {
    const socket: TLSSocket = connect({
      host: '127.0.0.1',
      port,
      rejectUnauthorized: false,
      ALPNProtocols: ['h2'],
    });
    await once(socket, 'secureConnect');
    const { subjectaltname } = socket.getPeerCertificate();
    socket.destroy();
    return subjectaltname;
  };
  t.match(await names(), 'first.test');
  await use('second');
  gateway.server.refreshCertificates();
  t.match(await names(), 'second.test');
  t.match(lines.at(-1), 'tls_reloaded');
  await stop();
});

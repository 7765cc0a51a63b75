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
import { createGateway } from '../../gateway/compose.js';
import { Telemetry } from '../../gateway/telemetry/telemetry.js';
import { decodeDeltaResponse, encodeDeltaRequest } from '../../protos/delta-codec.js';
import { encodeNode } from '../../protos/node-codec.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { createCertificateAuthority, opensslMissing } from '../support/certificates.js';
import { httpJson, httpRequest } from '../support/http.js';
import { runHere } from '../support/program.js';
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

async function startGateway(t: Test, args: readonly string[] = [], mapText = MAP) {
  const directory = mkdtempSync(join(tmpdir(), 'tributary-admin-'));
  for (const name of ['one', 'two']) mkdirSync(join(directory, name));
  writeFileSync(join(directory, 'one/web.json'), JSON.stringify(cluster('cloud.test', 1)));
  writeFileSync(join(directory, 'two/web.json'), JSON.stringify(cluster('onprem.test', 2)));
  const file = join(directory, 'map.json');
  writeFileSync(file, mapText);
  const map = parseAuthorityMap(mapText, { file });
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
  return { directory, gateway, port, lines, stop, admin: gateway.admin.address };
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

const cli = (...argv: readonly string[]) => runHere(argv);

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
    t.equal(forced.code, 0, forced.stderr);
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
    t.match(parse(yaml.stdout), { source: 'two', resource: { name: WEB, connect_timeout: '2s' } });
    const told = await cli('explain', WEB, ...address);
    t.match(told, { code: 0, stdout: /state {6}forced.*\n {2}served {5}version \S+ from two\n/ });
    t.match(
      told.stdout,
      `2. two  (serves, connected)\n       requested as ${urn('onprem.test', 'edge/web')}`,
    );
    t.match(await cli('invalidate', WEB, ...address), { code: 0, stdout: /askedHere: true/ });
    const unused = await cli('invalidate', 'onprem.test', ...address);
    t.match(unused, {
      code: 1,
      stderr: /nothing was requested: no client subscribes to onprem\.test/,
    });
    const wrong = await cli('force', 'cloud.test', 'tow', ...address);
    t.match(wrong, { code: 1, stderr: /did you mean "two"\?/ });

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

t.test(
  'get, explain, /authorities and /ready give the cause with file, line and column; a bad document costs only itself',
  async (t) => {
    const { directory, admin, stop } = await startGateway(t);
    const other = urn('cloud.test', 'edge/other');
    const good = JSON.stringify(cluster('cloud.test', 7)).replace('edge/web', 'edge/good');
    const bad = `"@type": ${TYPE_URL.cluster}\nname: ${other}\nconect_timeout: 1s\n`;
    writeFileSync(join(directory, 'one/shop.yaml'), `${good}\n---\n${bad}`);
    const cause = /one\/shop\.yaml:5:1: conect_timeout: /;
    const address = ['--admin', admin];
    await until('the file is read', async () =>
      cause.test((await cli('explain', other, ...address)).stdout),
    );
    t.match((await cli('get', other, ...address)).stderr, cause);
    const rows = JSON.stringify(await httpJson(`http://${admin}/authorities`));
    t.match(rows, cause);
    t.match(await httpJson(`http://${admin}/ready`), { ready: true, degraded: [cause] });
    const served = await cli('get', urn('cloud.test', 'edge/good'), ...address);
    t.match(parse(served.stdout), { resource: { connect_timeout: '7s' } });
    writeFileSync(
      join(directory, 'one/shop.yaml'),
      `${good}\n---\n${bad.replace('conect', 'connect')}`,
    );
    await until('the file is mended', async () => (await cli('get', other, ...address)).code === 0);
    t.notMatch(await httpJson(`http://${admin}/ready`), { degraded: [] });
    await stop();
  },
);

t.test(
  'a source that refuses shows its last error, since when, and the next attempt',
  async (t) => {
    const map = JSON.stringify({
      sources: { gone: { target: '127.0.0.1:1', insecure: true } },
      authorities: { 'cloud.test': { sources: ['gone'] } },
    });
    const { admin, port, lines, stop } = await startGateway(t, [], map);
    startClient(t, port);
    const iso = /^\d{4}-.*Z$/;
    const lost = { source: 'gone', lastError: /ECONNREFUSED/, lostSince: iso, nextAttempt: iso };
    await until('an attempt has failed', () => lines.some((line) => line.includes('source_lost')));
    const shows = async (): Promise<boolean> =>
      JSON.stringify(await httpJson(`http://${admin}/authorities`)).includes('nextAttempt');
    await until('the next attempt is planned', shows);
    const told = (await httpJson(`http://${admin}/authorities`)) as { authorities: unknown[] };
    t.match(told.authorities, [{ candidates: [lost] }]);
    t.notMatch(JSON.stringify(told), 'Resolution note');
    await until('no source is left', async () => {
      const { status, body } = await httpRequest(`http://${admin}/ready`);
      return status === 200 && body.includes('"degraded"');
    });
    const { body } = await httpRequest(`http://${admin}/ready`);
    t.match(body, /group cloud\.test: no source is in use.*source \\"gone\\": .*ECONNREFUSED/);
    const metrics = (await httpRequest(`http://${admin}/metrics`)).body;
    t.match(metrics, /^tributary_degraded_groups 1$/m);
    // While an attempt runs, no next one is planned.
    await until('explain shows the loss and the next attempt', async () =>
      /lost since \S+Z: .*ECONNREFUSED[^]*next attempt at \d{4}-/.test(
        (await cli('explain', WEB, '--admin', admin)).stdout,
      ),
    );
    await stop();
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

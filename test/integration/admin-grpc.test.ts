/**
 * Goal: the tools of gRPC see on the admin port what each client holds (CSDS), the channels to sources
 * (channelz), the health of the gateway, and the services themselves (reflection), under the rules of the
 * admin port.
 * Method: gateways in this process, clients over real connections, and grpc-js as the tool.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect as connectHttp2 } from 'node:http2';
import { connect as connectSocket, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import * as grpc from '@grpc/grpc-js';
import t, { type Test } from 'tap';
import { encodeNode } from '../../protos/node-codec.js';
import { STATUS_CODE } from '../../protos/discovery.js';
import {
  AdminGrpcClient,
  CSDS_FETCH,
  CSDS_REQUEST,
  CSDS_RESPONSE,
  CSDS_STREAM,
  decodeMessage,
  encodeMessage,
} from '../support/admin-grpc.js';
import { createCertificateAuthority, opensslMissing } from '../support/certificates.js';
import { DeltaClient } from '../support/delta-client.js';
import {
  ADS_HEADERS,
  frame,
  FRAME,
  headersFrame,
  HostileHttp2,
  PREFACE,
  resetFrame,
} from '../support/hostile-http2.js';
import { httpJson, httpRequest } from '../support/http.js';
import { startGateway } from '../support/identity-gateway.js';
import { CDS, EDS, cds, eds } from '../support/mesh-names.js';
import { openRefusingClient } from '../support/refusing-client.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { until } from '../support/until.js';
import { sslByAddress } from '../support/ssl-by-address.js';

t.setTimeout(60_000);

const AUTHORITY = 'cloud.test';
const SILENT = 'silent.test';
/** Nothing listens there. */
const SILENT_TARGET = '127.0.0.1:1';
const WEB = cds('web', AUTHORITY);
const NODE = { id: 'node-1', cluster: 'edge', userAgentName: 'test', userAgentVersion: '1' };
const NOTHING = Buffer.alloc(0);
const HEALTH_CHECK = '/grpc.health.v1.Health/Check';
const CHANNELS = 'grpc.channelz.v1.GetTopChannelsResponse';
const REFLECTION = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo';
const REFLECTION_ALPHA = '/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo';
const MAP = `
sources: { s: { target: "${SILENT_TARGET}", insecure: true } }
authorities: { a.test: { sources: [s] } }
`;

function folder(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'tributary-admin-grpc-'));
  t.teardown(() => {
    rmSync(directory, { recursive: true, force: true });
  });
  return directory;
}

interface Scene {
  readonly client: AdminGrpcClient;
}

/**
 * `node-1` accepts a cluster and waits for another one and for endpoints of a silent source; `node-2` refuses the
 * cluster.
 */
async function startScene(t: Test): Promise<Scene> {
  const files = folder(t);
  const cluster = { '@type': CDS, name: WEB, connectTimeout: '1s' };
  writeFileSync(join(files, 'web.json'), JSON.stringify(cluster));
  const map = `
sources: { files: { path: "${files}" }, silent: { target: "${SILENT_TARGET}", insecure: true } }
authorities: { ${AUTHORITY}: { sources: [files] }, ${SILENT}: { sources: [silent] } }
`;
  const { port, admin } = await startGateway(t, map);
  const client = new DeltaClient({ port, node: encodeNode(NODE) });
  t.teardown(() => {
    client.close();
  });
  client.subscribe(CDS, [WEB]);
  client.subscribe(EDS, [eds('web', SILENT)]);
  await until('the client has its cluster', () => client.held(CDS).has(WEB));
  openRefusingClient(t, {
    port,
    nodeId: 'node-2',
    typeUrl: CDS,
    names: [WEB],
    message: 'no such filter',
  });
  await until('both clients answered', async () => {
    const text = JSON.stringify(await httpJson(`http://${admin}/status`));
    return text.includes('NACK') && text.includes('SYNCED');
  });
  return { client: new AdminGrpcClient(t, admin) };
}

const byNode = (id: string) => ({ node_matchers: [{ node_id: { exact: id } }] });

t.test(
  'CSDS tells what each client holds: SYNCED, ERROR with the words of the client, NOT_SENT (csds.proto)',
  async (t) => {
    const { client } = await startScene(t);
    const all = (await client.clientStatus()) as { readonly config: readonly unknown[] };
    t.equal(all.config.length, 2);
    t.match(await client.clientStatus(byNode('node-1')), {
      config: [
        {
          node: { id: 'node-1', cluster: 'edge' },
          client_scope: /^ADS delta of 127\.0\.0\.1:\d+$/,
          generic_xds_configs: [
            {
              type_url: CDS,
              name: WEB,
              version_info: /^\S{22}$/,
              config_status: 'SYNCED',
              client_status: 'ACKED',
              xds_config: { '@type': CDS, name: WEB, connect_timeout: '1s' },
            },
            { type_url: EDS, config_status: 'NOT_SENT', client_status: 'REQUESTED' },
          ],
        },
      ],
    });
    const refused = {
      config_status: 'ERROR',
      client_status: 'NACKED',
      error_state: { details: 'no such filter', last_update_attempt: /^20/, version_info: /\S/ },
    };
    t.match(await client.clientStatus(byNode('node-2')), {
      config: [{ node: { id: 'node-2' }, generic_xds_configs: [refused] }],
    });
    const bare = await client.clientStatus({ exclude_resource_contents: true });
    t.match(bare, { config: [{ generic_xds_configs: [{ name: WEB }] }] });
    t.notMatch(JSON.stringify(bare), '"xds_config"');
    t.strictSame(await client.clientStatus(byNode('node-3')), {});
    const regex = { node_matchers: [{ node_id: { safe_regex: { regex: '.*' } } }] };
    t.match(await client.clientStatus(regex), {
      code: STATUS_CODE.invalidArgument,
      details: /exact/,
    });
  },
);

t.test(
  'a stream of CSDS gets one response for each request, and the end after the last',
  async (t) => {
    const { client } = await startScene(t);
    const call = client.stream(CSDS_STREAM);
    const nodes: string[] = [];
    let code: number | undefined;
    call.on('data', (bytes: Buffer) =>
      nodes.push(JSON.stringify(decodeMessage(CSDS_RESPONSE, bytes))),
    );
    call.on('status', (status: grpc.StatusObject) => (code = status.code));
    call.write(encodeMessage(CSDS_REQUEST, byNode('node-1')));
    call.write(encodeMessage(CSDS_REQUEST, byNode('node-2')));
    call.end();
    await until('it has ended', () => code !== undefined);
    t.equal(code, 0);
    t.match(nodes, [/node-1/, /node-2/]);
    const wrong = client.stream(CSDS_STREAM);
    wrong.on('status', (status: grpc.StatusObject) => (code = status.code));
    wrong.write(Buffer.from([0xff]));
    await until('it has ended with an error', () => code === STATUS_CODE.invalidArgument);
  },
);

t.test('channelz shows the channels to sources, with their targets (gRPC A14)', async (t) => {
  const source = await ScriptedUpstream.start();
  t.teardown(() => source.stop());
  const target = `127.0.0.1:${source.port}`;
  const { port, admin } = await startGateway(t, MAP.replace(SILENT_TARGET, target));
  const subscriber = new DeltaClient({ port });
  t.teardown(() => {
    subscriber.close();
  });
  subscriber.subscribe(CDS, [cds('web', 'a.test')]);
  const client = new AdminGrpcClient(t, admin);
  await until('the channel is there', async () => {
    const reply = await client.unary('/grpc.channelz.v1.Channelz/GetTopChannels', NOTHING);
    const { channel } = decodeMessage(CHANNELS, Buffer.from(reply.hex, 'hex')) as {
      readonly channel: readonly { readonly data: { readonly target: string } }[];
    };
    return channel.some(({ data }) => data.target.endsWith(target));
  });
});

t.test('channelz lists no server: grpcdebug ends at one whose socket has no address', async (t) => {
  const { admin } = await startGateway(t, MAP);
  const client = new AdminGrpcClient(t, admin);
  const { code, hex } = await client.unary('/grpc.channelz.v1.Channelz/GetServers', NOTHING);
  t.equal(code, 0);
  t.notMatch(Buffer.from(hex, 'hex').toString('latin1'), 'injector');
});

t.test('health checks get the answers of the port for clients', async (t) => {
  const { admin, gateway } = await startGateway(t, MAP);
  const ready = new AdminGrpcClient(t, admin);
  t.match(await ready.unary(HEALTH_CHECK, NOTHING), { code: 0, hex: '0801' });
  const unknown = Buffer.from([0x0a, 1, 0x78]);
  t.match(await ready.unary(HEALTH_CHECK, unknown), { code: STATUS_CODE.notFound });
  const watch = ready.stream('/grpc.health.v1.Health/Watch');
  const statuses: number[] = [];
  let code: number | undefined;
  watch.on('data', (bytes: Buffer) => statuses.push(bytes[1] ?? 0));
  watch.on('status', (status: grpc.StatusObject) => (code = status.code));
  watch.end(NOTHING);
  await until('it says the status', () => statuses[0] === 1);
  watch.cancel();
  await until('it has ended', () => code === STATUS_CODE.cancelled);
  await until('the gateway has forgotten it', () => gateway.server.health.watches.size === 0);
});

t.test('reflection lists and describes the services (v1 and v1alpha)', async (t) => {
  const { admin } = await startGateway(t, MAP);
  const client = new AdminGrpcClient(t, admin);
  for (const path of [REFLECTION, REFLECTION_ALPHA]) {
    const call = client.stream(path);
    let text = '';
    call.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')));
    // ServerReflectionRequest: list_services = 7, file_containing_symbol = 4.
    call.write(Buffer.from([0x3a, 1, 0x2a]));
    await until('the list has come', () => text.includes('grpc.channelz.v1.Channelz'));
    t.match(text, /ClientStatusDiscoveryService/);
    t.match(text, /grpc\.health\.v1\.Health/);
    const symbol = 'envoy.service.status.v3.ClientStatusDiscoveryService';
    call.write(Buffer.concat([Buffer.from([0x22, symbol.length]), Buffer.from(symbol)]));
    await until('the description has come', () => text.includes('FetchClientStatus'));
    call.end();
  }
});

t.test('an unknown method is UNIMPLEMENTED, and a request over 16 KiB is refused', async (t) => {
  const { admin } = await startGateway(t, MAP);
  const client = new AdminGrpcClient(t, admin);
  t.match(await client.unary('/some.Other/Method', NOTHING), { code: STATUS_CODE.unimplemented });
  const large = Buffer.alloc(16 * 1_024 + 1);
  t.match(await client.unary(CSDS_FETCH, large), { code: STATUS_CODE.resourceExhausted });
});

t.test(
  'with admin.token_file, each call needs the token of the file (RFC 6750, 2.1)',
  async (t) => {
    const file = join(folder(t), 'token');
    writeFileSync(file, 'right-token\n');
    const { admin } = await startGateway(t, MAP, ['--admin-token-file', file]);
    const call = async (...authorization: readonly string[]) => {
      const client = new AdminGrpcClient(t, admin, { authorization });
      return [await client.unary(CSDS_FETCH, NOTHING), await client.unary(HEALTH_CHECK, NOTHING)];
    };
    const refused = { code: STATUS_CODE.unauthenticated, details: /admin\.token_file/ };
    const right = 'Bearer right-token';
    for (const wrong of [[], ['Bearer wrong'], ['right-token']]) {
      t.match(await call(...wrong), [refused, refused], String(wrong));
    }
    t.match(await call(right), [
      { code: 0, hex: '' },
      { code: 0, hex: '0801' },
    ]);
  },
);

t.test(
  'with admin.tls.client_ca, only clients with a certificate of this CA may call, and browsers get HTTP/1.1',
  { skip: await opensslMissing() },
  async (t) => {
    const own = await createCertificateAuthority();
    t.teardown(() => own.remove());
    const server = await own.issue({ name: 'admin', ipAddresses: ['127.0.0.1'] });
    const mine = await own.issue({ name: 'operator' });
    const { admin } = await startGateway(t, MAP, [
      ...['--admin-tls-cert', server.cert, '--admin-tls-key', server.key],
      ...['--admin-tls-client-ca', own.ca],
    ]);
    const [ca, key, cert] = [own.ca, mine.key, mine.cert].map((path) => readFileSync(path));
    const fetch = (credentials: grpc.ChannelCredentials) =>
      new AdminGrpcClient(t, admin, { credentials }).unary(CSDS_FETCH, NOTHING);
    t.match(await fetch(sslByAddress(ca, key, cert)), { code: 0 });
    t.match(await fetch(sslByAddress(ca)), { code: STATUS_CODE.unavailable });
    t.match(await fetch(grpc.credentials.createInsecure()), { code: STATUS_CODE.unavailable });
    const [host = '', port = ''] = admin.split(':');
    for (const [offered, chosen] of [
      [['h2', 'http/1.1'], 'http/1.1'],
      [['h2'], 'h2'],
    ] as const) {
      const socket = connectTls({
        ...{ host, port: Number(port), ca, key, cert, ALPNProtocols: [...offered] },
      });
      t.teardown(() => {
        socket.destroy();
      });
      await new Promise((resolve) => socket.once('secureConnect', resolve));
      t.equal(socket.alpnProtocol, chosen, String(offered));
    }
  },
);

/** A connection that speaks HTTP/2 and does nothing else. */
async function openHttp2(t: Test, address: string): Promise<Socket> {
  const [host = '', port = ''] = address.split(':');
  const socket = connectSocket(Number(port), host);
  const session = connectHttp2(`http://${address}`, { createConnection: () => socket });
  session.on('error', () => undefined);
  t.teardown(() => {
    session.destroy();
  });
  await new Promise((resolve) => session.once('remoteSettings', resolve));
  return socket;
}

t.test(
  'a call that is opened and reset in the first packet does not end the process, with or without a token',
  async (t) => {
    const { admin } = await startGateway(t, MAP);
    const calls = [ADS_HEADERS, ADS_HEADERS.filter(([name]) => name !== 'content-type')];
    for (const headers of [...calls, ...calls]) {
      const hostile = await HostileHttp2.connect(Number(admin.split(':').at(-1)));
      hostile.send(
        PREFACE,
        frame(FRAME.settings, 0, 0, NOTHING),
        headersFrame(1, headers),
        resetFrame(1),
        frame(FRAME.ping, 0, 0, Buffer.alloc(8)),
      );
      await until('the gateway answers', () =>
        hostile.frames.some(({ type }) => type === FRAME.ping),
      );
      await hostile.leave();
    }
    t.equal((await httpRequest(`http://${admin}/live`)).status, 200);
  },
);

t.test('one more than 8 connections of gRPC replaces the oldest, and no other', async (t) => {
  const { admin } = await startGateway(t, MAP);
  const sockets: Socket[] = [];
  for (let count = 0; count < 8; count++) sockets.push(await openHttp2(t, admin));
  t.ok(sockets.every(({ closed }) => !closed));
  t.match(await httpRequest(`http://${admin}/live`), { status: 200 }, 'HTTP/1.1 has its own bound');
  await openHttp2(t, admin);
  await until('the oldest is closed', () => sockets[0]!.closed);
  t.ok(sockets.slice(1).every(({ closed }) => !closed));
});

t.test('a connection that shows no protocol within 5 s is closed', async (t) => {
  const { admin } = await startGateway(t, MAP);
  const [host = '', port = ''] = admin.split(':');
  const sockets = ['', 'PR'].map((bytes) => {
    const socket = connectSocket(Number(port), host);
    socket.on('error', () => undefined).resume();
    if (bytes !== '') socket.write(bytes);
    t.teardown(() => {
      socket.destroy();
    });
    return socket;
  });
  await until('both are closed', () => sockets.every(({ closed }) => closed), { timeoutMs: 9_000 });
});

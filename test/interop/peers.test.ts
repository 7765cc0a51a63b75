/**
 * Goal: the real peers and the fault proxy behave as the other interop tests assume.
 * Method: Envoy connects directly to one go-control-plane, under xdstp globs and names; plain
 * sockets connect through the fault proxy.
 */
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

import t, { type Test } from 'tap';

import { createCertificateAuthority, opensslMissing } from '../support/certificates.js';
import { freePort } from '../support/free-port.js';
import { httpRequest } from '../support/http.js';
import {
  assignment,
  edsCluster,
  mesh,
  TYPE_URLS,
  xdstpGlob,
  xdstpName,
  type MeshResource,
} from '../support/mesh.js';
import { pause, until } from '../support/until.js';
import { ControlPlane, type ControlPlaneOptions } from './peers/control-plane.js';
import { Envoy, type EnvoyOptions } from './peers/envoy.js';
import { startFaultProxy, type FaultMode, type FaultProxy } from './peers/fault-proxy.js';
import { startHttpBackend, type HttpBackend } from './peers/http-backend.js';
import { skipWithout } from './peers/provisioned.js';
import { startTraffic } from './peers/traffic.js';

const authority = 'cloud.example.com';
const web = xdstpName(authority, 'cluster', 'edge/web');
const noPeers = skipWithout('envoy', 'control-plane');
const noOpenssl = await opensslMissing();

interface Rig {
  readonly controlPlane: ControlPlane;
  readonly envoy: Envoy;
  readonly backend: HttpBackend;
  readonly resources: readonly MeshResource[];
  readonly url: string;
}

async function startRig(
  test: Test,
  {
    totalResources = 0,
    plane = {},
    envoy: envoyOptions = {},
  }: {
    readonly totalResources?: number;
    readonly plane?: ControlPlaneOptions;
    readonly envoy?: Partial<EnvoyOptions>;
  } = {},
): Promise<Rig> {
  const backend = await startHttpBackend('cloud');
  test.teardown(() => backend.stop());
  const controlPlane = await ControlPlane.start(plane);
  test.teardown(() => controlPlane.stop());
  const listenerPort = await freePort();
  const resources = mesh({ authority, backendPort: backend.port, listenerPort, totalResources });
  await controlPlane.setResources(resources);
  const envoy = await Envoy.start({ xdsPort: controlPlane.xdsPort, ...envoyOptions });
  test.teardown(() => envoy.stop());
  await envoy.ready();
  return { controlPlane, envoy, backend, resources, url: `http://127.0.0.1:${listenerPort}/` };
}

t.setTimeout(120_000);

t.test(
  'Envoy gets 1,000 resources under xdstp globs and names, and loses no request',
  { skip: noPeers },
  async (t) => {
    const rig = await startRig(t, { totalResources: 1_000 });
    const stream = await rig.controlPlane.waitForStream(
      'all is subscribed and ACKed',
      ({ types, acks, responses }) => TYPE_URLS.route in types && acks === responses,
    );
    t.equal(stream.nodeId, 'envoy-1');
    t.strictSame(stream.nacks, []);
    t.strictSame(stream.types[TYPE_URLS.cluster]?.subscriptions, [xdstpGlob(authority, 'cluster')]);
    t.equal(stream.types[TYPE_URLS.cluster]?.sentResources, 499);
    t.equal(stream.types[TYPE_URLS.assignment]?.subscriptions.length, 499);
    t.equal((await rig.envoy.clustersTable()).size, 1 + 499, 'and the management cluster');

    const traffic = startTraffic(rig.url);
    await pause(2_000);
    const totals = await traffic.stop();
    t.strictSame(totals.failures, []);
    t.ok(totals.requests > 200, `${totals.requests} requests`);
    t.strictSame([...totals.answers.keys()], ['cloud']);
  },
);

t.test(
  'a member of a glob is added, changed and deleted while Envoy is connected',
  { skip: noPeers },
  async (t) => {
    const { controlPlane, envoy, backend } = await startRig(t);
    const late = xdstpName(authority, 'cluster', 'edge/late');
    await controlPlane.patchResources([
      edsCluster(authority, 'edge/late'),
      assignment(authority, 'edge/late', backend.port),
      // Two levels down is not a member.
      edsCluster(authority, 'edge/deeper/late'),
    ]);
    await envoy.waitForCluster(late, { port: backend.port });
    await controlPlane.patchResources([assignment(authority, 'edge/late', backend.port + 1)]);
    await envoy.waitForCluster(late, { port: backend.port + 1 });
    t.notOk((await envoy.clustersTable()).has(xdstpName(authority, 'cluster', 'edge/deeper/late')));
    await controlPlane.deleteResource(TYPE_URLS.cluster, late);
    await until('the cluster is gone', async () => !(await envoy.clustersTable()).has(late));
    t.ok((await envoy.clustersTable()).has(web));
  },
);

t.test(
  'killing the control plane loses no request; Envoy reconnects to a restarted one',
  { skip: noPeers },
  async (t) => {
    const { controlPlane, envoy, resources, backend, url } = await startRig(t);
    const traffic = startTraffic(url);
    await traffic.untilOnly('cloud');
    await controlPlane.kill();
    await until('Envoy has noticed', async () => {
      return (await envoy.stats('control_plane.')).get('control_plane.connected_state') === 0;
    });
    await traffic.untilOnly('cloud', { count: 100 });
    await controlPlane.restart(resources);
    const stream = await controlPlane.waitForStream(
      'Envoy subscribes again',
      ({ types }) => TYPE_URLS.assignment in types,
    );
    const known = stream.types[TYPE_URLS.assignment]?.initialResourceVersions ?? {};
    t.strictSame(Object.keys(known), [xdstpName(authority, 'assignment', 'edge/web')]);
    t.strictSame(stream.types[TYPE_URLS.cluster]?.initialResourceVersions, null);

    const other = await startHttpBackend('other');
    t.teardown(() => other.stop());
    await controlPlane.patchResources([assignment(authority, 'edge/web', other.port)]);
    await traffic.untilOnly('other');
    const totals = await traffic.stop();
    t.strictSame(totals.failures, []);
    t.ok(backend.requests() > 0);
  },
);

t.test(
  'Envoy refuses a wrong resource, and the control plane reports it',
  { skip: noPeers },
  async (t) => {
    const { controlPlane } = await startRig(t);
    const name = xdstpName(authority, 'cluster', 'edge/wrong');
    const json = { '@type': TYPE_URLS.cluster, name, type: 'EDS' };
    await controlPlane.patchResources([{ name, typeUrl: TYPE_URLS.cluster, json }]);
    const stream = await controlPlane.waitForStream('Envoy refuses', (s) => s.nacks.length > 0);
    t.match(stream.nacks[0], {
      typeUrl: TYPE_URLS.cluster,
      error: /cannot create an EDS cluster without an EDS config/,
    });
  },
);

t.test('the control plane misbehaves as configured', { skip: noPeers }, async (t) => {
  const { controlPlane, envoy, url } = await startRig(t);
  const opened = async (): Promise<number> => (await controlPlane.streams()).opened;

  await controlPlane.behave('silent', { endStreams: true });
  const silent = await controlPlane.waitForStream('Envoy is back', (s) => s.requests > 0);
  t.equal(silent.responses, 0);

  await controlPlane.behave('unimplemented', { endStreams: true });
  await until('a stream is refused', async () => (await controlPlane.streams()).refused > 0);

  const before = await opened();
  await controlPlane.behave('die-after-first-response');
  await until('streams come and go', async () => (await opened()) > before + 2);

  await controlPlane.behave('normal', { endStreams: true });
  await controlPlane.waitForStream('all is well', (s) => s.acks > 0);
  t.equal((await httpRequest(url)).body, 'cloud');
  t.ok((await envoy.clustersTable()).has(web));
});

t.test('Envoy and the control plane use mutual TLS', { skip: noPeers || noOpenssl }, async (t) => {
  const ca = await createCertificateAuthority();
  t.teardown(() => ca.remove());
  const server = await ca.issue({ name: 'control-plane', ipAddresses: ['127.0.0.1'] });
  const uri = 'spiffe://example.com/envoy-1';
  const client = await ca.issue({ name: 'envoy', dnsNames: ['envoy.example.com'], uris: [uri] });
  const { controlPlane, url } = await startRig(t, {
    plane: { tls: { ...server, clientCa: ca.ca } },
    envoy: { tls: { ca: ca.ca, ...client } },
  });
  const stream = await controlPlane.waitForStream('a stream is open', () => true);
  t.strictSame(stream.clientSans, ['envoy.example.com', uri]);
  t.equal((await httpRequest(url)).body, 'cloud');
});

t.test(
  'Envoy gets everything over a state-of-the-world stream too, by wildcard and xdstp names',
  { skip: noPeers },
  async (t) => {
    const { controlPlane, backend, url } = await startRig(t, {
      totalResources: 20,
      envoy: { apiType: 'GRPC', collections: 'wildcard' },
    });
    const stream = await controlPlane.waitForStream('a stream is open', () => true);
    t.match(stream.method, /StreamAggregatedResources$/);
    t.strictSame(stream.types[TYPE_URLS.route]?.subscriptions, [
      xdstpName(authority, 'route', 'edge/ingress'),
    ]);
    t.equal((await httpRequest(url)).body, backend.name);
  },
);

/** A server that echoes its input, and a fault proxy in front of it. */
async function echoBehindProxy(t: Test): Promise<FaultProxy> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.pipe(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const proxy = await startFaultProxy((server.address() as AddressInfo).port);
  t.teardown(async () => {
    await proxy.stop();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return proxy;
}

function errorCode(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? String(error);
}

/** The next event of a connection: its data, or how it ends. */
function nextOn(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    socket.once('data', (bytes: Buffer) => {
      resolve(bytes.toString());
    });
    socket.once('end', () => {
      resolve('end');
    });
    socket.once('error', (error) => {
      resolve(errorCode(error));
    });
  });
}

/** The outcome of sending "ping" on a connection, unless an event came before. */
async function tryOut(socket: Socket, next = nextOn(socket)): Promise<string> {
  const early = await Promise.race([next, pause(20)]);
  if (early !== undefined) return early;
  socket.write('ping');
  return Promise.race([next, pause(200).then(() => 'silence')]);
}

async function dial(t: Test, port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  await once(socket, 'connect');
  socket.on('error', () => undefined);
  return socket;
}

const fates: readonly (readonly [FaultMode, string, string])[] = [
  ['pass', 'ping', 'ping'],
  ['refuse', 'ECONNRESET', 'ECONNREFUSED'],
  ['reset', 'ECONNRESET', 'ECONNRESET'],
  ['blackhole', 'silence', 'silence'],
  ['halfOpen', 'silence', 'silence'],
  ['cut', 'end', 'ping'],
];
for (const [mode, ofOpen, ofNew] of fates) {
  t.test(`fault proxy: ${mode} is ${ofOpen} when open, ${ofNew} when new`, async (t) => {
    const proxy = await echoBehindProxy(t);
    const open = await dial(t, proxy.port);
    t.equal(await tryOut(open), 'ping');
    const next = nextOn(open);
    await proxy.setMode(mode);
    t.equal(await tryOut(open, next), ofOpen);
    const fresh = await dial(t, proxy.port).then((socket) => tryOut(socket), errorCode);
    t.equal(fresh, ofNew);
    await proxy.setMode('pass');
    t.equal(await tryOut(await dial(t, proxy.port)), 'ping', 'and it recovers');
  });
}

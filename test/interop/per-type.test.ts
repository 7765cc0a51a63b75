/**
 * Goal: an unmodified Envoy with a ConfigSource for each type (delta, state of the world as Contour
 * configures it, or REST) starts, takes changes and deletions, and loses no request.
 * Method: the gateway as a process of its own with a directory as its source, a real Envoy, and
 * requests from outside all along; listeners, clusters, endpoints, routes and secrets come over
 * five services.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';

import { createCertificateAuthority, opensslMissing } from '../support/certificates.js';
import { freePort } from '../support/free-port.js';
import {
  assignment,
  edsCluster,
  httpListener,
  inOldStyle,
  routeToCluster,
  writeResourceFile,
  type MeshResource,
} from '../support/mesh.js';
import { until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import { readConfigDump } from './peers/envoy-config.js';
import { Envoy, sourceWithoutAds, type EnvoyOptions } from './peers/envoy.js';
import { Gateway, skipWithoutGateway } from './peers/gateway.js';
import { startHttpBackend } from './peers/http-backend.js';
import { skipWithout } from './peers/provisioned.js';
import { quickTimers } from './peers/rig.js';
import { ScriptedControlPlane } from './peers/scripted-control-plane.js';
import { startTraffic } from './peers/traffic.js';

t.setTimeout(180_000);

type PerTypeApi = 'DELTA_GRPC' | 'GRPC' | 'REST';

/** An Envoy with this ConfigSource for each type. */
const over = (api: PerTypeApi): Pick<EnvoyOptions, 'over' | 'apiType'> =>
  api === 'REST' ? { over: 'rest' } : { over: 'per-type', apiType: api };

const perTypeSource = (api: PerTypeApi): Readonly<Record<string, unknown>> =>
  sourceWithoutAds(over(api));

const skip = skipWithout('envoy') || skipWithoutGateway() || (await opensslMissing());
const authority = 'unused';
const SECRET = 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret';
const TLS_CONTEXT =
  'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext';
/** Envoy warms a cluster for 15 s if its endpoints do not come. */
const BEFORE_WARMING_ENDS = { timeoutMs: 10_000 };

/** What the test changes. */
interface Scene {
  readonly backendPort: number;
  readonly connectTimeout?: string;
  /** The cluster of the route. */
  readonly routed?: 'web' | 'next';
  readonly clusters?: readonly ('web' | 'next')[];
}

interface Ports {
  readonly plain: number;
  readonly secure: number;
}

/** Gives the listener the TLS certificate of a secret. */
function withTls({ json, ...rest }: MeshResource, api: PerTypeApi): MeshResource {
  const [chain] = json['filterChains'] as readonly Record<string, unknown>[];
  const transportSocket = {
    name: 'tls',
    typedConfig: {
      '@type': TLS_CONTEXT,
      commonTlsContext: {
        tlsCertificateSdsSecretConfigs: [{ name: 'server', sdsConfig: perTypeSource(api) }],
      },
    },
  };
  return { ...rest, json: { ...json, filterChains: [{ ...chain, transportSocket }] } };
}

/** All resources under old-style names, with a ConfigSource for each type instead of ADS. */
function resourcesOf(
  api: PerTypeApi,
  ports: Ports,
  secret: MeshResource,
  { backendPort, connectTimeout = '1s', routed = 'web', clusters = ['web'] }: Scene,
): readonly MeshResource[] {
  const overAds = inOldStyle([
    ...clusters.flatMap((path) => [
      edsCluster(authority, path, connectTimeout),
      assignment(authority, path, backendPort),
    ]),
    httpListener(authority, 'ingress', ports.plain),
    httpListener(authority, 'secure', ports.secure),
    routeToCluster(authority, 'ingress', routed),
    routeToCluster(authority, 'secure', routed),
  ]);
  const text = JSON.stringify(overAds).replaceAll(
    '{"ads":{},"resourceApiVersion":"V3"}',
    JSON.stringify(perTypeSource(api)),
  );
  const all = JSON.parse(text) as readonly MeshResource[];
  const secured = all.map((one) =>
    one.name === 'secure' && 'filterChains' in one.json ? withTls(one, api) : one,
  );
  return [...secured, secret];
}

async function createSecret(t: Test): Promise<{ ca: string; secret: MeshResource }> {
  const authorityOfCertificates = await createCertificateAuthority();
  t.teardown(() => authorityOfCertificates.remove());
  const paths = await authorityOfCertificates.issue({ name: 'server', ipAddresses: ['127.0.0.1'] });
  const [certificateChain, privateKey] = await Promise.all(
    [paths.cert, paths.key].map(async (path) => ({ inlineString: await readFile(path, 'utf8') })),
  );
  const json = {
    '@type': SECRET,
    name: 'server',
    tlsCertificate: { certificateChain, privateKey },
  };
  const ca = await readFile(authorityOfCertificates.ca, 'utf8');
  return { ca, secret: { name: 'server', typeUrl: SECRET, json } };
}

/** The body of one request over TLS. */
function overTls(port: number, ca: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port, ca, agent: false }, (response) => {
      let body = '';
      response.on('data', (chunk: Buffer) => (body += chunk.toString()));
      response.on('end', () => {
        resolve(body);
      });
    });
    asked.on('error', reject);
    asked.end();
  });
}

async function start(t: Test, api: PerTypeApi) {
  const stopping = async <S extends { stop(): Promise<unknown> }>(starting: Promise<S>) => {
    const started = await starting;
    t.teardown(() => started.stop());
    return started;
  };
  const one = await stopping(startHttpBackend('one'));
  const two = await stopping(startHttpBackend('two'));
  const directory = await mkdtemp(join(tmpdir(), 'tributary-per-type-'));
  t.teardown(() => rm(directory, { recursive: true }));
  const { ca, secret } = await createSecret(t);
  const ports = { plain: await freePort(), secure: await freePort() };
  const publish = (scene: Scene): Promise<void> =>
    writeResourceFile(directory, resourcesOf(api, ports, secret, scene));
  await publish({ backendPort: one.port });
  const gateway = await stopping(
    Gateway.start({
      authorityMap: {
        sources: { files: { path: directory } },
        old_style_names: { served_by: [{ sources: ['files'] }] },
      },
      args: ['--drain-grace', '100ms'],
    }),
  );
  const envoy = await stopping(
    Envoy.start({
      xdsPort: gateway.port,
      restPort: gateway.port,
      collections: 'wildcard',
      ...over(api),
    }),
  );
  const config = async () => readConfigDump(await envoy.configDump());
  return { one, two, ca, ports, publish, gateway, envoy, config };
}

/** The service and protocol of each client that the gateway has. */
async function servicesOf(gateway: Gateway): Promise<readonly string[]> {
  const { clients } = (await gateway.admin('/clients')) as {
    readonly clients: readonly { readonly service: string; readonly protocol: string }[];
  };
  return clients.map(({ service, protocol }) => `${service} ${protocol}`).sort();
}

for (const [what, api, protocol] of [
  ['delta for each type', 'DELTA_GRPC', 'delta'],
  ['state of the world for each type, as Contour has it', 'GRPC', 'sotw'],
  ['REST', 'REST', 'poll'],
] as const) {
  t.test(
    `${what}: an Envoy starts, takes changes and a deletion, and loses no request (invariants 2, 17, ENVOY 16, 17)`,
    { skip, timeout: 120_000 },
    async (t) => {
      const { one, two, ca, ports, publish, gateway, envoy, config } = await start(t, api);
      await tellingLogs([gateway, envoy], async () => {
        await envoy.ready({ timeoutMs: 14_000 });
        const traffic = startTraffic(`http://127.0.0.1:${ports.plain}/`);
        t.teardown(() => traffic.stop());
        await traffic.untilOnly('one');
        t.equal(await overTls(ports.secure, ca), 'one', 'the certificate comes by SDS');
        t.strictSame(
          await servicesOf(gateway),
          ['CDS', 'EDS', 'LDS', 'RDS', 'RDS', 'SDS'].map((service) => `${service} ${protocol}`),
          'a client for each subscription of Envoy (ENVOY 16)',
        );

        await publish({ backendPort: two.port });
        await traffic.untilOnly('two');

        await publish({ backendPort: two.port, connectTimeout: '2s' });
        await until(
          'the changed cluster is warm',
          async () => {
            const { clusters, warming } = await config();
            return clusters.get('web')?.['connect_timeout'] === '2s' && warming.size === 0;
          },
          BEFORE_WARMING_ENDS,
        );

        const both = { backendPort: one.port, clusters: ['web', 'next'] } as const;
        await publish(both);
        await until('the new cluster is there', async () => (await config()).clusters.has('next'));
        await publish({ ...both, routed: 'next' });
        await until('the route has moved', async () => {
          const { routes } = await config();
          return JSON.stringify(routes.get('ingress')).includes('"next"');
        });
        await publish({ backendPort: one.port, clusters: ['next'], routed: 'next' });
        await until('the deleted cluster is gone', async () => {
          return !(await config()).clusters.has('web');
        });
        await traffic.untilOnly('one');

        const { requests, failures } = await traffic.stop();
        t.strictSame(failures, [], `0 of ${requests} requests lost`);
        const bad = [...(await envoy.stats(''))].filter(
          ([name, count]) => /\.(update_rejected|init_fetch_timeout)$/.test(name) && count > 0,
        );
        t.strictSame(bad, [], 'Envoy refused nothing, and waited for nothing in vain');
        if (api !== 'REST') return;
        const failed = [...(await envoy.stats(''))].filter(
          ([name, count]) => name.endsWith('.update_failure') && count > 0,
        );
        t.strictSame(failed, [], '304 is not a failure to Envoy');
        const unchanged = await gateway.metric('tributary_client_polls_total', {
          reason: 'unchanged',
        });
        t.ok(unchanged > 10, `${unchanged} polls were answered by 304`);
      });
    },
  );
}

t.test(
  'REST: an Envoy waits while the source is unreachable, and keeps its configuration when the source and the gateway go down together (invariants 3, 19, ENVOY 17)',
  { skip, timeout: 120_000 },
  async (t) => {
    const backend = await startHttpBackend('one');
    const { secret } = await createSecret(t);
    const ports = { plain: await freePort(), secure: await freePort() };
    const resources = resourcesOf('REST', ports, secret, { backendPort: backend.port });
    const plane = await ScriptedControlPlane.start(resources);
    plane.crash();
    const gateway = await Gateway.start({
      authorityMap: {
        sources: {
          plane: { target: `127.0.0.1:${plane.port}`, insecure: true, timers: quickTimers },
        },
        old_style_names: { served_by: [{ sources: ['plane'] }] },
      },
      args: ['--poll-wait', '300ms', '--drain-grace', '100ms'],
    });
    const envoy = await Envoy.start({
      xdsPort: gateway.port,
      collections: 'wildcard',
      ...over('REST'),
      restPort: gateway.port,
    });
    t.teardown(async () => {
      for (const one of [envoy, gateway, plane, backend]) await one.stop();
    });
    const failures = async (): Promise<number> =>
      (await envoy.stats('cluster_manager.cds.')).get('cluster_manager.cds.update_failure') ?? 0;
    await tellingLogs([gateway, envoy], async () => {
      await until('polls have failed (503)', async () => (await failures()) >= 3);
      t.not(await envoy.state(), 'LIVE');
      await plane.restart();
      await envoy.ready({ timeoutMs: 14_000 });
      const traffic = startTraffic(`http://127.0.0.1:${ports.plain}/`);
      t.teardown(() => traffic.stop());
      await traffic.untilOnly('one');

      plane.crash();
      await gateway.kill();
      await gateway.restart();
      const unknown = (): Promise<number> =>
        gateway.metric('tributary_client_polls_total', { reason: 'unknown' });
      await until(
        'the new gateway was polled, and knew nothing',
        async () => (await unknown()) > 5,
      );
      t.ok(readConfigDump(await envoy.configDump()).clusters.has('web'));
      await traffic.untilOnly('one');
      const { requests, failures: lost } = await traffic.stop();
      t.strictSame(lost, [], `0 of ${requests} requests lost`);
    });
  },
);

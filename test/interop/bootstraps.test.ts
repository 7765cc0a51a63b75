/**
 * Goal: operators get from the bootstraps that they have to the gateway: `tributary import` prints the map
 * for it, and clients run on what `tributary bootstrap` prints, with a second gateway as fallback.
 * Method: a control plane, whole bootstraps that lead to it, the commands as a user runs them, two gateways
 * on the imported map, a real Envoy and gRPC clients.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { parse } from 'yaml';

import { createCertificateAuthority, opensslMissing } from '../support/certificates.js';
import { freePort } from '../support/free-port.js';
import { assignment, grpcService, mesh, TYPE_URLS, xdstpName } from '../support/mesh.js';
import { runCommand } from '../support/program.js';
import { stoppedWith } from '../support/stopped-with.js';
import { until } from '../support/until.js';
import { ControlPlane } from './peers/control-plane.js';
import { bootstrap, Envoy } from './peers/envoy.js';
import { Gateway, skipWithoutGateway } from './peers/gateway.js';
import { startGrpcBackend } from './peers/grpc-backend.js';
import { grpcBootstrap, GrpcClient, skipWithoutGrpcClient } from './peers/grpc-client.js';
import { startHttpBackend } from './peers/http-backend.js';
import { skipWithout } from './peers/provisioned.js';
import { cloud } from './peers/rig.js';
import { startTraffic } from './peers/traffic.js';

t.setTimeout(180_000);

/** Imports the bootstrap, validates the map, and starts two gateways on it. */
async function startGateways(
  t: Test,
  client: unknown,
  args: readonly string[] = [],
): Promise<readonly [Gateway, Gateway]> {
  const directory = await mkdtemp(join(tmpdir(), 'tributary-import-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  const [file, map] = [join(directory, 'bootstrap.json'), join(directory, 'map.yaml')];
  await writeFile(file, JSON.stringify(client));
  const refused = await runCommand(['validate', file]);
  t.match(refused, { code: 1, stderr: /bootstrap, not an authority map \(tributary import/ });
  const imported = await runCommand(['import', file]);
  t.equal(imported.code, 0, imported.stderr);
  await writeFile(map, imported.stdout);
  const valid = await runCommand(['validate', map]);
  t.match(valid, { code: 0, stderr: '' }, `0 problems\n${imported.stdout}`);
  const authorityMap = parse(imported.stdout) as unknown;
  const start = async (): Promise<Gateway> =>
    stoppedWith(t, Gateway.start({ authorityMap, clientPort: await freePort(), args }));
  return [await start(), await start()];
}

const addressOf = ({ port }: Gateway): string => `127.0.0.1:${port}`;

/** What `tributary bootstrap` prints for a client with these two gateways. */
async function bootstrapFor(
  kind: 'envoy' | 'grpc',
  [first, second]: readonly [Gateway, Gateway],
  ...flags: readonly string[]
): Promise<Record<string, unknown>> {
  const gateways = ['--gateway', addressOf(first), '--fallback', addressOf(second)];
  const printed = await runCommand([
    'bootstrap',
    kind,
    ...gateways,
    '--authority',
    cloud,
    ...flags,
  ]);
  if (printed.code !== 0) throw new Error(printed.stderr);
  return parse(printed.stdout) as Record<string, unknown>;
}

/** The rows of `/clients` of this node. */
async function clientsOf(gateway: Gateway, node: string): Promise<readonly unknown[]> {
  const { clients } = (await gateway.admin('/clients')) as {
    readonly clients: readonly { readonly node: { readonly id: string } | null }[];
  };
  return clients.filter((client) => client.node?.id === node);
}

const skipEnvoy = skipWithout('envoy', 'control-plane') || skipWithoutGateway();

t.test(
  'an Envoy bootstrap is imported; an Envoy runs on the printed one, and its NACK shows in /clients; it moves to the second gateway',
  { skip: skipEnvoy },
  async (t) => {
    const plane = await stoppedWith(t, ControlPlane.start({ name: 'cloud' }));
    const [before, after] = [
      await stoppedWith(t, startHttpBackend('before')),
      await stoppedWith(t, startHttpBackend('after')),
    ];
    const listenerPort = await freePort();
    await plane.setResources(mesh({ authority: cloud, backendPort: before.port, listenerPort }));
    const gateways = await startGateways(
      t,
      bootstrap({ xdsPort: plane.xdsPort, authority: cloud }),
    );
    const [first, second] = gateways;
    const printed = await bootstrapFor('envoy', gateways, '--path', 'edge/', '--node-id', 'edge-7');
    const admin = { address: { socket_address: { address: '127.0.0.1', port_value: 0 } } };
    const envoy = await stoppedWith(t, Envoy.startWith({ ...printed, admin }));
    await envoy.ready({ timeoutMs: 30_000 });
    const traffic = startTraffic(`http://127.0.0.1:${listenerPort}/`);
    t.teardown(() => traffic.stop());
    await traffic.untilOnly('before');
    t.equal((await clientsOf(second, 'edge-7')).length, 0, 'the first gateway is preferred');

    const wrong = xdstpName(cloud, 'cluster', 'edge/wrong');
    const json = { '@type': TYPE_URLS.cluster, name: wrong, type: 'EDS' };
    await plane.patchResources([{ name: wrong, typeUrl: TYPE_URLS.cluster, json }]);
    const shown = await until('the NACK is in /clients', async () => {
      const rows = JSON.stringify(await clientsOf(first, 'edge-7'));
      return rows.includes('"rejections":[{') && rows;
    });
    t.match(JSON.parse(shown), [
      {
        rejections: [
          {
            type: 'Cluster',
            authority: cloud,
            at: /^\d{4}-.*Z$/,
            reason: /cannot create an EDS cluster without an EDS config/,
          },
        ],
      },
    ]);

    await first.terminate();
    await until('Envoy is at the second gateway', async () => {
      return (await clientsOf(second, 'edge-7')).length > 0;
    });
    await plane.patchResources([assignment(cloud, 'edge/web', after.port)]);
    await traffic.untilOnly('after');
    t.strictSame((await traffic.stop()).failures, [], 'no request is lost');
  },
);

t.test(
  'with --ca, an Envoy and a grpc-go client run on the printed bootstraps at a gateway with TLS (docs/guides)',
  { skip: skipEnvoy || skipWithoutGrpcClient('go') || (await opensslMissing()) },
  async (t) => {
    const ca = await createCertificateAuthority();
    t.teardown(() => ca.remove());
    const pair = await ca.issue({ name: 'gateway', ipAddresses: ['127.0.0.1'] });
    const plane = await stoppedWith(t, ControlPlane.start({ name: 'cloud' }));
    const shop = await stoppedWith(t, startHttpBackend('shop'));
    const service = await stoppedWith(t, startGrpcBackend('service'));
    const listenerPort = await freePort();
    await plane.setResources([
      ...mesh({ authority: cloud, backendPort: shop.port, listenerPort }),
      ...grpcService(cloud, 'shop', service.port),
    ]);
    const imported = bootstrap({ xdsPort: plane.xdsPort, authority: cloud });
    const gateways = await startGateways(t, imported, [
      ...['--client-tls-cert', pair.cert],
      ...['--client-tls-key', pair.key],
    ]);
    const ofEnvoy = await bootstrapFor('envoy', gateways, '--path', 'edge/', '--ca', ca.ca);
    const admin = { address: { socket_address: { address: '127.0.0.1', port_value: 0 } } };
    const envoy = await stoppedWith(t, Envoy.startWith({ ...ofEnvoy, admin }));
    await envoy.ready({ timeoutMs: 30_000 });
    const traffic = startTraffic(`http://127.0.0.1:${listenerPort}/`);
    t.teardown(() => traffic.stop());
    await traffic.untilOnly('shop');
    const client = await stoppedWith(
      t,
      GrpcClient.start({
        language: 'go',
        targets: ['xds:///shop'],
        bootstrap: await bootstrapFor('grpc', gateways, '--node-id', 'app', '--ca', ca.ca),
      }),
    );
    await client.settles('xds:///shop', 'service');
    t.equal((await clientsOf(gateways[0], 'app')).length, 1);
  },
);

for (const language of ['js', 'go'] as const) {
  const skip =
    skipWithout('control-plane') || skipWithoutGateway() || skipWithoutGrpcClient(language);
  t.test(
    `a gRPC bootstrap is imported, and a ${language} client runs on the printed one`,
    { skip },
    async (t) => {
      const plane = await stoppedWith(t, ControlPlane.start({ name: 'cloud' }));
      const backend = await stoppedWith(t, startGrpcBackend('one'));
      await plane.setResources(grpcService(cloud, 'shop', backend.port));
      const gateways = await startGateways(t, grpcBootstrap(plane.xdsPort, [cloud]));
      const client = await bootstrapFor('grpc', gateways, '--node-id', 'app');
      const targets = ['xds:///shop'];
      // grpc-js uses the first server only.
      if (language === 'go') await gateways[0].terminate();
      const started = await stoppedWith(
        t,
        GrpcClient.start({ language, targets, bootstrap: client }),
      );
      await started.settles('xds:///shop', 'one');
      const used = language === 'go' ? gateways[1] : gateways[0];
      t.equal((await clientsOf(used, 'app')).length, 1);
    },
  );
}

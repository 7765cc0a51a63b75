/**
 * Goal: examples/istio, examples/consul and examples/contour work as an operator copies them: the proxy of the
 * bootstrap is served, moves to the second control plane and back, takes changes, and loses no request.
 * Method: the maps, the bootstraps and the commands of those folders, with the addresses, files and tokens of this
 * machine in place of the written ones; two look-alikes, a real Envoy, traffic.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { parse } from 'yaml';

import { opensslMissing } from '../support/certificates.js';
import type { MeshResource } from '../support/mesh.js';
import { stoppedWith } from '../support/stopped-with.js';
import { tellingLogs } from './peers/child.js';
import { ControlPlane, type LookAlike } from './peers/control-plane.js';
import { Envoy, overSource } from './peers/envoy.js';
import { Gateway, skipWithoutGateway } from './peers/gateway.js';
import { startHttpBackend } from './peers/http-backend.js';
import { istioBearer } from './peers/istio-proxy.js';
import { changesArrive, nothingLost, plainMesh, plainMeshAt } from './peers/plain-mesh.js';
import { projectRoot, skipWithout } from './peers/provisioned.js';
import { createSecurity, type Security } from './peers/security.js';
import { startTraffic } from './peers/traffic.js';

t.setTimeout(180_000);

const skip =
  skipWithout('envoy', 'control-plane') || skipWithoutGateway() || (await opensslMissing());

interface Example {
  readonly folder: LookAlike;
  /** Written targets of the first and of the second control plane. */
  readonly targets: readonly [string, string];
  /** Written address of the gateway. */
  readonly gateway: string;
  /** The scope in which the control plane serves the proxy of the bootstrap. */
  readonly scope: string;
  /** Written files, and what they are here. */
  readonly files: Readonly<Record<string, keyof Security['client']>>;
  /** The token that replaces the written one. */
  readonly token?: readonly [string, string];
  /** The control plane requires the certificate of its client. */
  readonly isMutual?: true;
  /** The resources of this control plane name their own source in place of ADS. */
  readonly source?: Readonly<Record<string, unknown>>;
}

const examples: readonly Example[] = [
  {
    folder: 'istio',
    targets: ['istiod.istio-system.svc:15012', 'istiod.second.example.com:15012'],
    gateway: 'tributary.istio-system.svc',
    scope: 'shop',
    files: { '/etc/istio/root-cert.pem': 'ca' },
    token: ['Bearer TOKEN', istioBearer('shop', 'default')],
  },
  {
    folder: 'consul',
    targets: ['consul-server.example.com:8503', 'consul-server.second.example.com:8503'],
    gateway: 'tributary.example.com',
    scope: 'web-1',
    files: { '/consul/ca.pem': 'ca' },
    token: ['value: TOKEN', 'value: secret-of-web-1'],
  },
  {
    folder: 'contour',
    targets: ['contour.projectcontour:8001', 'contour.second.example.com:8001'],
    gateway: 'tributary.projectcontour',
    scope: '',
    files: { '/certs/ca.crt': 'ca', '/certs/tls.crt': 'cert', '/certs/tls.key': 'key' },
    isMutual: true,
    // As Contour writes it (internal/envoy/v3/config_gen.go).
    source: {
      resource_api_version: 'V3',
      api_config_source: {
        api_type: 'GRPC',
        transport_api_version: 'V3',
        grpc_services: [{ envoy_grpc: { cluster_name: 'contour' } }],
      },
    },
  },
];

/** @throws Error when one of the texts to replace is not there */
function replaced(text: string, pairs: Readonly<Record<string, string>>): string {
  return Object.entries(pairs).reduce((result, [written, here]) => {
    if (!result.includes(written)) throw new Error(`"${written}" is not in the example`);
    return result.replaceAll(written, here);
  }, text);
}

/** The flags of the command in the README, with files of this machine. */
function flagsOf(readme: string, map: string, security: Security): readonly string[] {
  const command = readme.replaceAll('\\\n', ' ');
  const written = /^npx tributary serve --authority-map (\S+) (.*)$/m.exec(command);
  if (written?.[1] !== map) throw new Error(`the README has no command for ${map}`);
  const { server } = security;
  const here: Readonly<Record<string, string>> = {
    '--client-host': '127.0.0.1',
    '--client-tls-cert': server.cert,
    '--client-tls-key': server.key,
    '--client-tls-client-ca': server.clientCa ?? '',
  };
  const flags = (written[2] ?? '').trim().split(/ +/);
  return flags.map((word, at) => (at % 2 === 0 ? word : (here[flags[at - 1]!] ?? word)));
}

async function runs(t: Test, example: Example): Promise<void> {
  const { folder, targets, files, token, scope, isMutual = false } = example;
  const security = await createSecurity(t);
  const { cert, key } = security.server;
  const start = (name: string): Promise<ControlPlane> => {
    const tls = isMutual ? security.server : { cert, key };
    return stoppedWith(t, ControlPlane.start({ name, like: folder, tls }));
  };
  const [first, second] = [await start('first'), await start('second')];
  const firstBackend = await stoppedWith(t, startHttpBackend('first'));
  const secondBackend = await stoppedWith(t, startHttpBackend('second'));
  const mesh = await plainMesh('mesh', firstBackend.port);
  const publish = (plane: ControlPlane) => (resources: readonly MeshResource[]) =>
    plane.setResources(example.source ? overSource(resources, example.source) : resources, scope);
  await publish(first)(mesh.resources);
  const other = plainMeshAt('mesh', secondBackend.port, mesh.listenerPort);
  await publish(second)(other.resources);

  const map = `examples/${folder}/authority-map.yaml`;
  const read = (file: string): Promise<string> =>
    readFile(join(projectRoot, 'examples', folder, file), 'utf8');
  const here = Object.fromEntries(
    Object.entries(files).map(([written, file]) => [written, security.client[file]] as const),
  );
  const mapText = replaced(await read('authority-map.yaml'), {
    ...here,
    [targets[0]]: `127.0.0.1:${first.xdsPort}`,
    [targets[1]]: `127.0.0.1:${second.xdsPort}`,
    'hold: 30s': 'hold: 3s',
  });
  const args = flagsOf(await read('README.md'), map, security);
  const gateway = await stoppedWith(t, Gateway.start({ authorityMap: parse(mapText), args }));
  await tellingLogs([gateway, first, second], async () => {
    const bootstrap = replaced(await read('envoy.yaml'), {
      ...here,
      ...(token && { [token[0]]: token[1] }),
      [`address: ${example.gateway}, port_value: 18000`]: `address: 127.0.0.1, port_value: ${gateway.port}`,
    }).replace(/^(admin: .*port_value:) \d+/m, '$1 0');
    const envoy = await stoppedWith(t, Envoy.startWith(parse(bootstrap)));
    await envoy.ready({ timeoutMs: 30_000 });
    const traffic = startTraffic(`http://127.0.0.1:${mesh.listenerPort}/`);
    t.teardown(() => traffic.stop());
    await traffic.untilOnly('first');

    await first.kill();
    await traffic.untilOnly('second');
    await first.restart();
    await publish(first)(mesh.resources);
    await traffic.untilOnly('first', { timeoutMs: 30_000 });
    await changesArrive(t, { envoy, traffic }, mesh, publish(first));
    await nothingLost(t, { envoy, traffic });
  });
}

for (const example of examples) {
  t.test(
    `examples/${example.folder}: a proxy is served, moves to the second control plane and back, takes changes, and ` +
      'loses no request (invariants 3, 8, 17)',
    { skip, timeout: 90_000 },
    (t) => runs(t, example),
  );
}

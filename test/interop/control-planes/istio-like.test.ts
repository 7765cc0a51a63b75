/**
 * Goal: the look-alike of istiod serves real Envoys as istiod does, and refuses the clients that istiod
 * refuses. This is the baseline for such a control plane behind the gateway.
 * Method: the look-alike in control-plane/like_istio.go, Envoys with bootstraps like Istio's connected
 * directly, traffic.
 */
import t, { type Test } from 'tap';

import { assignment, edsCluster, inOldStyle, TYPE_URLS } from '../../support/mesh.js';
import { stoppedWith } from '../../support/stopped-with.js';
import { until } from '../../support/until.js';
import { ControlPlane, type StreamRecord } from '../peers/control-plane.js';
import { Envoy } from '../peers/envoy.js';
import { startHttpBackend } from '../peers/http-backend.js';
import { istioBearer, istioProxy, type IstioProxy } from '../peers/istio-proxy.js';
import {
  changesArrive,
  isApart,
  nothingLost,
  plainMesh,
  startClient,
  type PlainMesh,
} from '../peers/plain-mesh.js';
import { skipWithout } from '../peers/provisioned.js';

t.setTimeout(120_000);

const skip = skipWithout('envoy', 'control-plane');
const flavours = [
  ['delta', 'DELTA_GRPC'],
  ['state of the world', 'GRPC'],
] as const;

async function startRig(t: Test) {
  const plane = await stoppedWith(t, ControlPlane.start({ like: 'istio' }));
  const backend = await stoppedWith(t, startHttpBackend('cloud'));
  const [shop, bank] = [
    await plainMesh('shop', backend.port),
    await plainMesh('bank', backend.port),
  ];
  await plane.setResources(shop.resources, 'shop');
  await plane.setResources(bank.resources, 'bank');
  return { plane, shop, bank };
}

/** The hash of the metadata in the clusters and listeners of this Envoy. */
async function identityOf(envoy: Envoy): Promise<string> {
  const found = [...(await envoy.configDump()).matchAll(/"identity": "([0-9a-f]{64})"/g)];
  const all = new Set(found.map(([, identity]) => identity));
  if (all.size !== 1) throw new Error(`${all.size} identities`);
  return String([...all][0]);
}

/** Starts an Envoy that the control plane refuses, and waits for its second refusal. */
async function refused(t: Test, plane: ControlPlane, proxy: IstioProxy): Promise<StreamRecord> {
  const options = { xdsPort: plane.xdsPort, collections: 'wildcard', ...proxy } as const;
  const envoy = await stoppedWith(t, Envoy.start(options));
  const stream = await until('two streams have ended', async () => {
    const { streams } = await plane.streams();
    const own = streams.filter(({ nodeId, ended }) => nodeId === proxy.nodeId && ended !== '');
    return own.length >= 2 && own.at(-1);
  });
  t.equal(stream.responses, 0);
  t.not(await envoy.state(), 'LIVE');
  await envoy.stop();
  return stream;
}

for (const [flavour, apiType] of flavours) {
  t.test(
    `${flavour}: a proxy gets the content of its namespace, and changes arrive (istiod's rule)`,
    { skip },
    async (t) => {
      const { plane, shop, bank } = await startRig(t);
      const client = (mesh: PlainMesh) =>
        startClient(t, mesh, {
          xdsPort: plane.xdsPort,
          apiType,
          ...istioProxy('web-1', mesh.owner),
        });
      const [first, second] = [await client(shop), await client(bank)];
      await Promise.all([first, second].map(({ traffic }) => traffic.untilOnly('cloud')));
      await isApart(t, first, shop, bank);
      await isApart(t, second, bank, shop);
      await changesArrive(t, first, shop, (resources) => plane.setResources(resources, 'shop'));
      const { streams } = await plane.streams();
      t.equal(streams.length, 2, 'no stream was refused');
      t.ok(streams.every(({ requestsWithNode }) => requestsWithNode === 1));
      await nothingLost(t, first);
      await nothingLost(t, second);
    },
  );
}

t.test(
  'any key of the metadata is part of the identity, also nested ones, and 64 KiB of it arrive',
  { skip },
  async (t) => {
    const { plane, shop } = await startRig(t);
    const annotations = Object.fromEntries(
      Array.from({ length: 600 }, (_, at) => [`annotation-${at}`, 'x'.repeat(90)]),
    );
    const identities: string[] = [];
    for (const more of [{}, { LABELS: { app: 'other' } }, { ANNOTATIONS: annotations }, {}]) {
      const proxy = istioProxy('web-1', 'shop', more);
      const { envoy } = await startClient(t, shop, { xdsPort: plane.xdsPort, ...proxy });
      const stream = await plane.waitForStream('it is connected', ({ open }) => open);
      t.strictSame(stream.node?.['metadata'], proxy.metadata, 'the metadata arrives as it is');
      identities.push(await identityOf(envoy));
      await envoy.stop();
      await until('it is gone', async () => (await plane.streams()).open === 0);
    }
    t.equal(new Set(identities).size, 3, 'three kinds of metadata');
    t.equal(identities[0], identities[3], 'the same metadata, the same content');
  },
);

t.test('it refuses proxies as istiod does', { skip }, async (t) => {
  const { plane } = await startRig(t);
  const proxy = (name: string, authorization?: string): IstioProxy => ({
    ...istioProxy(name, 'shop'),
    headers: authorization === undefined ? {} : { authorization },
  });
  const cases = [
    ['without a token', proxy('web-1'), 'Unauthenticated'],
    ['with a forged token', proxy('web-2', istioBearer('shop', 'default', '?')), 'Unauthenticated'],
    ['of another namespace', proxy('web-3', istioBearer('bank', 'default')), 'PermissionDenied'],
    ['of another account', proxy('web-4', istioBearer('shop', 'root')), 'PermissionDenied'],
    [
      'with a null in its metadata',
      istioProxy('web-5', 'shop', { LABELS: { app: null } }),
      'Unknown',
    ],
  ] as const;
  for (const [what, each, status] of cases) {
    const stream = await refused(t, plane, each);
    t.equal(stream.ended, status, `a proxy ${what}`);
  }
});

t.test(
  'it pushes while an ACK is outstanding, and gives no response for a name that it does not know',
  { skip },
  async (t) => {
    const { plane, shop } = await startRig(t);
    const client = await startClient(t, shop, {
      xdsPort: plane.xdsPort,
      ...istioProxy('web-1', 'shop'),
    });
    // Envoy does not ACK a cluster that waits for its secret.
    const [waiting] = inOldStyle([edsCluster('shop', 'edge/waiting')]);
    const secret = { name: 'unknown', sdsConfig: { ads: {}, resourceApiVersion: 'V3' } };
    const transportSocket = {
      name: 'tls',
      typedConfig: {
        '@type': 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext',
        commonTlsContext: { tlsCertificateSdsSecretConfigs: [secret] },
      },
    };
    const warming = { ...waiting!, json: { ...waiting!.json, transportSocket } };
    const endpoints = inOldStyle([assignment('shop', 'edge/waiting', shop.backendPort)]);
    const before = await plane.waitForStream('it is connected', () => true);
    await plane.patchResources([warming, ...endpoints], 'shop');
    const secrets = 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret';
    await plane.waitForStream('the secret is requested', ({ types }) => secrets in types);
    await plane.patchResources(
      inOldStyle([edsCluster('shop', 'edge/late'), assignment('shop', 'edge/late', 1)]),
      'shop',
    );
    await client.envoy.waitForCluster('edge/late', { port: 1 });
    const stream = await plane.waitForStream('it is connected', () => true);
    t.equal(stream.id, before.id, 'on the same stream');
    t.equal(stream.types[secrets]?.responses, 0, 'no response for the secret');
    const responses = stream.types[TYPE_URLS.cluster]?.responses ?? 0;
    t.ok(responses >= 3, `${responses} responses for clusters`);
    await nothingLost(t, client);
  },
);

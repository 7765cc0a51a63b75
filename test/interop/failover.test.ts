/**
 * Goal: when the control plane of an authority dies, in whichever way, Envoy behind the gateway
 * moves to the alternative authority's content and back, under the names it asked for, and no
 * request is lost.
 * Method: two real control planes (cloud, onprem: the same paths, other backends), the gateway as a
 * process of its own, a real Envoy that asks only cloud's names, and traffic through it all along.
 */
import t, { type Test } from 'tap';

import {
  createCertificateAuthority,
  opensslMissing,
  type CertificateAuthority,
} from '../support/certificates.js';
import { freePort } from '../support/http.js';
import {
  assignment,
  mesh,
  TYPE_URLS,
  xdstpGlob,
  xdstpName,
  type MeshResource,
} from '../support/mesh.js';
import { until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import { ControlPlane, type ControlPlaneTls } from './peers/control-plane.js';
import { Envoy } from './peers/envoy.js';
import { startFaultProxy, type FaultProxy } from './peers/fault-proxy.js';
import { Gateway, skipWithoutGateway } from './peers/gateway.js';
import { startHttpBackend } from './peers/http-backend.js';
import { skipWithout } from './peers/provisioned.js';
import { startTraffic, type Traffic } from './peers/traffic.js';

const cloud = 'cloud.example.com';
const onprem = 'onprem.example.com';
const totalResources = 1_000;
const holdMs = 3_000;
/** No way to fail may take longer to be noticed than the timers below add up to. */
const failoverLimitMs = 15_000;
const failbackLimitMs = holdMs + 15_000;

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();
const noOpenssl = await opensslMissing();

interface Rig {
  readonly cloudPlane: ControlPlane;
  readonly cloudProxy: FaultProxy;
  readonly cloudResources: readonly MeshResource[];
  readonly onpremPlane: ControlPlane;
}

interface Scenario {
  readonly title: string;
  /** Makes cloud fail. Absent: it is down before anything else starts. */
  readonly fail?: (rig: Rig) => Promise<void>;
  /** Default: cloud is started anew. */
  readonly mend?: (rig: Rig) => Promise<void>;
  readonly tls?: boolean;
}

const restart = ({ cloudPlane, cloudResources }: Rig): Promise<void> =>
  cloudPlane.restart(cloudResources);
const behaveAgain = ({ cloudPlane }: Rig): Promise<void> =>
  cloudPlane.behave('normal', { endStreams: true });

const scenarios: readonly Scenario[] = [
  { title: 'SIGKILL', fail: ({ cloudPlane }) => cloudPlane.kill() },
  {
    title: 'a black hole on the way',
    fail: ({ cloudProxy }) => cloudProxy.setMode('blackhole'),
    mend: ({ cloudProxy }) => cloudProxy.setMode('pass'),
  },
  {
    title: 'streams that are accepted and never answered',
    fail: ({ cloudPlane }) => cloudPlane.behave('silent', { endStreams: true }),
    mend: behaveAgain,
  },
  {
    title: 'streams that die after their first response, for ever',
    fail: async ({ cloudPlane, cloudResources }) => {
      await cloudPlane.behave('die-after-first-response', { endStreams: true });
      await churn(cloudPlane, cloudResources);
    },
    mend: behaveAgain,
  },
  { title: 'being down from the start' },
  {
    title: 'SIGKILL, with mutual TLS on both sides',
    fail: (rig) => rig.cloudPlane.kill(),
    tls: true,
  },
];

/**
 * Changes one assignment with every new stream, a few times. A client that knows all versions is
 * owed no response on a new stream, and a control plane that owes none does not die of it.
 */
async function churn(plane: ControlPlane, resources: readonly MeshResource[]): Promise<void> {
  const filler = resources.filter(({ typeUrl }) => typeUrl === TYPE_URLS.assignment).at(-1)!;
  const path = filler.name.slice(filler.name.indexOf('/edge/') + 1);
  for (let round = 0; round < 5; round += 1) {
    const { opened } = await plane.streams();
    await plane.patchResources([assignment(cloud, path, 10_000 + round)]);
    // Fewer streams than rounds: the gateway has seen enough, which is what the test is about.
    const another = async (): Promise<boolean> => (await plane.streams()).opened > opened;
    if (!(await until('a new stream', another, { timeoutMs: 3_000 }).catch(() => false))) return;
  }
}

interface Security {
  readonly ca: CertificateAuthority;
  readonly server: ControlPlaneTls;
  readonly gatewayArgs: readonly string[];
  readonly client: { readonly ca: string; readonly cert: string; readonly key: string };
}

async function createSecurity(t: Test): Promise<Security> {
  const ca = await createCertificateAuthority();
  t.teardown(() => ca.remove());
  const server = await ca.issue({ name: 'server', ipAddresses: ['127.0.0.1'] });
  const uris = ['spiffe://example.com/client'];
  const client = await ca.issue({ name: 'client', uris });
  const files = [
    '--client-tls-cert',
    server.cert,
    '--client-tls-key',
    server.key,
    '--client-tls-client-ca',
    ca.ca,
  ];
  return {
    ca,
    server: { ...server, clientCa: ca.ca },
    gatewayArgs: files,
    client: { ca: ca.ca, ...client },
  };
}

function source(port: number, security: Security | undefined): Record<string, unknown> {
  return {
    target: `127.0.0.1:${port}`,
    ...(security === undefined ? { insecure: true } : { tls: security.client }),
    timers: {
      backoff_base: '100ms',
      backoff_max: '1s',
      keepalive_time: '1s',
      keepalive_timeout: '500ms',
      probe_interval: '1s',
      probe_timeout: '500ms',
      first_response_timeout: '2s',
      min_stable: '2s',
    },
  };
}

function authorityMap(cloudPort: number, onpremPort: number, security?: Security): unknown {
  return {
    sources: { cloud: source(cloudPort, security), onprem: source(onpremPort, security) },
    authorities: {
      [cloud]: {
        sources: ['cloud'],
        alternative: onprem,
        failover: { hold: `${holdMs}ms` },
      },
      [onprem]: { sources: ['onprem'] },
    },
  };
}

/** Waits until the admin side says that cloud's names are where `state` says they are. */
async function adminAgrees(gateway: Gateway, state: 'primary' | 'alt'): Promise<void> {
  await until(`/authorities says ${state}`, async () =>
    JSON.stringify(await gateway.authorities()).includes(`"state":"${state}"`),
  );
  const gauge = new RegExp(`authority="${cloud}"[^}]*state="${state}"[^}]*\\} 1$`, 'm');
  await until(`/metrics says ${state}`, async () => gauge.test(await gateway.metrics()));
}

/** What Envoy holds: `authority`'s content, all of it under cloud's names. */
async function envoyHolds(envoy: Envoy, authority: string, port: number): Promise<void> {
  await envoy.waitForCluster(xdstpName(cloud, 'cluster', 'edge/web'), { port });
  const marker = `"value": "${authority}"`;
  await until(`Envoy's route is of ${authority}`, async () => {
    const dump = await envoy.configDump();
    return dump.includes(marker) && !dump.includes(`xdstp://${onprem}/`);
  });
}

async function play(t: Test, scenario: Scenario): Promise<void> {
  const backends = [await startHttpBackend('cloud'), await startHttpBackend('onprem')] as const;
  t.teardown(() => Promise.all(backends.map((backend) => backend.stop())));
  const security = scenario.tls === true ? await createSecurity(t) : undefined;
  const planeOptions = security === undefined ? {} : { tls: security.server };
  const cloudPlane = await ControlPlane.start({ name: 'cloud', ...planeOptions });
  t.teardown(() => cloudPlane.stop());
  const onpremPlane = await ControlPlane.start({ name: 'onprem', ...planeOptions });
  t.teardown(() => onpremPlane.stop());
  const cloudProxy = await startFaultProxy(cloudPlane.xdsPort);
  t.teardown(() => cloudProxy.stop());

  const listenerPort = await freePort();
  const common = { listenerPort, totalResources };
  const cloudResources = mesh({ authority: cloud, backendPort: backends[0].port, ...common });
  await cloudPlane.setResources(cloudResources);
  await onpremPlane.setResources(
    mesh({ authority: onprem, backendPort: backends[1].port, ...common }),
  );
  const rig: Rig = { cloudPlane, cloudProxy, cloudResources, onpremPlane };
  if (scenario.fail === undefined) await cloudPlane.kill();

  // Only the black hole needs the proxy; without it, dead processes are refused for real.
  const throughProxy = scenario.title.includes('black hole');
  const cloudPort = throughProxy ? cloudProxy.port : cloudPlane.xdsPort;
  const gateway = await Gateway.start({
    authorityMap: authorityMap(cloudPort, onpremPlane.xdsPort, security),
    args: security?.gatewayArgs ?? [],
  });
  t.teardown(() => gateway.stop());
  const envoy = await Envoy.start({
    xdsPort: gateway.port,
    authority: cloud,
    ...(security === undefined ? {} : { tls: security.client }),
  });
  t.teardown(() => envoy.stop());
  await envoy.ready({ timeoutMs: 30_000 });
  const traffic = startTraffic(`http://127.0.0.1:${listenerPort}/`);
  t.teardown(() => traffic.stop());

  const run = { envoy, gateway, traffic, ports: [backends[0].port, backends[1].port] as const };
  await tellingLogs([gateway, envoy, cloudPlane, onpremPlane], async () => {
    await thereAndBack(t, scenario, rig, run);
    await upstreamIsRight(t, rig);
  });
}

interface Run {
  readonly envoy: Envoy;
  readonly gateway: Gateway;
  readonly traffic: Traffic;
  /** Of cloud's backend, and of onprem's. */
  readonly ports: readonly [number, number];
}

async function thereAndBack(t: Test, scenario: Scenario, rig: Rig, run: Run): Promise<void> {
  const { envoy, gateway, traffic, ports } = run;
  if (scenario.fail !== undefined) {
    await traffic.untilOnly('cloud');
    await envoyHolds(envoy, cloud, ports[0]);
    await adminAgrees(gateway, 'primary');
    const moved = traffic.untilOnly('onprem', { timeoutMs: failoverLimitMs });
    moved.catch(() => undefined);
    await scenario.fail(rig);
    t.comment(`${scenario.title}: all answers from onprem after ${await moved} ms`);
  } else {
    await traffic.untilOnly('onprem');
  }
  await envoyHolds(envoy, onprem, ports[1]);
  await adminAgrees(gateway, 'alt');

  const back = traffic.untilOnly('cloud', { timeoutMs: failbackLimitMs });
  back.catch(() => undefined);
  await (scenario.mend ?? restart)(rig);
  const backMs = await back;
  t.comment(`${scenario.title}: all answers from cloud again after ${backMs} ms`);
  t.ok(backMs >= holdMs, 'no move back within the hold time');
  await envoyHolds(envoy, cloud, ports[0]);
  await adminAgrees(gateway, 'primary');

  const totals = await traffic.stop();
  t.strictSame(totals.failures, [], `0 of ${totals.requests} requests lost`);
}

/** What the control planes saw of the gateway. */
async function upstreamIsRight(t: Test, { cloudPlane, onpremPlane }: Rig): Promise<void> {
  for (const plane of [cloudPlane, onpremPlane]) {
    const { streams } = await plane.streams();
    const nacks = streams.flatMap((stream) => stream.nacks);
    t.strictSame(nacks, [], 'the gateway refused nothing');
    t.ok(streams.filter((stream) => stream.open).length <= 1, 'one stream for each source');
  }
  const asked = (await cloudPlane.streams()).streams.at(-1)?.types[TYPE_URLS.cluster];
  t.ok(asked?.subscriptions.includes(xdstpGlob(cloud, 'cluster')), 'the glob is asked upstream');
}

// The scenarios run one after the other, for many seconds each.
t.setTimeout(scenarios.length * 60_000);
for (const scenario of scenarios) {
  void t.test(
    `Envoy moves to the alternative and back, losing no request, after ${scenario.title}`,
    { skip: skip || (scenario.tls === true && noOpenssl), timeout: 60_000 },
    (t) => play(t, scenario),
  );
}

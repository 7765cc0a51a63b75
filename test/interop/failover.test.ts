/**
 * Goal: when the control plane of an authority dies, in any way, Envoy behind the gateway moves to
 * the content of the alternative authority and back, under the subscribed names, without a lost
 * request.
 * Method: two real control planes (cloud, onprem: the same paths, other content and backends), the
 * gateway as a process of its own, a real Envoy that subscribes only names of cloud, and traffic
 * over kept and new connections all along.
 */
import t, { type Test } from 'tap';

import { opensslMissing } from '../support/certificates.js';
import { assignment, TYPE_URLS, xdstpGlob, type MeshResource } from '../support/mesh.js';
import { until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import type { ControlPlane } from './peers/control-plane.js';
import type { EnvoyConfig } from './peers/envoy-config.js';
import { skipWithoutGateway } from './peers/gateway.js';
import { skipWithout } from './peers/provisioned.js';
import { cloud, onprem, quickTimers, startRig, type Rig } from './peers/rig.js';
import { createSecurity } from './peers/security.js';

const totalResources = 1_000;
const holdMs = 3_000;
/** Detection of any failure takes at most the sum of its timers. */
const failoverLimitMs = 15_000;
/** With default timers, a primary without new content counts as live after 15 s. */
const failbackLimitMs = 20_000;

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();
const noOpenssl = await opensslMissing();

interface Scenario {
  readonly title: string;
  /** Makes cloud fail. Absent: cloud is down from the start. */
  readonly fail?: (rig: Rig) => Promise<void>;
  /** Default: restarts cloud. */
  readonly mend?: (rig: Rig) => Promise<void>;
  /** Default: {@link quickTimers}. */
  readonly timers?: Readonly<Record<string, string>>;
  /** From `fail` until Envoy holds all content of the alternative. */
  readonly limitMs?: number;
  readonly throughProxy?: true;
  readonly tls?: true;
  readonly apiType?: 'GRPC';
}

const restart = ({ cloudPlane, cloudResources }: Rig): Promise<void> =>
  cloudPlane.restart(cloudResources);
const behaveAgain = ({ cloudPlane }: Rig): Promise<void> =>
  cloudPlane.behave('normal', { endStreams: true });

const scenarios: readonly Scenario[] = [
  {
    title: 'SIGKILL, with the default timers of detection',
    fail: ({ cloudPlane }) => cloudPlane.kill(),
    timers: {},
    limitMs: 2_000,
  },
  {
    title: 'a black hole on the path',
    fail: ({ cloudProxy }) => cloudProxy.setMode('blackhole'),
    mend: ({ cloudProxy }) => cloudProxy.setMode('pass'),
    throughProxy: true,
  },
  {
    title: 'streams that are accepted and never answered',
    fail: ({ cloudPlane }) => cloudPlane.behave('silent', { endStreams: true }),
    mend: behaveAgain,
  },
  {
    title: 'streams that die after their first response, forever',
    fail: async ({ cloudPlane, cloudResources }) => {
      await cloudPlane.behave('die-after-first-response', { endStreams: true });
      await churn(cloudPlane, cloudResources);
    },
    mend: behaveAgain,
  },
  { title: 'being down from the start' },
  {
    title: 'SIGKILL, with mutual TLS on both sides',
    fail: ({ cloudPlane }) => cloudPlane.kill(),
    tls: true,
  },
  {
    title: 'SIGKILL, with an Envoy that speaks the state-of-the-world protocol',
    fail: ({ cloudPlane }) => cloudPlane.kill(),
    apiType: 'GRPC',
  },
];

/**
 * Changes one assignment with every new stream, a few times. A client that knows all versions is
 * owed no response on a new stream, and a control plane that sends none does not die after it.
 */
async function churn(plane: ControlPlane, resources: readonly MeshResource[]): Promise<void> {
  const filler = resources.filter(({ typeUrl }) => typeUrl === TYPE_URLS.assignment).at(-1)!;
  const path = filler.name.slice(filler.name.indexOf('/edge/') + 1);
  for (let round = 0; round < 5; round += 1) {
    const { opened } = await plane.streams();
    await plane.patchResources([assignment(cloud, path, 10_000 + round)]);
    // Fewer streams than rounds: the gateway has tripped the source, as the test intends.
    const another = async (): Promise<boolean> => (await plane.streams()).opened > opened;
    if (!(await until('a new stream', another, { timeoutMs: 3_000 }).catch(() => false))) return;
  }
}

/** The number of cloud's names that Envoy holds with the content of `authority`, in effect. */
function holdsOf(config: EnvoyConfig, authority: string, backendPort: number): number {
  const { clusters, warming, listeners, routes } = config;
  const mark = (text: string): boolean => text.includes(`:${JSON.stringify(authority)}`);
  const under = (name: string): boolean => name.startsWith(`xdstp://${cloud}/`);
  const held = (resources: ReadonlyMap<string, unknown>): readonly string[] =>
    [...resources]
      .filter(([name, content]) => under(name) && mark(JSON.stringify(content)))
      .map(([name]) => name);
  const assignments = [...config.assignments].filter(
    ([name, ports]) => under(name) && ports.join() === String(backendPort),
  );
  const active = held(clusters).filter((name) => !warming.has(name));
  return active.length + assignments.length + held(listeners).length + held(routes).length;
}

/**
 * Waits until all names of cloud hold content of `authority`. Assignments of cloud may differ by
 * the changes of a scenario.
 *
 * @returns milliseconds from now until then.
 */
async function envoyHolds(
  rig: Rig,
  authority: string,
  { least = totalResources, timeoutMs = 20_000 } = {},
): Promise<number> {
  const port = authority === cloud ? rig.backends.cloud : rig.backends.onprem;
  const beganMs = performance.now();
  await until(
    `Envoy holds ${least} resources of ${authority}`,
    async () => holdsOf(await rig.envoyConfig(), authority, port) >= least,
    { timeoutMs, everyMs: 50 },
  );
  return Math.round(performance.now() - beganMs);
}

/** The state table and the metrics agree on the location of cloud's names and on the switches. */
async function adminAgrees(
  t: Test,
  { gateway }: Rig,
  state: 'primary' | 'alt',
  switches: number,
): Promise<void> {
  const active = state === 'primary' ? 'cloud' : 'onprem';
  await until(`/authorities says ${state}`, async () => {
    const rows = await gateway.groups(cloud);
    return rows.length === 1 && rows[0]?.state === state && rows[0].active === active;
  });
  const labels = { authority: cloud };
  const gauge = await gateway.metric('tributary_failover_state', { ...labels, state });
  const states = await gateway.metric('tributary_failover_state', labels);
  t.strictSame([gauge, states], [1, 1], `/metrics reports ${state} and nothing else`);
  t.equal(await gateway.metric('tributary_switches_total', labels), switches, 'switches');
}

async function play(t: Test, scenario: Scenario): Promise<void> {
  const rig = await startRig(t, {
    totalResources,
    timers: scenario.timers ?? quickTimers,
    authority: { alternative: onprem, failover: { hold: `${holdMs}ms` } },
    cloudThroughProxy: scenario.throughProxy === true,
    cloudDown: scenario.fail === undefined,
    security: scenario.tls === true ? await createSecurity(t) : undefined,
    ...(scenario.apiType && { apiType: scenario.apiType }),
  });
  const { gateway, envoy, cloudPlane, onpremPlane } = rig;
  await tellingLogs([gateway, envoy, cloudPlane, onpremPlane], async () => {
    await there(t, scenario, rig);
    await andBack(t, scenario, rig);
    await upstreamIsRight(t, rig);
  });
}

async function there(t: Test, { title, fail, limitMs = failoverLimitMs }: Scenario, rig: Rig) {
  const { traffic } = rig;
  if (fail === undefined) {
    await traffic.untilOnly('onprem');
    await envoyHolds(rig, onprem);
  } else {
    await traffic.untilOnly('cloud');
    await envoyHolds(rig, cloud);
    await adminAgrees(t, rig, 'primary', 0);
    const moved = traffic.untilOnly('onprem', { timeoutMs: failoverLimitMs });
    const failing = fail(rig);
    const [heldMs, movedMs] = await Promise.all([
      envoyHolds(rig, onprem, { timeoutMs: limitMs }),
      moved,
      failing,
    ]);
    t.comment(`${title}: Envoy holds ${totalResources} resources of onprem after ${heldMs} ms`);
    t.comment(`${title}: 50 responses in a row from onprem after ${movedMs} ms`);
  }
  await adminAgrees(t, rig, 'alt', 1);
}

async function andBack(t: Test, { title, mend = restart }: Scenario, rig: Rig): Promise<void> {
  const back = rig.traffic.untilOnly('cloud', { timeoutMs: holdMs + failbackLimitMs });
  back.catch(() => undefined);
  await mend(rig);
  const backMs = await back;
  t.comment(`${title}: 50 responses in a row from cloud again after ${backMs} ms`);
  t.ok(backMs >= holdMs, 'no failback within the hold time');
  await envoyHolds(rig, cloud, { least: totalResources - 1 });
  await adminAgrees(t, rig, 'primary', 2);

  const { requests, failures } = await rig.traffic.stop();
  t.strictSame(failures, [], `0 of ${requests} requests lost`);
  const refused = [...(await rig.envoy.stats(''))].filter(
    ([name, count]) => name.endsWith('.update_rejected') && count > 0,
  );
  t.strictSame(refused, [], 'Envoy refused nothing');
}

/** Checks the streams of the gateway at the control planes. */
async function upstreamIsRight(t: Test, { cloudPlane, onpremPlane }: Rig): Promise<void> {
  for (const plane of [cloudPlane, onpremPlane]) {
    const { streams } = await plane.streams();
    const nacks = streams.flatMap((stream) => stream.nacks);
    t.strictSame(nacks, [], 'the gateway refused nothing');
    t.ok(streams.filter((stream) => stream.open).length <= 1, 'one stream for each source');
  }
  const asked = (await cloudPlane.streams()).streams.at(-1)?.types[TYPE_URLS.cluster];
  t.ok(
    asked?.subscriptions.includes(xdstpGlob(cloud, 'cluster')),
    'the glob is subscribed upstream',
  );
}

// The scenarios run one after the other, for many seconds each.
t.setTimeout(scenarios.length * 60_000);
for (const scenario of scenarios) {
  t.test(
    `Envoy moves to the alternative and back, losing no request, after ${scenario.title}`,
    { skip: skip || (scenario.tls === true && noOpenssl), timeout: 60_000 },
    (t) => play(t, scenario),
  );
}

/**
 * Goal: while no source is reachable, a gateway that starts cold sends nothing that an Envoy takes
 * for a deletion or for an empty set; and a cluster that never gets ready delays no other.
 * Method: a scripted control plane that crashes or stays silent, the gateway as a process of its
 * own, and real Envoys, with requests to all clusters where they have any.
 */
import t, { type Test } from 'tap';

import { freePort } from '../support/free-port.js';
import {
  assignment,
  edsCluster,
  inOldStyle,
  TYPE_URLS,
  xdstpName,
  type MeshResource,
} from '../support/mesh.js';
import { stoppedWith } from '../support/stopped-with.js';
import { pause, until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import {
  busyMesh,
  deltaWildcard,
  envoyFollows,
  nothingFails,
  nothingIsRemoved,
  sotwWildcard,
  startColdRig,
  startGateway,
  type ColdRig,
  type Variant,
} from './peers/cold-rig.js';
import { readConfigDump } from './peers/envoy-config.js';
import { Envoy } from './peers/envoy.js';
import { Gateway, skipWithoutGateway } from './peers/gateway.js';
import { skipWithout } from './peers/provisioned.js';
import { cloud } from './peers/rig.js';
import { ScriptedControlPlane, type Script } from './peers/scripted-control-plane.js';

t.setTimeout(300_000);
// Most of the time these tests only wait.
t.jobs = 6;

const skip = skipWithout('envoy') || skipWithoutGateway();

function cluster(path: string, content: Readonly<Record<string, unknown>>): MeshResource {
  const name = xdstpName(cloud, 'cluster', path);
  const typeUrl = TYPE_URLS.cluster;
  return { name, typeUrl, json: { '@type': typeUrl, name, connectTimeout: '1s', ...content } };
}

// ---- a new Envoy in an outage -------------------------------------------------------------------

const patientMs = 20_000;

/** The states of Envoy during `forMs`, and the time after which it was LIVE. */
async function statesOf(envoy: Envoy, forMs: number) {
  const seen = new Set<string>();
  let liveAfterMs: number | undefined;
  const beganMs = performance.now();
  for (let atMs = 0; atMs < forMs; atMs = Math.round(performance.now() - beganMs)) {
    const state = await envoy.state();
    seen.add(state);
    if (state === 'LIVE') liveAfterMs ??= atMs;
    await pause(100);
  }
  return { states: [...seen].join(', then '), liveAfterMs };
}

async function newEnvoys(t: Test, script: Script | undefined): Promise<void> {
  const [listenerPort, sparePort] = [await freePort(), await freePort()];
  const plane = await stoppedWith(
    t,
    ScriptedControlPlane.start(inOldStyle(busyMesh(1, listenerPort, sparePort))),
  );
  plane.crash();
  if (script !== undefined) await plane.restart(script);
  const gateway = await startGateway(t, deltaWildcard, plane.port);
  const envoys = await Promise.all(
    [deltaWildcard, sotwWildcard].map(({ collections, apiType }) =>
      stoppedWith(
        t,
        Envoy.start({
          xdsPort: gateway.port,
          nodeId: apiType,
          collections,
          apiType,
          initialFetchTimeoutMs: 0,
        }),
      ),
    ),
  );
  await tellingLogs([gateway, ...envoys], async () => {
    const watched = await Promise.all(envoys.map((envoy) => statesOf(envoy, patientMs)));
    for (const [index, { states, liveAfterMs }] of watched.entries()) {
      const { title } = [deltaWildcard, sotwWildcard][index]!;
      const since = liveAfterMs === undefined ? '' : ` after ${liveAfterMs} ms`;
      const text = `${title}: in ${patientMs} ms without a source Envoy is ${states}${since}`;
      t.equal(liveAfterMs, undefined, text);
    }
    plane.crash();
    await plane.restart();
    for (const envoy of envoys) {
      await envoy.ready({ timeoutMs: 15_000 });
      await envoy.waitForCluster('edge/busy-61', { timeoutMs: 5_000 });
    }
    t.pass('with the source back both are LIVE and have the last cluster');
  });
}

for (const [title, script] of [
  ['is down', undefined],
  ['accepts streams and is silent', { atFirst: { answers: 'silence', forMs: 60_000 } }],
] as const) {
  t.test(
    'an Envoy without configuration that waits forever (initial_fetch_timeout: 0s) gets ' +
      `no empty response while the source ${title} (invariants 3, 19)`,
    { skip, timeout: 120_000 },
    (t) => newEnvoys(t, script),
  );
}

// ---- a new Envoy whose first source is silent ---------------------------------------------------

/** Envoy's default for `initial_fetch_timeout`. */
const givesUpMs = 15_000;

t.test(
  'an Envoy that starts with a gateway whose first source is silent has the content of the second ' +
    'before it gives up (docs/FAILOVER.md, "Slow sources")',
  { skip, timeout: 120_000 },
  async (t) => {
    const mesh = busyMesh(1, await freePort(), await freePort());
    const [silent, second] = [
      await stoppedWith(t, ScriptedControlPlane.start(mesh)),
      await stoppedWith(t, ScriptedControlPlane.start(mesh)),
    ];
    silent.crash();
    await silent.restart({ atFirst: { answers: 'silence', forMs: 4 * givesUpMs } });
    const source = ({ port }: ScriptedControlPlane) => ({
      target: `127.0.0.1:${port}`,
      insecure: true,
    });
    const gateway = await stoppedWith(
      t,
      Gateway.start({
        authorityMap: {
          sources: { silent: source(silent), second: source(second) },
          authorities: { [cloud]: { sources: ['silent', 'second'] } },
        },
      }),
    );
    const envoy = await stoppedWith(t, Envoy.start({ xdsPort: gateway.port }));
    await tellingLogs([gateway, envoy], async () => {
      const beganMs = performance.now();
      await envoy.ready({ timeoutMs: 2 * givesUpMs });
      const tookMs = Math.round(performance.now() - beganMs);
      t.ok(tookMs < givesUpMs, `Envoy is LIVE after ${tookMs} ms`);
      await envoy.waitForCluster(xdstpName(cloud, 'cluster', 'edge/busy-61'));
      t.match(await gateway.groups(cloud), [{ state: 'alt', active: 'second' }]);
    });
  },
);

// ---- a resume without a version -----------------------------------------------------------------

/** Envoy refuses the response with this cluster, and accepts all other clusters of it. */
const badCluster = cluster('edge/bad', { type: 'EDS' });

async function resumesWithoutVersion(t: Test, variant: Variant): Promise<void> {
  // A state file must not make it worse.
  const rig = await startColdRig(t, { variant, hasStateFile: true, more: [badCluster] });
  const { plane, gateway, envoy } = rig;
  await tellingLogs([gateway, envoy], async () => {
    const stats = await envoy.stats('cluster_manager.cds.');
    t.ok(Number(stats.get('cluster_manager.cds.update_rejected')) > 0, 'Envoy refused the first');
    t.equal(stats.get('cluster_manager.cds.update_success'), 0, 'and accepted none since');
    plane.crash();
    await gateway.kill();
    await gateway.restart();
    await nothingFails(t, rig, 10_000);
    await nothingIsRemoved(t, rig);
    await plane.restart();
    await envoyFollows(t, rig);
  });
}

for (const variant of [sotwWildcard, deltaWildcard]) {
  t.test(
    'no request fails when an Envoy that refused its first clusters for a bad one resumes without a ' +
      `version at a gateway that starts cold in an outage (${variant.title}; invariants 3, 19)`,
    { skip, timeout: 120_000 },
    (t) => resumesWithoutVersion(t, variant),
  );
}

// ---- a cluster that does not get ready ----------------------------------------------------------

const secretName = 'never-answered';
const overAdsForEver = { ads: {}, resourceApiVersion: 'V3', initialFetchTimeout: '0s' };
const slowCluster = cluster('edge/slow', {
  type: 'STATIC',
  loadAssignment: { clusterName: 'edge/slow' },
  transportSocket: {
    name: 'envoy.transport_sockets.tls',
    typedConfig: {
      '@type': 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext',
      commonTlsContext: {
        tlsCertificateSdsSecretConfigs: [{ name: secretName, sdsConfig: overAdsForEver }],
      },
    },
  },
});

const doomed = edsCluster(cloud, 'edge/doomed');
const added = edsCluster(cloud, 'edge/added');
const soonMs = 2_000;

/** Waits longer than the limit, to report how long a slow one takes. */
async function isSoon(t: Test, what: string, probe: () => Promise<boolean>): Promise<void> {
  const beganMs = performance.now();
  const happens = await until(what, probe, { timeoutMs: 3 * soonMs }).catch(() => false);
  const tookMs = Math.round(performance.now() - beganMs);
  const figure = happens ? `after ${tookMs} ms` : `not within ${tookMs} ms`;
  t.ok(happens && tookMs <= soonMs, `${what} ${figure}; the limit is ${soonMs} ms`);
}

async function nobodyWaits(t: Test, rig: ColdRig): Promise<void> {
  const { plane, envoy, named, backendPort } = rig;
  const config = async () => readConfigDump(await envoy.configDump());
  plane.put(named(slowCluster));
  await until('Envoy warms the slow cluster', async () =>
    (await config()).warming.has(named(slowCluster).name),
  );
  plane.put(named(assignment(cloud, 'edge/added', backendPort)));
  plane.put(named(added));
  await isSoon(t, 'the added cluster is active in Envoy', async () => {
    const { endpoints = [] } = (await envoy.clustersTable()).get(named(added).name) ?? {};
    return endpoints.includes(`127.0.0.1:${backendPort}`);
  });
  plane.delete(TYPE_URLS.cluster, named(doomed).name);
  await isSoon(t, 'the deleted cluster is gone from Envoy', async () => {
    return !(await config()).clusters.has(named(doomed).name);
  });
  await nothingFails(t, rig, 0);
}

for (const variant of [deltaWildcard, sotwWildcard]) {
  t.test(
    'a cluster whose secret never arrives, so that Envoy ACKs no clusters, delays neither an ' +
      `added cluster nor a deleted one (${variant.title}; invariant 5)`,
    { skip, timeout: 120_000 },
    async (t) => {
      const more = [doomed, assignment(cloud, 'edge/doomed', 1)];
      const rig = await startColdRig(t, { variant, more });
      rig.plane.neverAnswer(secretName);
      await tellingLogs([rig.gateway, rig.envoy], () => nobodyWaits(t, rig));
    },
  );
}

/**
 * Goal: a reconnecting client gets what it missed and nothing else, whether the connection, the
 * gateway or the client itself was down, and traffic is unaffected.
 * Method: a real control plane, the gateway as a process, and in front of it a proxy that cuts. A
 * client that records its responses verifies versions; a real Envoy verifies effects.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';

import {
  assignment,
  edsCluster,
  routeToCluster,
  TYPE_URLS,
  xdstpGlob,
  xdstpName,
} from '../support/mesh.js';
import { DeltaClient } from '../support/delta-client.js';
import { until } from '../support/until.js';
import { removeScratch, scratchDirectory, tellingLogs } from './peers/child.js';
import { skipWithoutGateway } from './peers/gateway.js';
import { skipWithout } from './peers/provisioned.js';
import { cloud, onprem, quickTimers, startRig, type Rig, type RigOptions } from './peers/rig.js';

t.setTimeout(180_000);
// The last one mostly waits.
t.jobs = 2;

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();
const totalResources = 200;
const filler = 'edge/filler-0000';
const doomed = 'edge/filler-0001';
const fillerCluster = xdstpName(cloud, 'cluster', filler);
const doomedCluster = xdstpName(cloud, 'cluster', doomed);
const route = xdstpName(cloud, 'route', 'edge/ingress');

/** Envoy's own limit for a cluster whose assignment does not arrive is 15 s. */
const warmLimitMs = 5_000;

async function play(t: Test, options: RigOptions, run: (rig: Rig) => Promise<void>) {
  const rig = await startRig(t, options);
  const { gateway, envoy, cloudPlane, traffic } = rig;
  await tellingLogs([gateway, envoy, cloudPlane], async () => {
    await traffic.untilOnly('cloud');
    await run(rig);
    const { requests, failures } = await traffic.stop();
    t.strictSame(failures, [], `0 of ${requests} requests lost`);
    const refused = [...(await envoy.stats(''))].filter(
      ([name, count]) => name.endsWith('.update_rejected') && count > 0,
    );
    t.strictSame(refused, [], 'Envoy refused nothing');
  });
}

/** Changes one cluster, one assignment and one route, and nothing else. */
async function changeSome({ cloudPlane }: Rig, round: number): Promise<void> {
  await cloudPlane.patchResources([
    edsCluster(cloud, filler, `${round + 1}s`),
    assignment(cloud, filler, 20_000 + round),
    routeToCluster(cloud, 'edge/ingress', 'edge/web', { 'x-round': String(round) }),
  ]);
}

const changedNames = [fillerCluster, xdstpName(cloud, 'assignment', filler), route].sort();

async function witness(t: Test, rig: Rig): Promise<DeltaClient> {
  const client = new DeltaClient({ port: rig.clientProxy.port, resumesMembers: true });
  t.teardown(() => {
    client.close();
  });
  client.subscribe(TYPE_URLS.cluster, [xdstpGlob(cloud, 'cluster')]);
  client.subscribe(TYPE_URLS.listener, [xdstpGlob(cloud, 'listener')]);
  const assignments = rig.cloudResources.filter(({ typeUrl }) => typeUrl === TYPE_URLS.assignment);
  client.subscribe(
    TYPE_URLS.assignment,
    assignments.map(({ name }) => name),
  );
  client.subscribe(TYPE_URLS.route, [route]);
  await until('the witness holds all', () => heldBy(client) === totalResources);
  return client;
}

const heldBy = (client: DeltaClient): number =>
  Object.values(TYPE_URLS).reduce((sum, typeUrl) => sum + client.held(typeUrl).size, 0);

/** On its current stream the client gets only what changed since it opened. */
async function onlyChangesComes(t: Test, rig: Rig, client: DeltaClient, round: number) {
  const before = client.bodies();
  t.strictSame(before, [], 'no body for a name that was resumed with its current version');
  await changeSome(rig, round);
  await until('the change arrives', () => new Set(client.bodies()).size >= changedNames.length);
  t.strictSame([...new Set(client.bodies())].sort(), changedNames, 'exactly the changed names');
  t.equal(heldBy(client), totalResources, 'nothing was removed');
}

t.test(
  'names that a client resumes with their current versions are not sent again (xDS protocol, ' +
    'initial_resource_versions), neither after a cut nor by a gateway that was killed and restarted',
  { skip },
  (t) =>
    play(t, { totalResources }, async (rig) => {
      const client = await witness(t, rig);
      await rig.clientProxy.setMode('cut');
      await client.reconnect();
      await onlyChangesComes(t, rig, client, 1);

      await rig.gateway.kill();
      await rig.gateway.restart();
      await client.reconnect();
      await onlyChangesComes(t, rig, client, 2);
    }),
);

/** Resources of one type that were sent to all clients so far. */
async function sentOf({ gateway }: Rig, type: string): Promise<number> {
  return gateway.metric('tributary_client_resources_total', { authority: cloud, type });
}

/** Envoy has subscribed its whole configuration at the gateway, and ACKs it. */
async function envoyIsBack({ gateway, envoy }: Rig): Promise<void> {
  await until('Envoy is connected', async () => {
    const stats = await envoy.stats('control_plane.');
    return stats.get('control_plane.connected_state') === 1;
  });
  await until('Envoy got all clusters and accepted them', async () => {
    const labels = { authority: cloud, type: 'Cluster' };
    const told = await gateway.metric('tributary_client_acks_total', labels);
    return (await gateway.metric('tributary_clients')) === 1 && told > 0;
  });
}

/**
 * Waits until a change made now has arrived at Envoy: then all earlier responses have arrived too.
 */
async function envoyHears(rig: Rig, round: number): Promise<void> {
  await rig.cloudPlane.patchResources([
    assignment(cloud, filler, 30_000 + round),
    routeToCluster(cloud, 'edge/ingress', 'edge/web', { 'x-round': `envoy ${round}` }),
  ]);
  await until('Envoy gets a change', async () => {
    const { assignments, routes } = await rig.envoyConfig();
    const ports = assignments.get(xdstpName(cloud, 'assignment', filler));
    const hears = JSON.stringify(routes.get(route) ?? '').includes(`"envoy ${round}"`);
    return ports?.[0] === 30_000 + round && hears;
  });
}

async function routeReloads({ envoy }: Rig): Promise<number> {
  const reloads = [...(await envoy.stats('http.'))].filter(([name]) =>
    /\.rds\..*\.config_reload$/.test(name),
  );
  return reloads.reduce((sum, [, count]) => sum + count, 0);
}

t.test(
  'a reconnecting Envoy is sent no assignment and no route that it holds (xDS protocol, ' +
    'initial_resource_versions), neither after a cut nor by a restarted gateway',
  { skip },
  (t) =>
    play(t, { totalResources }, async (rig) => {
      await envoyHears(rig, 0);
      const reloads = await routeReloads(rig);
      const before = [await sentOf(rig, 'ClusterLoadAssignment')] as const;
      const routesBefore = await sentOf(rig, 'RouteConfiguration');
      await rig.clientProxy.setMode('cut');
      await until('the gateway has a second stream', async () => {
        return (await rig.gateway.metric('tributary_client_streams_total')) >= 2;
      });
      await envoyIsBack(rig);
      await envoyHears(rig, 1);
      t.equal(await sentOf(rig, 'ClusterLoadAssignment'), before[0] + 1, 'one assignment changed');
      t.equal(await sentOf(rig, 'RouteConfiguration'), routesBefore + 1, 'one route changed');

      await rig.gateway.kill();
      await rig.gateway.restart();
      await envoyIsBack(rig);
      await envoyHears(rig, 2);
      t.equal(await sentOf(rig, 'ClusterLoadAssignment'), 1, 'one assignment changed');
      t.equal(await sentOf(rig, 'RouteConfiguration'), 1, 'one route changed');
      t.equal(await routeReloads(rig), reloads + 2, 'routes were loaded for the two changes only');
    }),
);

/**
 * Waits until Envoy's active cluster has the connect timeout and its assignment, and does not warm.
 */
async function changedClusterIsActive(rig: Rig, seconds: number, timeoutMs: number): Promise<void> {
  const name = xdstpName(cloud, 'cluster', 'edge/web');
  await until(
    'the changed cluster is active',
    async () => {
      const { clusters, warming, assignments } = await rig.envoyConfig();
      const current = clusters.get(name)?.['connect_timeout'] === `${seconds}s`;
      const ports = assignments.get(xdstpName(cloud, 'assignment', 'edge/web'));
      return current && !warming.has(name) && ports?.[0] === rig.backends.cloud;
    },
    { timeoutMs },
  );
}

async function clusterIsGone(rig: Rig): Promise<void> {
  await until('the deleted cluster is gone from Envoy', async () => {
    const { clusters } = await rig.envoyConfig();
    return !clusters.has(doomedCluster) && clusters.has(fillerCluster);
  });
}

t.test(
  'resources deleted while an Envoy was disconnected are gone after its return, and changed ones are ' +
    'active with their assignments at once, not after 15 s of warming',
  { skip },
  (t) =>
    play(t, { totalResources }, async (rig) => {
      const { clientProxy, cloudPlane, gateway } = rig;
      await clientProxy.setMode('refuse');
      await until('Envoy is away', async () => (await gateway.metric('tributary_clients')) === 0);
      await cloudPlane.deleteResource(TYPE_URLS.cluster, doomedCluster);
      await cloudPlane.patchResources([edsCluster(cloud, 'edge/web', '7s')]);
      t.ok(
        (await rig.envoyConfig()).clusters.has(doomedCluster),
        'Envoy continues with its configuration',
      );
      await clientProxy.setMode('pass');
      const back = async (): Promise<boolean> => (await gateway.metric('tributary_clients')) === 1;
      await until('Envoy is back', back, { everyMs: 5 });
      const beganMs = performance.now();
      await changedClusterIsActive(rig, 7, warmLimitMs);
      t.comment(
        `changed cluster active ${Math.round(performance.now() - beganMs)} ms after return`,
      );
      await clusterIsGone(rig);

      await gateway.kill();
      await cloudPlane.patchResources([edsCluster(cloud, 'edge/web', '8s')]);
      await gateway.restart();
      const restartedMs = performance.now();
      await changedClusterIsActive(rig, 8, warmLimitMs);
      t.comment(
        `changed cluster active ${Math.round(performance.now() - restartedMs)} ms after restart`,
      );
    }),
);

for (const apiType of ['DELTA_GRPC', 'GRPC'] as const) {
  t.test(
    `an Envoy (${apiType}) that returns while a cluster warms gets no route to a cluster that it lacks (ENVOY 24)`,
    { skip },
    (t) =>
      play(t, { totalResources: 20, apiType }, async (rig) => {
        const { clientProxy, cloudPlane, gateway, backends, traffic } = rig;
        const late = xdstpName(cloud, 'cluster', 'edge/late');
        await cloudPlane.patchResources([edsCluster(cloud, 'edge/late')]);
        await until('a cluster warms', async () => (await rig.envoyConfig()).warming.has(late));
        await clientProxy.setMode('refuse');
        await until('Envoy is away', async () => (await gateway.metric('tributary_clients')) === 0);
        await cloudPlane.patchResources([
          edsCluster(cloud, 'edge/next'),
          assignment(cloud, 'edge/next', backends.onprem),
        ]);
        await cloudPlane.patchResources([
          routeToCluster(cloud, 'edge/ingress', 'edge/next'),
          assignment(cloud, filler, 30_000),
        ]);
        await clientProxy.setMode('pass');
        await until('Envoy gets endpoints', async () => {
          const { assignments } = await rig.envoyConfig();
          return assignments.get(xdstpName(cloud, 'assignment', filler))?.[0] === 30_000;
        });
        await traffic.untilOnly('cloud');
        await cloudPlane.patchResources([assignment(cloud, 'edge/late', backends.onprem)]);
        await traffic.untilOnly('onprem');
      }),
  );
}

/** A name that no client subscribes is dropped after 30 s, without a trace. */
const forgetful: RigOptions = {
  totalResources: 20,
  timers: { ...quickTimers, linger: '0s' },
  authority: { alternative: onprem, failover: { linger: '0s' } },
};

t.test(
  'resources deleted while all clients were disconnected longer than the gateway keeps content are gone ' +
    'after their return',
  { skip, timeout: 90_000 },
  (t) =>
    play(t, forgetful, async (rig) => {
      const { clientProxy, cloudPlane, gateway } = rig;
      await clientProxy.setMode('refuse');
      await until(
        'the gateway holds nothing and has disconnected from the source',
        async () =>
          (await gateway.metric('tributary_cache_globs')) === 0 &&
          (await cloudPlane.streams()).open === 0,
        { timeoutMs: 45_000, everyMs: 250 },
      );
      await cloudPlane.deleteResource(TYPE_URLS.cluster, doomedCluster);
      await clientProxy.setMode('pass');
      await clusterIsGone(rig);
    }),
);

t.test(
  'resources deleted while the gateway was down are gone from an Envoy after its return, and from a ' +
    'client that resumes without versions, if there is a state file (invariant 18, ENVOY 3)',
  { skip },
  async (t) => {
    const directory = await scratchDirectory('state');
    t.teardown(() => removeScratch(directory));
    const file = join(directory, 'names.json');
    const options = { totalResources, gatewayArgs: ['--state-file', file] };
    await play(t, options, async (rig) => {
      const { gateway, cloudPlane } = rig;
      const client = new DeltaClient({ port: gateway.port, resumesMembers: false });
      t.teardown(() => {
        client.close();
      });
      client.subscribe(TYPE_URLS.cluster, [xdstpGlob(cloud, 'cluster')]);
      await until('the client holds the cluster', () =>
        client.held(TYPE_URLS.cluster).has(doomedCluster),
      );
      await until('the names are written', async () => {
        const written = await gateway.metric('tributary_state_writes_total', { reason: 'written' });
        return written > 0 && readFileSync(file, 'utf8').includes(doomedCluster);
      });
      t.notMatch(readFileSync(file, 'utf8'), /connect_timeout|"content"/, 'names, no content');
      await gateway.kill();
      await cloudPlane.deleteResource(TYPE_URLS.cluster, doomedCluster);
      await gateway.restart();
      await clusterIsGone(rig);
      await client.reconnect();
      await until(
        'the client got the removal',
        () => !client.held(TYPE_URLS.cluster).has(doomedCluster),
      );
      t.ok(client.held(TYPE_URLS.cluster).has(fillerCluster), 'and of no other name');
    });
  },
);

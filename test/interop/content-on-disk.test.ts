/**
 * Goal: a gateway that starts while no source can be reached serves the content of its predecessor to clients that have
 * none, and the sources' own content once they are back (docs/FAILOVER.md, "Content on disk").
 * Method: a scripted control plane, the gateway as a process that is killed, and real Envoys, with requests to all clusters.
 */
import t from 'tap';

import { assignment } from '../support/mesh.js';
import { stoppedWith } from '../support/stopped-with.js';
import { until } from '../support/until.js';
import { removeScratch, scratchDirectory, tellingLogs } from './peers/child.js';
import {
  busyClusters,
  deltaGlob,
  deltaWildcard,
  envoyFollows,
  nothingFails,
  sotwGlob,
  sotwWildcard,
  startColdRig,
} from './peers/cold-rig.js';
import { Envoy } from './peers/envoy.js';
import { skipWithoutGateway } from './peers/gateway.js';
import {
  allSettle,
  nothingLost,
  processesOf,
  skipWithoutGrpcRig,
  startGrpcRig,
} from './peers/grpc-rig.js';
import { skipWithout } from './peers/provisioned.js';
import { cloud } from './peers/rig.js';

t.setTimeout(120_000);
// Most of the time these tests only wait.
t.jobs = 4;

const skip = skipWithout('envoy') || skipWithoutGateway();

for (const variant of [deltaGlob, deltaWildcard, sotwGlob, sotwWildcard]) {
  t.test(
    'a new Envoy gets its configuration from a gateway that was killed and started again in an outage of its source, ' +
      `and loses no request when that is back (${variant.title}; invariants 1, 3)`,
    { skip },
    async (t) => {
      const rig = await startColdRig(t, { variant, keepsContent: true });
      const { plane, gateway, envoy: former, traffic } = rig;
      await traffic.stop();
      await former.stop();
      plane.crash();
      await gateway.kill();
      await gateway.restart();
      const envoy = await stoppedWith(t, Envoy.start({ xdsPort: gateway.port, ...variant }));
      await tellingLogs([gateway, envoy], async () => {
        await envoy.ready({ timeoutMs: 20_000 });
        const started = await rig.startBusyTraffic();
        const now = { ...rig, envoy, traffic: started };
        await plane.restart();
        const entry = variant.collections === 'globs' ? cloud : 'old-style/0';
        await until('the source serves again', async () =>
          (await gateway.groups(entry)).every(({ state }) => state === 'primary'),
        );
        await nothingFails(t, now, 5_000);
        await envoyFollows(t, now);
        await nothingFails(t, now, 0);
        t.ok(started.totals().requests > busyClusters);
      });
    },
  );
}

t.test(
  'new gRPC clients get their services from a gateway that was killed and started again in an outage of its source, ' +
    'and follow the source once it is back (invariants 1, 3)',
  { skip: skipWithoutGrpcRig() },
  async (t) => {
    const directory = await scratchDirectory('content');
    t.teardown(() => removeScratch(directory));
    const service = `xds://${cloud}/shop`;
    const rig = await startGrpcRig(t, {
      targets: [service],
      gatewayArgs: ['--content-dir', directory],
    });
    const { cloudPlane, gateway, backends } = rig;
    await tellingLogs(processesOf(rig), async () => {
      await rig.settle('cloud', [service]);
      for (const former of rig.clients) await former.stop();
      await cloudPlane.kill();
      await gateway.kill();
      await gateway.restart();
      const clients = await rig.startClients();
      await tellingLogs(clients, async () => {
        await allSettle(clients, 'cloud', [service]);
        await cloudPlane.restart(rig.cloudResources);
        await until('the source serves again', async () =>
          (await gateway.groups(cloud)).every(({ state }) => state === 'primary'),
        );
        await cloudPlane.patchResources([assignment(cloud, 'shop', backends.spare)]);
        await allSettle(clients, 'spare', [service]);
        await nothingLost(t, clients, { [service]: ['cloud', 'spare'] });
      });
    });
  },
);

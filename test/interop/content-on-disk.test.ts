/**
 * Goal: a gateway that starts while no source can be reached serves the content of its predecessor to clients that have
 * none, and the sources' own content once they are back (docs/FAILOVER.md, "Content on disk").
 * Method: a scripted control plane, the gateway as a process that is killed, and real Envoys, with requests to all clusters.
 */
import { cp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';

import { freePort } from '../support/free-port.js';
import {
  assignment,
  edsCluster,
  httpListener,
  inOldStyle,
  routeToCluster,
  type MeshResource,
} from '../support/mesh.js';
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
  startGateway,
} from './peers/cold-rig.js';
import { Envoy } from './peers/envoy.js';
import { skipWithoutGateway } from './peers/gateway.js';
import { startHttpBackend } from './peers/http-backend.js';
import {
  allSettle,
  nothingLost,
  processesOf,
  skipWithoutGrpcRig,
  startGrpcRig,
} from './peers/grpc-rig.js';
import { skipWithout } from './peers/provisioned.js';
import { cloud } from './peers/rig.js';
import { ScriptedControlPlane } from './peers/scripted-control-plane.js';
import { startTraffic } from './peers/traffic.js';

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

for (const variant of [deltaGlob, sotwWildcard]) {
  t.test(
    `an Envoy that returns keeps what it holds, and loses no request, when the disk of a gateway without a source has older content (${variant.title}; invariants 1, 3)`,
    { skip },
    async (t) => {
      const directory = await scratchDirectory('content');
      t.teardown(() => removeScratch(directory));
      const [content, older] = [join(directory, 'content'), join(directory, 'older')];
      const backends = { one: await startHttpBackend('one'), two: await startHttpBackend('two') };
      t.teardown(() => Promise.all([backends.one.stop(), backends.two.stop()]));
      const port = await freePort();
      const inStyle = (all: readonly MeshResource[]) =>
        variant.collections === 'globs' ? all : inOldStyle(all);
      /** The service at this backend, with routes, a cluster and endpoints of its own. */
      const serviceAt = (path: 'one' | 'two') => {
        const behind = [
          edsCluster(cloud, `edge/${path}`),
          assignment(cloud, `edge/${path}`, backends[path].port),
        ];
        return inStyle([...behind, routeToCluster(cloud, 'edge/web', `edge/${path}`)]);
      };
      const listener = inStyle([httpListener(cloud, 'edge/web', port)]);
      const plane = await stoppedWith(
        t,
        ScriptedControlPlane.start([...serviceAt('one'), ...listener]),
      );
      const gateway = await startGateway(t, variant, plane.port, ['--content-dir', content]);
      const envoy = await stoppedWith(t, Envoy.start({ xdsPort: gateway.port, ...variant }));
      await tellingLogs([gateway, envoy], async () => {
        await envoy.ready({ timeoutMs: 30_000 });
        const before = startTraffic(`http://127.0.0.1:${port}/`);
        await before.untilOnly('one');
        await gateway.terminate();
        await cp(content, older, { recursive: true });
        await gateway.restart();
        for (const one of serviceAt('two')) plane.put(one);
        await before.untilOnly('two');
        for (const { typeUrl, name } of serviceAt('one').slice(0, 2)) plane.delete(typeUrl, name);
        await until('the former cluster is gone', async () => {
          return ![...(await envoy.clustersTable()).keys()].some((name) => name.endsWith('one'));
        });
        await before.stop();

        plane.crash();
        await gateway.kill();
        await rm(content, { recursive: true });
        await rename(older, content);
        await gateway.restart();
        const entry = variant.collections === 'globs' ? cloud : 'old-style/0';
        const traffic = startTraffic(`http://127.0.0.1:${port}/`);
        t.teardown(() => traffic.stop());
        await until('the gateway serves what is on disk', async () => {
          const [group] = await gateway.groups(entry);
          return group?.state === 'cached' && group.served > 0;
        });
        await traffic.untilOnly('two', { count: 200 });
        await plane.restart();
        await until('the source serves again', async () =>
          (await gateway.groups(entry)).every(({ state }) => state === 'primary'),
        );
        await traffic.untilOnly('two', { count: 200 });
        const { failures, answers } = traffic.totals();
        t.strictSame(failures, []);
        t.strictSame([...answers.keys()], ['two']);
        for (const one of inStyle([assignment(cloud, 'edge/two', backends.one.port)]))
          plane.put(one);
        await traffic.untilOnly('one');
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

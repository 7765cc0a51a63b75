/**
 * Goal: unmodified gRPC clients behind the gateway lose no call when the control plane of an
 * authority dies and comes back.
 * Method: grpc-go, the C core and grpc-js at once, each with a channel that gets its name from a
 * template, one that names the authority itself, and one of the other authority.
 */
import t, { type Test } from 'tap';

import { assignment, grpcService } from '../support/mesh.js';
import { until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import {
  nothingLost,
  processesOf,
  skipWithoutGrpcRig,
  startGrpcRig,
  type GrpcRig,
} from './peers/grpc-rig.js';
import { cloud, onprem, quickTimers } from './peers/rig.js';

const holdMs = 3_000;
const byTemplate = 'xds:///shop';
const byAuthority = `xds://${cloud}/pay`;
/** At onprem its route leads to a cluster that cloud lacks. */
const byOtherCluster = `xds://${cloud}/list`;
/** Onprem lacks it, which does not prove that it is absent. */
const onlyAtCloud = `xds://${cloud}/solo`;
const elsewhere = `xds://${onprem}/shop`;

async function thereAndBack(t: Test, rig: GrpcRig): Promise<void> {
  const { cloudPlane, cloudResources } = rig;
  const moving = [byTemplate, byAuthority, byOtherCluster];
  await rig.settle('cloud', [...moving, onlyAtCloud]);
  await rig.settle('onprem', [elsewhere]);

  let beganMs = performance.now();
  await cloudPlane.kill();
  await rig.settle('onprem', moving);
  t.comment(`onprem answers all clients after ${Math.round(performance.now() - beganMs)} ms`);

  beganMs = performance.now();
  await cloudPlane.restart(cloudResources);
  await rig.settle('cloud', moving);
  t.comment(`cloud answers all clients after ${Math.round(performance.now() - beganMs)} ms`);
  await nothingLost(t, rig.clients, {
    [byTemplate]: ['cloud', 'onprem'],
    [byAuthority]: ['cloud', 'onprem'],
    [byOtherCluster]: ['cloud', 'onprem'],
    [onlyAtCloud]: ['cloud'],
    [elsewhere]: ['onprem'],
  });
}

const skip = skipWithoutGrpcRig();
t.setTimeout(120_000);

t.test(
  'gRPC clients move to the alternative and back, and lose no call (invariant 17)',
  { skip, timeout: 60_000 },
  async (t) => {
    const rig = await startGrpcRig(t, {
      targets: [byTemplate, byAuthority, byOtherCluster, onlyAtCloud, elsewhere],
      more: (authority, port) =>
        authority === cloud
          ? [...grpcService(cloud, 'list', port), ...grpcService(cloud, 'solo', port)]
          : grpcService(onprem, 'list', port, 'list-2'),
      // A go-control-plane is silent about names that it lacks, and list-2 is requested from cloud.
      timers: { ...quickTimers, resource_timeout: '3s' },
      authority: { alternative: onprem, failover: { hold: `${holdMs}ms` } },
    });
    await tellingLogs(processesOf(rig), () => thereAndBack(t, rig));
  },
);

t.test(
  'gRPC clients start at the alternative when the control plane is down from the start',
  { skip, timeout: 60_000 },
  async (t) => {
    const rig = await startGrpcRig(t, {
      targets: [byTemplate],
      authority: { alternative: onprem },
      down: 'cloud',
    });
    await tellingLogs(processesOf(rig), async () => {
      await rig.settle('onprem', [byTemplate]);
      await nothingLost(t, rig.clients, { [byTemplate]: ['onprem'] });
    });
  },
);

t.test(
  'a primary that comes back empty removes nothing from gRPC clients while the deletion guard waits',
  { skip, timeout: 60_000 },
  async (t) => {
    const services = ['list', 'pay', 'ship', 'shop'];
    const targets = services.map((service) => `xds://${cloud}/${service}`);
    const more = (of: string, port: number) =>
      ['list', 'ship'].flatMap((service) => grpcService(of, service, port));
    const rig = await startGrpcRig(t, { targets, more });
    const { cloudPlane, cloudResources, backends, gateway } = rig;
    const guarded = (): Promise<number> =>
      gateway.metric('tributary_guarded_names', { authority: cloud });
    await tellingLogs(processesOf(rig), async () => {
      await rig.settle('cloud', targets);
      await cloudPlane.kill();
      await cloudPlane.restart();
      await until('the guard holds removals', async () => (await guarded()) > 0);
      const moved = services.map((service) => assignment(cloud, service, backends.spare));
      await cloudPlane.setResources([...cloudResources, ...moved]);
      await rig.settle('spare', targets);
      t.equal(await guarded(), 0, 'no removal is held back any more');
      await nothingLost(
        t,
        rig.clients,
        Object.fromEntries(targets.map((target) => [target, ['cloud', 'spare']])),
      );
    });
  },
);

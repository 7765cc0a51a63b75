/**
 * Goal: an unmodified Envoy gets the right resources where names lead elsewhere: an alternative
 * that only a reference names, and redirects across authorities.
 * Method: real control planes, a directory of files for resources that go-control-plane cannot
 * publish, a real Envoy, and traffic all along.
 */
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { stringify } from 'yaml';

import { freePort } from '../support/free-port.js';
import {
  assignment,
  edsCluster,
  httpListener,
  routeToCluster,
  TYPE_URLS,
  xdstpName,
  type MeshResource,
} from '../support/mesh.js';
import { until } from '../support/until.js';
import { removeScratch, scratchDirectory, tellingLogs } from './peers/child.js';
import { ControlPlane } from './peers/control-plane.js';
import { readConfigDump } from './peers/envoy-config.js';
import { Envoy } from './peers/envoy.js';
import { Gateway, skipWithoutGateway } from './peers/gateway.js';
import { startHttpBackend } from './peers/http-backend.js';
import { skipWithout } from './peers/provisioned.js';
import { cloud, onprem, quickTimers, startRig } from './peers/rig.js';
import { startTraffic } from './peers/traffic.js';

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();

/** Cloud's cluster, whose endpoints have an alternative that only this reference names. */
function withAlternative(cluster: MeshResource, alternative: string): MeshResource {
  const { edsClusterConfig } = cluster.json as {
    readonly edsClusterConfig: { readonly serviceName: string };
  };
  const serviceName = `${edsClusterConfig.serviceName}#alt=${alternative}`;
  const json = { ...cluster.json, edsClusterConfig: { ...edsClusterConfig, serviceName } };
  return { ...cluster, json };
}

t.test(
  'the endpoints of a cluster move to the #alt= of its service_name and back, without a lost request',
  { skip, timeout: 90_000 },
  async (t) => {
    const rig = await startRig(t, {
      onpremPath: 'spare/',
      authority: { may_lead_to: [onprem], failover: { hold: '3s' } },
      timers: quickTimers,
    });
    const { cloudPlane, gateway, envoy, traffic, backends } = rig;
    await tellingLogs([gateway, envoy, cloudPlane], async () => {
      await traffic.untilOnly('cloud');
      const spare = xdstpName(onprem, 'assignment', 'spare/web');
      const web = withAlternative(edsCluster(cloud, 'edge/web'), spare);
      const resources = rig.cloudResources.map((each) => (each.name === web.name ? web : each));
      await cloudPlane.setResources(resources);
      const endpoints = xdstpName(cloud, 'assignment', 'edge/web');
      const group = `${cloud}#alt=${onprem}`;
      await until('the endpoints have their alternative', async () =>
        (await gateway.groups(cloud)).some((row) => row.group === group && row.served === 1),
      );
      await cloudPlane.kill();
      await traffic.untilOnly('onprem');
      const config = await rig.envoyConfig();
      t.strictSame(config.assignments.get(endpoints), [backends.onprem], 'under the bare name');
      t.notMatch(JSON.stringify([...config.clusters.values()]), /#alt=/, 'no fragment remains');
      t.equal(config.clusters.size, 1, 'a resource without an alternative is kept');
      await cloudPlane.restart(resources);
      await traffic.untilOnly('cloud', { timeoutMs: 40_000 });
      t.strictSame((await traffic.stop()).failures, []);
    });
  },
);

t.test(
  'members of a glob are redirected to another authority, and elsewhere, without a lost request',
  { skip, timeout: 60_000 },
  async (t) => {
    const [one, two] = [await startHttpBackend('one'), await startHttpBackend('two')];
    t.teardown(() => Promise.all([one.stop(), two.stop()]));
    const plane = await ControlPlane.start({ name: 'onprem' });
    t.teardown(() => plane.stop());
    await plane.setResources([
      edsCluster(onprem, 'one'),
      assignment(onprem, 'one', one.port),
      edsCluster(onprem, 'two'),
      assignment(onprem, 'two', two.port),
    ]);
    const directory = await scratchDirectory('redirects');
    t.teardown(() => removeScratch(directory));
    const listenerPort = await freePort();
    const redirectTo = async (id: string): Promise<void> => {
      const listed: unknown[] = [
        httpListener(cloud, 'edge/ingress', listenerPort).json,
        routeToCluster(cloud, 'edge/ingress', 'edge/web').json,
        {
          name: xdstpName(cloud, 'cluster', 'edge/web'),
          resource: {
            '@type': 'type.googleapis.com/xds.core.v3.ResourceLocator',
            authority: onprem,
            resource_type: TYPE_URLS.cluster.slice('type.googleapis.com/'.length),
            id,
          },
        },
      ];
      const draft = join(directory, 'mesh.draft');
      await writeFile(draft, stringify({ resources: listed }));
      await rename(draft, join(directory, 'mesh.yaml'));
    };
    await redirectTo('one');
    const gateway = await Gateway.start({
      authorityMap: {
        sources: {
          files: { path: directory },
          onprem: { target: `127.0.0.1:${plane.xdsPort}`, insecure: true, timers: quickTimers },
        },
        authorities: {
          [cloud]: { sources: ['files'], may_lead_to: [onprem] },
          [onprem]: { sources: ['onprem'] },
        },
      },
    });
    t.teardown(() => gateway.stop());
    const envoy = await Envoy.start({ xdsPort: gateway.port, authority: cloud });
    t.teardown(() => envoy.stop());
    await tellingLogs([gateway, envoy, plane], async () => {
      await envoy.ready({ timeoutMs: 30_000 });
      const traffic = startTraffic(`http://127.0.0.1:${listenerPort}/`);
      t.teardown(() => traffic.stop());
      await traffic.untilOnly('one');
      const name = xdstpName(cloud, 'cluster', 'edge/web');
      t.strictSame([...readConfigDump(await envoy.configDump()).clusters.keys()], [name]);
      await redirectTo('two');
      await traffic.untilOnly('two');
      t.strictSame((await traffic.stop()).failures, []);
    });
  },
);

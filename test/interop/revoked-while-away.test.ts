/**
 * Goal: a real Envoy that was not connected while its right to its clusters ended loses them when it returns,
 * although it does not mention the members of a glob then.
 * Method: the gateway as a process with a directory as its source, an Envoy behind a proxy that cuts, and a new
 * authority map meanwhile.
 */
import t from 'tap';

import { freePort } from '../support/free-port.js';
import { mesh, writeResourceFile, xdstpGlob } from '../support/mesh.js';
import { stoppedWith } from '../support/stopped-with.js';
import { until } from '../support/until.js';
import { removeScratch, scratchDirectory, tellingLogs } from './peers/child.js';
import { Envoy } from './peers/envoy.js';
import { startFaultProxy } from './peers/fault-proxy.js';
import { Gateway, skipWithoutGateway } from './peers/gateway.js';
import { skipWithout } from './peers/provisioned.js';
import { cloud } from './peers/rig.js';

t.setTimeout(90_000);

const skip = skipWithout('envoy') || skipWithoutGateway();

t.test(
  'an Envoy loses the members of a glob whose right ended while it was away (invariant 23)',
  { skip },
  async (t) => {
    const directory = await scratchDirectory('rights');
    t.teardown(() => removeScratch(directory));
    const listenerPort = await freePort();
    const resources = mesh({ authority: cloud, backendPort: 9, listenerPort, totalResources: 12 });
    await writeResourceFile(directory, resources);
    const mapFor = (...types: readonly string[]): unknown => ({
      sources: { files: { path: directory } },
      authorities: { [cloud]: { sources: ['files'] } },
      clients: [{ match: { anonymous: true }, allow: [{ authority: cloud, types }] }],
    });
    const others = ['Listener', 'RouteConfiguration', 'ClusterLoadAssignment'];
    const authorityMap = mapFor('Cluster', ...others);
    const gateway = await stoppedWith(t, Gateway.start({ authorityMap }));
    const proxy = await stoppedWith(t, startFaultProxy(gateway.port));
    const envoy = await stoppedWith(t, Envoy.start({ xdsPort: proxy.port, nodeId: 'away' }));
    await tellingLogs([gateway, envoy], async () => {
      await envoy.ready({ timeoutMs: 30_000 });
      const clusters = async (): Promise<readonly string[]> =>
        [...(await envoy.clustersTable()).keys()].filter((name) => name.includes(cloud));
      const count = resources.filter(({ typeUrl }) => typeUrl.endsWith('.Cluster')).length;
      await until('it has its clusters', async () => (await clusters()).length === count);

      await proxy.setMode('refuse');
      await until('it is away', async () => (await gateway.metric('tributary_clients')) === 0);
      await gateway.setAuthorityMap(mapFor(...others));
      const glob = encodeURIComponent(xdstpGlob(cloud, 'cluster'));
      await until('the right has ended', async () => {
        const { rights } = (await gateway.admin(`/explain/${glob}?as=anonymous`)) as {
          readonly rights: { readonly isAllowed: boolean };
        };
        return !rights.isAllowed;
      });
      t.equal((await clusters()).length, count, 'it still holds them');
      await proxy.setMode('pass');
      await until('they are gone', async () => (await clusters()).length === 0);
    });
  },
);

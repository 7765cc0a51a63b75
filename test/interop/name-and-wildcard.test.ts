/**
 * Goal: a cluster that one client gets by a wildcard and another one by its name stays with both, although the
 * control plane does not send it again for the name (docs/SPEC.md, invariant 3).
 * Method: a real go-control-plane, the gateway as a process of its own with a short `resource_timeout`, and two scripted
 * clients in one node group. Assignments that the control plane lacks, requested one after the other, tell when the
 * wait for the cluster, and that of the deletion guard, are over.
 */
import t from 'tap';

import { DeltaClient } from '../support/delta-client.js';
import { inOldStyle, mesh, TYPE_URLS } from '../support/mesh.js';
import { stoppedWith } from '../support/stopped-with.js';
import { until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import { ControlPlane } from './peers/control-plane.js';
import { Gateway, skipWithoutGateway } from './peers/gateway.js';
import { skipWithout } from './peers/provisioned.js';

t.setTimeout(60_000);
// They mostly wait.
t.jobs = 4;

const skip = skipWithout('control-plane') || skipWithoutGateway();
const CDS = TYPE_URLS.cluster;

for (const apiType of ['AGGREGATED_GRPC', 'GRPC', 'AGGREGATED_DELTA_GRPC', 'DELTA_GRPC']) {
  t.test(
    `${apiType}: a cluster of a wildcard that is requested by its name too, and left again, stays (invariant 3)`,
    { skip, buffered: true },
    async (t) => {
      const plane = await stoppedWith(t, ControlPlane.start({ name: 'plane' }));
      const resources = inOldStyle(
        mesh({ authority: 'a', backendPort: 1, listenerPort: 2, totalResources: 12 }),
      );
      await plane.patchResources(resources);
      const gateway = await stoppedWith(
        t,
        Gateway.start({
          authorityMap: {
            sources: {
              plane: {
                target: `127.0.0.1:${plane.xdsPort}`,
                insecure: true,
                api_type: apiType,
                timers: { resource_timeout: '1s' },
              },
            },
            old_style_names: {
              differ_by: [],
              served_by: [{ sources: ['plane'], failover: { switch_wait: '100ms' } }],
            },
          },
        }),
      );
      const client = (): DeltaClient => {
        const made = new DeltaClient({ port: gateway.port });
        t.teardown(() => {
          made.close();
        });
        return made;
      };
      await tellingLogs([gateway, plane], async () => {
        const all = client();
        all.subscribe(CDS, ['*']);
        const clusters = resources.filter(({ typeUrl }) => typeUrl === CDS).length;
        await until('the wildcard is served', () => all.held(CDS).size === clusters);
        const [name = ''] = all.held(CDS).keys();
        const one = client();
        one.subscribe(CDS, [name]);
        await until('the name is served', () => one.held(CDS).has(name));
        const waitIsOver = async (...all: readonly string[]): Promise<void> => {
          for (const lacks of all) {
            one.subscribe(TYPE_URLS.assignment, [lacks]);
            const isTold = (): boolean => one.errors().some((error) => error.name === lacks);
            await until(`the wait for ${lacks} is over`, isTold, { timeoutMs: 20_000 });
          }
        };
        await waitIsOver('lacks-1', 'lacks-2');
        t.ok(one.held(CDS).has(name));
        t.strictSame(one.removals(CDS), []);
        one.send({ typeUrl: CDS, unsubscribe: [name] });
        // The gateway leaves the name at the source a moment later.
        await waitIsOver('lacks-3', 'lacks-4', 'lacks-5', 'lacks-6');
        t.equal(all.held(CDS).size, clusters);
        t.strictSame(all.removals(CDS), []);
      });
    },
  );
}

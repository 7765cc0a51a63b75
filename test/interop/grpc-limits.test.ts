/**
 * Goal: a resource that gRPC clients cannot receive costs them updates of that resource, and
 * nothing else.
 * Method: grpc-go, the C core and grpc-js at once, each with a channel whose cluster grows too
 * large and one whose endpoints move meanwhile.
 */
import t from 'tap';

import { GRPC_MAX_MESSAGE_BYTES } from '../../gateway/core/session/message-limit.js';
import { assignment, edsCluster, xdstpName } from '../support/mesh.js';
import { until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import { nothingLost, processesOf, skipWithoutGrpcRig, startGrpcRig } from './peers/grpc-rig.js';
import { cloud } from './peers/rig.js';

interface ClientRow {
  readonly maxMessage?: number;
  readonly withheld: readonly { readonly name?: string }[];
}

t.test(
  'a cluster of more than 4 MiB is withheld from every gRPC client; other channels get their updates, ' +
    'and no call is lost (GRPC 12)',
  { skip: skipWithoutGrpcRig(), timeout: 120_000 },
  async (t) => {
    const [shop, pay] = [`xds://${cloud}/shop`, `xds://${cloud}/pay`];
    const rig = await startGrpcRig(t, { targets: [shop, pay] });
    await tellingLogs(processesOf(rig), async () => {
      await rig.settle('cloud', [shop, pay]);
      const { json, ...cluster } = edsCluster(cloud, 'pay');
      const large = 'x'.repeat(GRPC_MAX_MESSAGE_BYTES);
      const metadata = { filterMetadata: { mesh: { large } } };
      await rig.cloudPlane.patchResources([{ ...cluster, json: { ...json, metadata } }]);
      const name = xdstpName(cloud, 'cluster', 'pay');
      let rows: readonly ClientRow[] = [];
      await until('it is withheld from each client that subscribes it', async () => {
        const { clients } = (await rig.gateway.admin('/clients')) as {
          clients: readonly ClientRow[];
        };
        rows = clients;
        const without = clients.filter(({ withheld }) => withheld.some((one) => one.name === name));
        return without.length >= rig.clients.length;
      });
      t.ok(
        rows.every(({ maxMessage }) => maxMessage === GRPC_MAX_MESSAGE_BYTES),
        'all are recognized as gRPC clients',
      );
      await rig.cloudPlane.patchResources([assignment(cloud, 'shop', rig.backends.spare)]);
      await rig.settle('spare', [shop]);
      await nothingLost(t, rig.clients, { [shop]: ['cloud', 'spare'], [pay]: ['cloud'] });
    });
  },
);

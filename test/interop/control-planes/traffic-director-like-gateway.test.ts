/**
 * Goal: the gateway fronts control planes like Traffic Director, whose content depends on the network in the
 * Node, which serve old-style names and xdstp names, and which request load reports.
 * Method: look-alikes, the gateway as a process of its own; two Envoys and traffic; grpc-go clients of two networks.
 */
import t from 'tap';

import { grpcService, inOldStyle, xdstpName, type MeshResource } from '../../support/mesh.js';
import { stoppedWith } from '../../support/stopped-with.js';
import { until } from '../../support/until.js';
import { tellingLogs } from '../peers/child.js';
import { ControlPlane } from '../peers/control-plane.js';
import { frontsBoth } from '../peers/fronted.js';
import { Gateway, skipWithoutGateway } from '../peers/gateway.js';
import { startGrpcBackend } from '../peers/grpc-backend.js';
import { grpcBootstrap, GrpcClient, skipWithoutGrpcClient } from '../peers/grpc-client.js';
import { skipWithout } from '../peers/provisioned.js';
import { quickTimers } from '../peers/rig.js';

t.setTimeout(180_000);

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();
const networks = ['prod', 'staging'] as const;
const clientIn = (network: string) => ({
  nodeId: `${network}-1`,
  metadata: {
    TRAFFICDIRECTOR_NETWORK_NAME: network,
    TRAFFICDIRECTOR_GCP_PROJECT_NUMBER: '123456789012',
  },
  reportLoads: true,
});

t.test(
  'each client holds what it holds without the gateway, moves to the alternative and back, loses no request, and ' +
    'its load is reported under its own identity (LRS, invariants 8, 17)',
  { skip, timeout: 60_000 },
  async (t) => {
    const { cloud } = await frontsBoth(t, {
      plane: { like: 'traffic-director' },
      source: { api_type: 'AGGREGATED_GRPC', forward_node: 'all' },
      oldStyle: { differ_by: 'all' },
      clients: [clientIn(networks[0]), clientIn(networks[1])],
      direct: { apiType: 'GRPC' },
      publish: (plane, client, resources) => plane.setResources(resources, networks[client]),
    });
    await until('the loads of both are reported', async () => {
      const loads = await cloud.clientLoads();
      return networks.every((network) => (loads[`${network}-1`]?.succeeded['edge/web'] ?? 0) > 0);
    });
  },
);

const authority = 'traffic-director-global.xds.googleapis.com';
const idIn = (network: string, node = 'client'): string =>
  `projects/123456789012/networks/${network}/nodes/${node}`;

/** A service whose clients report the load of its cluster to the server that gave them the cluster. */
const counted = (path: string, port: number): readonly MeshResource[] =>
  grpcService(authority, path, port).map((one) =>
    one.typeUrl.endsWith('Cluster')
      ? { ...one, json: { ...one.json, lrsServer: { self: {} } } }
      : one,
  );

t.test(
  'grpc-go follows xdstp names and the old-style names of its network, and each call is reported once, under the ' +
    'identity that asked for the cluster (LRS, invariant 8)',
  { skip: skip || skipWithoutGrpcClient('go'), timeout: 60_000 },
  async (t) => {
    const plane = await stoppedWith(t, ControlPlane.start({ like: 'traffic-director' }));
    const backend = (name: string) => stoppedWith(t, startGrpcBackend(name));
    const [shop, old, moved] = [
      await backend('shop'),
      await backend('old'),
      await backend('moved'),
    ];
    const carts = {
      prod: await backend('cart of prod'),
      staging: await backend('cart of staging'),
    };
    // Not counted: when endpoints change, grpc-go reports a call that it tries again twice, without the gateway too.
    const publish = (network: 'prod' | 'staging', port: number): Promise<void> => {
      const cart = inOldStyle(counted('cart', carts[network].port));
      const changing = grpcService(authority, 'changing', port);
      return plane.setResources([...counted('shop', shop.port), ...changing, ...cart], network);
    };
    for (const network of networks) await publish(network, old.port);

    const source = {
      target: `127.0.0.1:${plane.xdsPort}`,
      insecure: true,
      api_type: 'AGGREGATED_GRPC',
      timers: quickTimers,
    };
    const gateway = await stoppedWith(
      t,
      Gateway.start({
        authorityMap: {
          sources: {
            'by-client': { ...source, forward_node: 'all' },
            // All clients share xdstp names, so their stream has a Node of the gateway, with its network.
            shared: { ...source, node: { id: idIn('prod', 'gateway') } },
          },
          authorities: { [authority]: { sources: ['shared'] } },
          old_style_names: { differ_by: 'all', served_by: [{ sources: ['by-client'] }] },
        },
      }),
    );
    const [byName, oldStyle] = [`xds://${authority}/shop`, 'xds:///cart'] as const;
    const changing = `xds://${authority}/changing`;
    const start = (network: string, targets: readonly string[]): Promise<GrpcClient> => {
      const bootstrap = grpcBootstrap(gateway.port, [authority], { node: { id: idIn(network) } });
      return stoppedWith(t, GrpcClient.start({ language: 'go', targets, bootstrap }));
    };
    const prod = await start('prod', [byName, oldStyle, changing]);
    const staging = await start('staging', [oldStyle]);
    await tellingLogs([gateway, plane, prod, staging], async () => {
      await prod.settles(byName, 'shop');
      await prod.settles(oldStyle, 'cart of prod');
      await staging.settles(oldStyle, 'cart of staging');
      await prod.settles(changing, 'old');
      await publish('prod', moved.port);
      await prod.settles(changing, 'moved');

      const sum = (counts: Readonly<Record<string, number>> = {}): number =>
        Object.values(counts).reduce((all, count) => all + count, 0);
      const [ofProd, ofStaging] = [await prod.pause(), await staging.pause()];
      for (const [nodeId, cluster, made] of [
        [idIn('prod', 'gateway'), xdstpName(authority, 'cluster', 'shop'), ofProd[byName]],
        [idIn('prod'), 'cart', ofProd[oldStyle]],
        [idIn('staging'), 'cart', ofStaging[oldStyle]],
      ] as const) {
        const calls = sum(made?.answers);
        const reported = await until(`all calls of ${nodeId} are reported`, async () => {
          const count = (await plane.clientLoads())[nodeId]?.succeeded[cluster] ?? 0;
          return count >= calls && count;
        });
        t.ok(calls > 20, `${calls} calls`);
        t.equal(reported, calls, `the calls of ${nodeId}`);
        const { streams, succeeded } = (await plane.clientLoads())[nodeId]!;
        t.equal(streams, 1, 'one stream of load reports');
        t.strictSame(Object.keys(succeeded), [cluster], 'and no load of another');
      }
      t.strictSame([...prod.failures, ...staging.failures], []);
      const { streams } = await plane.streams();
      t.ok(
        streams.every(({ nacks, ended }) => nacks.length === 0 && ended === ''),
        'no stream was refused, and the gateway refused nothing',
      );
    });
  },
);

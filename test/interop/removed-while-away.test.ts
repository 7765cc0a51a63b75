/**
 * Goal: a service moves to a new cluster while its clients are cut off from the gateway, and the old cluster is removed in the same
 * change. No request fails, although a set of the state of the world deletes what it lacks (GRPC 9).
 * Method: an Envoy and clients of all gRPC libraries, with traffic, behind a proxy that cuts.
 */
import t from 'tap';

import { freePort } from '../support/free-port.js';
import {
  assignment,
  edsCluster,
  grpcService,
  httpListener,
  routeToCluster,
  xdstpName,
  type MeshResource,
} from '../support/mesh.js';
import { stoppedWith } from '../support/stopped-with.js';
import { until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import { ControlPlane } from './peers/control-plane.js';
import { Envoy } from './peers/envoy.js';
import { startFaultProxy } from './peers/fault-proxy.js';
import { Gateway } from './peers/gateway.js';
import { startGrpcBackend } from './peers/grpc-backend.js';
import { grpcBootstrap, GrpcClient, grpcLanguages } from './peers/grpc-client.js';
import { nothingLost, skipWithoutGrpcRig } from './peers/grpc-rig.js';
import { startHttpBackend } from './peers/http-backend.js';
import { skipWithout } from './peers/provisioned.js';
import { cloud } from './peers/rig.js';
import { startTraffic } from './peers/traffic.js';

const skip = skipWithout('envoy') || skipWithoutGrpcRig();
const EDGE = 'edge/ingress';
const SHOP = 'shop';
const target = `xds://${cloud}/${SHOP}`;
/** Clients try to connect again after a second, or two. */
const SETTLED_WITHIN_MS = 30_000;

t.setTimeout(90_000);

t.test(
  'a service that moves to a new cluster while its clients are cut off costs no request (GRPC 9)',
  { skip },
  async (t) => {
    const listenerPort = await freePort();
    /** The services as the backends of this name serve them, each through a cluster of its own. */
    const version = async (name: string): Promise<readonly MeshResource[]> => {
      const http = await stoppedWith(t, startHttpBackend(name));
      const grpc = await stoppedWith(t, startGrpcBackend(name));
      return [
        httpListener(cloud, EDGE, listenerPort),
        routeToCluster(cloud, EDGE, `edge/${name}`),
        edsCluster(cloud, `edge/${name}`),
        assignment(cloud, `edge/${name}`, http.port),
        ...grpcService(cloud, SHOP, grpc.port, `${SHOP}/${name}`),
      ];
    };
    const [blue, green] = [await version('blue'), await version('green')];
    const plane = await stoppedWith(t, ControlPlane.start({ name: 'cloud' }));
    await plane.setResources(blue);
    const authorityMap = {
      sources: { cloud: { target: `127.0.0.1:${plane.xdsPort}`, insecure: true } },
      authorities: { [cloud]: { sources: ['cloud'] } },
    };
    const gateway = await stoppedWith(t, Gateway.start({ authorityMap }));
    const proxy = await stoppedWith(t, startFaultProxy(gateway.port));
    const { port: xdsPort } = proxy;
    const envoy = await stoppedWith(t, Envoy.start({ xdsPort, authority: cloud, apiType: 'GRPC' }));
    const bootstrap = grpcBootstrap(xdsPort, [cloud], {
      node: { id: 'away', locality: {} },
      client_default_listener_resource_name_template: `xdstp://${cloud}/envoy.config.listener.v3.Listener/%s`,
    });
    const clients = await Promise.all(
      grpcLanguages.map((language) =>
        stoppedWith(t, GrpcClient.start({ language, targets: [target], bootstrap, everyMs: 3 })),
      ),
    );
    await tellingLogs([gateway, envoy, ...clients], async () => {
      await envoy.ready({ timeoutMs: 30_000 });
      const traffic = startTraffic(`http://127.0.0.1:${listenerPort}/`, 3);
      t.teardown(() => traffic.stop());
      const allReach = async (name: string): Promise<void> => {
        const calls = clients.map((one) => one.settles(target, name, SETTLED_WITHIN_MS));
        await Promise.all([traffic.untilOnly(name, { timeoutMs: SETTLED_WITHIN_MS }), ...calls]);
      };
      await allReach('blue');
      const old = xdstpName(cloud, 'cluster', 'edge/blue');
      const answerFor = async (name: string): Promise<string | undefined> => {
        const { candidates } = (await gateway.admin(`/explain/${encodeURIComponent(name)}`)) as {
          readonly candidates: readonly { readonly answer: string }[];
        };
        return candidates[0]?.answer;
      };

      await proxy.setMode('refuse');
      await until('all are away', async () => (await gateway.metric('tributary_clients')) === 0);
      await plane.setResources(green);
      await until('the old cluster is removed', async () => (await answerFor(old)) === 'absent');
      await proxy.setMode('pass');
      await allReach('green');
      await until(
        'the Envoy has removed it, too',
        async () => !(await envoy.clustersTable()).has(old),
      );

      t.strictSame((await traffic.stop()).failures, [], 'no request through the Envoy failed');
      await nothingLost(t, clients, { [target]: ['blue', 'green'] });
    });
  },
);

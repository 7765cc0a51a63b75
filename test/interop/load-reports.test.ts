/**
 * Goal: the loads that real clients count reach the control plane that serves each cluster, under its own
 * names: the reported totals are the requests that were made (SPEC.md, "Load reports").
 * Method: go-control-planes with a load reporting service that adds up all reports, applications with
 * an unmodified gRPC library whose clusters have `lrs_server: { self: {} }`, and a real Envoy with
 * `load_stats_config`.
 */
import t from 'tap';

import { freePort } from '../support/free-port.js';
import { httpRequest } from '../support/http.js';
import { grpcService, mesh, xdstpName, type MeshResource } from '../support/mesh.js';
import { stoppedWith } from '../support/stopped-with.js';
import { until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import { ControlPlane, type ClusterTotals, type LoadsAsk } from './peers/control-plane.js';
import { Envoy } from './peers/envoy.js';
import { Gateway, skipWithoutGateway } from './peers/gateway.js';
import { processesOf, skipWithoutGrpcRig, startGrpcRig } from './peers/grpc-rig.js';
import { startHttpBackend } from './peers/http-backend.js';
import { skipWithout } from './peers/provisioned.js';
import { authorityMap, cloud, onprem } from './peers/rig.js';

t.setTimeout(120_000);

const ask: LoadsAsk = { intervalMs: 1_000 };
const failover = { alternative: onprem, failover: { hold: '2s' } };

/** A service whose clients report the load of its cluster to the server that gave them the cluster. */
function countedService(authority: string, port: number): readonly MeshResource[] {
  return grpcService(authority, 'counted', port).map((each) =>
    each.name === xdstpName(authority, 'cluster', 'counted')
      ? { ...each, json: { ...each.json, lrsServer: { self: {} } } }
      : each,
  );
}

const clusterAt = (authority: string, path = 'counted'): string =>
  xdstpName(authority, 'cluster', path);

t.test(
  'a gRPC client that fails over: the totals of both sources together are its calls, and each source gets ' +
    'those of its own cluster',
  { skip: skipWithoutGrpcRig() },
  async (t) => {
    const target = `xds://${cloud}/counted`;
    const rig = await startGrpcRig(t, {
      targets: [target],
      more: countedService,
      authority: failover,
      loads: ask,
      languages: ['go'],
    });
    const { cloudPlane, onpremPlane } = rig;
    const [client] = rig.clients;
    await tellingLogs(processesOf(rig), async () => {
      await rig.settle('cloud', [target]);
      await reportedTo(cloudPlane, clusterAt(cloud), 100);
      await rig.gateway.admin(`/authorities/${cloud}/force?source=onprem`, 'POST');
      await rig.settle('onprem', [target]);
      await reportedTo(onpremPlane, clusterAt(onprem), 100);
      await client?.pause();
      const madeCalls = async (): Promise<number> => {
        const { answers = {}, failed = 0 } = (await client?.totals())?.[target] ?? {};
        t.equal(failed, 0);
        return Object.values(answers).reduce((sum, count) => sum + count, 0);
      };
      const atPause = await madeCalls();
      const both = async (): Promise<readonly ClusterTotals[]> => [
        await totalsOf(cloudPlane, clusterAt(cloud)),
        await totalsOf(onpremPlane, clusterAt(onprem)),
      ];
      const sum = (totals: readonly ClusterTotals[], of: 'successful' | 'issued'): number =>
        totals.reduce((all, { [of]: count }) => all + count, 0);
      await until('all calls are reported', async () => sum(await both(), 'successful') >= atPause);
      await until('none is in progress', async () =>
        (await both()).every(({ inProgress }) => inProgress === 0),
      );
      // A call that was under way at the pause has ended.
      const made = await madeCalls();
      const [ofCloud, ofOnprem] = await both();
      t.comment(
        `${made} calls: ${ofCloud?.successful} to cloud, ${ofOnprem?.successful} to onprem`,
      );
      // grpc-go reports a pick whose connection has just closed as a successful call, and picks again
      // (picker_wrapper.go, "loop back to repick"). One call at a time, and one connection closes: the failover's.
      const repicked = sum([ofCloud!, ofOnprem!], 'successful') - made;
      t.ok(repicked === 0 || repicked === 1, `${repicked} more were reported`);
      // A call that was in progress during the failover is issued at one and successful at the other.
      t.equal(sum([ofCloud!, ofOnprem!], 'issued'), made + repicked);
      t.match(ofCloud, { serviceName: xdstpName(cloud, 'assignment', 'counted') });
      t.match(ofOnprem, { serviceName: xdstpName(onprem, 'assignment', 'counted') });
    });
  },
);

t.test(
  'all gRPC libraries report their load, on one stream of the gateway to the source',
  { skip: skipWithoutGrpcRig() },
  async (t) => {
    const target = `xds://${cloud}/counted`;
    const rig = await startGrpcRig(t, {
      targets: [target],
      more: countedService,
      // Old versions of grpc-go end the stream if they are asked for endpoints.
      loads: { ...ask, byEndpoint: true },
    });
    const { cloudPlane, clients, gateway } = rig;
    await tellingLogs(processesOf(rig), async () => {
      await rig.settle('cloud', [target]);
      await until('each client has a stream of load reports', async () =>
        (await metricsOf(gateway)).includes(`tributary_load_clients ${clients.length}\n`),
      );
      // All may have a stream before the first of them reports.
      await reportedTo(cloudPlane, clusterAt(cloud), 1);
      const before = (await totalsOf(cloudPlane, clusterAt(cloud))).successful;
      await reportedTo(cloudPlane, clusterAt(cloud), before + 200);
      const { features, streams } = await cloudPlane.loads();
      t.strictSame(features, ['envoy.lrs.supports_send_all_clusters']);
      t.equal(streams, 1);
      let made = 0;
      for (const client of clients) {
        const { [target]: of } = await client.totals();
        made += Object.values(of?.answers ?? {}).reduce((sum, count) => sum + count, 0);
        t.strictSame(client.failures, [], client.language);
      }
      // A client that ends loses the calls of its last interval.
      const { successful } = await totalsOf(cloudPlane, clusterAt(cloud));
      t.comment(`${successful} of ${made} calls were reported`);
      t.ok(successful <= made);
      t.match(await metricsOf(gateway), /^tributary_handler_errors_total 0$/m);
    });
  },
);

t.test(
  'an Envoy with load_stats_config: the totals are the requests that were made, by endpoint too, and after a ' +
    'failover they go to the alternative',
  { skip: skipWithout('envoy', 'control-plane') || skipWithoutGateway() },
  async (t) => {
    const backends = [
      await stoppedWith(t, startHttpBackend('cloud')),
      await stoppedWith(t, startHttpBackend('onprem')),
    ] as const;
    const planes = [
      await stoppedWith(t, ControlPlane.start({ name: 'cloud' })),
      await stoppedWith(t, ControlPlane.start({ name: 'onprem' })),
    ] as const;
    const listenerPort = await freePort();
    for (const [index, authority] of [cloud, onprem].entries()) {
      const backendPort = backends[index]?.port ?? 0;
      await planes[index]?.setResources(mesh({ authority, backendPort, listenerPort }));
      await planes[index]?.askForLoads({ ...ask, byEndpoint: true });
    }
    const [cloudPlane, onpremPlane] = planes;
    const map = authorityMap(cloudPlane.xdsPort, onpremPlane.xdsPort, { authority: failover });
    const gateway = await stoppedWith(t, Gateway.start({ authorityMap: map }));
    const envoy = await stoppedWith(t, Envoy.start({ xdsPort: gateway.port, reportLoads: true }));
    await tellingLogs([gateway, envoy, cloudPlane, onpremPlane], async () => {
      await envoy.ready({ timeoutMs: 30_000 });
      await tracksAllClusters(envoy);
      const call = async (count: number): Promise<void> => {
        for (let n = 0; n < count; n++) await httpRequest(`http://127.0.0.1:${listenerPort}/`);
      };
      const [ofCloud, ofOnprem] = [clusterAt(cloud, 'edge/web'), clusterAt(onprem, 'edge/web')];
      await call(137);
      await reportedTo(cloudPlane, ofCloud, 137);
      await tracksAllClusters(envoy);
      t.match(await totalsOf(cloudPlane, ofCloud), {
        serviceName: xdstpName(cloud, 'assignment', 'edge/web'),
        successful: 137,
        issued: 137,
        failed: 0,
        endpoints: { [`127.0.0.1:${backends[0].port}`]: 137 },
      });
      await gateway.admin(`/authorities/${cloud}/force?source=onprem`, 'POST');
      await envoy.waitForCluster(ofCloud, { port: backends[1].port });
      await tracksAllClusters(envoy);
      await call(41);
      await reportedTo(onpremPlane, ofOnprem, 41);
      await tracksAllClusters(envoy);
      t.match(await totalsOf(onpremPlane, ofOnprem), {
        serviceName: xdstpName(onprem, 'assignment', 'edge/web'),
        issued: 41,
        endpoints: { [`127.0.0.1:${backends[1].port}`]: 41 },
      });
      t.equal((await totalsOf(cloudPlane, ofCloud)).issued, 137);
      t.strictSame(Object.keys((await onpremPlane.loads()).clusters), [ofOnprem]);
    });
  },
);

t.test(
  'a control plane without load reports: clients that report neither fail nor retry',
  { skip: skipWithoutGrpcRig() || skipWithout('envoy') },
  async (t) => {
    const target = `xds://${cloud}/counted`;
    const rig = await startGrpcRig(t, { targets: [target], more: countedService });
    const envoy = await stoppedWith(
      t,
      Envoy.start({ xdsPort: rig.gateway.port, reportLoads: true }),
    );
    await tellingLogs([...processesOf(rig), envoy], async () => {
      await rig.settle('cloud', [target]);
      const all = rig.clients.length + 1;
      await until('each client has a stream of load reports', async () =>
        (await metricsOf(rig.gateway)).includes(`tributary_load_clients ${all}\n`),
      );
      const stats = await until('Envoy has its response', async () => {
        const found = await envoy.stats('load_reporter.');
        return found.get('load_reporter.requests') === 1 && found;
      });
      t.equal(stats.get('load_reporter.errors'), 0);
      t.match(await metricsOf(rig.gateway), /^tributary_source_load_asked\{source="cloud"\} 0$/m);
      for (const client of rig.clients) t.strictSame(client.failures, [], client.language);
      t.equal((await rig.cloudPlane.loads()).streams, 0);
    });
  },
);

async function metricsOf({ adminAddress }: Gateway): Promise<string> {
  return (await httpRequest(`http://${adminAddress}/metrics`)).body;
}

async function totalsOf(plane: ControlPlane, name: string): Promise<ClusterTotals> {
  const { [name]: totals } = (await plane.loads()).clusters;
  if (!totals) throw new Error(`no report about ${name}`);
  return totals;
}

/** Waits until this many issued requests were reported. */
async function reportedTo(plane: ControlPlane, name: string, issued: number): Promise<void> {
  const what = `${issued} requests to ${name} are reported`;
  await until(what, async () => (await totalsOf(plane, name)).issued >= issued);
}

/**
 * Waits for two more reports of Envoy: it counts the requests to a cluster from its first report after
 * the cluster was added (load_stats_reporter_impl.cc).
 */
async function tracksAllClusters(envoy: Envoy): Promise<void> {
  const reports = async (): Promise<number> =>
    (await envoy.stats('load_reporter.')).get('load_reporter.responses') ?? 0;
  const before = await reports();
  await until('Envoy has reported twice', async () => (await reports()) >= before + 2);
}

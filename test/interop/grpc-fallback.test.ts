/**
 * Goal: gRPC clients that fell back to a second server (gRFC A71) return to the gateway and its
 * content, although they resume with versions of responses whose resources they dropped meanwhile.
 * Method: like grpc-go's own tests of fallback. The first server of a client's bootstrap is the
 * gateway, the second one a go-control-plane with other content for the same listener. The gateway
 * is lost while clusters are subscribed that its control plane lacks.
 */
import { isDeepStrictEqual } from 'node:util';
import t, { type Test } from 'tap';

import { freePort } from '../support/free-port.js';
import {
  apiListener,
  assignment,
  edsCluster,
  routeToCluster,
  xdstpName,
  type MeshResource,
} from '../support/mesh.js';
import { stoppedWith } from '../support/stopped-with.js';
import { until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import { ControlPlane } from './peers/control-plane.js';
import { startFaultProxy, type FaultProxy } from './peers/fault-proxy.js';
import { Gateway } from './peers/gateway.js';
import { startGrpcBackend } from './peers/grpc-backend.js';
import { grpcBootstrap, GrpcClient, type GrpcLanguage } from './peers/grpc-client.js';
import {
  allSettle,
  namesOf,
  nothingLost,
  skipWithoutGrpcRig,
  streamsOf,
} from './peers/grpc-rig.js';
import { authorityMap, cloud } from './peers/rig.js';

/** From a client's stream at the gateway to calls that follow the content of the gateway. */
const returnMs = 2_000;

/**
 * The gateway is lost before it has any cluster of this service (grpc-go's `Fallback_MidStartup`).
 */
const starting = 'starting';
/** The gateway is lost when it has a route to a new cluster (`Fallback_MidUpdate`). */
const updated = 'updated';
/** The same; and the second server uses the same names for all but the endpoints. */
const startingAlike = 'starting-alike';
const updatedAlike = 'updated-alike';
const services = [starting, updated, startingAlike, updatedAlike];
const target = (service: string): string => `xds://${cloud}/${service}`;
const movesToNewCluster = (service: string): boolean => service.startsWith(updated);
/** The last cluster to which the gateway's control plane routes calls. */
const lastClusterOf = (service: string): string =>
  movesToNewCluster(service) ? `${service}-2` : service;

/**
 * grpc-js supports one server only. At the second one grpc-java waits 15 s for missing resources.
 */
const languages = ['go', 'core'] as const satisfies readonly GrpcLanguage[];
/**
 * For the C core, a cluster that the second server lacks is deleted before a route leads elsewhere.
 */
const servicesOf = (language: GrpcLanguage): readonly string[] =>
  language === 'core' ? [startingAlike, updatedAlike] : services;

const clusterAt = (path: string, port: number): readonly MeshResource[] => [
  edsCluster(cloud, path),
  assignment(cloud, path, port),
];

/** The same resource under another name. */
function named(name: string, { json, ...rest }: MeshResource): MeshResource {
  return { ...rest, name, json: { ...json, name } };
}

/** The resources of the second server. */
function otherwise(service: string, port: number): readonly MeshResource[] {
  const path = `second/${service}`;
  const [cluster, endpoints] = [edsCluster(cloud, path), assignment(cloud, path, port)];
  if (service === starting || service === updated) {
    const listener = named(xdstpName(cloud, 'listener', service), apiListener(cloud, path));
    return [listener, routeToCluster(cloud, path, path), cluster, endpoints];
  }
  const route = routeToCluster(cloud, service, service);
  const sameCluster = named(xdstpName(cloud, 'cluster', service), cluster);
  return [apiListener(cloud, service), route, sameCluster, endpoints];
}

interface FallbackRig {
  /** The control plane of the gateway. */
  readonly plane: ControlPlane;
  readonly gateway: Gateway;
  /** Between clients and gateway. */
  readonly proxy: FaultProxy;
  readonly clients: readonly GrpcClient[];
  readonly processes: readonly { logs(): string }[];
  readonly backends: { readonly before: number; readonly second: number; readonly after: number };
}

/** @param throughProxy whether clients reach the gateway through the proxy */
async function startFallbackRig(t: Test, throughProxy: boolean): Promise<FallbackRig> {
  const backend = async (name: string): Promise<number> =>
    (await stoppedWith(t, startGrpcBackend(name))).port;
  const backends = {
    before: await backend('before'),
    second: await backend('second'),
    after: await backend('after'),
  };
  const plane = await stoppedWith(t, ControlPlane.start({ name: 'first' }));
  const secondPlane = await stoppedWith(t, ControlPlane.start({ name: 'second' }));
  await plane.setResources(
    services.flatMap((service) => [
      apiListener(cloud, service),
      routeToCluster(cloud, service, service),
      ...(movesToNewCluster(service) ? clusterAt(service, backends.before) : []),
    ]),
  );
  await secondPlane.setResources(
    services.flatMap((service) => otherwise(service, backends.second)),
  );
  // No client subscribes the other authority.
  const map = authorityMap(plane.xdsPort, plane.xdsPort, {});
  const launching = Gateway.start({ authorityMap: map, clientPort: await freePort() });
  const gateway = await stoppedWith(t, launching);
  const proxy = await stoppedWith(t, startFaultProxy(gateway.port));
  const firstPort = throughProxy ? proxy.port : gateway.port;
  const servers = [firstPort, secondPlane.xdsPort].map((port) => ({
    server_uri: `dns:///127.0.0.1:${port}`,
    channel_creds: [{ type: 'insecure' }],
  }));
  const clients = await Promise.all(
    languages.map((language) => {
      const more = { xds_servers: servers, node: { id: language } };
      const bootstrap = grpcBootstrap(firstPort, [cloud], more);
      const targets = servicesOf(language).map(target);
      return stoppedWith(t, GrpcClient.start({ language, targets, bootstrap }));
    }),
  );
  const processes = [gateway, plane, secondPlane, ...clients];
  return { plane, gateway, proxy, clients, processes, backends };
}

/** Waits until the backend `answer` answers all calls of those services that each client uses. */
async function settle(clients: readonly GrpcClient[], answer: string, of: readonly string[]) {
  const waits = clients.map((client) => {
    const called = of.filter((service) => servicesOf(client.language).includes(service));
    return allSettle([client], answer, called.map(target));
  });
  await Promise.all(waits);
}

/** Waits until the client subscribes the last cluster of each service at the gateway. */
async function asksForClusters({ gateway }: FallbackRig, language: GrpcLanguage): Promise<void> {
  // A channel keeps its current cluster subscribed until it has the next one.
  const wanted = servicesOf(language).map((service) => (movesToNewCluster(service) ? 2 : 1));
  await until(`${language} asks for all clusters`, async () => {
    const streams = await streamsOf(gateway, language);
    const asked = streams.map(({ subscriptions }) => namesOf(subscriptions, 'Cluster'));
    return isDeepStrictEqual(asked.sort(), wanted.sort());
  });
}

async function returns(t: Test, rig: FallbackRig, client: GrpcClient): Promise<void> {
  const { language } = client;
  const called = servicesOf(language);
  await until(`${language} subscribes at the gateway again`, async () => {
    return (await streamsOf(rig.gateway, language)).length === called.length;
  });
  const beganMs = performance.now();
  const left: string[] = [];
  const waits = called.map((service) =>
    client.settles(target(service), 'after', returnMs).catch(() => left.push(service)),
  );
  await Promise.all(waits);
  const afterMs = Math.round(performance.now() - beganMs);
  t.strictSame(left, [], `${language}: targets that do not follow the gateway after ${afterMs} ms`);
}

/** Makes the gateway unreachable in the middle of start and update, and available again. */
async function thereAndBack(t: Test, restarts: boolean): Promise<void> {
  const rig = await startFallbackRig(t, !restarts);
  const { plane, gateway, proxy, clients, backends } = rig;
  await tellingLogs(rig.processes, async () => {
    const moving = services.filter(movesToNewCluster);
    await settle(clients, 'before', moving);
    await plane.patchResources(
      moving.map((service) => routeToCluster(cloud, service, lastClusterOf(service))),
    );
    await Promise.all(clients.map(({ language }) => asksForClusters(rig, language)));

    await (restarts ? gateway.kill() : proxy.setMode('refuse'));
    await settle(clients, 'second', services);

    await plane.patchResources(
      services.flatMap((service) => clusterAt(lastClusterOf(service), backends.after)),
    );
    await (restarts ? gateway.restart() : proxy.setMode('pass'));
    await Promise.all(clients.map((client) => returns(t, rig, client)));
    for (const client of clients) {
      const answers = servicesOf(client.language).map((service): [string, readonly string[]] => [
        target(service),
        movesToNewCluster(service) ? ['before', 'second', 'after'] : ['second', 'after'],
      ]);
      await nothingLost(t, [client], Object.fromEntries(answers));
    }
  });
}

const skip = skipWithoutGrpcRig();
t.setTimeout(120_000);

t.test(
  'clients return from a second server to a gateway that was killed and restarted: a first ' +
    'request that names resources is answered, whatever version it carries (GRPC 6)',
  { skip, timeout: 60_000 },
  (t) => thereAndBack(t, true),
);

t.test(
  'clients return from a second server to a gateway that was unreachable for a while: a first ' +
    'request that names resources is answered, whatever version it carries (GRPC 6)',
  { skip, timeout: 60_000 },
  (t) => thereAndBack(t, false),
);

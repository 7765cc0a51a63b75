import type { Test } from 'tap';

import { freePort } from '../../support/free-port.js';
import { grpcService, type MeshResource } from '../../support/mesh.js';
import { stoppedWith } from '../../support/stopped-with.js';
import { ControlPlane, type LoadsAsk } from './control-plane.js';
import { Gateway, skipWithoutGateway } from './gateway.js';
import { startGrpcBackend } from './grpc-backend.js';
import {
  grpcBootstrap,
  GrpcClient,
  grpcLanguages,
  skipWithoutGrpcClient,
  type GrpcLanguage,
  type GrpcTargetTotals,
} from './grpc-client.js';
import { skipWithout } from './provisioned.js';
import { authorityMap, cloud, onprem, quickTimers } from './rig.js';
import type { Security } from './security.js';

type Json = Readonly<Record<string, unknown>>;

export interface GrpcRigOptions {
  readonly targets: readonly string[];
  /** More targets for single clients. */
  readonly targetsOf?: Partial<Readonly<Record<GrpcLanguage, readonly string[]>>>;
  /** Timers of both sources. Default: {@link quickTimers}. */
  readonly timers?: Json;
  /** Settings of cloud in the authority map, e.g. `alternative` and `failover`. */
  readonly authority?: Json;
  /** More resources of a control plane, besides the services `shop` and `pay`. */
  readonly more?: (authority: string, backendPort: number) => readonly MeshResource[];
  /** This control plane is killed before the gateway connects. */
  readonly down?: 'cloud' | 'onprem';
  /** This control plane accepts streams and sends nothing, from the start. */
  readonly silent?: 'cloud' | 'onprem';
  /** Default: all that the rig can use. */
  readonly languages?: readonly GrpcLanguage[];
  /** Both control planes ask for loads. Default: they have no load reports. */
  readonly loads?: LoadsAsk;
  /** The port of the source for cloud's names, instead of the rig's control plane. */
  readonly cloudPort?: number;
  /** More members of the clients' bootstrap. Without a `node`, its id is the language. */
  readonly bootstrap?: Json;
  /** See {@link GrpcClient}. */
  readonly everyMs?: number;
  /**
   * TLS between clients and gateway. It excludes grpc-js and grpc-java: grpc-js has no TLS to its
   * control plane, and grpc-java takes no files from its bootstrap.
   */
  readonly security?: Security;
  readonly gatewayArgs?: readonly string[];
}

/** Two control planes, the gateway, and clients of all libraries that call continuously. */
export interface GrpcRig {
  readonly cloudPlane: ControlPlane;
  readonly onpremPlane: ControlPlane;
  readonly cloudResources: readonly MeshResource[];
  readonly onpremResources: readonly MeshResource[];
  readonly gateway: Gateway;
  readonly clients: readonly GrpcClient[];
  /** Ports of the backends, which answer with these names. No mesh leads to `spare`. */
  readonly backends: {
    readonly cloud: number;
    readonly onprem: number;
    readonly spare: number;
  };
  /** Starts further clients of the same languages. */
  startClients(): Promise<readonly GrpcClient[]>;
  /** {@link allSettle} of these clients. */
  settle(answer: string, targets: readonly string[], timeoutMs?: number): Promise<void>;
}

const shopTemplate = `xdstp://${cloud}/envoy.config.listener.v3.Listener/%s`;

/** For tap's `skip`: the first peer that is missing, or `false`. */
export function skipWithoutGrpcRig(): string | false {
  const clients = grpcLanguages.map(skipWithoutGrpcClient).find((reason) => reason !== false);
  return skipWithout('control-plane') || skipWithoutGateway() || (clients ?? false);
}

/** The teardown of the test stops all of it. */
export async function startGrpcRig(t: Test, options: GrpcRigOptions): Promise<GrpcRig> {
  const { targets, authority = {}, everyMs = 10, timers = quickTimers, security } = options;
  const backend = async (name: string): Promise<number> =>
    (await stoppedWith(t, startGrpcBackend(name))).port;
  const backends = {
    cloud: await backend('cloud'),
    onprem: await backend('onprem'),
    spare: await backend('spare'),
  };
  const resourcesOf = (of: string, port: number): readonly MeshResource[] => [
    ...grpcService(of, 'shop', port),
    ...grpcService(of, 'pay', port),
    ...(options.more?.(of, port) ?? []),
  ];
  const cloudResources = resourcesOf(cloud, backends.cloud);
  const onpremResources = resourcesOf(onprem, backends.onprem);
  const cloudPlane = await stoppedWith(t, ControlPlane.start({ name: 'cloud' }));
  const onpremPlane = await stoppedWith(t, ControlPlane.start({ name: 'onprem' }));
  await cloudPlane.setResources(cloudResources);
  await onpremPlane.setResources(onpremResources);
  if (options.loads !== undefined) {
    for (const plane of [cloudPlane, onpremPlane]) await plane.askForLoads(options.loads);
  }
  const planes = { cloud: cloudPlane, onprem: onpremPlane };
  if (options.down !== undefined) await planes[options.down].kill();
  if (options.silent !== undefined) await planes[options.silent].behave('silent');
  const cloudPort = options.cloudPort ?? cloudPlane.xdsPort;
  const map = authorityMap(cloudPort, onpremPlane.xdsPort, { timers, authority });
  const starting = Gateway.start({
    authorityMap: map,
    clientPort: await freePort(),
    args: ['--drain-grace', '1s', ...(security?.gatewayArgs ?? []), ...(options.gatewayArgs ?? [])],
  });
  const gateway = await stoppedWith(t, starting);
  const startClient = (language: GrpcLanguage): Promise<GrpcClient> => {
    const more = {
      client_default_listener_resource_name_template: shopTemplate,
      node: { id: language, locality: {} },
      ...options.bootstrap,
    };
    const bootstrap = grpcBootstrap(gateway.port, [cloud, onprem], more, security?.client);
    const all = [...targets, ...(options.targetsOf?.[language] ?? [])];
    return stoppedWith(t, GrpcClient.start({ language, targets: all, bootstrap, everyMs }));
  };
  const usable = security === undefined ? grpcLanguages : (['go', 'core'] as const);
  const languages = options.languages ?? usable;
  const startClients = (): Promise<readonly GrpcClient[]> =>
    Promise.all(languages.map(startClient));
  const clients = await startClients();
  return {
    ...{ cloudPlane, onpremPlane, cloudResources, onpremResources, gateway, clients, backends },
    startClients,
    settle: (answer, of, timeoutMs) => allSettle(clients, answer, of, timeoutMs),
  };
}

/** Waits until the backend `answer` answers the calls of each client to each target. */
export async function allSettle(
  clients: readonly GrpcClient[],
  answer: string,
  targets: readonly string[],
  timeoutMs?: number,
): Promise<void> {
  const waits = clients.flatMap((client) =>
    targets.map((target) => client.settles(target, answer, timeoutMs)),
  );
  await Promise.all(waits);
}

/** A row of the gateway's `GET /clients`, with the fields that tests use. */
export interface GatewayStream {
  readonly node: { readonly id: string } | null;
  readonly subscriptions: readonly { readonly type: string; readonly names: number }[];
}

/** The gateway's open streams of clients with this node id. */
export async function streamsOf(gateway: Gateway, node: string): Promise<readonly GatewayStream[]> {
  const { clients } = (await gateway.admin('/clients')) as {
    readonly clients: readonly GatewayStream[];
  };
  return clients.filter((each) => each.node?.id === node);
}

/** The number of names of a type that a stream subscribes. */
export function namesOf(subscriptions: GatewayStream['subscriptions'], type: string): number {
  return subscriptions.find((each) => each.type === type)?.names ?? 0;
}

/**
 * Ends all clients. None of their calls failed, and exactly these backends answered each target.
 */
export async function nothingLost(
  t: Test,
  clients: readonly GrpcClient[],
  answersOf: Readonly<Record<string, readonly string[]>>,
): Promise<void> {
  for (const client of clients) {
    const totals: Readonly<Record<string, GrpcTargetTotals>> = await client.totals();
    const { language, failures, ownFaults } = client;
    t.strictSame(failures, [], `${language}: no call failed`);
    if (ownFaults > 0) t.comment(`${language}: ${ownFaults} failed by its own fault`);
    for (const [target, names] of Object.entries(answersOf)) {
      const { answers = {} } = totals[target] ?? {};
      const calls = Object.values(answers).reduce((sum, count) => sum + count, 0);
      const what = `${language}: the backends that answered ${calls} calls of ${target}`;
      t.strictSame(Object.keys(answers).sort(), [...names].sort(), what);
    }
  }
}

export function processesOf(rig: GrpcRig): readonly { logs(): string }[] {
  return [rig.gateway, rig.cloudPlane, rig.onpremPlane, ...rig.clients];
}

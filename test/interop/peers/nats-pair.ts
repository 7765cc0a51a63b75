/**
 * Two gateways of one cluster, as processes of their own, with a real control plane and a real nats-server; and
 * clients whose changes are timed.
 */
import type { Test } from 'tap';
import { DeltaClient } from '../../support/delta-client.js';
import { assignment, TYPE_URLS, type MeshResource } from '../../support/mesh.js';
import { pause, until } from '../../support/until.js';
import { ControlPlane } from './control-plane.js';
import { startFaultProxy, type FaultProxy } from './fault-proxy.js';
import { Gateway, skipWithoutGateway } from './gateway.js';
import { NatsServer } from './nats-server.js';
import { skipWithout } from './provisioned.js';
import { cloud, quickTimers } from './rig.js';

export const skipWithoutPair = skipWithout('nats-server', 'control-plane') || skipWithoutGateway();

/** Counted from the return of NATS. */
export const agreeLimitMs = 5_000;
const typeUrl = TYPE_URLS.assignment;

export interface Pair {
  readonly plane: ControlPlane;
  readonly nats: NatsServer;
  /** Between B and its control plane. */
  readonly planeProxy: FaultProxy;
  /** Between B and NATS. */
  readonly natsProxy: FaultProxy;
  readonly a: Gateway;
  readonly b: Gateway;
}

export interface PairOptions {
  /** Timers of the sources. */
  readonly timers?: Readonly<Record<string, string>>;
  readonly natsDown?: boolean;
  /** Ports of the control planes of A and B, if not those of `plane`. */
  readonly ports?: readonly [number, number];
}

export async function startPair(t: Test, options: PairOptions = {}): Promise<Pair> {
  const stopping = async <S extends { stop(): Promise<unknown> }>(starting: Promise<S>) => {
    const started = await starting;
    t.teardown(() => started.stop());
    return started;
  };
  const nats = await stopping(NatsServer.start());
  if (options.natsDown === true) await nats.kill();
  const natsProxy = await stopping(startFaultProxy(nats.port));
  const plane = await stopping(ControlPlane.start({ name: 'cloud' }));
  const planeProxy = await stopping(startFaultProxy(plane.xdsPort));
  const gateway = (planePort: number, natsPort: number): Promise<Gateway> =>
    stopping(
      Gateway.start({
        authorityMap: {
          sources: {
            cloud: {
              target: `127.0.0.1:${planePort}`,
              insecure: true,
              timers: options.timers ?? quickTimers,
            },
          },
          authorities: { [cloud]: { sources: ['cloud'] } },
        },
        args: ['--nats-servers', `nats://127.0.0.1:${natsPort}`, '--nats-cluster', 'test'],
      }),
    );
  const [portOfA, portOfB] = options.ports ?? [plane.xdsPort, planeProxy.port];
  const a = await gateway(portOfA, nats.port);
  const b = await gateway(portOfB, natsProxy.port);
  const pair = { plane, nats, planeProxy, natsProxy, a, b };
  if (options.natsDown !== true) await connected(pair);
  return pair;
}

export async function connected({ a, b }: Pick<Pair, 'a' | 'b'>): Promise<void> {
  for (const each of [a, b]) {
    await until('it is connected to NATS', async () => {
      return (await each.metric('tributary_peers_connected')) === 1;
    });
  }
}

export function clientOf(t: Test, gateway: Gateway): DeltaClient {
  const client = new DeltaClient({ port: gateway.port });
  t.teardown(() => {
    client.close();
  });
  return client;
}

export const nameOf = (id: string): string => assignment(cloud, `edge/${id}`, 1).name;
export const resource = (id: string, port: number): MeshResource =>
  assignment(cloud, `edge/${id}`, port);

export async function holding(gateway: Gateway): Promise<unknown> {
  return ((await gateway.admin('/instances')) as { readonly holds: unknown }).holds;
}

export async function agreeing({ a, b }: Pair, timeoutMs = 20_000): Promise<void> {
  await until(
    'both hold the same',
    async () => JSON.stringify(await holding(a)) === JSON.stringify(await holding(b)),
    { timeoutMs },
  );
}

/** Changes one assignment repeatedly, and measures when each change reaches both clients. */
export async function churn(
  { plane }: Pair,
  clients: readonly DeltaClient[],
  ids: readonly string[],
  untilMs: number,
): Promise<readonly number[]> {
  const delaysMs: number[] = [];
  for (let round = 0; performance.now() < untilMs; round++) {
    const id = ids[round % ids.length]!;
    const before = clients.map((client) => client.held(typeUrl).get(nameOf(id)));
    const startedMs = performance.now();
    await plane.patchResources([resource(id, 10_000 + round)]);
    await until(
      'both clients have the change',
      () => clients.every((one, at) => one.held(typeUrl).get(nameOf(id)) !== before[at]),
      { everyMs: 5 },
    );
    delaysMs.push(performance.now() - startedMs);
    await pause(20);
  }
  return delaysMs;
}

export const ids = Array.from({ length: 20 }, (_, at) => `n${at}`);

export async function serving(t: Test, pair: Pair): Promise<readonly DeltaClient[]> {
  await pair.plane.setResources(ids.map((id) => resource(id, 1)));
  const clients = [clientOf(t, pair.a), clientOf(t, pair.b)];
  for (const client of clients) client.subscribe(typeUrl, ids.map(nameOf));
  await until('all is held', () => clients.every((one) => one.held(typeUrl).size === ids.length));
  return clients;
}

export const readiness = async (gateway: Gateway): Promise<unknown> =>
  ((await gateway.admin('/ready')) as { readonly ready: unknown }).ready;

/** @param share 0.5 is the median. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.floor((sorted.length - 1) * share)] ?? Infinity;
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);

export const summary = (values: readonly number[]): string => {
  const [middle, p99, worst] = [0.5, 0.99, 1].map((share) => quantile(values, share).toFixed(1));
  return `${values.length}, median ${middle ?? ''} ms, p99 ${p99 ?? ''} ms, worst ${worst ?? ''} ms`;
};

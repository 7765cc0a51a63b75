/**
 * Real control planes, a gateway and an Envoy under a random sequence of kills, restarts and changes,
 * while requests run through the Envoy. After each settled step the Envoy must hold exactly what the
 * control plane in use says, and no request may fail.
 *
 *   node build/test/chaos/main.js [--plane control-plane|java-control-plane] [--api-type TYPE]
 *     [--client delta|sotw] [--seed N] [--runs N] [--steps N | --script STEPS]
 */
import { parseArgs } from 'node:util';

import { assignment, edsCluster, inOldStyle, type MeshResource } from '../support/mesh.js';
import { until } from '../support/until.js';
import { ControlPlane } from '../interop/peers/control-plane.js';
import { readConfigDump } from '../interop/peers/envoy-config.js';
import { Envoy } from '../interop/peers/envoy.js';
import { Gateway } from '../interop/peers/gateway.js';
import { startHttpBackend } from '../interop/peers/http-backend.js';
import { plainMesh, plainMeshAt } from '../interop/peers/plain-mesh.js';
import { quickTimers } from '../interop/peers/rig.js';
import { startTraffic, type Traffic } from '../interop/peers/traffic.js';
import { Random } from '../sim/random.js';

const { values } = parseArgs({
  options: {
    plane: { type: 'string', default: 'control-plane' },
    'api-type': { type: 'string', default: 'AGGREGATED_DELTA_GRPC' },
    client: { type: 'string', default: 'delta' },
    seed: { type: 'string', default: '1' },
    runs: { type: 'string', default: '1' },
    steps: { type: 'string', default: '25' },
    /** The steps of a failed run, as it prints them. */
    script: { type: 'string' },
  },
});

const NODE_ID = 'envoy-1';
const OWNER = 'mesh-one';
const HOLD = '3s';
/** Longer than the 30 s after which a name that its source never answers counts as timed out. */
const SETTLE_MS = 45_000;
const EXTRAS = ['edge/late', 'edge/later'];

/** One control plane, and the content that it has or gets when it starts. */
class Side {
  readonly name: string;
  readonly plane: ControlPlane;
  readonly #base: readonly MeshResource[];
  /** Clusters beside those of the mesh, and the port of their only endpoint. */
  readonly extras = new Map<string, number>();
  isUp = true;

  constructor(name: string, plane: ControlPlane, base: readonly MeshResource[]) {
    this.name = name;
    this.plane = plane;
    this.#base = base;
  }

  async publish(): Promise<void> {
    const extras = [...this.extras].flatMap(([path, port]) =>
      inOldStyle([edsCluster(OWNER, path), assignment(OWNER, path, port)]),
    );
    if (this.isUp) await this.plane.setSnapshot(NODE_ID, [...this.#base, ...extras]);
  }

  async kill(): Promise<void> {
    this.isUp = false;
    await this.plane.kill();
  }

  async revive(): Promise<void> {
    await this.plane.restart();
    this.isUp = true;
    await this.publish();
  }
}

interface World {
  readonly random: Random;
  readonly cloud: Side;
  readonly onprem: Side;
  readonly gateway: Gateway;
  readonly startEnvoy: () => Promise<Envoy>;
  readonly url: string;
  envoy: Envoy;
  traffic: Traffic;
  /** The side in use once all is settled. */
  inUse: Side;
  port: number;
}

type Step = readonly [name: string, isPossible: (world: World) => boolean, run: Run];
type Run = (world: World) => Promise<void>;

const SIDES = ['cloud', 'onprem'] as const;

const CHANGES: readonly Step[] = SIDES.flatMap((side) =>
  EXTRAS.flatMap((path): readonly Step[] => [
    [
      `${side} changes ${path}`,
      () => true,
      async (world) => {
        world[side].extras.set(path, (world.port += 1));
        await world[side].publish();
      },
    ],
    [
      `${side} deletes ${path}`,
      (world) => world[side].extras.has(path),
      async (world) => {
        world[side].extras.delete(path);
        await world[side].publish();
      },
    ],
  ]),
);

const OUTAGES: readonly Step[] = SIDES.flatMap((side): readonly Step[] => [
  [`${side} dies`, (world) => world[side].isUp, (world) => world[side].kill()],
  [`${side} returns`, (world) => !world[side].isUp, (world) => world[side].revive()],
]);

const STEPS: readonly Step[] = [
  ...CHANGES,
  ...OUTAGES,
  [
    'the gateway drains and restarts',
    () => true,
    async ({ gateway }) => {
      await gateway.terminate();
      await gateway.restart();
    },
  ],
  [
    'the gateway is killed and restarts',
    () => true,
    async ({ gateway }) => {
      await gateway.kill();
      await gateway.restart();
    },
  ],
  [
    'Envoy restarts',
    ({ cloud, onprem }) => cloud.isUp || onprem.isUp,
    async (world) => {
      await noRequestFailed(world);
      await world.envoy.stop();
      world.envoy = await world.startEnvoy();
      world.traffic = startTraffic(world.url);
    },
  ],
];

/** Says in a sequence of steps that everything settles before the next one. */
const SETTLED = '–';

/** Half of the steps hit the gateway in the middle of the one before. */
function* randomNames(world: World, count: number): Generator<string> {
  for (let at = 0; at < count; at++) {
    yield world.random.pick(STEPS.filter(([, isPossible]) => isPossible(world)))[0];
    if (world.random.chance(0.5)) yield SETTLED;
  }
}

function runOf(name: string): Run {
  const step = STEPS.find(([each]) => each === name);
  if (!step) throw new Error(`no step is called ${name}`);
  return step[2];
}

async function noRequestFailed({ traffic }: World): Promise<void> {
  const { failures, requests } = await traffic.stop();
  if (failures.length > 0) {
    throw new Error(
      `${failures.length} of ${requests} requests failed: ${JSON.stringify(failures.slice(0, 5))}`,
    );
  }
}

/**
 * What is wrong with the extra clusters that the Envoy holds. Absence at the alternative proves nothing, so
 * there the Envoy may hold more.
 */
function wrongIn(held: ReadonlyMap<string, number>, { cloud, inUse }: World): string | undefined {
  if (!inUse.isUp) return undefined;
  const differs = [...inUse.extras].some(([path, port]) => held.get(path) !== port);
  if (!differs && (inUse !== cloud || held.size === inUse.extras.size)) return undefined;
  return `the Envoy holds ${JSON.stringify([...held])}, ${inUse.name} has ${JSON.stringify([...inUse.extras])}`;
}

async function settle(world: World): Promise<void> {
  const { cloud, onprem } = world;
  if (cloud.isUp) world.inUse = cloud;
  else if (onprem.isUp) world.inUse = onprem;
  await world.traffic.untilOnly(world.inUse.name, { timeoutMs: SETTLE_MS });
  let wrong: string | undefined;
  const isExact = async (): Promise<boolean> => {
    const { assignments, clusters, warming } = readConfigDump(await world.envoy.configDump());
    const held = new Map(
      EXTRAS.filter((path) => clusters.has(path)).map((path) => [
        path,
        assignments.get(path)?.[0] ?? 0,
      ]),
    );
    wrong = wrongIn(held, world) ?? (warming.size > 0 ? `${[...warming].join()} warms` : undefined);
    return wrong === undefined;
  };
  await until('the Envoy is exact', isExact, { timeoutMs: SETTLE_MS }).catch((error: unknown) => {
    throw new Error(wrong, { cause: error });
  });
}

async function run(seed: number, count: number): Promise<void> {
  const random = new Random(seed, 'chaos');
  const stops: (() => Promise<unknown>)[] = [];
  const stopping = <T extends { stop: () => Promise<unknown> }>(one: T): T => {
    stops.push(() => one.stop());
    return one;
  };
  const told: string[] = [];
  try {
    const program = values.plane as 'control-plane' | 'java-control-plane';
    const plane = async (name: string): Promise<ControlPlane> =>
      stopping(await ControlPlane.start({ name, program, byNode: true }));
    const planes = [await plane('cloud'), await plane('onprem')] as const;
    const backend = async (name: string) => stopping(await startHttpBackend(name));
    const mesh = await plainMesh(OWNER, (await backend('cloud')).port);
    const other = plainMeshAt(OWNER, (await backend('onprem')).port, mesh.listenerPort);
    const cloud = new Side('cloud', planes[0], mesh.resources);
    const onprem = new Side('onprem', planes[1], other.resources);
    await cloud.publish();
    await onprem.publish();
    const isJava = program === 'java-control-plane';
    const source = ({ xdsPort }: ControlPlane) => ({
      target: `127.0.0.1:${xdsPort}`,
      insecure: true,
      timers: quickTimers,
      api_type: values['api-type'],
      ...(isJava && { node_in: 'every_request' }),
      ...(isJava && values['api-type'].includes('DELTA') && { resume: 'fresh' }),
    });
    const gateway = stopping(
      await Gateway.start({
        authorityMap: {
          sources: { cloud: source(cloud.plane), onprem: source(onprem.plane) },
          old_style_names: {
            served_by: [{ sources: ['cloud', 'onprem'], failover: { hold: HOLD } }],
          },
        },
      }),
    );
    const startEnvoy = async (): Promise<Envoy> => {
      const envoy = await Envoy.start({
        xdsPort: gateway.port,
        collections: 'wildcard',
        nodeId: NODE_ID,
        apiType: values.client === 'sotw' ? 'GRPC' : 'DELTA_GRPC',
        backoff: { baseMs: 100, maxMs: 1_000 },
      });
      await envoy.ready({ timeoutMs: SETTLE_MS });
      return envoy;
    };
    const url = `http://127.0.0.1:${mesh.listenerPort}/`;
    const envoy = await startEnvoy();
    const world: World = {
      ...{ random, cloud, onprem, gateway, startEnvoy, url, envoy },
      ...{ traffic: startTraffic(url), inUse: cloud, port: 20_000 },
    };
    stops.push(() => world.envoy.stop());
    stops.push(() => world.traffic.stop());
    try {
      await settle(world);
      for (const name of values.script?.split(', ') ?? randomNames(world, count)) {
        told.push(name);
        await (name === SETTLED ? settle : runOf(name))(world);
      }
      await settle(world);
      await noRequestFailed(world);
    } catch (error) {
      process.stderr.write(`${gateway.logs().slice(-6_000)}\n`);
      throw error;
    }
    console.log(
      `seed ${seed}: ${count} steps, ${world.traffic.totals().requests} requests, 0 failed`,
    );
  } catch (error) {
    console.log(`seed ${seed} FAILED after: ${told.join(', ')}\n${String(error)}`);
    process.exitCode = 1;
  } finally {
    for (const stop of stops.reverse()) await stop().catch(() => undefined);
  }
}

for (let n = 0; n < Number(values.runs); n++) {
  await run(Number(values.seed) + n, Number(values.steps));
}

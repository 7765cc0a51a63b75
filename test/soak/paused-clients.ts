/**
 * What clients that do not read cost the gateway: a process of its own behind real sockets, whose
 * memory is watched while its source publishes and many of its clients leave their sockets unread.
 *
 * A client that neither reads nor acknowledges gets one response and no more, by the protocol. So half
 * of these clients acknowledge responses that they have not read, nonce after nonce: only the sockets
 * then hold the gateway back. And some clients have large HTTP/2 windows, so that TCP fills up before
 * the window does.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { memoryMiB } from '../../benchmarks/harness/process-meter.js';
import { startFaultProxy, type FaultProxy } from '../interop/peers/fault-proxy.js';
import { Gateway } from '../interop/peers/gateway.js';
import { DeltaClient } from '../support/delta-client.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { SotwClient } from '../support/sotw-client.js';
import { until } from '../support/until.js';
import { bodyOf, CDS, nameIn, xdstpName } from './content.js';
import { askHeld, LITTLE_GARBAGE, PROBE } from './gateway-meter.js';

export interface PausedClientsOptions {
  /** Half of them delta, half state of the world. */
  readonly clients: number;
  readonly updates: number;
}

export interface PausedClientsFigures {
  /**
   * Resident memory of the gateway's process: the highest of all samples while the clients read. Not a
   * sample after a collection of garbage: that gives back 20 to 70 MiB, which any load takes again.
   */
  readonly beforeMiB: number;
  /** The highest while they left their sockets unread. */
  readonly peakMiB: number;
  /** When the last update was published. */
  readonly afterMiB: number;
  /** What is alive in its heap and outside it, after a collection: before, and after the last update. */
  readonly aliveBeforeMiB: number;
  readonly aliveAfterMiB: number;
  /** Streams that the gateway itself counted as paused, at the end. */
  readonly paused: number;
  /** Most responses that one client found in its socket when it read on. */
  readonly unreadResponses: number;
  readonly exactAfterMs: number;
  /** Clients that did not come to hold the truth. */
  readonly wrong: number;
}

const RESOURCES = 100;
const BODY_BYTES = 1_024;
/** All clients read this many before, so that warming up does not count as growth. */
const WARM_UP_UPDATES = 2_500;
/** Published in one turn; then the client that reads has to have the last one. */
const BATCH = 50;
const LARGE_WINDOW_BYTES = 16 * 1_024 * 1_024;
const SAMPLE_MS = 50;
const EXACT_WITHIN_MS = 20_000;
const AUTHORITY = 'cloud.test';
const GLOB = xdstpName(CDS, AUTHORITY, 'all/*');

interface PausedClient {
  close(): void;
  readonly responses: readonly unknown[];
  /** By name. */
  holds(): ReadonlyMap<string, Uint8Array>;
  /** Says that this response was accepted. */
  acknowledge(nonce: number): void;
  forget(): void;
}

const nameOf = (index: number): string => xdstpName(CDS, AUTHORITY, `all/${index}`);

function openDelta(port: number, windowBytes: number | undefined): PausedClient {
  const client = new DeltaClient({ port, ...(windowBytes === undefined ? {} : { windowBytes }) });
  client.subscribe(CDS, [GLOB]);
  return {
    close: () => {
      client.close();
    },
    get responses() {
      return client.responses;
    },
    holds: () => client.content(CDS),
    forget: () => {
      client.forget();
    },
    acknowledge: (nonce) => {
      client.send({ typeUrl: CDS, responseNonce: String(nonce) });
    },
  };
}

function openSotw(port: number, windowBytes: number | undefined): PausedClient {
  const client = new SotwClient({ port, ...(windowBytes === undefined ? {} : { windowBytes }) });
  client.subscribe(CDS, [GLOB]);
  return {
    close: () => {
      client.close();
    },
    responses: client.responses,
    holds: () => {
      const resources = client.responses.at(-1)?.resources ?? [];
      return new Map(resources.map(({ body }) => [nameIn(body), body]));
    },
    forget: () => {
      client.forget();
    },
    acknowledge: (nonce) => {
      client.acknowledge(CDS, String(nonce), 'unread');
    },
  };
}

/** The source, and what it published last. */
class Truth {
  readonly upstream: ScriptedUpstream;
  readonly bodies = new Map<string, Buffer>();
  #publications = 0;

  constructor(upstream: ScriptedUpstream) {
    this.upstream = upstream;
    for (let index = 0; index < RESOURCES; index++) this.publish();
  }

  publish(): Buffer {
    const name = nameOf(this.#publications++ % RESOURCES);
    const body = bodyOf(name, String(this.#publications), BODY_BYTES);
    this.bodies.set(name, body);
    this.upstream.put(CDS, name, body);
    return body;
  }

  isHeldBy(client: PausedClient): boolean {
    const held = client.holds();
    return (
      held.size === this.bodies.size &&
      [...this.bodies].every(([name, body]) => body.equals(held.get(name) ?? Buffer.alloc(0)))
    );
  }

  /** At the pace at which the gateway takes them in, as the client `reader` sees it. */
  async publishMany(
    count: number,
    reader: DeltaClient,
    afterBatch: () => void = () => undefined,
  ): Promise<void> {
    for (let done = 0; done < count; done += BATCH) {
      let last: Buffer | undefined;
      for (let one = 0; one < Math.min(BATCH, count - done); one++) {
        last = this.publish();
        await turn();
      }
      await until(
        'the client that reads has the last update',
        () => reader.responses.at(-1)?.resources.some(({ body }) => body && last?.equals(body)),
        { everyMs: 2 },
      );
      afterBatch();
    }
  }
}

/**
 * Acknowledges responses that the client has not read. Nonces count up over the gateway's process, so
 * a client that guesses has to name them all, up to the last one that another client read.
 */
function acknowledgeUnread(client: PausedClient, fromNonce: number): (toNonce: number) => void {
  let next = fromNonce;
  return (toNonce) => {
    while (next <= toNonce) client.acknowledge(next++);
  };
}

export async function pauseClients(options: PausedClientsOptions): Promise<PausedClientsFigures> {
  const upstream = await ScriptedUpstream.start();
  const truth = new Truth(upstream);
  const gateway = await Gateway.start({
    authorityMap: {
      sources: { up: { target: `127.0.0.1:${upstream.port}`, insecure: true } },
      authorities: { [AUTHORITY]: { sources: ['up'] } },
    },
    preload: PROBE,
    nodeArgs: LITTLE_GARBAGE,
    // A client that does not read answers no ping: it is to be there to the end, also on a slow machine.
    args: ['--client-keepalive-time', '10m'],
  });
  const proxy = await startFaultProxy(gateway.port);
  const reader = new DeltaClient({ port: gateway.port });
  const clients: PausedClient[] = [];
  try {
    reader.subscribe(CDS, [GLOB]);
    for (let index = 0; index < options.clients; index++) {
      const windowBytes = index % 4 < 2 ? undefined : LARGE_WINDOW_BYTES;
      clients.push((index % 2 === 0 ? openDelta : openSotw)(proxy.port, windowBytes));
    }
    await until('all clients hold the truth', () => clients.every((one) => truth.isHeldBy(one)));
    const beforeMiB = await peakMiB(gateway, async () => {
      await truth.publishMany(WARM_UP_UPDATES, reader, () => {
        for (const client of clients) client.forget(); // They would fill some GiB.
      });
      await until('all clients follow', () => clients.every((one) => truth.isHeldBy(one)));
    });
    const { updates } = options;
    return { beforeMiB, ...(await watch({ gateway, proxy, reader, clients, truth, updates })) };
  } finally {
    reader.close();
    for (const client of clients) client.close();
    await gateway.stop();
    await proxy.stop();
    await upstream.stop();
  }
}

interface Scene {
  readonly gateway: Gateway;
  readonly proxy: FaultProxy;
  readonly reader: DeltaClient;
  readonly clients: readonly PausedClient[];
  readonly truth: Truth;
  readonly updates: number;
}

async function watch(scene: Scene): Promise<Omit<PausedClientsFigures, 'beforeMiB'>> {
  const { gateway, proxy, reader, clients, truth, updates } = scene;
  const aliveBeforeMiB = await aliveMiB(gateway);
  await proxy.setMode('unread');
  const readBefore = clients.map(({ responses }) => responses.length);
  const latestNonce = (): number => Number(reader.responses.at(-1)?.nonce);
  const acknowledge = clients
    .filter((_, index) => index % 8 < 4)
    .map((client) => acknowledgeUnread(client, latestNonce()));
  const peak = await peakMiB(gateway, () =>
    truth.publishMany(updates, reader, () => {
      for (const one of acknowledge) one(latestNonce());
    }),
  );
  const afterMiB = memoryMiB(gateway.pid!).now;
  const aliveAfterMiB = await aliveMiB(gateway);
  const paused = await gateway.metric('tributary_clients_paused');
  const resumedAtMs = performance.now();
  await proxy.setMode('pass');
  const isWrong = (client: PausedClient): boolean => !truth.isHeldBy(client);
  await until('all clients are exact', () => !clients.some(isWrong), {
    timeoutMs: EXACT_WITHIN_MS,
  }).catch(() => undefined);
  return {
    peakMiB: Math.max(peak, afterMiB),
    afterMiB,
    aliveBeforeMiB,
    aliveAfterMiB,
    paused,
    unreadResponses: Math.max(
      ...clients.map(({ responses }, index) => responses.length - (readBefore[index] ?? 0)),
    ),
    exactAfterMs: performance.now() - resumedAtMs,
    wrong: clients.filter(isWrong).length,
  };
}

/** The highest resident memory while `work` ran. */
async function peakMiB(gateway: Gateway, work: () => Promise<void>): Promise<number> {
  let peak = 0;
  const sampler = setInterval(() => {
    peak = Math.max(peak, memoryMiB(gateway.pid!).now);
  }, SAMPLE_MS);
  try {
    await work();
  } finally {
    clearInterval(sampler);
  }
  return peak;
}

async function aliveMiB(gateway: Gateway): Promise<number> {
  const { heapUsedBytes, externalBytes } = await askHeld(gateway);
  return (heapUsedBytes + externalBytes) / 1_048_576;
}

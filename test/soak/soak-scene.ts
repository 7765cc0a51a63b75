/** The gateway and what goes on around it in a soak: sources that die and return, maps, NATS. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startFaultProxy, type FaultProxy } from '../interop/peers/fault-proxy.js';
import { Gateway } from '../interop/peers/gateway.js';
import { NatsServer } from '../interop/peers/nats-server.js';
import { DeltaClient } from '../support/delta-client.js';
import { until } from '../support/until.js';
import { ALL, AUTHORITY, PLAIN_NAMES } from './churn.js';
import { CDS, xdstpName } from './content.js';
import { PROBE } from './gateway-meter.js';
import { SoakSource } from './soak-source.js';

export interface Pace {
  /** From one death of a source to the next. */
  readonly restartEveryMs: number;
  readonly downMs: number;
  readonly reloadEveryMs: number;
  /** Clients behind the slow proxy read for this time, then do not read for this time. */
  readonly pauseMs: number;
}

const PUBLISH_EVERY_MS = 20;
const ALTERNATIVE = 'onprem.test';
const STEADY_CLIENTS = 20;
/** So that a trip and its failback fit between two deaths of a source. */
const TIMERS = {
  backoff_base: '100ms',
  backoff_max: '1s',
  probe_interval: '2s',
  probe_timeout: '2s',
  min_stable: '1s',
  linger: '2s',
};
/** Relapses are many here: they must not keep it at the alternative for ever. */
const FAILOVER = { hold: '2s', hold_max: '4s', hold_reset: '10s', linger: '2s' };

export class SoakScene {
  readonly gateway: Gateway;
  /** On the way to the gateway. */
  readonly slow: FaultProxy;
  readonly #folder: string;
  readonly #sources: readonly SoakSource[];
  readonly #nats: NatsServer | undefined;
  readonly #steady: DeltaClient[] = [];
  readonly #timers: NodeJS.Timeout[] = [];
  readonly counts = { deaths: 0, reloads: 0, publications: 0 };
  #hasSpare = false;

  private constructor(
    gateway: Gateway,
    slow: FaultProxy,
    folder: string,
    sources: readonly SoakSource[],
    nats: NatsServer | undefined,
  ) {
    this.gateway = gateway;
    this.slow = slow;
    this.#folder = folder;
    this.#sources = sources;
    this.#nats = nats;
  }

  static async start(withNats: boolean): Promise<SoakScene> {
    const folder = await mkdtemp(join(tmpdir(), 'tributary-soak-'));
    for (const name of ['files', 'spare']) {
      const cluster = { '@type': CDS, name: xdstpName(CDS, `${name}.test`, 'one') };
      await mkdir(join(folder, name));
      await writeFile(join(folder, name, 'one.json'), JSON.stringify(cluster));
    }
    const sources = [
      await SoakSource.ofAuthority(AUTHORITY),
      await SoakSource.ofAuthority(ALTERNATIVE),
      await SoakSource.ofPlainNames(PLAIN_NAMES),
    ];
    const nats = withNats ? await NatsServer.start() : undefined;
    const gateway = await Gateway.start({
      authorityMap: authorityMap(folder, sources, false),
      args: [
        ...['--state-file', join(folder, 'state')],
        ...(nats ? ['--nats-servers', nats.url] : []),
      ],
      preload: PROBE,
    });
    if (nats) {
      await until('NATS is connected', async () => {
        return ((await gateway.admin('/instances')) as { nats: string }).nats === 'connected';
      });
    }
    return new SoakScene(gateway, await startFaultProxy(gateway.port), folder, sources, nats);
  }

  begin(pace: Pace): void {
    for (let at = 0; at < STEADY_CLIENTS; at++) {
      const client = new DeltaClient({ port: this.gateway.port });
      client.subscribe(CDS, [ALL]);
      this.#steady.push(client);
    }
    const every = (ms: number, work: () => Promise<void> | void): void => {
      this.#timers.push(setInterval(() => void work(), ms));
    };
    every(PUBLISH_EVERY_MS, () => {
      this.#sources[this.counts.publications++ % this.#sources.length]!.publish();
    });
    every(pace.restartEveryMs, () => this.#killOne(pace.downMs));
    every(pace.reloadEveryMs, () => this.#reload(!this.#hasSpare));
    let unread = false;
    every(pace.pauseMs, () => {
      unread = !unread;
      return this.slow.setMode(unread ? 'unread' : 'pass');
    });
  }

  /** All is well again, and nothing is published any more. @returns once all that stayed are exact */
  async settle(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await this.slow.setMode('pass');
    for (const source of this.#sources) await source.start();
    await this.#reload(false);
    const truth = this.#sources[0]!.content(CDS, ALL.slice(0, -1));
    await until(
      'all that stayed hold exactly what the primary has',
      () =>
        this.#steady.every((client) => {
          const held = client.content(CDS);
          return (
            held.size === truth.size &&
            [...truth].every(([name, body]) => body.equals(held.get(name) ?? Buffer.alloc(0)))
          );
        }),
      { timeoutMs: 120_000 },
    );
  }

  leave(): void {
    for (const client of this.#steady) client.close();
  }

  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    this.leave();
    await this.gateway.stop();
    await this.slow.stop();
    for (const source of this.#sources) await source.stop();
    await this.#nats?.stop();
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #killOne(downMs: number): Promise<void> {
    const source = this.#sources[this.counts.deaths++ % this.#sources.length]!;
    await source.stop();
    this.#timers.push(setTimeout(() => void source.start(), downMs));
    if (!this.#nats || this.counts.deaths % this.#sources.length !== 0) return;
    await this.#nats.kill();
    await this.#nats.restart();
  }

  /** Another map: one more source and authority, and other timers; or the first one again. */
  async #reload(hasSpare: boolean): Promise<void> {
    this.#hasSpare = hasSpare;
    this.counts.reloads++;
    await this.gateway.setAuthorityMap(authorityMap(this.#folder, this.#sources, hasSpare));
  }
}

function authorityMap(folder: string, sources: readonly SoakSource[], hasSpare: boolean): unknown {
  const at = (index: number) => ({
    target: `127.0.0.1:${sources[index]!.port}`,
    insecure: true,
    timers: TIMERS,
  });
  return {
    sources: {
      cloud: at(0),
      onprem: at(1),
      // Other timers are another source: its streams are opened anew.
      legacy: { ...at(2), timers: { ...TIMERS, linger: hasSpare ? '3s' : '2s' } },
      files: { path: join(folder, 'files') },
      ...(hasSpare ? { spare: { path: join(folder, 'spare') } } : {}),
    },
    authorities: {
      [AUTHORITY]: {
        sources: ['cloud'],
        alternative: ALTERNATIVE,
        failover: hasSpare ? { ...FAILOVER, hold: '3s' } : FAILOVER,
      },
      [ALTERNATIVE]: { sources: ['onprem'], failover: FAILOVER },
      'files.test': { sources: ['files'] },
      ...(hasSpare ? { 'spare.test': { sources: ['spare'] } } : {}),
    },
    old_style_names: {
      differ_by: ['cluster'],
      served_by: [{ sources: ['legacy'], failover: FAILOVER }],
    },
  };
}

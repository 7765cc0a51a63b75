/**
 * The demo: two control planes, a gateway, traffic, and a kill of the preferred control plane in each round. It
 * says what happens as it happens. Everything but Envoy runs in this process, on free ports of 127.0.0.1.
 */
import type { ChildProcess } from 'node:child_process';
import { rmSync } from 'node:fs';
import type { Server } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import type { Gateway } from '../compose.js';
import { startEnvoy, stopEnvoy } from './demo-envoy.js';
import { AUTHORITIES, writeBootstrap, writeDemoFiles, writeMap } from './demo-files.js';
import { join } from 'node:path';
import {
  ControlPlane,
  holdPort,
  startBackend,
  startServer,
  type LogFields,
} from './demo-server.js';
import { responds, Traffic, type Tally } from './demo-traffic.js';

export interface DemoOptions {
  /** From one kill to the next. */
  readonly killEveryMs: number;
  /** Ends after this many kills; absent: when `signal` aborts. */
  readonly rounds?: number;
  /** Path of the program; absent: a small client sends the traffic. */
  readonly envoy?: string;
  readonly signal: AbortSignal;
  /** Gets one sentence for each thing that happens. */
  readonly say: (text: string) => void;
}

export interface DemoResult {
  readonly kills: number;
  readonly requests: number;
  readonly failed: number;
}

/** Parts of `killEveryMs`. The control plane is back, and its hold over, before the next kill. */
const DOWN_PART = 0.4;
const HOLD_PART = 0.1;
const SWITCH_WAIT_PART = 0.05;
const REPORT_PART = 0.25;
const ENVOY_WITHIN_MS = 15_000;
const RETURN_WITHIN_MS = 40_000;
const POLL_MS = 100;

/** @throws Error when a part of the demo cannot start */
export async function runDemo(options: DemoOptions): Promise<DemoResult> {
  const demo = new Demo(options);
  try {
    await demo.start();
    await demo.rounds();
  } finally {
    await demo.stop();
  }
  return demo.result;
}

class Demo {
  readonly #options: DemoOptions;
  readonly #traffic = new Traffic();
  readonly #servers: Server[] = [];
  #folder: string | undefined;
  #cloud: ControlPlane | undefined;
  #onprem: ControlPlane | undefined;
  #gateway: Gateway | undefined;
  #envoy: ChildProcess | undefined;
  #reports: NodeJS.Timeout | undefined;
  #told: Tally = { from: new Map(), failed: 0 };
  #kills = 0;
  #active = 'nothing';

  constructor(options: DemoOptions) {
    this.#options = options;
  }

  get result(): DemoResult {
    const { tally } = this.#traffic;
    return { kills: this.#kills, requests: sum(tally), failed: tally.failed };
  }

  async start(): Promise<void> {
    const { say, envoy, killEveryMs } = this.#options;
    const backends = { cloud: await this.#backend('cloud'), onprem: await this.#backend('onprem') };
    const listener = await holdPort();
    const folder = writeDemoFiles({ backends, listener: listener.port });
    this.#folder = folder;
    this.#cloud = new ControlPlane(join(folder, 'cloud.yaml'));
    this.#onprem = new ControlPlane(join(folder, 'onprem.yaml'));
    await this.#cloud.start();
    await this.#onprem.start();
    const planes = { cloud: this.#cloud.port, onprem: this.#onprem.port };
    say(`control planes: cloud on 127.0.0.1:${planes.cloud}, onprem on 127.0.0.1:${planes.onprem}`);
    const map = writeMap(folder, planes, {
      holdMs: killEveryMs * HOLD_PART,
      switchWaitMs: killEveryMs * SWITCH_WAIT_PART,
    });
    const { gateway, port } = await startServer(map, 0, (event) => {
      this.#tellEvent(event);
    });
    this.#gateway = gateway;
    say(`gateway: clients on 127.0.0.1:${port}, admin on http://${gateway.admin.address}/`);
    await listener.release();
    await this.#startTraffic(envoy, port, listener.port);
    this.#reports = setInterval(() => {
      this.#report();
    }, killEveryMs * REPORT_PART);
  }

  /** Kills and starts the cloud's control plane, until the last round or the signal. */
  async rounds(): Promise<void> {
    const { rounds = Number.POSITIVE_INFINITY, killEveryMs, say } = this.#options;
    const isOver = async (part: number): Promise<boolean> => {
      await pause(killEveryMs * part, undefined, { signal: this.#options.signal }).catch(
        () => undefined,
      );
      return this.#options.signal.aborted;
    };
    if (await isOver(DOWN_PART)) return;
    while (this.#kills < rounds) {
      say('KILL: the control plane cloud ends');
      this.#kills++;
      await this.#cloud?.kill();
      if (await isOver(DOWN_PART)) return;
      await this.#cloud?.start();
      say('START: the control plane cloud runs again');
      if (await isOver(1 - DOWN_PART)) return;
      await this.#returned();
    }
  }

  /** Waits until the cloud's names have returned, so that each kill shows a failover. */
  async #returned(): Promise<void> {
    const deadlineMs = performance.now() + RETURN_WITHIN_MS;
    while (this.#active !== 'cloud' && !this.#options.signal.aborted) {
      if (performance.now() > deadlineMs) return;
      await pause(POLL_MS);
    }
  }

  /** Ends everything that runs. */
  async stop(): Promise<void> {
    clearInterval(this.#reports);
    this.#traffic.stop();
    if (this.#envoy) await stopEnvoy(this.#envoy);
    await this.#gateway?.stop();
    await Promise.all([this.#cloud?.kill(), this.#onprem?.kill()]);
    for (const server of this.#servers) {
      server.close();
      server.closeAllConnections();
    }
    if (this.#folder !== undefined) rmSync(this.#folder, { recursive: true, force: true });
  }

  async #backend(name: string): Promise<number> {
    const { port, server } = await startBackend(name);
    this.#servers.push(server);
    return port;
  }

  async #startTraffic(envoy: string | undefined, port: number, listener: number): Promise<void> {
    const { say } = this.#options;
    if (envoy === undefined) {
      say('no envoy on PATH: a small client polls the gateway by REST and sends the requests');
      await this.#traffic.fromGateway(port, this.#options.signal);
      return;
    }
    say(`Envoy (${envoy}) takes its configuration from the gateway: http://127.0.0.1:${listener}/`);
    let ended: string | undefined;
    this.#envoy = startEnvoy(envoy, writeBootstrap(this.#folder ?? '', port), (reason) => {
      ended = reason;
      say(`Envoy does not run: ${reason}`);
    });
    const deadlineMs = performance.now() + ENVOY_WITHIN_MS;
    while (!(await responds(listener))) {
      if (this.#options.signal.aborted) return;
      if (ended !== undefined) throw new Error(`Envoy does not run: ${ended}`);
      if (performance.now() > deadlineMs) {
        throw new Error(`Envoy serves nothing after ${ENVOY_WITHIN_MS / 1_000} s`);
      }
      await pause(POLL_MS);
    }
    this.#traffic.throughEnvoy(listener);
  }

  #tellEvent({ event, authority, from, to, cause, active }: LogFields): void {
    if (event !== 'failover_state' || authority !== AUTHORITIES.cloud || from === to) return;
    const [name = '', before, after, why] = [active, from, to, cause].map(String);
    const what = name === this.#active ? 'gateway' : `SWITCH to ${name}`;
    this.#active = name;
    this.#options.say(`${what}: ${AUTHORITIES.cloud} ${before} → ${after} (${why})`);
  }

  /** The requests since the last report. */
  #report(): void {
    const { tally } = this.#traffic;
    const rows = [...tally.from].map(([name, count]) => {
      const added = count - (this.#told.from.get(name) ?? 0);
      return added === 0 ? [] : [`${added} from ${name}`];
    });
    const failed = tally.failed - this.#told.failed;
    const requests = sum(tally) - sum(this.#told);
    this.#told = tally;
    const places = rows.flat().join(', ');
    this.#options.say(`${requests} requests, ${failed} failed${places && `: ${places}`}`);
  }
}

const sum = ({ from, failed }: Tally): number =>
  [...from.values()].reduce((total, count) => total + count, failed);

import { existsSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { freePort } from '../../support/free-port.js';
import { httpJson, httpRequest } from '../../support/http.js';
import { Child, removeScratch, scratchDirectory } from './child.js';

/** The gateway of the same build as this file. */
const program = fileURLToPath(new URL('../../../gateway/main.js', import.meta.url));

/** For tap's `skip`. */
export function skipWithoutGateway(): string | false {
  return existsSync(program) ? false : 'the gateway is not built';
}

export interface GatewayOptions {
  /** The authority map as JSON; not needed with `settings`, which name one. */
  readonly authorityMap?: unknown;
  /** A settings file. */
  readonly settings?: string;
  /** The port for clients. Default: a free one. */
  readonly clientPort?: number;
  /** More command line arguments, e.g. for TLS. */
  readonly args?: readonly string[];
  /** Options of Node itself, e.g. for the size of the heap. */
  readonly nodeArgs?: readonly string[];
  /** The most files that the process may open (`ulimit -n`). Default: as many as this process. */
  readonly openFiles?: number;
  /** A module loaded before the gateway; it answers {@link Gateway.ask}. */
  readonly preload?: string;
}

interface ReadyLine {
  readonly event?: unknown;
  readonly listen: string;
  readonly admin: string;
  readonly probes: string;
}

function readyLine(line: string): ReadyLine | undefined {
  if (!line.startsWith('{')) return undefined;
  const parsed = JSON.parse(line) as ReadyLine;
  return parsed.event === 'gateway_ready' ? parsed : undefined;
}

/** A row of `GET /authorities`, with the fields that tests use. */
export interface GroupRow {
  readonly authority: string;
  readonly group: string;
  readonly state: string;
  /** The served source. */
  readonly active: string | null;
  readonly wanted: number;
  readonly served: number;
  readonly guarded: number;
}

/** The gateway as its own process, as an operator runs it. */
export class Gateway {
  readonly #options: GatewayOptions;
  readonly #directory: string;
  #child: Child;
  #addresses: ReadyLine;

  private constructor(
    options: GatewayOptions,
    directory: string,
    child: Child,
    addresses: ReadyLine,
  ) {
    this.#options = options;
    this.#directory = directory;
    this.#child = child;
    this.#addresses = addresses;
  }

  static async start(options: GatewayOptions): Promise<Gateway> {
    const directory = await scratchDirectory('gateway');
    if (options.settings === undefined) await writeMap(directory, options.authorityMap);
    const child = launch(options, directory, options.clientPort ?? (await freePort()));
    return new Gateway(options, directory, child, await child.line(readyLine));
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** How it ended, or `undefined` while it runs. */
  get exited(): string | undefined {
    return this.#child.exited;
  }

  /** The directory of its map and its output. */
  get directory(): string {
    return this.#directory;
  }

  /** The port for clients. */
  get port(): number {
    return Number(this.#addresses.listen.slice(this.#addresses.listen.lastIndexOf(':') + 1));
  }

  /** `<method> <path>` of the admin side; default GET. */
  admin(path: string, method = 'GET'): Promise<unknown> {
    return httpJson(`http://${this.#addresses.admin}${path}`, { method });
  }

  /** `POST <path>` of the admin side. */
  order(path: string): Promise<unknown> {
    return httpJson(`http://${this.#addresses.admin}${path}`, { method: 'POST' });
  }

  /** `host:port` of the admin side. */
  get adminAddress(): string {
    return this.#addresses.admin;
  }

  /** `host:port` of the probe server. */
  get probeAddress(): string {
    return this.#addresses.probes;
  }

  /** The rows of one authority in `GET /authorities`. */
  async groups(authority: string): Promise<readonly GroupRow[]> {
    const { authorities } = (await this.admin('/authorities')) as {
      readonly authorities: readonly GroupRow[];
    };
    return authorities.filter((row) => row.authority === authority);
  }

  /** `GET /metrics`: the sum over all series of this name with these labels; 0 without any. */
  async metric(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
    const { body } = await httpRequest(`http://${this.#addresses.admin}/metrics`);
    const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
    const series = body
      .split('\n')
      .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
      .filter((line) => wanted.every((each) => line.includes(each)));
    return series.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
  }

  /** Replaces the authority map, which the gateway then reloads by itself. */
  setAuthorityMap(authorityMap: unknown): Promise<void> {
    return writeMap(this.#directory, authorityMap);
  }

  /** Sends a question to the preloaded module. */
  ask(question: string): Promise<unknown> {
    return this.#child.ask(question);
  }

  logs(): string {
    return this.#child.logs();
  }

  /** Sends SIGKILL. */
  kill(): Promise<void> {
    return this.#child.kill();
  }

  /** Sends SIGTERM: the gateway drains its clients before it ends. */
  terminate(): Promise<void> {
    return this.#child.stop();
  }

  /** After {@link kill} or {@link terminate}: starts a new process on the same client port. */
  async restart(): Promise<void> {
    this.#child = launch(this.#options, this.#directory, this.port);
    this.#addresses = await this.#child.line(readyLine);
  }

  /** @throws Error with the logs if it runs and does not drain in time, or ends with an error. */
  async stop(): Promise<void> {
    const ran = this.exited === undefined;
    await this.#child.stop();
    const { exited } = this;
    if (ran && exited !== 'exit code 0') {
      throw new Error(`the gateway ended with ${String(exited)}\n${this.logs()}`);
    }
    await removeScratch(this.#directory);
  }
}

const mapFile = 'authority-map.json';

/** Replaces the file by renaming, as editors do. */
async function writeMap(directory: string, authorityMap: unknown): Promise<void> {
  const file = join(directory, mapFile);
  await writeFile(`${file}.new`, JSON.stringify(authorityMap, undefined, 2));
  await rename(`${file}.new`, file);
}

/** A command that runs this line of shell first, in the same process. */
const inShell = (line: string): readonly string[] => ['sh', '-c', `${line}; exec "$@"`, 'sh'];

function launch(options: GatewayOptions, directory: string, clientPort: number): Child {
  const ports = ['--client-port', String(clientPort), '--admin-port', '0'];
  const from =
    options.settings === undefined
      ? ['--authority-map', join(directory, mapFile)]
      : ['--settings', options.settings];
  const preloaded = options.preload === undefined ? [] : ['--import', options.preload];
  const grace = options.args?.includes('--drain-grace') === true ? [] : ['--drain-grace', '1s'];
  const started = [program, 'serve', ...from, ...ports, ...grace];
  const args = [...(options.nodeArgs ?? []), ...preloaded, ...started];
  const { openFiles } = options;
  const limits = openFiles === undefined ? [] : inShell(`ulimit -n ${openFiles}`);
  return new Child({
    name: 'gateway',
    // The test runner adds its hooks to NODE_OPTIONS of every child. They cost memory, which tests
    // measure.
    command: 'env',
    args: ['--unset=NODE_OPTIONS', ...limits, process.execPath, ...args, ...(options.args ?? [])],
    directory,
    answers: options.preload !== undefined,
  });
}

import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { httpJson, httpRequest } from '../../support/http.js';
import { Child, removeScratch, scratchDirectory } from './child.js';

/** The gateway of the same build as this file. */
const program = fileURLToPath(new URL('../../../gateway/main.js', import.meta.url));

/** For tap's `skip`. */
export function skipWithoutGateway(): string | false {
  return existsSync(program) ? false : 'the gateway is not built';
}

export interface GatewayOptions {
  /** The authority map as JSON. */
  readonly authorityMap: unknown;
  /** More command line arguments, e.g. for TLS. */
  readonly args?: readonly string[];
}

interface ReadyLine {
  readonly event?: unknown;
  readonly listen: string;
  readonly admin: string;
}

function readyLine(line: string): ReadyLine | undefined {
  if (!line.startsWith('{')) return undefined;
  const parsed = JSON.parse(line) as ReadyLine;
  return parsed.event === 'gateway_ready' ? parsed : undefined;
}

/** The gateway as its own process, as an operator runs it. */
export class Gateway {
  readonly #directory: string;
  readonly #child: Child;
  readonly #addresses: ReadyLine;

  private constructor(directory: string, child: Child, addresses: ReadyLine) {
    this.#directory = directory;
    this.#child = child;
    this.#addresses = addresses;
  }

  static async start(options: GatewayOptions): Promise<Gateway> {
    const directory = await scratchDirectory('gateway');
    const authorityMap = join(directory, 'authority-map.json');
    await writeFile(authorityMap, JSON.stringify(options.authorityMap, undefined, 2));
    const addresses = ['--client-port', '0', '--admin-port', '0'];
    const args = [program, 'serve', '--authority-map', authorityMap, ...addresses];
    const child = new Child({
      name: 'gateway',
      command: process.execPath,
      args: [...args, ...(options.args ?? [])],
      directory,
    });
    return new Gateway(directory, child, await child.line(readyLine));
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Where clients connect. */
  get port(): number {
    return Number(this.#addresses.listen.slice(this.#addresses.listen.lastIndexOf(':') + 1));
  }

  /** `GET /authorities` of the admin side. */
  authorities(): Promise<unknown> {
    return httpJson(`http://${this.#addresses.admin}/authorities`);
  }

  /** `GET /metrics`, in Prometheus' text format. */
  async metrics(): Promise<string> {
    return (await httpRequest(`http://${this.#addresses.admin}/metrics`)).body;
  }

  logs(): string {
    return this.#child.logs();
  }

  kill(): Promise<void> {
    return this.#child.kill();
  }

  async stop(): Promise<void> {
    await this.#child.stop();
    await removeScratch(this.#directory);
  }
}

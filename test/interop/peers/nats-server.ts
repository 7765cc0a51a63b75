import { connect } from 'node:net';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { freePort } from '../../support/free-port.js';
import { until } from '../../support/until.js';
import { Child, removeScratch, scratchDirectory } from './child.js';
import { peerPath } from './provisioned.js';

export interface NatsServerOptions {
  /** Default: a free port. */
  readonly port?: number;
  /** More text for its configuration file, e.g. TLS and users. */
  readonly config?: string;
}

/** A real nats-server on loopback. */
export class NatsServer {
  readonly port: number;
  readonly #directory: string;
  #child: Child;

  private constructor(port: number, directory: string) {
    this.port = port;
    this.#directory = directory;
    this.#child = this.#launch();
  }

  static async start(options: NatsServerOptions = {}): Promise<NatsServer> {
    const directory = await scratchDirectory('nats-server');
    const port = options.port ?? (await freePort());
    const config = `listen: "127.0.0.1:${port}"\n${options.config ?? ''}\n`;
    await writeFile(join(directory, configFile), config);
    const server = new NatsServer(port, directory);
    await server.#ready();
    return server;
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`;
  }

  logs(): string {
    return this.#child.logs();
  }

  /** Sends SIGKILL. */
  kill(): Promise<void> {
    return this.#child.kill();
  }

  /** SIGSTOP and SIGCONT: alive, connected and unresponsive. */
  freeze(): void {
    this.#child.freeze();
  }

  thaw(): void {
    this.#child.thaw();
  }

  /** After {@link kill}: starts a new process on the same port, without any state. */
  async restart(): Promise<void> {
    this.#child = this.#launch();
    await this.#ready();
  }

  async stop(): Promise<void> {
    await this.#child.stop();
    await removeScratch(this.#directory);
  }

  #launch(): Child {
    return new Child({
      name: 'nats-server',
      command: peerPath('nats-server'),
      args: ['-c', join(this.#directory, configFile)],
      directory: this.#directory,
    });
  }

  async #ready(): Promise<void> {
    await this.#child.ready(until('nats-server listens', () => isListening(this.port)));
  }
}

const configFile = 'nats-server.conf';

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => {
      resolve(false);
    });
    // nats-server greets every connection.
    socket.on('data', () => {
      socket.destroy();
      resolve(true);
    });
  });
}

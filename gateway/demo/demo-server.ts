/** Servers of a demo: the control planes and the gateway, in this process, and the backends of the traffic. */
import { createServer, type Server } from 'node:http';
import { createServer as createTcpServer, type AddressInfo } from 'node:net';
import { pino } from 'pino';
import { loadAuthorityMap } from '../../config/authority-map.js';
import { formatProblem, type Problem } from '../../config/problems.js';
import { loadSettings } from '../../config/settings.js';
import { createGateway, type Gateway } from '../compose.js';
import { LOG_FORMAT } from '../telemetry/log.js';
import { Telemetry } from '../telemetry/telemetry.js';

/** One line of the log, as fields. */
export type LogFields = Readonly<Record<string, unknown>>;

/**
 * A gateway that serves this map on 127.0.0.1. A control plane of the demo is one too, with a directory as its
 * only source.
 *
 * @param port 0: a free port
 * @param onEvent gets each event that the gateway logs
 * @throws Error when a file is invalid or the port is taken
 */
export async function startServer(
  mapFile: string,
  port: number,
  onEvent: (event: LogFields) => void = () => undefined,
): Promise<{ readonly gateway: Gateway; readonly port: number }> {
  const ports = ['--client-port', String(port), '--admin-port', '0'];
  const argv = ['--authority-map', mapFile, ...ports];
  const read = loadSettings({ argv, env: { TRIBUTARY_LIMITS_DRAIN_GRACE: '0s' } });
  if (!read.ok) throw invalid(read.problems);
  const loaded = loadAuthorityMap(mapFile);
  if (!loaded.ok) throw invalid(loaded.problems);
  const log = pino(LOG_FORMAT, {
    write: (line: string) => {
      onEvent(JSON.parse(line) as LogFields);
    },
  });
  const { settings } = read;
  const telemetry = new Telemetry(log, { repeatIntervalMs: settings.limits.nackLogIntervalMs });
  const gateway = createGateway({ settings, map: loaded.map, telemetry });
  return { gateway, port: await gateway.start() };
}

const invalid = (problems: readonly Problem[]): Error =>
  new Error(problems.map(formatProblem).join('\n'));

/** A control plane that can be killed, and started again on the same port. */
export class ControlPlane {
  readonly #mapFile: string;
  #gateway: Gateway | undefined;
  #port = 0;

  constructor(mapFile: string) {
    this.#mapFile = mapFile;
  }

  get port(): number {
    return this.#port;
  }

  async start(): Promise<void> {
    const started = await startServer(this.#mapFile, this.#port);
    this.#gateway = started.gateway;
    this.#port = started.port;
  }

  /** Ends its streams at once. */
  async kill(): Promise<void> {
    const gateway = this.#gateway;
    this.#gateway = undefined;
    await gateway?.stop();
  }
}

/** An HTTP server that responds with its name. */
export async function startBackend(name: string): Promise<{
  readonly port: number;
  readonly server: Server;
}> {
  const server = createServer((_, response) => {
    response.end(name);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  return { port: (server.address() as AddressInfo).port, server };
}

export interface HeldPort {
  readonly port: number;
  release(): Promise<void>;
}

/** Holds a free port for a program that starts later: no other server gets it meanwhile. */
export async function holdPort(): Promise<HeldPort> {
  const server = createTcpServer().unref();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    release: () =>
      new Promise((resolve) => {
        server.close(() => {
          resolve();
        });
      }),
  };
}

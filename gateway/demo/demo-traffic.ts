/** The traffic of a demo: requests to the service, through Envoy or straight to the endpoint that the gateway names. */
import { request as startRequest } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { AUTHORITIES } from './demo-files.js';

const REQUEST_EVERY_MS = 50;
const POLL_EVERY_MS = 250;
const REQUEST_TIMEOUT_MS = 2_000;
const ENDPOINTS = `xdstp://${AUTHORITIES.cloud}/envoy.config.endpoint.v3.ClusterLoadAssignment/edge/shop`;

/** Counts of requests: by the backend that responded, and without a response of a backend. */
export interface Tally {
  readonly from: ReadonlyMap<string, number>;
  readonly failed: number;
}

/** Sends requests until `stop`. */
export class Traffic {
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #from = new Map<string, number>();
  #failed = 0;
  #port: number | undefined;
  #isStopped = false;

  /** @param port of the listener of Envoy */
  throughEnvoy(port: number): void {
    this.#port = port;
    this.#start();
  }

  /** Without Envoy: polls the endpoint from the gateway by REST (xDS protocol, "REST-JSON polling subscriptions"). */
  async fromGateway(gatewayPort: number, signal: AbortSignal): Promise<void> {
    const poll = async (): Promise<void> => {
      // A failed poll changes nothing: an xDS client keeps what it has.
      this.#port = (await endpointPort(gatewayPort)) ?? this.#port;
    };
    await poll();
    while (this.#port === undefined && !signal.aborted) {
      await pause(POLL_EVERY_MS);
      await poll();
    }
    this.#timers.push(setInterval(() => void poll(), POLL_EVERY_MS));
    this.#start();
  }

  /** The counts since the start. */
  get tally(): Tally {
    return { from: new Map(this.#from), failed: this.#failed };
  }

  /** Requests under way no longer count: what they need ends too. */
  stop(): void {
    this.#isStopped = true;
    this.#timers.forEach(clearInterval);
  }

  #start(): void {
    this.#timers.push(setInterval(() => void this.#send(), REQUEST_EVERY_MS));
  }

  async #send(): Promise<void> {
    const body = await send(this.#port ?? 0, '/');
    if (this.#isStopped) return;
    if (body === undefined) this.#failed++;
    else this.#from.set(body, (this.#from.get(body) ?? 0) + 1);
  }
}

/** Whether the service responds at this port. */
export const responds = async (port: number): Promise<boolean> =>
  (await send(port, '/')) !== undefined;

async function endpointPort(gatewayPort: number): Promise<number | undefined> {
  const node = { id: 'demo', cluster: 'demo' };
  const text = await send(gatewayPort, '/v3/discovery:endpoints', {
    node,
    resource_names: [ENDPOINTS],
  });
  const port = /"port_?value":\s*(\d+)/i.exec(text ?? '')?.[1];
  return port === undefined ? undefined : Number(port);
}

/** @param json sent by POST; absent: GET. @returns the body of a response 200, else undefined */
function send(port: number, path: string, json?: unknown): Promise<string | undefined> {
  return new Promise((resolve) => {
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    const fail = (): void => {
      resolve(undefined);
    };
    const method = json === undefined ? 'GET' : 'POST';
    const headers = json === undefined ? {} : { 'content-type': 'application/json' };
    const options = { host: '127.0.0.1', port, path, method, headers, signal, agent: false };
    const request = startRequest(options, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (text: string) => (body += text));
      response.on('error', fail);
      response.on('end', () => {
        resolve(response.statusCode === 200 ? body : undefined);
      });
    });
    request.on('error', fail);
    request.end(json === undefined ? undefined : JSON.stringify(json));
  });
}

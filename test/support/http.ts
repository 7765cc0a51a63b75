import { request as startRequest, type Agent } from 'node:http';
import { createServer } from 'node:net';

export interface HttpAnswer {
  readonly status: number;
  readonly body: string;
}

export interface HttpRequestOptions {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly json?: unknown;
  /** `false` (the default): a connection of its own. */
  readonly agent?: Agent | false;
  readonly timeoutMs?: number;
}

/**
 * One plain HTTP/1.1 request. Any status resolves.
 *
 * @throws Error when no complete response came (refused, reset, later than `timeoutMs`, default
 * 10,000).
 */
export function httpRequest(url: string, options: HttpRequestOptions = {}): Promise<HttpAnswer> {
  const { method = 'GET', headers = {}, json, agent = false, timeoutMs = 10_000 } = options;
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(timeoutMs);
    const request = startRequest(url, { method, headers, agent, signal }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() });
      });
    });
    request.on('error', reject);
    request.end(json === undefined ? undefined : JSON.stringify(json));
  });
}

/**
 * The same, for a JSON body.
 *
 * @throws Error when the status is not 2xx, or as {@link httpRequest}.
 */
export async function httpJson(url: string, options: HttpRequestOptions = {}): Promise<unknown> {
  const answer = await httpRequest(url, options);
  if (answer.status < 200 || answer.status > 299) {
    throw new Error(`${options.method ?? 'GET'} ${url}: ${answer.status} ${answer.body.trim()}`);
  }
  return JSON.parse(answer.body) as unknown;
}

/** Below the ports that Linux (32768) and other systems (49152) choose themselves. */
const LOWEST_FREE_PORT = 20_000;
const FREE_PORTS = 12_000;

/**
 * A loopback port that is free at the moment, for a server that starts later. Servers of other tests let the system
 * choose their ports, so they do not take it meanwhile. Two callers get the same one in a few of 100,000 cases.
 */
export async function freePort(): Promise<number> {
  const port = LOWEST_FREE_PORT + Math.floor(Math.random() * FREE_PORTS);
  const server = createServer();
  const isFree = await new Promise<boolean>((resolve) => {
    server.once('error', () => {
      resolve(false);
    });
    server.listen(port, '127.0.0.1', () => {
      resolve(true);
    });
  });
  if (!isFree) return freePort();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

import { request as startRequest, type Agent } from 'node:http';

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

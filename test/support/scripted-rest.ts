/**
 * A management server of the REST variant on a real port: it answers polls of each type with one
 * version, or with 304 to a request with that version, until the test makes it answer otherwise.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer, type ServerOptions } from 'node:https';
import { freePort } from './free-port.js';

export interface RestRequest {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  /** The body, parsed. */
  readonly json: Readonly<Record<string, unknown>>;
  /** The status that it was answered with; 0: not yet. */
  readonly status: number;
}

/** Answers a poll in the server's place. @returns false: the server answers as usual */
export type RestScript = (request: RestRequest, response: ServerResponse) => boolean;

export class ScriptedRest {
  readonly requests: RestRequest[] = [];
  script: RestScript = () => false;
  readonly #server: Server;
  readonly #content = new Map<string, { version: string; resources: readonly unknown[] }>();
  readonly #waiting = new Set<() => void>();
  #port = 0;

  private constructor(tls: ServerOptions | undefined) {
    const handle = (request: IncomingMessage, response: ServerResponse): void => {
      void this.#handle(request, response);
    };
    this.#server = tls ? createTlsServer(tls, handle) : createServer(handle);
  }

  /** @param at a port, or the path of a socket; default: a free port */
  static async start(at?: number | string, tls?: ServerOptions): Promise<ScriptedRest> {
    const rest = new ScriptedRest(tls);
    if (typeof at === 'string') {
      rest.#server.listen(at);
    } else {
      rest.#port = at ?? (await freePort());
      rest.#server.listen(rest.#port, '127.0.0.1');
    }
    await once(rest.#server, 'listening');
    return rest;
  }

  get port(): number {
    return this.#port;
  }

  /** @param noun the end of the path: `clusters` */
  set(noun: string, version: string, resources: readonly unknown[]): void {
    this.#content.set(`/v3/discovery:${noun}`, { version, resources });
  }

  /** The requests for one type. */
  of(noun: string): readonly RestRequest[] {
    return this.requests.filter(({ path }) => path === `/v3/discovery:${noun}`);
  }

  /** The first request that is answered and fulfils the condition. */
  async answered(holds: (request: RestRequest) => boolean): Promise<RestRequest> {
    for (;;) {
      const found = this.requests.find((one) => one.status !== 0 && holds(one));
      if (found) return found;
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
  }

  async stop(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    if (this.#server.listening) await once(this.#server, 'close');
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = '';
    for await (const chunk of request.setEncoding('utf8')) text += String(chunk);
    const { url: path = '', headers } = request;
    const json = JSON.parse(text) as RestRequest['json'];
    const received = { path, headers, json, status: 0 };
    this.requests.push(received);
    response.on('finish', () => {
      received.status = response.statusCode;
      for (const wake of this.#waiting) wake();
      this.#waiting.clear();
    });
    if (this.script(received, response)) return;
    const content = this.#content.get(path);
    if (!content) {
      response.writeHead(404).end('no endpoint');
      return;
    }
    const { version, resources } = content;
    if (json['version_info'] === version) {
      response.writeHead(304).end();
      return;
    }
    response.end(JSON.stringify({ version_info: version, resources }));
  }
}

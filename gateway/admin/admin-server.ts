/**
 * The admin server: a small HTTP server on its own address. It requires a token or a client certificate if
 * the settings name them, and listens on loopback by default. It only converts HTTP to and from
 * `AdminRequest` and `Reply`. gRPC on the same port is in `grpc/`.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { finished } from 'node:stream/promises';
import type { ServerTlsSpec, Settings } from '../../config/settings.js';
import { CollectedBytes } from '../../protos/collected-bytes.js';
import { TlsFiles } from '../clients/tls-files.js';
import { AdminToken } from './admin-token.js';
import { addressOf, BoundedHttp, MAX_BODY_BYTES } from './bounded-http.js';
import { AdminGrpc } from './grpc/admin-grpc.js';
import { PageEvents } from './page/page-events.js';
import { wantsPage } from './page/page.js';
import { SIGN_IN_PATH, Sessions, signedIn, signInPage } from './page/sign-in.js';
import { ADMIN_MARK, failure, type AdminContext, type AdminRequest, type Reply } from './reply.js';
import { answer } from './routes.js';

export interface AdminServerOptions {
  readonly settings: Settings['admin'];
  readonly context: AdminContext;
}

const MAX_CONNECTIONS = 256;

export class AdminServer {
  readonly #options: AdminServerOptions;
  readonly #grpc: AdminGrpc;
  /** Absent before `listen`. */
  #http: BoundedHttp | undefined;
  #token: AdminToken | undefined;
  /** Of browsers. Absent: no token is needed. */
  #sessions: Sessions | undefined;
  #tls: TlsFiles | undefined;

  constructor(options: AdminServerOptions) {
    const { settings, context } = options;
    const pageEvents = new PageEvents(context);
    this.#options = { settings, context: { ...context, pageEvents } };
    this.#grpc = new AdminGrpc({
      context,
      allows: ([authorization, ...more]) =>
        this.#token === undefined || (more.length === 0 && this.#token.allows(authorization)),
    });
  }

  /** The bound `host:port`; before `listen`, the configured one. */
  get address(): string {
    const { host, port } = this.#options.settings;
    return this.#http?.address ?? addressOf(host, port);
  }

  /**
   * Rejects with a `ListenError` if the address is unavailable, and with a reason if the files of the token
   * or of TLS are unusable.
   */
  async listen(): Promise<void> {
    const { settings, context } = this.#options;
    const { host, port, tokenFile, tls } = settings;
    if (tokenFile !== null) {
      const token = new AdminToken(tokenFile, context.clock, (reason) => {
        context.telemetry.say('admin_token_refused', { reason });
      });
      this.#token = token;
      this.#sessions = new Sessions(() => token.digest, tls !== null);
    }
    if (tls !== null) this.#tls = this.#tlsFiles(tls);
    this.#http = new BoundedHttp({
      host,
      port,
      setting: 'admin',
      maxConnections: MAX_CONNECTIONS,
      tls: this.#tls?.material,
      onRequest: this.#handle.bind(this),
      onHttp2: (socket) => {
        this.#grpc.accept(socket);
      },
      onError: (error) => {
        context.telemetry.onHandlerError(error);
      },
    });
    await this.#http.listen();
    this.#tls?.watch();
  }

  async close(): Promise<void> {
    this.#tls?.close();
    this.#grpc.close();
    await this.#http?.close();
  }

  #tlsFiles(spec: ServerTlsSpec): TlsFiles {
    const { telemetry } = this.#options.context;
    return new TlsFiles(spec, {
      onChanged: (material) => {
        this.#http?.useTls(material);
        telemetry.onTls({ listener: 'admin', kind: 'reloaded' });
      },
      onRefused: (reason) => {
        telemetry.onTls({ listener: 'admin', kind: 'refused', reason });
      },
    });
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { context } = this.#options;
    let reply: Reply;
    try {
      reply =
        (await this.#signIn(request)) ??
        this.#refusal(request) ??
        (await answer(context, readRequest(request)));
    } catch (error) {
      context.telemetry.say('admin_error', { err: error, path: request.url });
      reply = failure(500, error instanceof Error ? error.message : 'internal error');
    }
    const headers = { ...reply.headers, [ADMIN_MARK.header]: ADMIN_MARK.value };
    writeReply({ ...reply, headers }, request, response);
  }

  #refusal(request: IncomingMessage): Reply | undefined {
    const { headers, method = '', url = '' } = request;
    if (this.#token === undefined || this.#token.allows(headers.authorization)) return undefined;
    const isReading = method === 'GET' || method === 'HEAD';
    if (isReading && this.#sessions?.allows(headers, Date.now() / 1_000)) return undefined;
    if (isReading && /^\/(\?|$)/.test(url) && wantsPage(request)) return signInPage();
    const hint =
      'send the token of admin.token_file: tributary … --admin-token-file FILE, or "authorization: Bearer TOKEN"';
    const refused = failure(401, 'no valid token', { hint });
    return { ...refused, headers: { 'www-authenticate': 'Bearer' } };
  }

  /** @returns undefined for every other request */
  async #signIn(request: IncomingMessage): Promise<Reply | undefined> {
    if (request.method !== 'POST' || request.url !== SIGN_IN_PATH) return undefined;
    if (this.#token === undefined || this.#sessions === undefined) return undefined;
    const form = new URLSearchParams(await bodyOf(request));
    if (!this.#token.isToken(form.get('token')?.trim() ?? '')) {
      return signInPage('This is not the admin token.');
    }
    return signedIn(this.#sessions.cookie(Math.floor(Date.now() / 1_000)));
  }
}

/**
 * `BoundedHttp` bounds its bytes and its time, and closes a connection that exceeds them.
 *
 * @returns empty: the connection closed before the end
 */
async function bodyOf(request: IncomingMessage): Promise<string> {
  const collected = new CollectedBytes();
  request.on('data', (chunk: Buffer) => {
    collected.append(chunk, MAX_BODY_BYTES);
  });
  try {
    await finished(request);
  } catch {
    return '';
  }
  return collected.take().toString();
}

export function writeReply(reply: Reply, request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(reply.status, {
    'content-type': reply.contentType,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...reply.headers,
  });
  if (reply.goOn && request.method !== 'HEAD') {
    response.flushHeaders();
    reply.goOn(response);
  } else response.end(request.method === 'HEAD' ? undefined : reply.body);
}

function readRequest({ method = 'GET', url = '/', headers }: IncomingMessage): AdminRequest {
  const mark = url.indexOf('?');
  const path = mark === -1 ? url : url.slice(0, mark);
  const rawQuery = mark === -1 ? '' : url.slice(mark);
  return { method, path, rawQuery, query: new URLSearchParams(rawQuery), headers };
}

/**
 * Management servers over REST: polls instead of a stream. It performs what `RestPolls` decides, with
 * one HTTP/1.1 client for each attempt.
 */
import { createHash } from 'node:crypto';
import * as http from 'node:http';
import * as https from 'node:https';
import { isIP } from 'node:net';
import { checkServerIdentity } from 'node:tls';
import type { GrpcSourceSpec } from '../config/model.js';
import { DEFAULT_REST } from '../config/defaults.js';
import { CollectedBytes } from '../protos/collected-bytes.js';
import { STATUS_CODE } from '../protos/discovery.js';
import { preparingRequests, type Converted } from '../protos/rest-client-json.js';
import { conversions } from './conversion-thread.js';
import {
  discoveryRequestToJson,
  discoveryResponseFromJson,
  type ResourceFromJson,
} from '../protos/rest-source-json.js';
import { restEndpointsOf, type RestEndpoint } from './core/sources/rest-endpoints.js';
import { RestPolls, type Poll, type PollOutcome } from './core/sources/rest-polls.js';
import type { StreamEnd } from './core/sources/source-health.js';
import type { StreamRequest } from './core/sources/source-stream.js';
import type { DialIdentity } from './core/sources/client-identity.js';
import { connectionWords } from './connection-words.js';
import { identityFilesInUse, type IdentityFiles } from './identity-files.js';
import { PORTION_MS } from './turns.js';
import { withoutSecrets } from './secrets.js';
import {
  checkSans,
  invalidHeader,
  readTlsFiles,
  sourceHeaders,
  type SourceHeaders,
} from './source-credentials.js';
import { failedAttempt, type Attempt, type AttemptHandlers, type Transport } from './transport.js';

export const restTransport: Transport = {
  dial(source, identity, handlers) {
    try {
      return new RestAttempt(source, identity, handlers);
    } catch (error) {
      return failedAttempt(error, handlers);
    }
  },
};

const HTTP_PORT = 80;
const HTTPS_PORT = 443;
/** The version as an entity tag (RFC 9110, 8.8.3): printable, without quotes. */
const ENTITY_TAG = /^[\x21\x23-\x7e]+$/;

interface Answer {
  readonly status: number;
  readonly body: string;
  /** Of the body. */
  readonly digest: string;
}

/** Why a poll has no answer. */
type PollFailure = StreamEnd & {
  /** The server closed an idle connection while the request was on its way. */
  readonly wasIdle?: boolean;
};

type PollBody = Extract<PollOutcome, { readonly kind: 'body' }>;

class RestAttempt implements Attempt {
  readonly #source: GrpcSourceSpec;
  readonly #handlers: AttemptHandlers;
  readonly #client: typeof http | typeof https;
  readonly #agent: http.Agent;
  readonly #headers: http.OutgoingHttpHeaders;
  /** Values of headers that no log may show. */
  readonly #secrets: readonly string[];
  readonly #polls: RestPolls;
  readonly #requestTimeoutMs: number;
  /** Addresses that are still to be tried, in order; the first is in use. */
  readonly #endpoints: RestEndpoint[];
  readonly #inFlight = new Set<http.ClientRequest>();
  #isAnswered = false;
  #over = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(source: GrpcSourceSpec, identity: DialIdentity, handlers: AttemptHandlers) {
    const { tls, rest = DEFAULT_REST } = source;
    this.#source = source;
    this.#handlers = handlers;
    this.#client = tls === null ? http : https;
    this.#endpoints = [...endpointsOf(source)];
    const { headers, secrets } = sourceHeaders(source, identity);
    this.#headers = headersOf(source, headers);
    this.#secrets = secrets;
    this.#requestTimeoutMs = rest.requestTimeoutMs;
    this.#agent = agentOf(source, identityFilesInUse(source, identity));
    this.#polls = new RestPolls({
      refreshDelayMs: rest.refreshDelayMs,
      random: Math.random,
    });
    // Each poll connects for itself.
    queueMicrotask(() => {
      if (!this.#over) handlers.onWritable();
    });
  }

  send(request: StreamRequest): void {
    if (this.#over) return;
    const outcome = this.#polls.handleRequest(request);
    if (outcome) this.#perform(outcome);
    this.#armTimer();
  }

  /** Each poll is a probe. */
  probe(): Promise<boolean> {
    return Promise.resolve(true);
  }

  cancel(): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#timer);
    for (const request of this.#inFlight) request.destroy();
    this.#agent.destroy();
  }

  /** A timer, even for polls that are due: requests of one turn then give one poll of each type. */
  #armTimer(): void {
    clearTimeout(this.#timer);
    const dueMs = this.#over ? undefined : this.#polls.nextDeadlineMs();
    if (dueMs === undefined) return;
    this.#timer = setTimeout(
      () => {
        this.#guard(() => {
          for (const poll of this.#polls.takeDue(performance.now())) this.#start(poll);
          this.#armTimer();
        });
      },
      Math.max(0, Math.ceil(dueMs - performance.now())),
    );
  }

  /** @param steps left to prepare the first request of the process */
  #start(poll: Poll, steps = preparingRequests()): void {
    if (this.#over) return;
    if (steps.next().done === false) {
      setImmediate(() => {
        this.#guard(() => {
          this.#start(poll, steps);
        });
      });
      return;
    }
    const body = discoveryRequestToJson(poll.request);
    this.#post(poll, body, (result) => {
      if (this.#over) return;
      if ('status' in result) {
        this.#isAnswered = true;
        const outcome = this.#polls.handleAnswer(poll.typeUrl, result, performance.now());
        if (outcome) this.#perform(outcome);
      } else this.#end(result);
      this.#armTimer();
    });
  }

  #perform(outcome: PollOutcome): void {
    switch (outcome.kind) {
      case 'body':
        this.#readOn(
          outcome,
          discoveryResponseFromJson(outcome.text, outcome.typeUrl, outcome.nonce),
        );
        return;
      case 'message':
        this.#handlers.onMessage(outcome.bytes);
        return;
      case 'alive':
        this.#handlers.onAlive();
        return;
      case 'unserved':
        this.#handlers.onTypeUnserved(
          outcome.typeUrl,
          withoutSecrets(outcome.reason, this.#secrets),
        );
        return;
      case 'end':
        this.#end(outcome.end);
    }
  }

  /**
   * Reads JSON in portions: 5,000 resources of 0.8 KB take half a second.
   *
   * @param large the resource that the last portion left to the other thread
   */
  #readOn(
    body: PollBody,
    steps: ReturnType<typeof discoveryResponseFromJson>,
    large?: Converted<ResourceFromJson>,
  ): void {
    if (this.#over) return;
    const readOn = (resource?: Converted<ResourceFromJson>): void => {
      this.#guard(() => {
        this.#readOn(body, steps, resource);
      });
    };
    const untilMs = performance.now() + PORTION_MS;
    let next = steps.next(large);
    while (next.done !== true && next.value === undefined && performance.now() < untilMs) {
      next = steps.next();
    }
    const { done, value } = next;
    if (done === true) {
      const { typeUrl, digest } = body;
      this.#perform(this.#polls.handleRead(typeUrl, digest, value, performance.now()));
      this.#armTimer();
    } else if (value !== undefined) conversions.fromJson(value, readOn);
    else setImmediate(readOn);
  }

  #end({ code, message, detectedBy }: StreamEnd): void {
    if (this.#over) return;
    this.cancel();
    const told = withoutSecrets(message, this.#secrets);
    this.#handlers.onEnd({ code, message: told, detectedBy });
  }

  /** Runs a callback of Node.js: an exception ends the attempt, not the process. */
  #guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#end(failure(STATUS_CODE.internal, textOf(error)));
    }
  }

  /** Tries the addresses in order, and tries again if the server had closed an idle connection. */
  #post(poll: Poll, body: string, done: (result: Answer | PollFailure) => void): void {
    const [endpoint] = this.#endpoints;
    this.#postTo(endpoint, poll, body, (result) => {
      const isOver = this.#over || 'status' in result;
      if (!isOver && result.wasIdle === true) {
        this.#post(poll, body, done);
        return;
      }
      if (isOver || this.#isAnswered || !this.#moveFrom(endpoint)) done(result);
      else this.#post(poll, body, done);
    });
  }

  /** @returns whether there is another address; another poll may have moved on already */
  #moveFrom(endpoint: RestEndpoint | undefined): boolean {
    if (this.#endpoints[0] !== endpoint) return true;
    if (this.#endpoints.length < 2) return false;
    this.#endpoints.shift();
    return true;
  }

  #postTo(
    endpoint: RestEndpoint | undefined,
    { path, version }: Poll,
    body: string,
    onResult: (result: Answer | PollFailure) => void,
  ): void {
    let isDone = false;
    const request = this.#client.request({
      ...endpoint,
      method: 'POST',
      path,
      agent: this.#agent,
      headers: {
        ...this.#headers,
        ...(ENTITY_TAG.test(version) ? { 'if-none-match': `"${version}"` } : {}),
        'content-length': Buffer.byteLength(body),
      },
    });
    const done = (result: Answer | PollFailure): void => {
      if (isDone) return;
      isDone = true;
      clearTimeout(deadline);
      this.#inFlight.delete(request);
      this.#guard(() => {
        onResult(result);
      });
      if (!('status' in result)) request.destroy();
    };
    const deadline = setTimeout(() => {
      const message = `no answer to ${path} within ${this.#requestTimeoutMs} ms`;
      done({ code: STATUS_CODE.deadlineExceeded, message, detectedBy: 'probe' });
    }, this.#requestTimeoutMs);
    this.#inFlight.add(request);
    request.on('error', (error: NodeJS.ErrnoException) => {
      const wasIdle = request.reusedSocket && error.code === 'ECONNRESET';
      done({ ...failure(STATUS_CODE.unavailable, connectionWords(error.message)), wasIdle });
    });
    request.on('response', (response) => {
      this.#read(response, done);
    });
    request.end(body);
  }

  #read(response: http.IncomingMessage, done: (result: Answer | PollFailure) => void): void {
    const { maxReceiveBytes } = this.#source;
    const collected = new CollectedBytes();
    const hash = createHash('sha256');
    response.on('data', (chunk: Buffer) => {
      if (collected.length + chunk.length <= maxReceiveBytes) {
        collected.append(chunk, maxReceiveBytes);
        hash.update(chunk);
        return;
      }
      const message = `a response is larger than ${maxReceiveBytes} bytes`;
      done({ code: STATUS_CODE.resourceExhausted, message, detectedBy: 'oversize' });
    });
    response.on('end', () => {
      const body = collected.take().toString('utf8');
      done({ status: response.statusCode ?? 0, body, digest: hash.digest('base64') });
    });
    response.on('error', (error) => {
      done(failure(STATUS_CODE.unavailable, error.message));
    });
  }
}

function endpointsOf({ target, tls }: GrpcSourceSpec): readonly RestEndpoint[] {
  const endpoints = restEndpointsOf(target, tls === null ? HTTP_PORT : HTTPS_PORT);
  if (!endpoints) throw new Error(`no address in the target ${target}`);
  return endpoints;
}

function headersOf(
  { channelArgs }: GrpcSourceSpec,
  own: SourceHeaders['headers'],
): http.OutgoingHttpHeaders {
  const headers: Record<string, string[]> = {};
  for (const [key, text] of own) {
    try {
      http.validateHeaderValue(key, text);
    } catch {
      throw invalidHeader(key);
    }
    (headers[key] ??= []).push(text);
  }
  const host = channelArgs['grpc.default_authority'];
  return {
    ...headers,
    ...(host === undefined ? {} : { host: String(host) }),
    'content-type': 'application/json',
    accept: 'application/json',
  };
}

function agentOf({ tls }: GrpcSourceSpec, files: IdentityFiles | undefined): http.Agent {
  if (tls === null) return new http.Agent({ keepAlive: true });
  const { roots, key, certificates } = readTlsFiles(tls, files);
  const { serverName, requiredSans } = tls;
  // An address must not be sent as the server name (RFC 6066, section 3): Node.js 26 refuses to connect.
  const isName = isIP(serverName ?? '') === 0;
  return new https.Agent({
    keepAlive: true,
    ...(roots && { ca: roots }),
    ...(key && { key }),
    ...(certificates && { cert: certificates }),
    ...(serverName !== undefined && { servername: isName ? serverName : '' }),
    checkServerIdentity: (host, certificate) =>
      requiredSans.length > 0
        ? checkSans(requiredSans, serverName ?? host, certificate)
        : checkServerIdentity(serverName ?? host, certificate),
  });
}

const failure = (code: number, message: string): StreamEnd => ({
  code,
  message,
  detectedBy: 'stream',
});

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

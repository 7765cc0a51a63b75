/**
 * The streams to management servers over gRPC. Their connections are in grpc-connections.ts; no other file
 * uses the client of @grpc/grpc-js.
 */
import { getDefaultHighWaterMark, setDefaultHighWaterMark } from 'node:stream';
import * as grpc from '@grpc/grpc-js';
import type { ApiType, GrpcSourceSpec } from '../config/model.js';
import { STATUS_CODE } from '../protos/discovery.js';
import { ADS, DISCOVERY_SERVICES, discoveryServiceOf } from '../protos/discovery-services.js';
import type { DialIdentity } from './core/sources/client-identity.js';
import { makesDoubtful } from './core/sources/connection-choice.js';
import { isRefusal, type StreamEnd } from './core/sources/source-health.js';
import type { StreamRequest } from './core/sources/source-stream.js';
import { LOAD_STATS_PATH } from '../protos/load-stats.js';
import { statusWords } from './connection-words.js';
import { googleHeaders } from './google-tokens.js';
import { joinConnection, type ConnectionUser, type GrpcConnection } from './grpc-connections.js';
import { Turns } from './turns.js';
import { withoutSecrets } from './secrets.js';
import { invalidHeader, sourceHeaders } from './source-credentials.js';
import {
  failedAttempt,
  type Attempt,
  type AttemptHandlers,
  type LoadCall,
  type LoadCallHandlers,
  type Transport,
} from './transport.js';

/**
 * The messages and ends of all streams: those of many node groups come together. Their handlers do not throw
 * (`FederatedClient`).
 */
const TURNS = new Turns(() => undefined);
/** Requests to one source that wait because it does not read. With more, no further ones are written. Bytes. */
const MAX_UNREAD_BYTES = 1_024 * 1_024;
/** As many may wait, too: Node writes them all in one turn, and each takes some 0.1 ms of CPU. A count. */
const MAX_UNREAD_REQUESTS = 64;

const asBuffer = (bytes: Buffer): Buffer => bytes;

export const grpcTransport: Transport = {
  dial(source, identity, handlers) {
    try {
      return new GrpcAttempt(source, identity, handlers);
    } catch (error) {
      return failedAttempt(error, handlers);
    }
  },
};

const failed = (error: unknown): StreamEnd => ({
  code: STATUS_CODE.unavailable,
  message: error instanceof Error ? error.message : String(error),
  detectedBy: 'stream',
});

type Call = grpc.ClientDuplexStream<Buffer, Buffer>;

/** A stream, and a stream of load reports beside it. */
const AGGREGATED_STREAMS = 2;
/** A stream for each type, and one of load reports. */
const PER_TYPE_STREAMS = DISCOVERY_SERVICES.length + 1;

class GrpcAttempt implements Attempt, ConnectionUser {
  readonly streams: number;
  #connection: GrpcConnection;
  readonly #source: GrpcSourceSpec;
  readonly #apiType: ApiType;
  readonly #metadata: grpc.Metadata;
  readonly #handlers: AttemptHandlers;
  /** By path: one stream, or one per type. Undefined: the server does not serve that type. */
  readonly #calls = new Map<string, Call | undefined>();
  /** The paths that sent a response. */
  readonly #answered = new Set<string>();
  readonly #loadCalls = new Set<GrpcLoadCall>();
  readonly #callOptions: grpc.CallOptions;
  /** Values of headers that no log may show. */
  readonly #secrets: string[] = [];
  /** Requests that the connection has not taken, because the source does not read. */
  #unreadBytes = 0;
  #unreadRequests = 0;
  #isBlocked = false;
  #isStarted = false;
  #isPaused = false;
  #over = false;
  #hadMessage = false;
  /** Messages on its connection before its own streams opened. */
  #messagesBefore = 0;

  constructor(source: GrpcSourceSpec, identity: DialIdentity, handlers: AttemptHandlers) {
    this.#handlers = handlers;
    this.#source = source;
    this.#apiType = source.apiType;
    this.#metadata = this.#metadataOf(source, identity);
    this.#callOptions = source.googleDefault
      ? { credentials: googleCredentials(this.#secrets) }
      : {};
    this.streams = source.apiType.startsWith('AGGREGATED') ? AGGREGATED_STREAMS : PER_TYPE_STREAMS;
    this.#connection = joinConnection(source, identity, this);
    this.#messagesBefore = this.#connection.messages;
  }

  start(connection: GrpcConnection): void {
    if (this.#over) return;
    try {
      this.#messagesBefore = connection.messages;
      const aggregated = pathOf(this.#apiType, '');
      if (aggregated !== undefined) this.#open(aggregated, '');
      this.#isStarted = true;
      this.#handlers.onWritable();
    } catch (error) {
      this.fail(error);
    }
  }

  refused(): void {
    if (this.#over) return;
    try {
      // Any path: no call reaches a server.
      this.#open('/', '');
    } catch (error) {
      this.fail(error);
    }
  }

  fail(error: unknown): void {
    this.#end(failed(error));
  }

  moved(connection: GrpcConnection): void {
    this.#connection = connection;
  }

  #metadataOf(source: GrpcSourceSpec, identity: DialIdentity): grpc.Metadata {
    const metadata = new grpc.Metadata();
    const { headers, secrets } = sourceHeaders(source, identity);
    for (const [key, value] of headers) addHeader(metadata, key, value);
    this.#secrets.push(...secrets);
    return metadata;
  }

  send({ typeUrl, bytes }: StreamRequest): void {
    if (this.#over) return;
    const call = this.#callFor(typeUrl);
    if (call) this.#write(call, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    else this.#handlers.onTypeUnserved(typeUrl, 'the source has no service for this type');
  }

  #write(call: Call, request: Buffer): void {
    this.#unreadRequests++;
    this.#unreadBytes += request.length;
    call.write(request, () => {
      this.#unreadRequests--;
      this.#unreadBytes -= request.length;
      if (this.#isBlocked && this.#isUnreadBelow(0.5)) this.#unblock();
    });
    if (this.#isBlocked || this.#isUnreadBelow(1)) return;
    this.#isBlocked = true;
    this.#handlers.onBlocked();
  }

  /** In the next turn: the source may read each request at once, and this turn would never end. */
  #unblock(): void {
    this.#isBlocked = false;
    setImmediate(() => {
      if (!this.#over && !this.#isBlocked) this.#handlers.onWritable();
    });
  }

  /** @param part of the bounds, 0 to 1 */
  #isUnreadBelow(part: number): boolean {
    const isFew = this.#unreadRequests <= MAX_UNREAD_REQUESTS * part;
    return isFew && this.#unreadBytes <= MAX_UNREAD_BYTES * part;
  }

  /** @returns undefined if the source does not serve this type */
  #callFor(typeUrl: string): Call | undefined {
    const path = pathOf(this.#apiType, typeUrl);
    if (path === undefined) return undefined;
    return this.#calls.has(path) ? this.#calls.get(path) : this.#open(path, typeUrl);
  }

  /** @param typeUrl empty: the stream of all types */
  #open(path: string, typeUrl: string): Call {
    const call = this.#call(path);
    this.#calls.set(path, call);
    call.on('data', (bytes: Buffer) => {
      this.#inTurn(() => {
        this.#answered.add(path);
        this.#takeMessage(bytes);
      });
    });
    if (this.#isPaused) call.pause();
    // `status` reports every end; `error` only repeats those that are not OK.
    call.on('error', () => undefined);
    call.on('status', (status: grpc.StatusObject) => {
      this.#inTurn(() => {
        this.#handleStatus(path, typeUrl, status);
      });
    });
    return call;
  }

  #inTurn(work: () => void): void {
    const runUnlessOver = (): void => {
      if (!this.#over) work();
    };
    TURNS.run(runUnlessOver, this.#source);
  }

  #takeMessage(bytes: Buffer): void {
    this.#hadMessage = true;
    this.#connection.messages++;
    this.#handlers.onMessage(bytes);
  }

  /**
   * A server that lacks one of several types serves the others. Any other end is the end of all, also that of a type
   * that it served: its content would freeze.
   */
  #handleStatus(path: string, typeUrl: string, status: grpc.StatusObject): void {
    this.#calls.set(path, undefined);
    const isServing = [...this.#calls.values()].some((call) => call !== undefined);
    const isUnserved = status.code === grpc.status.UNIMPLEMENTED && !this.#answered.has(path);
    if (isUnserved && isServing) {
      this.#handlers.onTypeUnserved(typeUrl, withoutSecrets(status.details, this.#secrets));
      return;
    }
    this.#end(endOf(status, this.#isOversize(status)));
  }

  /**
   * grpc-js itself reports this, before any byte of the message arrives. A source that refuses a request of the
   * gateway may use the same words, with its own limit.
   */
  #isOversize({ code, details }: grpc.StatusObject): boolean {
    const isOwn =
      details.includes(`larger than max`) &&
      details.includes(`vs ${this.#source.maxReceiveBytes})`);
    return code === grpc.status.RESOURCE_EXHAUSTED && isOwn;
  }

  #end(end: StreamEnd): void {
    this.#close(isRefusal(end));
    this.#handlers.onEnd(this.#withoutSecrets(end));
  }

  /** A source may repeat a refused token in its error, which goes to logs and to the admin side. */
  #withoutSecrets(end: StreamEnd): StreamEnd {
    return { ...end, message: withoutSecrets(end.message, this.#secrets) };
  }

  #call(path: string): Call {
    const { client } = this.#connection;
    return withHighWaterMark(1, () =>
      client.makeBidiStreamRequest(path, asBuffer, asBuffer, this.#metadata, this.#callOptions),
    );
  }

  pause(): void {
    this.#isPaused = true;
    for (const call of this.#calls.values()) call?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    for (const call of this.#calls.values()) call?.resume();
  }

  probe(timeoutMs: number): Promise<boolean> {
    return this.#connection.probe(this, timeoutMs);
  }

  reportLoads(handlers: LoadCallHandlers): LoadCall {
    try {
      if (this.#over || !this.#isStarted) throw new Error('the stream is not open');
      const told: LoadCallHandlers = {
        onMessage: (bytes) => {
          handlers.onMessage(bytes);
        },
        onEnd: (end) => {
          handlers.onEnd(this.#withoutSecrets(end));
        },
      };
      const made: GrpcLoadCall = new GrpcLoadCall(this.#call(LOAD_STATS_PATH), told, () => {
        this.#loadCalls.delete(made);
      });
      this.#loadCalls.add(made);
      return made;
    } catch (error) {
      queueMicrotask(() => {
        handlers.onEnd(failed(error));
      });
      return DEAD_LOAD_CALL;
    }
  }

  cancel(): void {
    this.#close(false);
  }

  #close(isRefused: boolean): void {
    if (this.#over) return;
    this.#over = true;
    for (const call of this.#calls.values()) if (call) cancelAfterTurn(call);
    // An open call would keep its place on the connection.
    for (const call of this.#loadCalls) call.cancel();
    const isDoubtful = makesDoubtful({
      hadMessage: this.#hadMessage,
      othersHadMessage: this.#connection.messages > this.#messagesBefore,
      isRefusal: isRefused,
    });
    this.#connection.leave(this, isDoubtful);
  }
}

/**
 * A paused call reads messages up to its high-water mark, each of up to `max_receive`: 16 by default. grpc-js has no
 * option for it, so Node's default is another one while the call is made.
 */
function withHighWaterMark<T>(messages: number, make: () => T): T {
  const before = getDefaultHighWaterMark(true);
  setDefaultHighWaterMark(true, messages);
  try {
    return make();
  } finally {
    setDefaultHighWaterMark(true, before);
  }
}

/** In this turn another stream of the connection may be closing, and Node.js 20 would loop for ever (ADR 0030). */
function cancelAfterTurn(call: Call): void {
  setImmediate(() => {
    call.cancel();
  });
}

/** The path of the stream for a type; undefined: the source has none for it. */
function pathOf(apiType: ApiType, typeUrl: string): string | undefined {
  const found = apiType.startsWith('AGGREGATED') ? ADS : discoveryServiceOf(typeUrl);
  if (!found) return undefined;
  const { methods, service } = found;
  return `/${service}/${apiType.includes('DELTA') ? methods.delta : methods.stream}`;
}

const DEAD_LOAD_CALL: LoadCall = {
  send: () => undefined,
  end: (onOver) => {
    onOver();
  },
};

/** How long a source may take to end a stream of load reports that the gateway ended. Milliseconds. */
const LAST_LOADS_WITHIN_MS = 10_000;

class GrpcLoadCall implements LoadCall {
  readonly #call: Call;
  /** The caller needs no more handlers. */
  #over = false;
  #onOver: () => void = () => undefined;

  constructor(call: Call, handlers: LoadCallHandlers, onClosed: () => void) {
    this.#call = call;
    call.on('data', (bytes: Buffer) => {
      if (!this.#over) handlers.onMessage(bytes);
    });
    call.on('error', () => undefined);
    call.on('status', (status: grpc.StatusObject) => {
      onClosed();
      this.#onOver();
      if (this.#over) return;
      this.#over = true;
      handlers.onEnd(endOf(status));
    });
  }

  send(bytes: Uint8Array, onWritten: () => void): void {
    if (this.#over) return;
    const message = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#call.write(message, (error?: Error | null) => {
      if (!error && !this.#over) onWritten();
    });
  }

  end(onOver: () => void): void {
    if (this.#over) {
      onOver();
      return;
    }
    this.#over = true;
    const late = setTimeout(() => {
      this.#call.cancel();
    }, LAST_LOADS_WITHIN_MS).unref();
    this.#onOver = () => {
      clearTimeout(late);
      this.#onOver = () => undefined;
      onOver();
    };
    this.#call.end();
  }

  cancel(): void {
    this.#over = true;
    cancelAfterTurn(this.#call);
  }
}

/** @param oversize the gateway refused a message of the source */
function endOf({ code, details }: grpc.StatusObject, oversize = false): StreamEnd {
  // grpc-js reports a failed keepalive as a lost connection.
  const silent = /keepalive|ping timeout/i.test(details);
  return {
    code,
    message: statusWords(details),
    detectedBy: oversize ? 'oversize' : silent ? 'probe' : 'stream',
  };
}

/**
 * grpc-js sends them over TLS only.
 *
 * @param secrets takes the values that are sent
 */
function googleCredentials(secrets: string[]): grpc.CallCredentials {
  return grpc.credentials.createFromMetadataGenerator((_options, callback) => {
    googleHeaders()
      .then((headers) => {
        const metadata = new grpc.Metadata();
        for (const [key, value] of headers) {
          addHeader(metadata, key, value);
          secrets.push(value);
        }
        return metadata;
      })
      .then(
        (metadata) => {
          callback(null, metadata);
        },
        (error: unknown) => {
          callback(error instanceof Error ? error : new Error('there is no Google token'));
        },
      )
      // The callback is code of grpc-js: an exception in it must not end the process.
      .catch(() => undefined);
  });
}

function addHeader(metadata: grpc.Metadata, key: string, value: string): void {
  try {
    metadata.add(key, value);
  } catch {
    throw invalidHeader(key);
  }
}

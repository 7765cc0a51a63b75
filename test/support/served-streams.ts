/**
 * The real shells of clients' streams (`XdsServer`, `GrpcCall`, `ClientStream`, `FanOut`) on a
 * real socket, around a session whose responses the test provides.
 */
import {
  DEFAULT_KEEPALIVE,
  DEFAULT_LIMITS,
  type Keepalive,
  type Limits,
} from '../../config/limits.js';
import type { ServerTlsSpec } from '../../config/settings.js';
import {
  ClientStream,
  type ClientStreamEvent,
  type StreamPort,
} from '../../gateway/clients/client-stream.js';
import { quotaLimitsOf } from '../../gateway/core/quotas/limits.js';
import { GroupStays } from '../../gateway/core/session/group-stays.js';
import { Quotas } from '../../gateway/core/quotas/quotas.js';
import type { EncodedResponse } from '../../gateway/core/cache/shared-responses.js';
import type { StreamSession } from '../../gateway/core/session/stream-session.js';
import type { UnknownCall } from '../../gateway/clients/grpc-http2.js';
import { FanOut } from '../../gateway/clients/fan-out.js';
import { LongRequests } from '../../gateway/clients/long-requests.js';
import { XdsServer } from '../../gateway/clients/xds-server.js';
import { sizeOf, type Chunks } from '../../protos/discovery-fields.js';
import type { RpcStatus } from '../../protos/discovery.js';

interface BytesRequest {
  readonly node: undefined;
  readonly typeUrl: string;
  readonly bytes: Buffer;
}

/** One stream, as seen by the shells. */
export class ServedStream {
  readonly requests: Buffer[] = [];
  /** In order: the result of `write` for each response, and drains. */
  readonly pace: ('written' | 'full' | 'drained')[] = [];
  onRequest: () => void = () => undefined;
  peer = '';
  userAgent = '';
  /** The reason of each close. */
  readonly closed: string[] = [];
  readonly #responses: EncodedResponse[] = [];
  #onReady: () => void = () => undefined;
  #end: (status: RpcStatus | undefined) => void = () => undefined;
  #port: StreamPort | undefined;

  /** Queues responses; the shell takes them when the client can be written to. */
  say(...responses: readonly Buffer[]): void {
    for (const bytes of responses) this.sayInChunks([bytes]);
  }

  /** Queues one response. */
  sayInChunks(chunks: Chunks): void {
    this.#responses.push({ chunks, size: sizeOf(chunks), nonce: '', number: 0 });
    this.#onReady();
  }

  /** The number of responses that the shell has not taken. */
  get unsaid(): number {
    return this.#responses.length;
  }

  end(status: RpcStatus | undefined): void {
    this.#end(status);
  }

  /** As while a long request is under way. */
  pauseReading(): void {
    this.#port?.pauseReading?.();
  }

  readOn(): void {
    this.#port?.readOn?.();
  }

  attach(stream: ClientStream<BytesRequest>): void {
    this.#end = (status) => {
      stream.end(status);
    };
    const handleDrain = stream.handleDrain.bind(stream);
    stream.handleDrain = () => {
      this.pace.push('drained');
      handleDrain();
    };
  }

  port(port: StreamPort): StreamPort {
    this.#port = port;
    this.peer = port.peer;
    this.userAgent = port.userAgent;
    return {
      peer: port.peer,
      userAgent: port.userAgent,
      headerValues: port.headerValues.bind(port),
      certificate: port.certificate,
      end: (status) => {
        port.end(status);
      },
      write: (bytes) => {
        const open = port.write(bytes);
        this.pace.push(open ? 'written' : 'full');
        return open;
      },
    };
  }

  session(onReady: () => void): StreamSession<BytesRequest> {
    this.#onReady = onReady;
    return {
      allSubscriptions: [],
      limit: { maxBytes: Infinity, withheld: [] },
      nameCount: 0,
      scope: undefined,
      nextDeadlineMs: undefined,
      handleRequest: ({ bytes }) => {
        this.requests.push(bytes);
        this.onRequest();
        return undefined;
      },
      isMidRequest: false,
      continueRequest: () => undefined,
      handleRightsChanged: () => undefined,
      takeResponse: () => this.#responses.shift(),
      takeEvents: () => [],
      endStatus: () => undefined,
      close: () => undefined,
    };
  }
}

export interface StreamServer {
  readonly port: number;
  /** In order of opening. */
  readonly streams: readonly ServedStream[];
  readonly unknownCalls: readonly UnknownCall[];
  readonly quotas: Quotas;
  stop(graceMs?: number): Promise<void>;
}

export async function startStreamServer(
  keepalive: Keepalive = DEFAULT_KEEPALIVE,
  tls: ServerTlsSpec | null = null,
  limits: Partial<Limits> = {},
): Promise<StreamServer> {
  const streams: ServedStream[] = [];
  const unknownCalls: UnknownCall[] = [];
  const fanOut = new FanOut();
  const allLimits = { ...DEFAULT_LIMITS, ...limits };
  const quotas = new Quotas(quotaLimitsOf(allLimits));
  const server = new XdsServer({
    host: '127.0.0.1',
    port: 0,
    tls,
    keepalive,
    limits: allLimits,
    quotas,
    makeStream: (flavour, port, service) => {
      const served = new ServedStream();
      const context = {
        fanOut,
        longRequests: new LongRequests('in_turns'),
        clock: () => performance.now(),
        maxNamesPerRequest: 1,
        maxMessage: 'none' as const,
        holdIdentity: () => () => undefined,
        groupStays: new GroupStays(() => undefined),
        oldStyle: () => undefined,
        onEvent: (_stream: unknown, event: ClientStreamEvent) => {
          if (event.kind === 'closed') served.closed.push(event.reason);
        },
        onError: (error: unknown) => {
          throw error;
        },
      };
      const stream = new ClientStream<BytesRequest>(context, {
        id: streams.push(served),
        service,
        port: served.port(port),
        nodeGroupRoom: { maxNodeGroups: 1, scopeCount: 0, hasScope: () => false },
        protocol: {
          flavour,
          decode: (bytes) => ({
            ok: true,
            message: { node: undefined, typeUrl: service.typeUrl ?? '', bytes: Buffer.from(bytes) },
          }),
          open: ({ onReady }) => served.session(onReady),
        },
      });
      served.attach(stream);
      return stream;
    },
    makePoll: () => {
      throw new Error('these tests do not poll');
    },
    onUnwritable: () => undefined,
    onTls: () => undefined,
    onRequest: () => undefined,
    onUnknownMethod: (call) => unknownCalls.push(call),
    onError: (error) => {
      throw error;
    },
  });
  const port = await server.listen();
  return { port, streams, unknownCalls, quotas, stop: (graceMs = 0) => server.drain(graceMs) };
}

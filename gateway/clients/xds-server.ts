/**
 * The client-facing xDS server: the two methods of ADS, and load reports, on the gRPC server of
 * `grpc-http2.ts`, with the limit of clients, the certificates, and the end of all streams at shutdown.
 * Messages stay bytes here.
 */
import type { Keepalive, Limits } from '../../config/limits.js';
import type { ServerTlsSpec } from '../../config/settings.js';
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import { LOAD_STATS_PATH } from '../../protos/load-stats.js';
import type { ClientStream, Flavour, StreamPort } from './client-stream.js';
import type { CallHandlers, GrpcCall, Method } from './grpc-call.js';
import { GrpcServer } from './grpc-http2.js';
import type { LoadReportStream } from './load-report-stream.js';
import { TlsFiles } from './tls-files.js';

export interface XdsServerOptions {
  readonly host: string;
  readonly port: number;
  readonly tls: ServerTlsSpec | null;
  readonly keepalive: Keepalive;
  readonly limits: Limits;
  /** Makes the shell of a new stream. */
  readonly onStream: (flavour: Flavour, port: StreamPort) => ClientStream;
  /** The same for a stream of load reports; absent: the server has no such method. */
  readonly onLoadStream?: (port: StreamPort) => LoadReportStream;
  /** The certificate files of the listener changed: the new ones are in use, or were refused. */
  readonly onTls: (event: TlsEvent) => void;
  /** A client sent a message, valid or not. */
  readonly onRequest: () => void;
  /** Code of the gateway threw, or the listener failed; the process continues. */
  readonly onError: (error: unknown) => void;
}

export type TlsEvent =
  { readonly kind: 'reloaded' } | { readonly kind: 'refused'; readonly reason: string };

const SERVICE = '/envoy.service.discovery.v3.AggregatedDiscoveryService';

/** Streams end over this part of the grace time, so that clients do not all reconnect at once. */
const DRAIN_SPREAD = 0.8;

export class XdsServer {
  readonly #options: XdsServerOptions;
  readonly #streams = new Set<ClientStream>();
  readonly #loadStreams = new Set<LoadReportStream>();
  #server: GrpcServer | undefined;
  #tlsFiles: TlsFiles | undefined;
  #draining = false;

  constructor(options: XdsServerOptions) {
    this.#options = options;
  }

  get streams(): ReadonlySet<ClientStream> {
    return this.#streams;
  }

  get loadStreams(): ReadonlySet<LoadReportStream> {
    return this.#loadStreams;
  }

  /** @returns the bound port. Rejects with the error of the system if the address is unavailable. */
  async listen(): Promise<number> {
    const { host, port, limits, tls } = this.#options;
    this.#tlsFiles = tls ? this.#readTls(tls) : undefined;
    this.#server = new GrpcServer(
      {
        ...this.#options,
        maxMessageBytes: limits.maxRequestBytes,
        maxStreamsPerConnection: limits.maxStreamsPerConnection,
        writeAheadBytes: limits.writeAheadBytes,
        methods: new Map([
          [`${SERVICE}/DeltaAggregatedResources`, this.#method('delta')],
          [`${SERVICE}/StreamAggregatedResources`, this.#method('sotw')],
          ...this.#loadMethods(),
        ]),
      },
      this.#tlsFiles?.material,
    );
    try {
      const bound = await this.#server.listen();
      this.#tlsFiles?.watch();
      return bound;
    } catch (error) {
      const address = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
      const reason = error instanceof Error ? error.message : String(error);
      throw new Error(`cannot listen on ${address}: ${reason}`, { cause: error });
    }
  }

  /** Reads the certificates now instead of at the next check. */
  refreshCertificates(): void {
    this.#tlsFiles?.refresh();
  }

  /**
   * Ends all streams, spread over most of the grace time, and cuts the rest at its end. GOAWAY alone
   * would not move clients: they keep their open stream.
   */
  async drain(graceMs: number): Promise<void> {
    this.#draining = true;
    this.#tlsFiles?.close();
    const streams = [...this.#streams, ...this.#loadStreams];
    const stepMs = streams.length === 0 ? 0 : (graceMs * DRAIN_SPREAD) / streams.length;
    streams.forEach((stream, index) => {
      const jitterMs = Math.random() * stepMs;
      setTimeout(
        () => {
          stream.end({ code: STATUS_CODE.unavailable, message: 'the gateway is shutting down' });
        },
        stepMs * index + jitterMs,
      );
    });
    await this.#server?.close(graceMs);
  }

  #readTls(spec: ServerTlsSpec): TlsFiles {
    const { onTls } = this.#options;
    return new TlsFiles(spec, {
      onChanged: (material) => {
        this.#server?.replaceTls(material);
        onTls({ kind: 'reloaded' });
      },
      onRefused: (reason) => {
        onTls({ kind: 'refused', reason });
      },
    });
  }

  #method(flavour: Flavour): Method {
    return {
      refusal: () => this.#refusal(),
      open: (call) => this.#open(flavour, call),
    };
  }

  #open(flavour: Flavour, call: GrpcCall): CallHandlers {
    const { onStream, onRequest } = this.#options;
    const stream = onStream(flavour, call);
    this.#streams.add(stream);
    return {
      onMessage: (bytes) => {
        onRequest();
        stream.handleMessage(bytes);
      },
      onDrain: () => {
        stream.handleDrain();
      },
      onEnd: () => {
        stream.end(undefined);
        this.#streams.delete(stream);
      },
      onClosed: (reason) => {
        this.#streams.delete(stream);
        stream.handleClosed(reason);
      },
    };
  }

  #loadMethods(): readonly [string, Method][] {
    const { onLoadStream } = this.#options;
    if (!onLoadStream) return [];
    const open = (call: GrpcCall): CallHandlers => this.#openLoads(onLoadStream(call));
    return [[LOAD_STATS_PATH, { refusal: () => this.#refusal(), open }]];
  }

  #openLoads(stream: LoadReportStream): CallHandlers {
    this.#loadStreams.add(stream);
    return {
      onMessage: (bytes) => {
        stream.handleMessage(bytes);
      },
      onDrain: () => {
        stream.handleDrain();
      },
      onEnd: () => {
        stream.end(undefined);
        this.#loadStreams.delete(stream);
      },
      onClosed: (reason) => {
        this.#loadStreams.delete(stream);
        stream.handleClosed(reason);
      },
    };
  }

  #refusal(): RpcStatus | undefined {
    if (this.#draining) {
      return { code: STATUS_CODE.unavailable, message: 'the gateway is shutting down' };
    }
    if (this.#streams.size + this.#loadStreams.size < this.#options.limits.maxClients)
      return undefined;
    return { code: STATUS_CODE.resourceExhausted, message: 'too many clients' };
  }
}

/**
 * The client-facing gRPC server: the only file that uses @grpc/grpc-js as a server. Messages stay bytes
 * here.
 *
 * An exception in a grpc-js handler would end the process. So all code that may throw is in
 * `ClientStream`, which catches it and ends its stream.
 */
import type { SecureContextOptions } from 'node:tls';
import * as grpc from '@grpc/grpc-js';
import type { Keepalive, Limits } from '../../config/limits.js';
import type { ServerTlsSpec } from '../../config/settings.js';
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import { CallWriter } from './call-writer.js';
import type { ClientStream, Flavour, StreamPort } from './client-stream.js';
import { TlsFiles, type TlsMaterial } from './tls-files.js';

export interface XdsServerOptions {
  readonly host: string;
  readonly port: number;
  readonly tls: ServerTlsSpec | null;
  readonly keepalive: Keepalive;
  readonly limits: Limits;
  /** Makes the shell of a new stream. */
  readonly onStream: (flavour: Flavour, port: StreamPort) => ClientStream;
  /** The certificate files of the listener changed: the new ones are in use, or were refused. */
  readonly onTls: (event: TlsEvent) => void;
  /** A client sent a message, valid or not. */
  readonly onRequest: () => void;
}

export type TlsEvent =
  { readonly kind: 'reloaded' } | { readonly kind: 'refused'; readonly reason: string };

const asBuffer = (bytes: Buffer): Buffer => bytes;

const streamOf = (method: string): grpc.MethodDefinition<Buffer, Buffer> => ({
  path: `/envoy.service.discovery.v3.AggregatedDiscoveryService/${method}`,
  requestStream: true,
  responseStream: true,
  requestSerialize: asBuffer,
  requestDeserialize: asBuffer,
  responseSerialize: asBuffer,
  responseDeserialize: asBuffer,
});

const ADS: grpc.ServiceDefinition = {
  deltaAggregatedResources: streamOf('DeltaAggregatedResources'),
  streamAggregatedResources: streamOf('StreamAggregatedResources'),
};

type Call = grpc.ServerDuplexStream<Buffer, Buffer>;

/** Streams end over this part of the grace time, so that clients do not all reconnect at once. */
const DRAIN_SPREAD = 0.8;

export class XdsServer {
  readonly #options: XdsServerOptions;
  readonly #server: grpc.Server;
  readonly #streams = new Set<ClientStream>();
  #tlsFiles: TlsFiles | undefined;
  #draining = false;

  constructor(options: XdsServerOptions) {
    const { limits, keepalive } = options;
    this.#options = options;
    this.#server = new grpc.Server({
      'grpc.max_receive_message_length': limits.maxRequestBytes,
      'grpc.max_send_message_length': -1,
      'grpc.max_concurrent_streams': limits.maxStreamsPerConnection,
      // Off by default in grpc-js: the stream of a client whose host vanished would stay open for ever.
      'grpc.keepalive_time_ms': keepalive.timeMs,
      'grpc.keepalive_timeout_ms': keepalive.timeoutMs,
    });
    this.#server.addService(ADS, {
      deltaAggregatedResources: (call: Call) => {
        this.#accept(call, 'delta');
      },
      streamAggregatedResources: (call: Call) => {
        this.#accept(call, 'sotw');
      },
    });
  }

  get streams(): ReadonlySet<ClientStream> {
    return this.#streams;
  }

  /** @returns the bound port. Rejects with the error of the system if the address is unavailable. */
  async listen(): Promise<number> {
    const { host, port } = this.#options;
    const address = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
    return new Promise((resolve, reject) => {
      this.#server.bindAsync(address, this.#credentials(), (error, bound) => {
        if (error) reject(new Error(`cannot listen on ${address}: ${error.message}`));
        else resolve(bound);
      });
    });
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
    const streams = [...this.#streams];
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
    await new Promise<void>((resolve) => {
      const force = setTimeout(() => {
        this.#server.forceShutdown();
        resolve();
      }, graceMs);
      this.#server.tryShutdown(() => {
        clearTimeout(force);
        resolve();
      });
    });
  }

  #credentials(): grpc.ServerCredentials {
    const { tls, onTls } = this.#options;
    if (!tls) return grpc.ServerCredentials.createInsecure();
    const files = new TlsFiles(tls, {
      onChanged: (material) => {
        credentials.replace(material);
        onTls({ kind: 'reloaded' });
      },
      onRefused: (reason) => {
        onTls({ kind: 'refused', reason });
      },
    });
    const credentials = new ReplaceableCredentials(files.material);
    files.watch();
    this.#tlsFiles = files;
    return credentials;
  }

  #accept(call: Call, flavour: Flavour): void {
    // Without a listener, an error that grpc-js emits on a stream would be an uncaught exception.
    call.on('error', () => undefined);
    const refusal = this.#refusal();
    if (refusal) {
      endCall(call, refusal);
      return;
    }
    const writer = new CallWriter(call, this.#options.limits.writeAheadBytes, () => {
      stream.handleDrain();
    });
    const stream = this.#options.onStream(flavour, {
      peer: call.getPeer(),
      userAgent: String(call.metadata.get('user-agent')[0] ?? ''),
      write: (bytes) => writer.write(bytes),
      end: (status) => {
        endCall(call, status);
      },
    });
    this.#streams.add(stream);
    const closed = (reason: string): (() => void) => {
      return () => {
        this.#streams.delete(stream);
        stream.handleClosed(reason);
      };
    };
    call.on('data', (bytes: Buffer) => {
      this.#options.onRequest();
      stream.handleMessage(bytes);
    });
    call.on('drain', () => {
      writer.handleDrain();
    });
    call.on('end', () => {
      stream.end(undefined);
      this.#streams.delete(stream);
    });
    call.on('cancelled', closed('cancelled by the client'));
    call.on('close', closed('closed'));
  }

  #refusal(): RpcStatus | undefined {
    if (this.#draining) {
      return { code: STATUS_CODE.unavailable, message: 'the gateway is shutting down' };
    }
    if (this.#streams.size < this.#options.limits.maxClients) return undefined;
    return { code: STATUS_CODE.resourceExhausted, message: 'too many clients' };
  }
}

function endCall(call: Call, status: RpcStatus | undefined): void {
  if (status) call.emit('error', { code: status.code, details: status.message });
  else call.end();
}

/**
 * TLS credentials with replaceable certificates; open connections keep theirs. The file watcher of
 * grpc-js is no alternative: with a certificate and key that do not match, it drops every new
 * connection.
 */
class ReplaceableCredentials extends grpc.ServerCredentials {
  constructor(material: TlsMaterial) {
    super({ requestCert: material.clientCa !== undefined }, contextOf(material));
  }

  replace(material: TlsMaterial): void {
    this.updateSecureContextOptions(contextOf(material));
  }

  override _equals(other: grpc.ServerCredentials): boolean {
    return this === other;
  }
}

function contextOf({ cert, key, clientCa }: TlsMaterial): SecureContextOptions {
  return { cert, key, ...(clientCa ? { ca: clientCa } : {}) };
}

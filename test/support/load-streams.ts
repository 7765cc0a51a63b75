/** Both ends of streams of load reports over real sockets. */
import * as grpc from '@grpc/grpc-js';
import {
  decodeLoadStatsRequest,
  decodeLoadStatsResponse,
  encodeLoadStatsRequest,
  encodeLoadStatsResponse,
} from '../../protos/load-stats-codec.js';
import {
  LOAD_STATS_PATH,
  type ClusterLoad,
  type LoadStatsResponse,
} from '../../protos/load-stats.js';
import { encodeNode, readClientNode } from '../../protos/node-codec.js';
import type { StreamStatus } from './ads-call.js';
import type { Call, ScriptedUpstream } from './scripted-upstream.js';

const asBuffer = (bytes: Buffer): Buffer => bytes;

export interface LoadClientOptions {
  readonly id?: string;
  readonly userAgentName?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A client that reports what the test tells it to. */
export class LoadClient {
  readonly responses: LoadStatsResponse[] = [];
  status: StreamStatus | undefined;
  readonly #channel: grpc.Client;
  readonly #call: grpc.ClientDuplexStream<Buffer, Buffer>;

  constructor(
    port: number,
    { id = 'client', userAgentName = 'test', headers = {} }: LoadClientOptions = {},
  ) {
    const insecure = grpc.credentials.createInsecure();
    this.#channel = new grpc.Client(`127.0.0.1:${port}`, insecure, {
      'grpc.use_local_subchannel_pool': 1,
    });
    const metadata = new grpc.Metadata();
    for (const [key, value] of Object.entries(headers)) metadata.set(key, value);
    this.#call = this.#channel.makeBidiStreamRequest(LOAD_STATS_PATH, asBuffer, asBuffer, metadata);
    this.#call.on('error', () => undefined);
    this.#call.on('status', ({ code, details }: grpc.StatusObject) => {
      this.status = { code, details };
    });
    this.#call.on('data', (bytes: Buffer) => {
      const decoded = decodeLoadStatsResponse(bytes, 10_000);
      if (decoded.ok) this.responses.push(decoded.message);
    });
    const node = encodeNode({ id, cluster: 'c', userAgentName, userAgentVersion: '1' });
    this.#write({ node, clusters: [] });
  }

  report(...clusters: readonly ClusterLoad[]): void {
    this.#write({ node: undefined, clusters });
  }

  sendBytes(bytes: Uint8Array): void {
    this.#call.write(Buffer.from(bytes));
  }

  close(): void {
    this.#call.cancel();
    this.#channel.close();
  }

  #write(request: Parameters<typeof encodeLoadStatsRequest>[0]): void {
    this.sendBytes(encodeLoadStatsRequest(request));
  }
}

/** The load reporting service of a scripted upstream. It answers each stream with `ask`. */
export class LoadService {
  /** Of each stream so far, the id of the Node in its first request. */
  readonly nodeIds: string[] = [];
  readonly received: ClusterLoad[] = [];
  readonly #calls = new Set<Call>();
  #ask: LoadStatsResponse | undefined;

  constructor(upstream: ScriptedUpstream, ask?: LoadStatsResponse) {
    this.#ask = ask;
    upstream.onLoads = (call) => {
      this.#accept(call);
    };
  }

  get openCount(): number {
    return this.#calls.size;
  }

  /** Asks on each open and later stream. */
  ask(asked: LoadStatsResponse): void {
    this.#ask = asked;
    for (const call of this.#calls) call.write(Buffer.from(encodeLoadStatsResponse(asked)));
  }

  /** Ends all streams with a status that asks the gateway to come back. */
  endStreams(): void {
    for (const call of [...this.#calls]) {
      this.#calls.delete(call);
      call.emit('error', { code: grpc.status.UNAVAILABLE, details: 'restarting' });
    }
  }

  sendBytes(bytes: Uint8Array): void {
    for (const call of this.#calls) call.write(Buffer.from(bytes));
  }

  #accept(call: Call): void {
    this.#calls.add(call);
    call.on('cancelled', () => this.#calls.delete(call));
    call.on('end', () => {
      this.#calls.delete(call);
      call.end();
    });
    call.on('data', (bytes: Buffer) => {
      const decoded = decodeLoadStatsRequest(bytes, 100_000);
      if (!decoded.ok) throw new Error(decoded.reason);
      const { node, clusters } = decoded.message;
      if (node) this.nodeIds.push(readClientNode(node).id);
      this.received.push(...clusters);
    });
    if (this.#ask) call.write(Buffer.from(encodeLoadStatsResponse(this.#ask)));
  }
}

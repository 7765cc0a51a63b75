import * as grpc from '@grpc/grpc-js';

import { decodeDeltaResponse, encodeDeltaRequest } from '../../protos/delta-codec.js';
import type { DeltaRequest, DeltaResponse } from '../../protos/discovery.js';
import { until, type UntilOptions } from './until.js';

export interface DeltaClientOptions {
  /** Of the server, on loopback. */
  readonly port: number;
  /** Members of globs, too, are named with their versions on a new stream (Envoy names only singletons). */
  readonly resumesMembers?: boolean;
}

export interface StreamStatus {
  readonly code: number;
  readonly details: string;
}

const adsPath = '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources';
const asBuffer = (bytes: Buffer): Buffer => bytes;
const mostResources = 1_000_000;

const nothing: DeltaRequest = {
  node: undefined,
  typeUrl: '',
  subscribe: [],
  unsubscribe: [],
  initialVersions: new Map(),
  responseNonce: '',
  errorDetail: undefined,
};

/** One stream of a {@link DeltaClient}, and all that came on it. */
interface Stream {
  readonly channel: grpc.Client;
  readonly call: grpc.ClientDuplexStream<Buffer, Buffer>;
  readonly responses: DeltaResponse[];
  status: StreamStatus | undefined;
}

/**
 * A delta ADS client over a real connection: the witness of what a server puts on the wire. It
 * acknowledges every response at once, keeps what it was told over its streams, and resumes with it.
 */
export class DeltaClient {
  readonly #options: DeltaClientOptions;
  /** By type URL. */
  readonly #asked = new Map<string, Set<string>>();
  readonly #held = new Map<string, Map<string, string>>();
  #stream: Stream;

  constructor(options: DeltaClientOptions) {
    this.#options = options;
    this.#stream = this.#open();
  }

  /** Of the present stream, oldest first. */
  get responses(): readonly DeltaResponse[] {
    return this.#stream.responses;
  }

  /** How the present stream ended, or `undefined` while it lives. */
  get status(): StreamStatus | undefined {
    return this.#stream.status;
  }

  /** Versions by name of what is held of a type. */
  held(typeUrl: string): ReadonlyMap<string, string> {
    return this.#held.get(typeUrl) ?? new Map<string, string>();
  }

  /** Names of resources that came with a body on the present stream, in order, repetitions too. */
  bodies(typeUrl?: string): readonly string[] {
    return this.responses
      .filter((response) => typeUrl === undefined || response.typeUrl === typeUrl)
      .flatMap(({ resources }) => resources.map(({ name }) => name));
  }

  removals(typeUrl: string): readonly string[] {
    return this.responses
      .filter((response) => response.typeUrl === typeUrl)
      .flatMap(({ removed }) => removed);
  }

  errors(): readonly { readonly name: string; readonly code: number }[] {
    return this.responses.flatMap(({ errors }) =>
      errors.map(({ name, status }) => ({ name, code: status.code })),
    );
  }

  subscribe(typeUrl: string, names: readonly string[]): void {
    const asked = this.#asked.get(typeUrl) ?? new Set();
    this.#asked.set(typeUrl, asked);
    for (const name of names) asked.add(name);
    this.send({ typeUrl, subscribe: names });
  }

  send(request: Partial<DeltaRequest>): void {
    this.sendBytes(encodeDeltaRequest({ ...nothing, ...request }));
  }

  /** Whatever they are. */
  sendBytes(bytes: Uint8Array): void {
    this.#stream.call.write(Buffer.from(bytes));
  }

  /** A new stream on a new connection, on which everything is asked again. */
  reopen(): void {
    this.close();
    this.#stream = this.#open();
    for (const [typeUrl, names] of this.#asked) {
      const versions = [...this.held(typeUrl)].filter(
        ([name]) => this.#options.resumesMembers === true || names.has(name),
      );
      this.send({ typeUrl, subscribe: [...names], initialVersions: new Map(versions) });
    }
  }

  /** {@link reopen}, as often as it takes. */
  async reconnect(options: UntilOptions = {}): Promise<void> {
    this.reopen();
    await until(
      'the server answers the new stream',
      () => {
        if (this.status !== undefined) this.reopen();
        return this.responses.length > 0;
      },
      options,
    );
  }

  close(): void {
    this.#stream.call.cancel();
    this.#stream.channel.close();
  }

  #open(): Stream {
    const address = `127.0.0.1:${this.#options.port}`;
    const channel = new grpc.Client(address, grpc.credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
      'grpc.max_receive_message_length': -1,
      'grpc.max_send_message_length': -1,
    });
    const call = channel.makeBidiStreamRequest(adsPath, asBuffer, asBuffer, new grpc.Metadata());
    const stream: Stream = { channel, call, responses: [], status: undefined };
    call.on('error', () => undefined);
    call.on('status', ({ code, details }: grpc.StatusObject) => {
      stream.status = { code, details };
    });
    call.on('data', (bytes: Buffer) => {
      if (stream === this.#stream) this.#take(bytes);
    });
    return stream;
  }

  #take(bytes: Buffer): void {
    const decoded = decodeDeltaResponse(bytes, mostResources);
    if (!decoded.ok) throw new Error(`the server sent what is no response: ${decoded.reason}`);
    const { typeUrl, nonce, resources, removed } = decoded.message;
    this.#stream.responses.push(decoded.message);
    const held = this.#held.get(typeUrl) ?? new Map<string, string>();
    this.#held.set(typeUrl, held);
    for (const { name, version } of resources) held.set(name, version);
    for (const name of removed) held.delete(name);
    this.send({ typeUrl, responseNonce: nonce });
  }
}

import { decodeDeltaResponse, encodeDeltaRequest } from '../../protos/delta-codec.js';
import type { DeltaRequest, DeltaResponse } from '../../protos/discovery.js';
import { openAdsCall, type AdsCall, type AdsCallOptions, type StreamStatus } from './ads-call.js';
import { until, type UntilOptions } from './until.js';

export interface DeltaClientOptions {
  /** The port of the server, on loopback. */
  readonly port: number;
  /** `/SERVICE/METHOD`; default: ADS. */
  readonly path?: string;
  /** Resumes members of globs, too, with their versions (Envoy resumes only singletons). */
  readonly resumesMembers?: boolean;
  /** The HTTP/2 window; default: the initial 64 KiB. */
  readonly windowBytes?: number;
  /** Headers of each stream. */
  readonly headers?: AdsCallOptions['headers'];
  readonly credentials?: AdsCallOptions['credentials'];
  /** The encoded Node of the first request of each stream. Default: none. */
  readonly node?: Uint8Array;
}

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

/** One stream of a {@link DeltaClient}, and all its responses. */
interface Stream {
  /** Whether a request of the stream carried the Node. */
  hasNode: boolean;
  readonly call: AdsCall;
  readonly responses: DeltaResponse[];
}

/**
 * A delta ADS client over a real connection that records everything the server sends. It ACKs every
 * response at once, keeps the content of its streams, and resumes with it.
 */
export class DeltaClient {
  #options: DeltaClientOptions;
  /** By type URL. */
  readonly #asked = new Map<string, Set<string>>();
  readonly #held = new Map<string, Map<string, string>>();
  readonly #content = new Map<string, Map<string, Uint8Array>>();
  #stream: Stream;

  constructor(options: DeltaClientOptions) {
    this.#options = options;
    this.#stream = this.#open();
  }

  /** Responses of the current stream, oldest first. */
  get responses(): readonly DeltaResponse[] {
    return this.#stream.responses;
  }

  /** How the current stream ended, or `undefined` while it is open. */
  get status(): StreamStatus | undefined {
    return this.#stream.call.status;
  }

  /** Versions of held resources of a type, by name. */
  held(typeUrl: string): ReadonlyMap<string, string> {
    return this.#held.get(typeUrl) ?? new Map<string, string>();
  }

  /** Bodies of held resources of a type, by name. */
  content(typeUrl: string): ReadonlyMap<string, Uint8Array> {
    return this.#content.get(typeUrl) ?? new Map<string, Uint8Array>();
  }

  /** Names of resources with a body on the current stream, in order, with repetitions. */
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
    const node = this.#stream.hasNode ? undefined : this.#options.node;
    this.#stream.hasNode = true;
    this.sendBytes(encodeDeltaRequest({ ...nothing, node, ...request }));
  }

  /** Sends any bytes. */
  sendBytes(bytes: Uint8Array): void {
    this.#stream.call.write(bytes);
  }

  /** Opens a new stream on a new connection, and subscribes everything again. */
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

  /** {@link reopen} with other headers. */
  reopenWith(headers: NonNullable<DeltaClientOptions['headers']>): void {
    this.#options = { ...this.#options, headers };
    this.reopen();
  }

  /** {@link reopen}, as often as necessary. */
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

  /** Drops all responses but the last one. */
  forget(): void {
    this.#stream.responses.splice(0, this.#stream.responses.length - 1);
  }

  close(): void {
    this.#stream.call.close();
  }

  #open(): Stream {
    const { port, path, windowBytes, headers, credentials } = this.#options;
    const call = openAdsCall({
      port,
      method: 'DeltaAggregatedResources',
      ...(path === undefined ? {} : { path }),
      ...(windowBytes === undefined ? {} : { windowBytes }),
      ...(headers === undefined ? {} : { headers }),
      ...(credentials === undefined ? {} : { credentials }),
      onMessage: (bytes) => {
        if (stream === this.#stream) this.#take(bytes);
      },
    });
    const stream: Stream = { hasNode: false, call, responses: [] };
    return stream;
  }

  #take(bytes: Buffer): void {
    const decoded = decodeDeltaResponse(bytes, mostResources);
    if (!decoded.ok)
      throw new Error(
        `the server sent a message that is not a DeltaDiscoveryResponse: ${decoded.reason}`,
      );
    const { typeUrl, nonce, resources, removed } = decoded.message;
    this.#stream.responses.push(decoded.message);
    const held = this.#held.get(typeUrl) ?? new Map<string, string>();
    this.#held.set(typeUrl, held);
    const content = this.#content.get(typeUrl) ?? new Map<string, Uint8Array>();
    this.#content.set(typeUrl, content);
    for (const { name, version, body } of resources) {
      held.set(name, version);
      if (body) content.set(name, body);
    }
    for (const name of removed) {
      held.delete(name);
      content.delete(name);
    }
    this.send({ typeUrl, responseNonce: nonce });
  }
}

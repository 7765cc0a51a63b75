/** A state-of-the-world ADS client over a real connection that ACKs everything at once. */
import { openAdsCall, type AdsCall, type StreamStatus } from './ads-call.js';
import { decodeSotwResponse, encodeSotwRequest, type SotwResponse } from './discovery-messages.js';

export interface SotwClientOptions {
  /** The port of the server, on loopback. */
  readonly port: number;
  /** `/SERVICE/METHOD`; default: ADS. */
  readonly path?: string;
  /** An encoded Node, sent with the first request. */
  readonly node?: Uint8Array;
  /** The HTTP/2 window; default: the initial 64 KiB. */
  readonly windowBytes?: number;
  /** The limit of one message; default: none. */
  readonly maxMessageBytes?: number;
}

export class SotwClient {
  readonly #call: AdsCall;
  readonly #asked = new Map<string, readonly string[]>();
  readonly responses: SotwResponse[] = [];
  #node: Uint8Array | undefined;

  constructor({ node, ...connection }: SotwClientOptions) {
    this.#node = node;
    this.#call = openAdsCall({
      ...connection,
      method: 'StreamAggregatedResources',
      onMessage: (bytes) => {
        this.#take(decodeSotwResponse(bytes));
      },
    });
  }

  /** How the stream ended, or `undefined` while it is open. */
  get status(): StreamStatus | undefined {
    return this.#call.status;
  }

  /** Subscribes exactly these names of the type from now on. */
  subscribe(typeUrl: string, names: readonly string[]): void {
    this.#asked.set(typeUrl, names);
    this.#request(typeUrl, {});
  }

  /** ACKs the response with this nonce, whether it arrived or not. */
  acknowledge(typeUrl: string, nonce: string, versionInfo = ''): void {
    this.#request(typeUrl, { response_nonce: nonce, version_info: versionInfo });
  }

  /** Drops all responses but the last one. */
  forget(): void {
    this.responses.splice(0, this.responses.length - 1);
  }

  close(): void {
    this.#call.close();
  }

  #take(response: SotwResponse): void {
    this.responses.push(response);
    this.acknowledge(response.typeUrl, response.nonce, response.versionInfo);
  }

  #request(typeUrl: string, fields: Readonly<Record<string, unknown>>): void {
    const resource_names = this.#asked.get(typeUrl);
    const bytes = encodeSotwRequest({ type_url: typeUrl, resource_names, ...fields });
    this.#call.write(this.#node ? Buffer.concat([bytes, this.#nodeField(this.#node)]) : bytes);
    this.#node = undefined;
  }

  /** The field as raw bytes: the available .proto files lack some of a Node's fields. */
  #nodeField(node: Uint8Array): Buffer {
    if (node.length > 0x7f) throw new Error('a Node of more than 127 bytes');
    return Buffer.concat([Buffer.from([0x12, node.length]), node]);
  }
}

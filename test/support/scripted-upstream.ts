import * as grpc from '@grpc/grpc-js';

import { LOAD_STATS_PATH } from '../../protos/load-stats.js';
import { bytesMethod, DELTA_ADS_PATH } from './bytes-method.js';
import {
  decodeRequest,
  encodeResponse,
  type SentResource,
  type SentResponse,
} from './discovery-messages.js';
import { freePort } from './free-port.js';

const definition: grpc.ServiceDefinition = {
  ads: bytesMethod(DELTA_ADS_PATH),
  loads: bytesMethod(LOAD_STATS_PATH),
};

export type Call = grpc.ServerDuplexStream<Buffer, Buffer>;

/**
 * A management server on a real port that behaves correctly until the test makes it send something
 * else: any bytes, at any time.
 */
export class ScriptedUpstream {
  readonly #server: grpc.Server;
  /** By type URL and name. */
  readonly #content = new Map<string, Map<string, SentResource>>();
  /** Open streams, and the subscribed names of each, by type URL. */
  readonly #streams = new Map<Call, Map<string, Set<string>>>();
  readonly #nacks: string[] = [];
  #port = 0;
  #nonces = 0;
  #opened = 0;
  /** Types for which it ends the stream of a client that requests them, as go-control-plane's MuxCache does. */
  readonly unserved = new Set<string>();
  /** Takes the streams of load reports. Absent: they are UNIMPLEMENTED. */
  onLoads: ((call: Call) => void) | undefined;

  private constructor() {
    this.#server = new grpc.Server({ 'grpc.max_send_message_length': -1 });
    this.#server.addService(definition, {
      ads: (call: Call) => {
        this.#accept(call);
      },
      loads: (call: Call) => {
        call.on('error', () => undefined);
        if (this.onLoads) this.onLoads(call);
        else call.emit('error', { code: grpc.status.UNIMPLEMENTED, details: 'unknown service' });
      },
    });
  }

  /**
   * @param port default: a free one
   * @param credentials default: plaintext
   */
  static async start(
    port?: number,
    credentials = grpc.ServerCredentials.createInsecure(),
  ): Promise<ScriptedUpstream> {
    const upstream = new ScriptedUpstream();
    const chosen = port ?? (await freePort());
    upstream.#port = await new Promise((resolve, reject) => {
      upstream.#server.bindAsync(`127.0.0.1:${chosen}`, credentials, (error, bound) => {
        if (error) reject(error);
        else resolve(bound);
      });
    });
    return upstream;
  }

  get port(): number {
    return this.#port;
  }

  /** The number of streams so far. */
  get opened(): number {
    return this.#opened;
  }

  /** The messages of all NACKs so far. */
  get nacks(): readonly string[] {
    return this.#nacks;
  }

  /** Whether an open stream subscribes it. */
  isAsked(typeUrl: string, name: string): boolean {
    return [...this.#streams.values()].some((asked) => asked.get(typeUrl)?.has(name));
  }

  /** Adds or replaces a resource, and announces it on every stream that subscribes it. */
  put(typeUrl: string, name: string, body: Uint8Array): void {
    const resources = [this.putQuietly(typeUrl, name, body)];
    this.#tell(typeUrl, name, { typeUrl, resources });
  }

  /** Deletes a resource, and announces that on every stream that subscribes it. */
  delete(typeUrl: string, name: string): void {
    this.#contentOf(typeUrl).delete(name);
    this.#tell(typeUrl, name, { typeUrl, removed: [name] });
  }

  /** Adds or replaces a resource without announcing it; later requests get it. */
  putQuietly(typeUrl: string, name: string, body: Uint8Array): SentResource {
    const resource = { name, version: `v${++this.#nonces}`, body };
    this.#contentOf(typeUrl).set(name, resource);
    return resource;
  }

  /** Sends a response of any content on every open stream. */
  respond(response: Omit<SentResponse, 'nonce'>): void {
    for (const call of this.#streams.keys()) this.#respond(call, response);
  }

  /** Sends one message of any bytes on every open stream. */
  sendBytes(bytes: Uint8Array): void {
    for (const call of this.#streams.keys()) call.write(Buffer.from(bytes));
  }

  stop(): Promise<void> {
    this.#server.forceShutdown();
    return Promise.resolve();
  }

  #accept(call: Call): void {
    this.#opened += 1;
    this.#streams.set(call, new Map());
    const gone = (): void => {
      this.#streams.delete(call);
    };
    call.on('error', gone);
    call.on('cancelled', gone);
    call.on('end', () => {
      gone();
      call.end();
    });
    call.on('data', (bytes: Buffer) => {
      this.#answer(call, bytes);
    });
  }

  #answer(call: Call, bytes: Buffer): void {
    const { typeUrl, subscribe, unsubscribe, initialVersions, error } = decodeRequest(bytes);
    if (this.unserved.has(typeUrl)) {
      call.emit('error', { code: grpc.status.UNKNOWN, details: `no cache defined for ${typeUrl}` });
      return;
    }
    if (error !== undefined) this.#nacks.push(error.message);
    const asked = this.#streams.get(call);
    if (asked === undefined) return;
    const names = asked.get(typeUrl) ?? new Set();
    asked.set(typeUrl, names);
    for (const name of subscribe) names.add(name);
    for (const name of unsubscribe) names.delete(name);
    if (subscribe.length === 0) return;
    const content = this.#contentOf(typeUrl);
    const byGlob = new Map<string, SentResource[]>();
    for (const each of content.values()) {
      const glob = globOf(each.name);
      const members = byGlob.get(glob) ?? [];
      if (members.push(each) === 1) byGlob.set(glob, members);
    }
    const found = (name: string): readonly SentResource[] => {
      const resource = content.get(name);
      return byGlob.get(name) ?? (resource ? [resource] : []);
    };
    // A client that resumes learns what was deleted meanwhile.
    const resumed = Object.keys(initialVersions).filter((name) => subscribe.includes(globOf(name)));
    const gone = resumed.filter((name) => !content.has(name));
    this.#respond(call, {
      typeUrl,
      // A name may be subscribed by itself and as a member.
      resources: [...new Set(subscribe.flatMap(found))],
      removed: [...new Set([...subscribe.filter((name) => found(name).length === 0), ...gone])],
    });
  }

  #tell(typeUrl: string, name: string, response: Omit<SentResponse, 'nonce'>): void {
    const glob = globOf(name);
    for (const [call, asked] of this.#streams) {
      const names = asked.get(typeUrl);
      if (names?.has(name) === true || names?.has(glob) === true) this.#respond(call, response);
    }
  }

  #respond(call: Call, response: Omit<SentResponse, 'nonce'>): void {
    call.write(Buffer.from(encodeResponse({ ...response, nonce: `n${++this.#nonces}` })));
  }

  #contentOf(typeUrl: string): Map<string, SentResource> {
    const known = this.#content.get(typeUrl) ?? new Map<string, SentResource>();
    this.#content.set(typeUrl, known);
    return known;
  }
}

const globOf = (name: string): string => `${name.slice(0, name.lastIndexOf('/'))}/*`;

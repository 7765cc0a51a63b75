import * as grpc from '@grpc/grpc-js';
import protobuf from 'protobufjs/minimal.js';

import { resourceFromJson } from '../../../protos/json-resources.js';
import { bytesMethod, DELTA_ADS_PATH } from '../../support/bytes-method.js';
import {
  decodeRequest,
  encodeResponse,
  type ReceivedRequest,
  type SentResource,
  type SentResponse,
} from '../../support/discovery-messages.js';
import { freePort } from '../../support/free-port.js';
import { TYPE_URLS, type MeshResource } from '../../support/mesh.js';
import { pause } from '../../support/until.js';

/** How the server answers collections (globs and the wildcard). It answers names at once. */
export interface Script {
  /** The number of messages for the answer of a collection. Default 1. */
  readonly pieces?: number;
  /** The time between two of them. Default 0. */
  readonly gapMs?: number;
  /** Once: after this many messages of clusters the server ends the stream (UNAVAILABLE). */
  readonly cutAfterPieces?: number;
  /**
   * After a start the server has no resources yet: it answers with empty responses, or not at all. Or it has all but the
   * endpoints, and answers with assignments that have none.
   */
  readonly atFirst?: {
    readonly answers: 'empty' | 'silence' | 'no endpoints';
    readonly forMs: number;
  };
}

interface Published {
  readonly typeUrl: string;
  readonly sent: SentResource;
}

interface Stream {
  readonly call: grpc.ServerDuplexStream<Buffer, Buffer>;
  /** Names, globs and the wildcard, by type URL. */
  readonly asked: Map<string, Set<string>>;
  isOpen: boolean;
}

const definition: grpc.ServiceDefinition = { ads: bytesMethod(DELTA_ADS_PATH) };

const wildcard = '*';
const isCollection = (name: string): boolean => name === wildcard || name.endsWith('/*');
const isMember = (name: string, collection: string): boolean =>
  collection === wildcard
    ? !name.startsWith('xdstp:')
    : name.slice(0, name.lastIndexOf('/') + 1) === collection.slice(0, -1);

/**
 * A delta ADS server with the resources and the timing that a test sets. It keeps its resources and
 * its port while it is down.
 */
export class ScriptedControlPlane {
  readonly #resources = new Map<string, Published>();
  readonly #unanswered = new Set<string>();
  readonly #streams = new Set<Stream>();
  #server: grpc.Server | undefined;
  #script: Script = {};
  #port = 0;
  #isAtFirst = false;
  #publishing: NodeJS.Timeout | undefined;
  #cutsLeft = 0;
  #counter = 0;

  static async start(resources: readonly MeshResource[] = []): Promise<ScriptedControlPlane> {
    const plane = new ScriptedControlPlane();
    for (const resource of resources) plane.put(resource);
    await plane.restart();
    return plane;
  }

  get port(): number {
    return this.#port;
  }

  /** 1 until the server has cut the stream as {@link Script.cutAfterPieces} requires. */
  get cutsLeft(): number {
    return this.#cutsLeft;
  }

  /**
   * From now on the server answers collections by this script. Answers in progress continue
   * unchanged.
   */
  play(script: Script): void {
    this.#script = script;
    this.#cutsLeft = script.cutAfterPieces === undefined ? 0 : 1;
  }

  /** Adds or replaces a resource and announces it on every stream that subscribes it. */
  put(resource: MeshResource): void {
    const { name, typeUrl, json } = resource;
    const encoded = resourceFromJson(json);
    if (!encoded.ok) throw new Error(`${name}: ${encoded.path.join('.')}: ${encoded.message}`);
    const sent = { name, version: `v${++this.#counter}`, body: encoded.body };
    this.#resources.set(`${typeUrl} ${name}`, { typeUrl, sent });
    this.#tell(typeUrl, name, { typeUrl, resources: [sent] });
  }

  /** Deletes a resource and announces that on every stream that subscribes it. */
  delete(typeUrl: string, name: string): void {
    this.#resources.delete(`${typeUrl} ${name}`);
    this.#tell(typeUrl, name, { typeUrl, removed: [name] });
  }

  /** Requests for this name get no response, not even its removal. */
  neverAnswer(name: string): void {
    this.#unanswered.add(name);
  }

  /** Ends all connections. The port is closed until {@link restart}. */
  crash(): void {
    clearTimeout(this.#publishing);
    for (const stream of this.#streams) stream.isOpen = false;
    this.#streams.clear();
    this.#server?.forceShutdown();
    this.#server = undefined;
  }

  /** Starts a new server on the same port, with the same resources. */
  async restart(script: Script = {}): Promise<void> {
    this.play(script);
    const server = new grpc.Server();
    server.addService(definition, {
      ads: (call: grpc.ServerDuplexStream<Buffer, Buffer>) => {
        this.#accept(call);
      },
    });
    this.#port ||= await freePort();
    await bind(server, this.#port);
    this.#server = server;
    const { atFirst } = script;
    this.#isAtFirst = atFirst !== undefined;
    if (atFirst !== undefined) {
      this.#publishing = setTimeout(() => {
        this.#publish();
      }, atFirst.forMs);
    }
  }

  stop(): Promise<void> {
    this.crash();
    return Promise.resolve();
  }

  #publish(): void {
    this.#isAtFirst = false;
    for (const stream of this.#streams) {
      for (const [typeUrl, names] of stream.asked) this.#answer(stream, typeUrl, [...names], {});
    }
  }

  #accept(call: grpc.ServerDuplexStream<Buffer, Buffer>): void {
    const stream: Stream = { call, asked: new Map(), isOpen: true };
    this.#streams.add(stream);
    const gone = (): void => {
      stream.isOpen = false;
      this.#streams.delete(stream);
    };
    call.on('error', gone);
    call.on('cancelled', gone);
    call.on('end', () => {
      gone();
      call.end();
    });
    call.on('data', (bytes: Buffer) => {
      this.#take(stream, decodeRequest(bytes));
    });
  }

  #take(stream: Stream, request: ReceivedRequest): void {
    const { typeUrl, subscribe, unsubscribe, initialVersions } = request;
    const isFirst = !stream.asked.has(typeUrl);
    const asked = stream.asked.get(typeUrl) ?? new Set();
    stream.asked.set(typeUrl, asked);
    const names = isFirst && subscribe.length === 0 ? [wildcard] : subscribe;
    for (const name of names) asked.add(name);
    for (const name of unsubscribe) asked.delete(name);
    this.#answer(stream, typeUrl, names, initialVersions);
  }

  #answer(
    stream: Stream,
    typeUrl: string,
    names: readonly string[],
    heldVersions: Readonly<Record<string, string>>,
  ): void {
    if (this.#isAtFirst && this.#script.atFirst?.answers === 'silence') return;
    const ofType = this.#ofType(typeUrl);
    const isDue = ({ name, version }: SentResource): boolean => heldVersions[name] !== version;
    const exists = (name: string): boolean => ofType.some((each) => each.name === name);

    const singles = names.filter((name) => !isCollection(name) && !this.#unanswered.has(name));
    const resources = ofType.filter((each) => singles.includes(each.name) && isDue(each));
    const removed = singles.filter((name) => !exists(name));
    if (resources.length + removed.length > 0) this.#send(stream, { typeUrl, resources, removed });

    for (const collection of names.filter(isCollection)) {
      const members = ofType.filter(({ name }) => isMember(name, collection));
      const gone = Object.keys(heldVersions)
        .filter((name) => isMember(name, collection))
        .filter((name) => !exists(name));
      const isEmptyGlob = members.length === 0 && collection !== wildcard;
      const due = members.filter(isDue);
      const isCurrent = members.length > 0 && due.length === 0 && gone.length === 0;
      const withoutMembers = { typeUrl, removed: isEmptyGlob ? [...gone, collection] : gone };
      if (isCurrent) continue;
      if (due.length === 0 || gone.length > 0) this.#send(stream, withoutMembers);
      void this.#sendInPieces(stream, typeUrl, due);
    }
  }

  /** What the server has at present. */
  #ofType(typeUrl: string): readonly SentResource[] {
    const all = [...this.#resources.values()];
    const ofType = all.filter((each) => each.typeUrl === typeUrl).map(({ sent }) => sent);
    if (!this.#isAtFirst) return ofType;
    if (this.#script.atFirst?.answers !== 'no endpoints') return [];
    return typeUrl === TYPE_URLS.assignment ? ofType.map(withoutEndpoints) : ofType;
  }

  async #sendInPieces(stream: Stream, typeUrl: string, members: readonly SentResource[]) {
    const { pieces = 1, gapMs = 0, cutAfterPieces } = this.#script;
    const size = Math.ceil(members.length / pieces);
    for (let at = 0, sent = 0; at < members.length; at += size) {
      if (at > 0) await pause(gapMs);
      if (!stream.isOpen) return;
      this.#send(stream, { typeUrl, resources: members.slice(at, at + size) });
      sent += 1;
      if (typeUrl === TYPE_URLS.cluster && sent === cutAfterPieces && this.#cutsLeft > 0) {
        this.#cutsLeft -= 1;
        stream.call.emit('error', { code: grpc.status.UNAVAILABLE, details: 'cut by the test' });
      }
    }
  }

  #tell(typeUrl: string, name: string, response: Omit<SentResponse, 'nonce'>): void {
    if (this.#isAtFirst) return;
    for (const stream of this.#streams) {
      const asked = [...(stream.asked.get(typeUrl) ?? [])];
      if (asked.some((each) => each === name || (isCollection(each) && isMember(name, each)))) {
        this.#send(stream, response);
      }
    }
  }

  #send({ call }: Stream, response: Omit<SentResponse, 'nonce'>): void {
    call.write(Buffer.from(encodeResponse({ ...response, nonce: `n${++this.#counter}` })));
  }
}

/** A ClusterLoadAssignment with its name alone (field 1). */
const withoutEndpoints = ({ name }: SentResource): SentResource => ({
  name,
  version: 'without endpoints',
  body: protobuf.Writer.create().uint32(0x0a).string(name).finish(),
});

function bind(server: grpc.Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const credentials = grpc.ServerCredentials.createInsecure();
    server.bindAsync(`127.0.0.1:${port}`, credentials, (error) => {
      if (error) reject(error);
      else resolve();
    });
  });
}

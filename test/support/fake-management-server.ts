/**
 * A management server in memory, without IO or time: it takes the bytes of requests and returns the
 * bytes of responses, as a correct delta server does. The test switches its faults on. It leaves locators (TP2) to the test.
 */
import {
  decodeRequest,
  encodeResponse,
  type ReceivedRequest,
  type SentResponse,
} from './discovery-messages.js';

export interface PublishedResource {
  readonly version: string;
  readonly body: Uint8Array;
  /** The type of its Any, when it differs from the published type: a redirect. */
  readonly bodyTypeUrl?: string;
}

/** `refuse`: connecting fails. `black_hole`: connections hang, and so do open streams. */
export type Reachability = 'up' | 'refuse' | 'black_hole';

interface TypeState {
  readonly names: Set<string>;
  readonly known: Map<string, string>;
}

/** By node id; empty: for every node. */
type ByNode = Map<string, PublishedResource>;

/** One stream, from the server's side. It writes to `write`. */
export class FakeStream {
  readonly #server: FakeManagementServer;
  readonly #write: (bytes: Uint8Array) => void;
  readonly #types = new Map<string, TypeState>();
  readonly requests: ReceivedRequest[] = [];
  #nodeId = '';
  /** Nonces in the order of their ACKs and NACKs. */
  readonly acks: { readonly nonce: string; readonly error: string | undefined }[] = [];

  constructor(server: FakeManagementServer, write: (bytes: Uint8Array) => void) {
    this.#server = server;
    this.#write = write;
  }

  /** Names that are subscribed now, sorted. */
  subscribed(typeUrl: string): readonly string[] {
    return [...(this.#types.get(typeUrl)?.names ?? [])].sort();
  }

  receive(bytes: Uint8Array): void {
    if (this.#server.isDeaf) return;
    const request = decodeRequest(bytes);
    this.requests.push(request);
    if (request.hasNode) this.#nodeId = request.nodeId;
    if (request.nonce !== '') {
      this.acks.push({ nonce: request.nonce, error: request.error?.message });
    }
    if (this.#server.reachability === 'black_hole') return;
    const { typeUrl, subscribe, unsubscribe } = request;
    const state = this.#state(typeUrl);
    const initial = new Map(Object.entries(request.initialVersions));
    for (const [name, version] of initial) state.known.set(name, version);
    for (const name of unsubscribe) this.#leave(state, name);
    const due = new Set<string>();
    const removed = new Set<string>();
    const hasLocators = request.locators.length + request.locatorsLeft.length > 0;
    const isFirst =
      request.nonce === '' && state.names.size === 0 && unsubscribe.length === 0 && !hasLocators;
    const asked = subscribe.length === 0 && isFirst ? [WILDCARD] : subscribe;
    for (const name of asked) {
      state.names.add(name);
      this.#ask(typeUrl, name, state, initial, due, removed);
    }
    // A wildcard without resources is answered by an empty response.
    const isOwed = asked.includes(WILDCARD) && !this.#server.stalled.has(WILDCARD);
    if (due.size > 0 || removed.size > 0 || isOwed) this.push(typeUrl, [...due], [...removed]);
  }

  get nodeId(): string {
    return this.#nodeId;
  }

  /**
   * Sends the current state of these names. A server that has not answered a glob sends no updates of its members: an
   * update would pass for the answer.
   */
  announce(typeUrl: string, names: readonly string[]): void {
    const { stalled } = this.#server;
    const isOpen = (name: string): boolean =>
      this.#types.get(typeUrl)?.names.has(name) === true || !stalled.has(globOf(name));
    const wanted = names.filter((name) => this.wants(typeUrl, name) && isOpen(name));
    const gone = wanted.filter((name) => !this.#server.get(typeUrl, name, this.#nodeId));
    if (wanted.length > 0) this.push(typeUrl, wanted, gone);
  }

  /** Sends these resources in their current state, and these removals. */
  push(typeUrl: string, names: readonly string[], removed: readonly string[]): void {
    const { known } = this.#state(typeUrl);
    const resources = names.flatMap((name) => {
      const resource = this.#server.get(typeUrl, name, this.#nodeId);
      if (!resource) return [];
      known.set(name, resource.version);
      const { version, body, bodyTypeUrl } = resource;
      return [{ name, version, body, ...(bodyTypeUrl && { typeUrl: bodyTypeUrl }) }];
    });
    for (const name of removed) known.delete(name);
    this.send({ typeUrl, nonce: this.#server.nextNonce(), resources, removed });
  }

  /** Sends any response, even one that no correct server would send. */
  send(response: SentResponse): void {
    if (this.#server.reachability !== 'black_hole') this.#write(encodeResponse(response));
  }

  /** Sends any bytes. */
  sendBytes(bytes: Uint8Array): void {
    this.#write(bytes);
  }

  wants(typeUrl: string, name: string): boolean {
    const names = this.#types.get(typeUrl)?.names;
    return names !== undefined && (names.has(name) || names.has(globOf(name)));
  }

  #ask(
    typeUrl: string,
    name: string,
    { known }: TypeState,
    initial: ReadonlyMap<string, string>,
    due: Set<string>,
    removed: Set<string>,
  ): void {
    if (this.#server.stalled.has(name)) return;
    if (!isGlob(name)) {
      const version = this.#server.get(typeUrl, name, this.#nodeId)?.version;
      if (version === undefined) removed.add(name);
      else if (initial.get(name) !== version) due.add(name);
      return;
    }
    const members = this.#server
      .names(typeUrl)
      .filter((member) => globOf(member) === name)
      .filter((member) => this.#server.get(typeUrl, member, this.#nodeId) !== undefined);
    for (const member of members) {
      const version = this.#server.get(typeUrl, member, this.#nodeId)?.version;
      if (initial.get(member) !== version) due.add(member);
    }
    for (const member of known.keys()) {
      if (globOf(member) === name && !members.includes(member)) removed.add(member);
    }
    if (members.length === 0 && name !== WILDCARD) removed.add(name);
  }

  #leave({ names, known }: TypeState, name: string): void {
    names.delete(name);
    for (const member of [...known.keys()]) {
      const left = member === name || (isGlob(name) && globOf(member) === name);
      if (left && !names.has(member) && !names.has(globOf(member))) known.delete(member);
    }
  }

  #state(typeUrl: string): TypeState {
    let state = this.#types.get(typeUrl);
    if (!state) this.#types.set(typeUrl, (state = { names: new Set(), known: new Map() }));
    return state;
  }
}

export class FakeManagementServer {
  reachability: Reachability = 'up';
  /** The server ignores requests; the test sends the responses. */
  isDeaf = false;
  /** Names that the server does not answer. */
  readonly stalled = new Set<string>();
  readonly streams: FakeStream[] = [];
  readonly #resources = new Map<string, Map<string, { readonly byNode: ByNode }>>();
  #nonces = 0;
  #versions = 0;

  nextNonce(): string {
    return String(++this.#nonces);
  }

  /** The stream that was opened last. */
  get stream(): FakeStream {
    const stream = this.streams.at(-1);
    if (!stream) throw new Error('no stream was opened');
    return stream;
  }

  open(write: (bytes: Uint8Array) => void): FakeStream {
    const stream = new FakeStream(this, write);
    this.streams.push(stream);
    return stream;
  }

  /** The resource for a node: the one published for it alone, or else the one for every node. */
  get(typeUrl: string, name: string, nodeId = ''): PublishedResource | undefined {
    const resource = this.#resources.get(typeUrl)?.get(name);
    return resource?.byNode.get(nodeId) ?? resource?.byNode.get('');
  }

  names(typeUrl: string): readonly string[] {
    return [...(this.#resources.get(typeUrl)?.keys() ?? [])];
  }

  /** Publishes without notification: `announce` notifies the open stream. */
  set(
    typeUrl: string,
    name: string,
    body: string | Uint8Array,
    bodyTypeUrl?: string,
    nodeId = '',
  ): void {
    const type = this.#resources.get(typeUrl) ?? new Map<string, { readonly byNode: ByNode }>();
    this.#resources.set(typeUrl, type);
    const { byNode } = type.get(name) ?? { byNode: new Map() as ByNode };
    type.set(name, { byNode });
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    const version = `v${++this.#versions}`;
    byNode.set(nodeId, { version, body: bytes, ...(bodyTypeUrl !== undefined && { bodyTypeUrl }) });
  }

  /** Publishes for one node id alone. */
  setFor(nodeId: string, typeUrl: string, name: string, body: string): void {
    this.set(typeUrl, name, body, undefined, nodeId);
  }

  delete(typeUrl: string, name: string, nodeId = ''): void {
    const type = this.#resources.get(typeUrl);
    const byNode = type?.get(name)?.byNode;
    if (byNode?.delete(nodeId) === true && byNode.size === 0) type?.delete(name);
  }

  /** Sends the current state of these names on the last stream. */
  announce(typeUrl: string, ...names: readonly string[]): void {
    this.stream.announce(typeUrl, names);
  }
}

const WILDCARD = '*';
const isGlob = (name: string): boolean => name === WILDCARD || name.endsWith('/*');
const globOf = (name: string): string =>
  name.startsWith('xdstp:') ? `${name.slice(0, name.lastIndexOf('/'))}/*` : WILDCARD;

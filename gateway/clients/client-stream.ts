/**
 * The shell of one client stream: it decodes requests and writes responses at the pace at which the
 * client reads. The session decides on the protocol.
 */
import { isDeepStrictEqual } from 'node:util';
import {
  PORTION_MS,
  type ClientCertificate,
  type ClientIdentity,
} from '../../authorities/index.js';
import type { ClientRule, OldStyleSpec } from '../../config/model.js';
import { STATUS_CODE, type Decoded, type RpcStatus } from '../../protos/discovery.js';
import type { Chunks } from '../../protos/discovery-fields.js';
import type { DiscoveryService } from '../../protos/discovery-services.js';
import type { EncodedResponse } from '../core/cache/shared-responses.js';
import type { ClientScope } from '../core/session/asked-name.js';
import type { GroupStays, StayingStream } from '../core/session/group-stays.js';
import { maxMessageBytesOf, type MaxMessage } from '../core/session/message-limit.js';
import {
  clientScopeOf,
  type GroupedNode,
  type NodeGroupRoom,
} from '../core/session/client-scope.js';
import { ANONYMOUS, type Requester } from '../core/rights/requester.js';
import type { ClientPast, PastCollections } from '../core/rights/past-collections.js';
import { rightsOf, verdictOf, type Judge, type Rights } from '../core/rights/rights.js';
import type { SessionEvent, StreamSession } from '../core/session/stream-session.js';
import { statusOfUnreadable, typedRequest } from '../core/session/request-checks.js';
import type { PeerAccount } from '../core/quotas/quotas.js';
import type { FirstSync } from '../core/quotas/first-syncs.js';
import { StreamNames } from '../core/quotas/stream-names.js';
import {
  CREDENTIALS_REFUSED,
  INTERNAL_ERROR,
  OLD_STYLE_RULES_CHANGED,
  TOKEN_EXPIRED,
} from './call-statuses.js';
import type { FanOut } from './fan-out.js';
import type { LongRequest, LongRequests } from './long-requests.js';
import { OpeningIdentity } from './opening-identity.js';
import { Rejections, type Rejection } from './rejections.js';

/** The part of the transport that a stream uses. */
export interface StreamPort {
  readonly peer: string;
  /** The HTTP header `user-agent`; empty: none. */
  readonly userAgent: string;
  /**
   * The values of a header (lower case) in their order; empty: none. Only while the stream opens: the
   * transport drops the headers then, which may hold secrets.
   */
  headerValues(key: string): readonly string[];
  /** The verified client certificate; undefined: none. */
  readonly certificate: ClientCertificate | undefined;
  /** The identity of the client; absent: anonymous. */
  readonly requester?: Requester;
  /** The stream ends after this time, because the client's token expires. Milliseconds. */
  readonly validForMs?: number | undefined;
  /** @returns false when the stream must wait for `handleDrain` before the next write. */
  write(message: Chunks): boolean;
  /** Ends the stream; `undefined` is OK. */
  end(status: RpcStatus | undefined): void;
  /** Reads no more of the client until `readOn`; absent: no message comes before a response. */
  pauseReading?(): void;
  readOn?(): void;
  /** Asks the client to open its next streams on another connection; absent: it cannot. */
  goAway?(): void;
}

/** The variant of the protocol: delta (incremental), or state of the world. */
export type Flavour = 'delta' | 'sotw';

/** The common part of delta and state-of-the-world requests. */
interface AnyRequest {
  readonly node: Uint8Array | undefined;
  readonly typeUrl: string;
  /** Delta: the versions that the client brought. */
  readonly initialVersions?: ReadonlyMap<string, string>;
  /** State of the world: the version that it brought; empty: none. */
  readonly versionInfo?: string;
}

/** A client's stream as its session sees it. */
export interface ServedClient {
  /** The session calls it when `takeResponse` may have a response. */
  readonly onReady: () => void;
  /** @returns the node group of the client, which scopes its old-style names */
  readonly scopeOf: () => ClientScope;
  /** @returns the message limit of the client; Infinity: no known limit */
  readonly maxMessageBytes: () => number;
  /** The client has a stream for each type, and this is one of them; otherwise the stream is ADS. */
  readonly isOfOneType: boolean;
  /** The names that the client's account still has room for; undefined: no quota. */
  readonly nameQuota: StreamNames | undefined;
  /** Judges what the client may ask for. */
  readonly judge: Judge;
  /** Whether the client's peer has used up its share of all buffered bytes. */
  readonly isBufferFull: () => boolean;
  /** @returns what the client's earlier streams were sent; default: unknown */
  readonly past?: () => ClientPast | undefined;
}

/** Decoder and session of one variant of the protocol. */
export interface StreamProtocol<
  Request extends AnyRequest = AnyRequest,
  Session extends StreamSession<Request> = StreamSession<Request>,
> {
  readonly flavour: Flavour | 'poll';
  decode(bytes: Uint8Array, maxNames: number): Decoded<Request>;
  /** @returns a session without subscriptions */
  open(client: ServedClient): Session;
}

/** The part of a stream's options that all streams have in common: one object for all of them. */
export interface StreamContext {
  readonly fanOut: FanOut;
  readonly longRequests: LongRequests;
  readonly maxNamesPerRequest: number;
  /** Keeps the identity of a node group in use. @returns ends the hold */
  readonly holdIdentity: (scope: string, identity: ClientIdentity) => () => void;
  readonly groupStays: Pick<GroupStays, 'enter'>;
  readonly maxMessage: MaxMessage;
  /** `old_style_names` of the current authority map. */
  readonly oldStyle: () => OldStyleSpec | undefined;
  /** `clients` of the current authority map; absent: it has none. */
  readonly clientRules?: () => readonly ClientRule[] | undefined;
  /** What earlier streams were sent; absent: nothing is remembered. */
  readonly pastCollections?: PastCollections;
  readonly clock: () => number;
  readonly onEvent: (stream: ClientStream, event: ClientStreamEvent) => void;
  /** A response was written, which the session made at this time; absent: traces are off. */
  readonly onWritten?: ((stream: ClientStream, message: Chunks, atMs: number) => void) | undefined;
  /** Gateway code threw: the stream ends, the process continues. */
  readonly onError: (error: unknown) => void;
}

export interface ClientStreamOptions<
  Request extends AnyRequest = AnyRequest,
  Session extends StreamSession<Request> = StreamSession<Request>,
> {
  readonly id: number;
  readonly protocol: StreamProtocol<Request, Session>;
  /** The service that the client called. */
  readonly service: DiscoveryService;
  readonly port: StreamPort;
  /** Of the client's peer; default: the stream has no quotas. */
  readonly account?: PeerAccount;
  readonly nodeGroupRoom: NodeGroupRoom;
  /** The gateway ends the stream at this age; default: never. Milliseconds. */
  readonly maxAgeMs?: number;
}

export type ClientStreamEvent =
  | SessionEvent
  | { readonly kind: 'opened' }
  /** `code`: of the status with which the gateway ended it. */
  | { readonly kind: 'closed'; readonly reason: string; readonly code?: number }
  | { readonly kind: 'malformed'; readonly reason: string };

const TOO_OLD: RpcStatus = {
  code: STATUS_CODE.unavailable,
  message: 'the stream has reached its maximum age: reconnect',
};

/** A client that has not read for this time gives way when its peer has too much unread. Milliseconds. */
const UNREAD_GIVES_WAY_MS = 10_000;

/** A younger stream carries credentials that the client has just sent. Milliseconds. */
const YOUNG_MS = 60_000;

const NOBODY: Requester = { identity: ANONYMOUS, address: '' };

export class ClientStream<
  Request extends AnyRequest = AnyRequest,
  Session extends StreamSession<Request> = StreamSession<Request>,
>
  implements LongRequest, StayingStream
{
  readonly id: number;
  readonly session: Session;
  readonly openedAtMs: number;
  readonly #context: StreamContext;
  readonly #options: ClientStreamOptions<Request, Session>;
  /** Present from the first request; see `FanOut`. */
  #firstSync: FirstSync | undefined;
  #hasWritten = false;
  #writable = true;
  /** Present while the client does not read its last response: since when, and what releases its quota. */
  #unread: { readonly sinceMs: number; readonly letGo: () => void } | undefined;
  #closed = false;
  /** A long request is under way, or messages wait that came meanwhile; the client is not read. */
  #isBehind = false;
  #waiting: Uint8Array[] = [];
  #timer: NodeJS.Timeout | undefined;
  #node: GroupedNode | undefined;
  readonly #identity: OpeningIdentity;
  /** Ends the hold on the identity of the client's node group. */
  #leaveGroup: (() => void) | undefined;
  /** By the rules in force; undefined: not looked up yet. */
  #rights: Rights | undefined;
  readonly #endsAtMs: number;
  #areCredentialsRefused = false;
  /** No limit until the first request identifies the client. */
  #maxMessageBytes = Infinity;
  readonly #rejections: Rejections;

  constructor(context: StreamContext, options: ClientStreamOptions<Request, Session>) {
    this.id = options.id;
    this.#context = context;
    this.#options = options;
    this.openedAtMs = context.clock();
    this.#endsAtMs = this.openedAtMs + (options.port.validForMs ?? Infinity);
    this.#identity = new OpeningIdentity(options.port, context.oldStyle());
    this.session = options.protocol.open({
      onReady: () => {
        context.fanOut.schedule(this);
      },
      scopeOf: () => this.#enterGroup(),
      maxMessageBytes: () => this.#maxMessageBytes,
      isOfOneType: options.service.typeUrl !== undefined,
      nameQuota: options.account && new StreamNames(options.account),
      judge: (typeUrl, name) => verdictOf((this.#rights ??= this.#rightsNow()), typeUrl, name),
      isBufferFull: () => options.account?.exhaustedScope('buffered') !== undefined,
      past: () => context.pastCollections?.of(this.requester, this.#node?.node.id ?? ''),
    });
    this.#rejections = new Rejections(context.clock, this);
    this.#tell({ kind: 'opened' });
  }

  get peer(): string {
    return this.#options.port.peer;
  }

  get requester(): Requester {
    return this.#options.port.requester ?? NOBODY;
  }

  #rightsNow(): Rights {
    const { id = '', isIdCut = false } = this.#node?.node ?? {};
    return rightsOf(this.#context.clientRules?.(), this.requester, isIdCut ? undefined : id);
  }

  /** `poll`: no stream, but a client that polls. */
  get flavour(): Flavour | 'poll' {
    return this.#options.protocol.flavour;
  }

  /** The short name of the called service, such as `ADS` or `CDS`. */
  get service(): string {
    return this.#options.service.shortName;
  }

  get node(): { readonly id: string; readonly cluster: string } | undefined {
    const { node } = this.#node ?? {};
    return node && !node.isMissing ? { id: node.id, cluster: node.cluster } : undefined;
  }

  /** Undefined: the client has no old-style names yet. */
  get nodeGroup(): string | undefined {
    const { scope } = this.session;
    return scope?.kind === 'scope' ? scope.scope : undefined;
  }

  /** The last refusal of each type, and of each authority if the client speaks delta. */
  get rejections(): readonly Rejection[] {
    return this.#rejections.all;
  }

  /** The last refusal of what these subscriptions were sent. */
  rejectionOf(subscriptions: Pick<Rejection, 'typeUrl' | 'authority'>): Rejection | undefined {
    return this.#rejections.of(subscriptions);
  }

  get firstSync(): FirstSync | undefined {
    return this.#firstSync;
  }

  get hasWritten(): boolean {
    return this.#hasWritten;
  }

  /** Whether the client does not read the written responses. */
  get isPaused(): boolean {
    return !this.#writable;
  }

  get account(): PeerAccount | undefined {
    return this.#options.account;
  }

  /**
   * Handles a request that is the ACK of the last response and nothing else, by comparing bytes. Such
   * requests cost least, and there is at most one for each response, so no quota or turn has to bound them.
   *
   * @returns false: pass it to `handleMessage`
   */
  handleAck(bytes: Uint8Array): boolean {
    if (this.#closed || this.#isBehind) return false;
    try {
      if (this.session.handleAck?.(bytes, this.#context.clock()) !== true) return false;
      this.#tellEvents();
    } catch (error) {
      this.#fail(error);
    }
    return true;
  }

  /** @param bytes valid during this call only */
  handleMessage(bytes: Uint8Array): void {
    if (this.#closed) return;
    if (this.#isBehind) this.#waiting.push(Uint8Array.from(bytes));
    else {
      this.#guard(() => {
        this.#takeMessage(bytes);
        this.#noteBehind();
      });
    }
  }

  /** Handles the next portion of a long request, or one message that came meanwhile. */
  continueRequest(): void {
    this.#guard(() => {
      if (this.session.isMidRequest) {
        this.#endPortion(this.session.continueRequest(this.#context.clock()));
      } else {
        const bytes = this.#waiting.shift();
        if (bytes) this.#takeMessage(bytes);
      }
      this.#noteBehind();
    });
  }

  #noteBehind(): void {
    if (this.#closed) return;
    const isBehind = this.session.isMidRequest || this.#waiting.length > 0;
    if (isBehind) this.#context.longRequests.add(this);
    if (isBehind === this.#isBehind) return;
    this.#isBehind = isBehind;
    const { port } = this.#options;
    if (isBehind) port.pauseReading?.();
    else port.readOn?.();
  }

  /**
   * Ends the stream if it has reached its maximum age, if the session demands it (no source can respond, or removals were missed),
   * if the client's token has expired or a source goes on refusing its credentials, or if the client does not read and others
   * need the memory.
   */
  endIfDue(): void {
    if (this.#closed) return;
    const nowMs = this.#context.clock();
    const { port, maxAgeMs = Infinity } = this.#options;
    if (nowMs >= this.openedAtMs + maxAgeMs) {
      // Otherwise the client would reconnect on the same connection, to the same instance.
      port.goAway?.();
      this.end(TOO_OLD);
      return;
    }
    const status = this.#expiry(nowMs) ?? this.#giveWay(nowMs) ?? this.session.endStatus(nowMs);
    if (status) this.end(status);
  }

  #expiry(nowMs: number): RpcStatus | undefined {
    if (nowMs >= this.#endsAtMs) return TOKEN_EXPIRED;
    return this.#areCredentialsRefused ? CREDENTIALS_REFUSED : undefined;
  }

  /** The rules for clients changed. The session judges its names by the new ones before it sends more. */
  handleRightsChanged(): void {
    if (this.#closed) return;
    this.#rights = undefined;
    this.session.handleRightsChanged();
  }

  /**
   * A source goes on refusing the credentials that the client sent when it opened the stream. They may have expired, and a
   * client sends new ones on a new stream only. A young stream has sent new ones already. The next look ends the others:
   * a whole fleet may share a token, and the looks are spread over turns of the event loop.
   */
  handleCredentialsRefused(): void {
    if (this.#context.clock() >= this.openedAtMs + YOUNG_MS) this.#areCredentialsRefused = true;
  }

  /** Ends the stream if a new map moves the client to another node group: it must subscribe again. */
  endIfRegrouped(): void {
    const { scope } = this.session;
    if (this.#closed || !scope || isDeepStrictEqual(scope, this.#scopeNow())) return;
    this.end(OLD_STYLE_RULES_CHANGED);
  }

  /** Called once, before the client's first old-style name is watched. */
  #enterGroup(): ClientScope {
    const entered = this.#scopeNow();
    if (entered.kind === 'scope') {
      const { identity } = this.#groupedNode();
      const letGo = this.#context.holdIdentity(entered.scope, identity);
      const leave = this.#context.groupStays.enter(this.#clientKey, entered.scope, this);
      this.#leaveGroup = () => {
        letGo();
        leave();
      };
    }
    return entered;
  }

  /** The peer and the node id: only a client of the same peer can pass for it in `GroupStays`. */
  get #clientKey(): string | undefined {
    const { account } = this.#options;
    const id = this.#node?.node.id ?? '';
    return account && id !== '' ? `${account.key} ${id}` : undefined;
  }

  #scopeNow(): ClientScope {
    const { nodeGroupRoom } = this.#options;
    return clientScopeOf(this.#groupedNode(), this.#context.oldStyle(), nodeGroupRoom);
  }

  /** A client without a Node has the identity of an empty one. */
  #groupedNode(): GroupedNode {
    return this.#node ?? this.#identity.group(undefined);
  }

  handleDrain(): void {
    this.#writable = true;
    this.#letUnreadGo();
    this.#context.fanOut.schedule(this);
  }

  pump(): void {
    if (this.#closed) return;
    try {
      this.#write();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Callers are libraries and timers: an exception must end this stream, not the process. */
  #guard(work: () => void): void {
    if (this.#closed) return;
    try {
      work();
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    this.#context.onError(error);
    this.end(INTERNAL_ERROR);
  }

  #takeMessage(bytes: Uint8Array): void {
    const { protocol, service } = this.#options;
    const { maxNamesPerRequest, clock } = this.#context;
    const decoded = protocol.decode(bytes, maxNamesPerRequest);
    if (!decoded.ok) {
      this.#tell({ kind: 'malformed', reason: decoded.reason });
      this.end(statusOfUnreadable('request', decoded));
      return;
    }
    // Read the Node once per stream: Envoy repeats it, and it has 60 kB.
    this.#node ??= this.#readNode(decoded.message.node);
    const typed = typedRequest(decoded.message, service.typeUrl);
    if (!typed.ok) {
      this.#tell({ kind: 'malformed', reason: typed.status.message });
      this.end(typed.status);
      return;
    }
    this.#firstSync ??= this.#beginFirstSync(typed.request);
    const refusal = this.session.handleRequest(typed.request, clock());
    this.#endPortion(refusal);
  }

  #endPortion(refusal: RpcStatus | undefined): void {
    this.#tellEvents();
    if (refusal) this.end(refusal);
  }

  #beginFirstSync({ initialVersions, versionInfo = '' }: AnyRequest): FirstSync | undefined {
    const { account, protocol } = this.#options;
    // The request of a client that polls waits for a bounded time, and has no ACK.
    if (!account || protocol.flavour === 'poll') return undefined;
    const isResuming = (initialVersions?.size ?? 0) > 0 || versionInfo !== '';
    return { account, isResuming, state: 'idle' };
  }

  #readNode(bytes: Uint8Array | undefined): GroupedNode {
    const { port } = this.#options;
    const read = this.#identity.group(bytes);
    const { userAgentName } = read.node;
    this.#maxMessageBytes = maxMessageBytesOf(this.#context.maxMessage, {
      userAgentName,
      header: port.userAgent,
    });
    return read;
  }

  #write(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = undefined;
    const { clock, fanOut, onWritten } = this.#context;
    let nowMs = clock();
    const untilMs = nowMs + PORTION_MS;
    while (this.#writable) {
      const response = this.session.takeResponse(nowMs);
      if (!response) break;
      this.#hasWritten = true;
      this.#writable = this.#options.port.write(response.chunks);
      if (!this.#writable) this.#holdUnread(response, nowMs);
      onWritten?.(this, response.chunks, nowMs);
      nowMs = clock();
      if (nowMs >= untilMs) {
        // The client may be due hundreds of small responses: others have their turn.
        fanOut.schedule(this);
        break;
      }
    }
    this.#tellEvents();
    const dueMs = this.session.nextDeadlineMs;
    if (dueMs === undefined || !this.#writable) return;
    this.#timer = setTimeout(
      () => {
        this.pump();
      },
      Math.max(1, dueMs - this.#context.clock()),
    );
    this.#timer.unref();
  }

  #holdUnread({ chunks }: EncodedResponse, nowMs: number): void {
    const letGo = this.account?.holdUnread(chunks);
    if (letGo) this.#unread = { sinceMs: nowMs, letGo };
  }

  #letUnreadGo(): void {
    this.#unread?.letGo();
    this.#unread = undefined;
  }

  /** @returns the status to end the stream with, if others of its peer wait until this client has read */
  #giveWay(nowMs: number): RpcStatus | undefined {
    const { sinceMs = Infinity } = this.#unread ?? {};
    return nowMs - sinceMs >= UNREAD_GIVES_WAY_MS ? this.account?.ask('buffered') : undefined;
  }

  end(status: RpcStatus | undefined): void {
    if (this.#closed) return;
    this.#options.port.end(status);
    this.handleClosed(status?.message ?? 'ended by the client', status?.code);
  }

  handleClosed(reason: string, code?: number): void {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#letUnreadGo();
    this.#context.fanOut.forget(this);
    this.#context.longRequests.delete(this);
    this.#waiting = [];
    this.session.close(this.#context.clock());
    this.#leaveGroup?.();
    this.#tell({ kind: 'closed', reason, ...(code !== undefined && { code }) });
  }

  #tellEvents(): void {
    for (const event of this.session.takeEvents()) {
      this.#rejections.noteEvent(event);
      if (event.kind === 'ack' || event.kind === 'nack') this.#context.fanOut.endFirstSync(this);
      this.#tell(event);
    }
  }

  #tell(event: ClientStreamEvent): void {
    this.#context.onEvent(this, event);
  }
}

/**
 * The clients that poll: Fetch over gRPC, and REST. Each request opens a session or goes on with that
 * of the client's last request for the same names, and that session keeps the names subscribed until
 * the lease ends. An idle session gives way to any new client: without it, a client that comes back
 * only waits a little longer.
 *
 * A session belongs to one client (peer, identity, every byte of its Node, and each header that sources
 * get), type and list of names. Each request brings its own proof of the identity.
 */
import { createHash } from 'node:crypto';
import type { ClientCertificate } from '../../authorities/index.js';
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import type { Chunks } from '../../protos/discovery-fields.js';
import type { DiscoveryService } from '../../protos/discovery-services.js';
import { decodeSotwRequest } from '../../protos/sotw-codec.js';
import { INTERNAL_ERROR } from './call-statuses.js';
import type { ClientProof, Identified, IdentifiedClient } from './client-authentication.js';
import { locatorText } from '../core/session/asked-name.js';
import { statusOfUnreadable } from '../core/session/request-checks.js';
import type { PollSession } from '../core/sotw/poll-session.js';
import type { ClientAccounts } from '../core/quotas/client-accounts.js';
import type { PeerAccount } from '../core/quotas/quotas.js';
import type { ClientStream, ClientStreamEvent, StreamPort } from './client-stream.js';

/** The connection on which a client sent a request. */
export interface PollPeer {
  /** Address and port. */
  readonly peer: string;
  /** IP address, without the port. */
  readonly address: string;
  /** The same on all connections of a client: its address and its certificate. */
  readonly identity: string;
  /** The key of the account of its quotas; see `quotaKeyOf`. */
  readonly quotaKey: string;
  /** The HTTP header `user-agent`; empty: none. */
  readonly userAgent: string;
  /** The values of a header of the request, by lower-case key. */
  readonly headerValues: (key: string) => readonly string[];
  /** The verified certificate of the client; undefined: none. */
  readonly certificate: ClientCertificate | undefined;
}

export type PollReply =
  | {
      readonly kind: 'response';
      readonly message: Chunks;
      /** Of the client's peer: see `PeerAccount.holdUnread`. */
      readonly account: PeerAccount;
    }
  /** The client holds the latest content, or the gateway cannot say yet that it does not. */
  | { readonly kind: 'unchanged' }
  /** The client holds nothing, and the gateway does not know the content yet. */
  | { readonly kind: 'unknown' }
  | { readonly kind: 'refused'; readonly status: RpcStatus };

/** What a client that got the reply `unknown` learns. */
export const UNKNOWN_YET: RpcStatus = {
  code: STATUS_CODE.unavailable,
  message: 'the gateway does not know these resources yet',
};

/** Called once, unless the request is cancelled before. */
export type OnPollReply = (reply: PollReply) => void;

export interface OpenedPoll {
  readonly stream: ClientStream;
  readonly session: PollSession;
}

export interface PollsOptions {
  readonly maxNamesPerRequest: number;
  readonly maxNamesPerClient: number;
  /** @param onEvent receives the events of the stream, telemetry has had them */
  readonly open: (
    service: DiscoveryService,
    port: StreamPort,
    onEvent: (event: ClientStreamEvent) => void,
    account: PeerAccount,
  ) => OpenedPoll;
  /** Which identity the client has. A promise does not reject. */
  readonly identify: (proof: ClientProof) => Identified | Promise<Identified>;
  /** Code of the gateway threw; the process continues. */
  readonly onError: (error: unknown) => void;
  /** Headers that sources get: requests with other values are those of another client. */
  readonly forwardedHeaders: () => readonly string[];
  /**
   * Takes the request from the rate of its peer. @param bytes its size
   *
   * @returns after how long the peer may come again; 0: the request is handled now. Milliseconds.
   */
  readonly paceMs: (account: PeerAccount, bytes: number) => number;
  /** @returns why the gateway serves no further client of this peer; undefined: it does */
  readonly refusal: (account: PeerAccount) => RpcStatus | undefined;
  readonly accounts: ClientAccounts;
}

const TOO_OFTEN: RpcStatus = {
  code: STATUS_CODE.resourceExhausted,
  message:
    'this peer polls more often than limits.peer_requests_per_second, or requests_per_second of its entry of clients in the authority map, allows',
};

/** For a client whose peer has used up its share of all buffered bytes. Milliseconds. */
const BUFFER_RETRY_AFTER_MS = 1_000;

/** A request, with the connection on which it came. */
interface PollRequest {
  readonly service: DiscoveryService;
  /** An encoded `DiscoveryRequest`. */
  readonly bytes: Uint8Array;
  readonly peer: PollPeer;
  readonly onReply: OnPollReply;
}

/** A client that polls one list of names. */
interface Poller {
  /** Differs for each client, service and list of names. */
  readonly key: string;
  /** Differs for each client. */
  readonly client: string;
  readonly service: DiscoveryService;
  readonly peer: PollPeer;
  readonly identified: IdentifiedClient;
}

interface Waiting {
  readonly hasVersion: boolean;
  readonly onReply: OnPollReply;
}

/** The session of one client for one list of names. */
interface Lease extends OpenedPoll, Pick<Poller, 'key' | 'client'> {
  /** Gives its slot back. */
  readonly leave: () => void;
  /** The request that waits for its reply. */
  waiting: Waiting | undefined;
}

export class Polls {
  readonly #options: PollsOptions;
  readonly #all = new Set<Lease>();
  /** By key, those without a request; the longest idle first. */
  readonly #idle = new Map<string, Lease>();
  readonly #byClient = new Map<string, Set<Lease>>();

  constructor(options: PollsOptions) {
    this.#options = options;
  }

  /** The sessions, with and without a request. */
  get streams(): readonly ClientStream[] {
    return [...this.#all].map(({ stream }) => stream);
  }

  get size(): number {
    return this.#all.size;
  }

  /**
   * @param bytes an encoded `DiscoveryRequest`
   * @returns cancels the request; the client is gone
   */
  poll(
    service: DiscoveryService,
    bytes: Uint8Array,
    peer: PollPeer,
    onReply: OnPollReply,
  ): () => void {
    const identified = this.#options.identify(peer);
    if (!(identified instanceof Promise)) {
      return this.#poll({ service, bytes, peer, onReply }, identified);
    }
    const kept = { service, bytes: Uint8Array.from(bytes), peer, onReply };
    let isCancelled = false;
    let cancel = (): void => {
      isCancelled = true;
    };
    const goOn = (found: Identified): void => {
      if (isCancelled) return;
      try {
        cancel = this.#poll(kept, found);
      } catch (error) {
        this.#options.onError(error);
        onReply({ kind: 'refused', status: INTERNAL_ERROR });
      }
    };
    identified.then(goOn).catch(this.#options.onError);
    return () => {
      cancel();
    };
  }

  #poll({ service, bytes, peer, onReply }: PollRequest, identified: Identified): () => void {
    if (!identified.ok) {
      onReply({ kind: 'refused', status: identified.status });
      return () => undefined;
    }
    const account = this.#options.accounts.of(identified, peer.quotaKey);
    const retryAfterMs = this.#options.paceMs(account, bytes.length);
    if (retryAfterMs > 0) {
      onReply({ kind: 'refused', status: { ...TOO_OFTEN, retryAfterMs } });
      return () => undefined;
    }
    const status = refusalOfBuffered(account);
    if (status) {
      onReply({ kind: 'refused', status });
      return () => undefined;
    }
    const decoded = decodeSotwRequest(bytes, this.#options.maxNamesPerRequest);
    if (!decoded.ok) {
      onReply({ kind: 'refused', status: statusOfUnreadable('request', decoded) });
      return () => undefined;
    }
    const { node, names, locators = [], versionInfo } = decoded.message;
    const headers = this.#options
      .forwardedHeaders()
      .flatMap((name) => [name, ...peer.headerValues(name)]);
    const { claims } = identified;
    const token = claims === undefined ? '' : JSON.stringify(claims);
    const client = digestOf([peer.identity, token, node ?? '', ...headers]);
    const lists = [`${names.length}`, ...names, ...locators.map(locatorText)];
    const key = digestOf([client, service.service, peer.userAgent, ...lists]);
    const known = this.#resume(key, versionInfo);
    const refusal = known ? undefined : this.#options.refusal(account);
    if (refusal) {
      onReply({ kind: 'refused', status: refusal });
      return () => undefined;
    }
    const lease = known ?? this.#open({ key, client, service, peer, identified }, account);
    const waiting = { hasVersion: versionInfo !== '', onReply };
    lease.waiting = waiting;
    // A refused request ends the stream, which replies.
    lease.stream.handleMessage(bytes);
    return () => {
      if (lease.waiting !== waiting) return;
      lease.waiting = undefined;
      lease.session.cancel();
      this.#rest(lease);
    };
  }

  /** Could a session give way? */
  get hasIdle(): boolean {
    return this.#idle.size > 0;
  }

  /** Ends the session that has been idle for the longest time. @returns whether there was one. */
  giveWay(): boolean {
    for (const lease of this.#idle.values()) {
      this.#end(lease);
      return true;
    }
    return false;
  }

  /** Refuses all requests and ends all sessions. */
  close(status: RpcStatus): void {
    for (const { stream } of [...this.#all]) stream.end(status);
  }

  /** @returns the idle session that the request goes on with, if there is one */
  #resume(key: string, versionInfo: string): Lease | undefined {
    const known = this.#idle.get(key);
    if (known?.session.goesOnWith(versionInfo) !== true) return undefined;
    this.#idle.delete(key);
    return known;
  }

  #open({ key, client, service, peer, identified }: Poller, account: PeerAccount): Lease {
    const { requester } = identified;
    const port: StreamPort = {
      requester,
      peer: peer.peer,
      userAgent: peer.userAgent,
      headerValues: peer.headerValues,
      certificate: peer.certificate,
      write: (message) => {
        // Many polls may have waited for the same change.
        const status = refusalOfBuffered(account);
        const { waiting } = lease;
        this.#reply(
          lease,
          status ? { kind: 'refused', status } : { kind: 'response', message, account },
        );
        // The session counts the response as sent, so the client's next request opens another session, which replaces it.
        if (status && waiting) this.#rest(lease);
        return true;
      },
      end: (status) => {
        const cancelled = { code: STATUS_CODE.cancelled, message: 'the session ended' };
        this.#reply(lease, { kind: 'refused', status: status ?? cancelled });
        this.#forget(lease);
      },
    };
    const onEvent = (event: ClientStreamEvent): void => {
      if (event.kind === 'polled' && event.result !== 'sent')
        this.#replyWithout(lease, event.result);
    };
    const opened = this.#options.open(service, port, onEvent, account);
    const leave = this.#options.accounts.takeStream(account, requester);
    const lease: Lease = { ...opened, key, client, leave, waiting: undefined };
    this.#all.add(lease);
    const ofClient = this.#byClient.get(client) ?? new Set<Lease>();
    this.#byClient.set(client, ofClient.add(lease));
    return lease;
  }

  /** @param result why the session has no response */
  #replyWithout(lease: Lease, result: 'unchanged' | 'unknown'): void {
    // A client that holds something keeps it.
    const isUnknown = result === 'unknown' && lease.waiting?.hasVersion === false;
    this.#reply(lease, { kind: isUnknown ? 'unknown' : 'unchanged' });
  }

  #reply(lease: Lease, reply: PollReply): void {
    const { waiting } = lease;
    if (!waiting) return;
    lease.waiting = undefined;
    if (reply.kind !== 'refused') this.#rest(lease);
    waiting.onReply(reply);
  }

  /** The session has no request any more. It takes the place of an earlier one for the same names. */
  #rest(lease: Lease): void {
    const earlier = this.#idle.get(lease.key);
    if (earlier) this.#end(earlier);
    this.#idle.set(lease.key, lease);
    this.#boundNames(lease);
  }

  /** One client keeps as many names as one stream could subscribe. */
  #boundNames(latest: Lease): void {
    const leases = this.#byClient.get(latest.client) ?? [];
    let names = 0;
    for (const { session } of leases) names += session.nameCount;
    for (const lease of leases) {
      if (names <= this.#options.maxNamesPerClient) return;
      if (lease === latest || lease.waiting) continue;
      names -= lease.session.nameCount;
      this.#end(lease);
    }
  }

  #end(lease: Lease): void {
    lease.stream.end(undefined);
    this.#forget(lease);
  }

  #forget(lease: Lease): void {
    if (this.#all.delete(lease)) lease.leave();
    if (this.#idle.get(lease.key) === lease) this.#idle.delete(lease.key);
    const ofClient = this.#byClient.get(lease.client);
    ofClient?.delete(lease);
    if (ofClient?.size === 0) this.#byClient.delete(lease.client);
  }
}

/** @returns why a poll is refused, if the peer has used up its share of all buffered bytes */
export function refusalOfBuffered(account: PeerAccount): RpcStatus | undefined {
  const status = account.ask('buffered');
  return status && { ...status, retryAfterMs: BUFFER_RETRY_AFTER_MS };
}

/** Each part counts with its length, so that no two lists have the same digest. */
function digestOf(parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(`${Buffer.byteLength(part)} `).update(part);
  return hash.digest('base64');
}

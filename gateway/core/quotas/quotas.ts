/**
 * The quotas of clients: how much all of them and each peer use, and whether a peer may use more. Pure: the
 * shells say when something is taken and given back, and whether memory is short.
 */
import type { Chunks } from '../../../protos/discovery-fields.js';
import { STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';
import { QUOTAS, SETTING_OF, type PeerLimits, type Quota, type QuotaLimits } from './limits.js';
import { RequestRate } from './request-rate.js';

/** `global`: all peers together; `peer`: this peer; `memory`: the process has no room for more. */
export const QUOTA_SCOPES = ['global', 'peer', 'memory'] as const;
export type QuotaScope = (typeof QUOTA_SCOPES)[number];

/** A quota took effect. */
export interface QuotaRefusal {
  readonly quota: Quota;
  readonly scope: QuotaScope;
  /** The key of the peer that got no more. */
  readonly peer: string;
}

/** The used part of each quota. Counts; of `buffered`, bytes. */
type Counts = Record<Quota, number>;

const none = (): Counts => ({
  streams: 0,
  connections: 0,
  names: 0,
  upstream_names: 0,
  node_groups: 0,
  first_syncs: 0,
  buffered: 0,
});

/**
 * While memory is short, clients that are connected still get these: serving them makes room. A new connection
 * costs little, and its client is told why it gets no stream.
 */
const GO_ON_WHEN_SHORT: ReadonlySet<Quota> = new Set(['connections', 'first_syncs', 'buffered']);

/** A shorter request does not count, just as unread responses below `limits.write_ahead` do not. Bytes. */
export const LONG_REQUEST_BYTES = 65_536;

/** A refused client may ask again when less than this part of the quota is used. */
const ROOM_AGAIN = 0.9;

export class Quotas {
  readonly limits: QuotaLimits;
  readonly #used = none();
  readonly #peers = new Map<string, PeerAccount>();
  readonly #onRefused: (refusal: QuotaRefusal) => void;
  /** What counts once for several clients that wait for it or do not read it. */
  readonly #shared = new WeakMap<object, Shared>();
  #isShort = false;

  /** @param onRefused for telemetry; must not throw */
  constructor(limits: QuotaLimits, onRefused: (refusal: QuotaRefusal) => void = () => undefined) {
    this.limits = limits;
    this.#onRefused = onRefused;
  }

  /** Memory is short: there are no new streams and names. */
  get isShort(): boolean {
    return this.#isShort;
  }

  setShort(isShort: boolean): void {
    this.#isShort = isShort;
  }

  /** Number of peers with an account. */
  get peerCount(): number {
    return this.#peers.size;
  }

  used(quota: Quota): number {
    return this.#used[quota];
  }

  /** The part that is used, from 0 to 1. */
  fullness(quota: Quota): number {
    return this.#used[quota] / this.limits.global[quota];
  }

  /** The same for the peer that is nearest to its bound. */
  fullestPeer(quota: Quota): number {
    let fullest = 0;
    for (const peer of this.#peers.values()) fullest = Math.max(fullest, peer.fullness(quota));
    return fullest;
  }

  /** The part of its burst of requests that the fastest peer has used, from 0 to 1. */
  fastestPeer(nowMs: number): number {
    let fastest = 0;
    for (const { rate } of this.#peers.values()) fastest = Math.max(fastest, rate.fullness(nowMs));
    return fastest;
  }

  /**
   * @param key of the peer: its identity, else its address
   * @returns its account, a new one with the limits of every peer
   */
  account(key: string): PeerAccount {
    const known = this.#peers.get(key);
    if (known) return known;
    const made = new PeerAccount(key, this.limits.peer, this);
    this.#peers.set(key, made);
    return made;
  }

  /**
   * Forgets the peers that hold nothing. Call it from time to time.
   *
   * @param isUsed whether a node group is in use
   */
  sweep(nowMs: number, isUsed: (nodeGroup: string) => boolean): void {
    for (const [key, account] of this.#peers) {
      if (account.isIdle(nowMs, isUsed)) this.#peers.delete(key);
    }
  }

  // ---- for the accounts ---------------------------------------------------------------------

  change(quota: Quota, count: number): void {
    this.#used[quota] += count;
  }

  noteRefused(refusal: QuotaRefusal): void {
    this.#onRefused(refusal);
  }

  /** See `PeerAccount.holdShared`. */
  holdShared(account: PeerAccount, thing: object, bytes: number): () => void {
    const held = this.#shared.get(thing) ?? { account, bytes, clients: 0 };
    this.#shared.set(thing, held);
    if (held.clients++ === 0) {
      held.account = account;
      held.bytes = bytes;
      account.change('buffered', bytes);
    }
    let isHeld = true;
    return () => {
      if (isHeld && --held.clients === 0) held.account.change('buffered', -held.bytes);
      isHeld = false;
    };
  }
}

/** Something that is in memory once, however many clients wait for it or do not read it. */
interface Shared {
  /** Of the peer that it counts for. */
  account: PeerAccount;
  bytes: number;
  clients: number;
}

/** The use of one peer. */
export class PeerAccount {
  readonly key: string;
  #limits: PeerLimits;
  readonly rate: RequestRate;
  readonly #quotas: Quotas;
  readonly #held = none();
  /** The node groups that the peer entered first. */
  readonly #nodeGroups = new Set<string>();

  constructor(key: string, limits: PeerLimits, quotas: Quotas) {
    this.key = key;
    this.#limits = limits;
    this.rate = new RequestRate(limits.requestsPerSecond);
    this.#quotas = quotas;
  }

  /** Sets the peer's own limits. A peer that holds more keeps it. */
  set limits(limits: PeerLimits) {
    this.#limits = limits;
    this.rate.perSecond = limits.requestsPerSecond;
  }

  held(quota: Quota): number {
    return this.#held[quota];
  }

  /** The used part of the peer's present bound, from 0 to about 1. */
  fullness(quota: Quota): number {
    return this.#held[quota] / this.#mostOf(quota);
  }

  /**
   * The peer's bound at present: its own, or its share of what the others leave free (dynamic thresholds: Choudhury and
   * Hahne, 1998). So one greedy peer leaves the rest free, several greedy peers still leave some, and a lone peer (a
   * whole fleet behind one address) gets that share of everything.
   */
  #mostOf(quota: Quota, freed = 0): number {
    const { global, peerShare } = this.#quotas.limits;
    const others = this.#quotas.used(quota) - this.#held[quota] - freed;
    return Math.min(this.#limits.counts[quota], peerShare * (global[quota] - others));
  }

  /** @returns why the peer gets no more; undefined: it may take one more */
  exhaustedScope(quota: Quota): QuotaScope | undefined {
    const { isShort, limits } = this.#quotas;
    if (isShort && !GO_ON_WHEN_SHORT.has(quota)) return 'memory';
    if (this.#quotas.used(quota) >= limits.global[quota]) return 'global';
    return this.#held[quota] < this.#mostOf(quota) ? undefined : 'peer';
  }

  /** Of a quota that is used up: might the peer take one if another peer gave one back? */
  mayReplace(quota: Quota): boolean {
    return this.#held[quota] < this.#mostOf(quota, 1);
  }

  #isAtOwnLimit(quota: Quota): boolean {
    return this.#held[quota] >= this.#limits.counts[quota];
  }

  /** Asks, and reports a refusal. @returns the status of the refusal; undefined: it may take one more */
  ask(quota: Quota): RpcStatus | undefined {
    const scope = this.exhaustedScope(quota);
    if (scope === undefined) return undefined;
    this.#quotas.noteRefused({ quota, scope, peer: this.key });
    const isOwn = scope === 'peer' && this.#isAtOwnLimit(quota);
    return isOwn ? ownStatusOf(quota) : statusOf(quota, scope);
  }

  /** Takes without asking. @param count negative: gives back */
  change(quota: Quota, count: number): void {
    this.#held[quota] += count;
    this.#quotas.change(quota, count);
  }

  /**
   * The gateway keeps something for a client of the peer. If it keeps it for several clients, it counts once, for the peer of
   * the first.
   *
   * @param thing the same object for all of them
   * @param bytes its size
   * @returns call it when the client needs it no more; further calls change nothing
   */
  holdShared(thing: object, bytes: number): () => void {
    return this.#quotas.holdShared(this, thing, bytes);
  }

  /**
   * A client of the peer does not read a response, which may share chunks with others.
   *
   * @returns call it when the client has read the response or has left; further calls change nothing
   */
  holdUnread(chunks: Chunks): () => void {
    const held = chunks.map((chunk) => this.holdShared(chunk, chunk.length));
    return () => {
      for (const letGo of held) letGo();
    };
  }

  /**
   * The gateway keeps a long request of the peer that has not arrived completely, or waits for its turn.
   *
   * @param bytes its size
   * @returns call it when the request is gone; further calls change nothing
   */
  holdRequest(bytes: number): () => void {
    let heldBytes = bytes < LONG_REQUEST_BYTES ? 0 : bytes;
    this.change('buffered', heldBytes);
    return () => {
      this.change('buffered', -heldBytes);
      heldBytes = 0;
    };
  }

  /** Would the peer now get more, with some room to spare? */
  hasRoomAgain(quota: Quota): boolean {
    if (this.exhaustedScope(quota) !== undefined) return false;
    const isFreeAtPeer = this.fullness(quota) < ROOM_AGAIN;
    return isFreeAtPeer && this.#quotas.fullness(quota) < ROOM_AGAIN;
  }

  /**
   * A client of the peer is about to enter an unused node group. The group counts for this peer until it
   * is unused again.
   *
   * @param isUsed whether a node group is in use; groups that are not are given back
   * @returns why it may not enter
   */
  enterGroup(nodeGroup: string, isUsed: (nodeGroup: string) => boolean): RpcStatus | undefined {
    if (this.#nodeGroups.has(nodeGroup)) return undefined;
    // Not at each group: the first look at 5,000 groups of one peer would take 12 million steps.
    if (this.exhaustedScope('node_groups') !== undefined) this.#leaveUnused(isUsed);
    const refused = this.ask('node_groups');
    if (refused) return refused;
    this.#nodeGroups.add(nodeGroup);
    this.change('node_groups', 1);
    return undefined;
  }

  #leaveUnused(isUsed: (nodeGroup: string) => boolean): void {
    for (const nodeGroup of this.#nodeGroups) {
      if (isUsed(nodeGroup)) continue;
      this.#nodeGroups.delete(nodeGroup);
      this.change('node_groups', -1);
    }
  }

  /** @param isUsed as for `enterGroup` */
  isIdle(nowMs: number, isUsed: (nodeGroup: string) => boolean): boolean {
    this.#leaveUnused(isUsed);
    return QUOTAS.every((quota) => this.#held[quota] === 0) && this.rate.fullness(nowMs) === 0;
  }
}

const WORDS: Readonly<Record<Quota, string>> = {
  streams: 'streams',
  connections: 'connections',
  names: 'subscribed names',
  upstream_names: 'names at sources',
  node_groups: 'node groups',
  first_syncs: 'first syncs',
  buffered: 'buffered bytes',
};

/** Of a limit that the map gives the peer. */
const ownStatusOf = (quota: Quota): RpcStatus => ({
  code: STATUS_CODE.resourceExhausted,
  message: `this peer has all the ${WORDS[quota]} that its entry of clients in the authority map allows (limits.${quota})`,
});

function statusOf(quota: Quota, scope: QuotaScope): RpcStatus {
  const what = WORDS[quota];
  const messages: Readonly<Record<QuotaScope, string>> = {
    global: `all ${what} are taken (${SETTING_OF[quota]})`,
    peer: `this peer has used up its share of all ${what} (limits.max_peer_percent of ${SETTING_OF[quota]})`,
    memory: `no new ${what}: the gateway is short of memory (limits.max_heap_percent)`,
  };
  return { code: STATUS_CODE.resourceExhausted, message: messages[scope] };
}

/**
 * The hints that this instance publishes to its peers, and its reactions to theirs (invariant 14). A
 * message of a peer is only a hint: at most, the gateway requests names again from its own sources, at
 * a bounded rate. So lost, duplicated, reordered, forged and replayed messages never change what a
 * client holds. A state machine without IO: inputs carry the time, the shell takes the effects.
 */
import { soonestOf, TokenBucket } from '../../../authorities/index.js';
import { TYPE_URL } from '../../../protos/type-urls.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import { HeldDigest } from './held-digest.js';
import {
  digestMessages,
  encodePeerMessage,
  inMessages,
  MAX_MESSAGE_BYTES,
  readPeerMessage,
  type DigestRow,
  type NameHint,
  type PeerMessage,
} from './peer-message.js';
import type { HeldChange, HeldState } from '../cache/resource-cache.js';

/** Publishes to the peer instances, or drops the message. Never throws, never waits. */
export interface PeerExchange {
  publish(bytes: Uint8Array): void;
}

export type RevalidationCause = 'hint' | 'invalidation';
export type IgnoredReason =
  'own' | 'malformed' | 'oversize' | 'unknown_format' | 'too_fast' | 'too_many_names';

export type HintEffect =
  | { readonly kind: 'publish'; readonly bytes: Uint8Array }
  /** Request this name or glob from our sources again. */
  | {
      readonly kind: 'revalidate';
      readonly typeUrl: string;
      readonly name: ResourceName;
      readonly cause: RevalidationCause;
    }
  | { readonly kind: 'revalidate_authority'; readonly authority: string }
  /** Connect now to the disconnected sources of a name, or of a group. */
  | { readonly kind: 'nudge_sources_of'; readonly name: ResourceName }
  | { readonly kind: 'nudge_group'; readonly group: string }
  /** A message, or a name in it, was ignored. */
  | { readonly kind: 'ignored'; readonly reason: IgnoredReason }
  /** Changes that were not published: not connected, or the outbox is full. */
  | { readonly kind: 'not_told'; readonly names: number };

export interface PeerHintsOptions {
  /** Unique id of this process. */
  readonly instance: string;
  /** How long to wait for our own sources to send the change that a hint reports. */
  readonly graceMs: number;
  /** The state of a name here; undefined: no client subscribes to it. */
  readonly held: (typeUrl: string, name: ResourceName) => HeldState | undefined;
  /** In [0, 1). */
  readonly random: () => number;
}

/** Limit for requests to our sources, however many messages arrive. */
const REVALIDATIONS_PER_SECOND = 100;
const SAME_NAME_INTERVAL_MS = 10_000;
const SAME_GROUP_INTERVAL_MS = 5_000;
/** One message revalidates a whole authority, so a forged one must not repeat that often. */
const SAME_AUTHORITY_INTERVAL_MS = 60_000;
/**
 * Above these rates, messages are dropped unparsed and names are ignored. The cost of parsing is per
 * byte: messages forged to parse slowly take a tenth of a core at this rate.
 */
const MESSAGES_PER_SECOND = 500;
const BYTES_PER_SECOND = 1_024 * 1_024;
const NAMES_PER_SECOND = 10_000;

/** A burst of one second's worth. */
const bucketOf = (perSecond: number): TokenBucket =>
  new TokenBucket({ maxTokens: perSecond, fillRatePerSecond: perSecond });
/** Bounds: names to publish, names to compare, and names recently published or received. */
const MAX_OUTBOX = 2_000;
const MAX_CHECKS = 4_000;
const MAX_RECENT = 4_000;
/** First responses of names are published only while the outbox has fewer names than this. */
const MAX_FIRST_ANSWERS = 500;
/** A change waits to merge with others, and for a peer to publish it first. */
const MIN_TELL_MS = 5;
const MAX_TELL_MS = 50;
/** Mean interval of published digests, and minimum interval of replies for the same row. */
const DIGEST_INTERVAL_MS = 60_000;
const DIGEST_ANSWER_INTERVAL_MS = 1_000;
/** Maximum number of recently changed names in the reply to a different digest. */
const MAX_ANSWER_NAMES = 1_000;

interface Check extends NameHint {
  readonly from: string;
  readonly dueMs: number;
}

export class PeerHints {
  readonly #options: PeerHintsOptions;
  readonly #digest = new HeldDigest();
  #connected = false;
  #effects: HintEffect[] = [];

  /** Hints to publish, by name; a later one replaces an earlier one. */
  readonly #outbox = new Map<string, NameHint>();
  #tellAtMs: number | undefined;
  /**
   * Hints published or received, the latest last. They are not published again, and they are the reply
   * to a different digest after a partition.
   */
  readonly #recent = new Map<string, NameHint>();
  #digestAtMs = Infinity;
  /** Digest replies postponed by the rate limit. */
  readonly #owed = new Map<string, DigestRow>();
  #owedAtMs = Infinity;

  /** Hints that disagree with our state. In order of deadline, since all have the same grace time. */
  readonly #checks = new Map<string, Check>();
  /** Time of the last request or reply per rate-limit key, the latest last. */
  readonly #requestedAtMs = new Map<string, number>();
  readonly #revalidations = bucketOf(REVALIDATIONS_PER_SECOND);
  readonly #messages = bucketOf(MESSAGES_PER_SECOND);
  readonly #bytes = bucketOf(BYTES_PER_SECOND);
  readonly #names = bucketOf(NAMES_PER_SECOND);
  #notBeforeMs = 0;

  constructor(options: PeerHintsOptions) {
    this.#options = options;
  }

  /** Digest rows of the held resources, comparable between instances. */
  digest(): readonly DigestRow[] {
    return this.#digest.rows().filter(({ count }) => count > 0);
  }

  // ---- local events -------------------------------------------------------------------------

  handleHeld(change: HeldChange, nowMs: number): void {
    const { typeUrl, name, before, after, cause } = change;
    const isSecret = typeUrl === TYPE_URL.secret;
    // A Secret is left out: the hash of a short secret allows guessing it.
    if (!isSecret) this.#digest.handle(typeUrl, name, before, after);
    if (cause === 'dropped') return;
    const key = keyOf(typeUrl, name);
    const version = after === undefined ? null : isSecret ? '' : after;
    if (this.#recent.get(key)?.version === version && !isSecret) {
      // A peer published this version already, and our pending hint has an older one.
      if (this.#outbox.get(key)?.version !== version) this.#outbox.delete(key);
      return;
    }
    if (cause === 'first' && this.#outbox.size >= MAX_FIRST_ANSWERS) return;
    const hint: NameHint = { typeUrl, name, version };
    this.#remember(key, hint);
    const isFull = !this.#outbox.has(key) && this.#outbox.size >= MAX_OUTBOX;
    if (!this.#connected || isFull) {
      this.#effects.push({ kind: 'not_told', names: 1 });
      return;
    }
    this.#outbox.set(key, hint);
    const { random } = this.#options;
    this.#tellAtMs ??= nowMs + MIN_TELL_MS + random() * (MAX_TELL_MS - MIN_TELL_MS);
  }

  /** The first client subscribed to a name or glob (1), or its entry was dropped (-1). */
  handleAsked(typeUrl: string, name: ResourceName, change: 1 | -1): void {
    if (typeUrl !== TYPE_URL.secret) this.#digest.handleAsked(typeUrl, name, change);
  }

  handleSwitched(group: string, to: string): void {
    this.#publish({ kind: 'switched', group, to });
  }

  /**
   * An operator invalidates a name here. Peers receive it as a hint.
   *
   * @returns whether a client subscribes to the name here.
   */
  invalidate(typeUrl: string, name: ResourceName): boolean {
    this.#publish({ kind: 'invalidate', typeUrl, name });
    const asked = this.#options.held(typeUrl, name)?.asked;
    if (!asked) return false;
    this.#effects.push({ kind: 'revalidate', typeUrl, name: asked, cause: 'invalidation' });
    return true;
  }

  /** The same for an authority; the caller revalidates it here. */
  invalidateAuthority(authority: string): void {
    this.#publish({ kind: 'invalidate_authority', authority });
  }

  // ---- the exchange -------------------------------------------------------------------------

  /** First connection or reconnection: both sides missed hints meanwhile, so compare digests now. */
  handleConnected(nowMs: number): void {
    this.#connected = true;
    this.#digestAtMs = nowMs;
  }

  handleDisconnected(): void {
    this.#connected = false;
    this.#digestAtMs = Infinity;
    this.#tellAtMs = undefined;
    this.#outbox.clear();
    this.#owedAtMs = Infinity;
    this.#owed.clear();
  }

  handleMessage(bytes: Uint8Array, nowMs: number): void {
    // Messages above the maximum are rejected unparsed, so they cost no more than the maximum.
    const readBytes = Math.min(bytes.length, MAX_MESSAGE_BYTES);
    if (!this.#messages.take(nowMs) || !this.#bytes.take(nowMs, readBytes)) {
      this.#ignore('too_fast');
      return;
    }
    const read = readPeerMessage(bytes);
    if (!read.ok) {
      this.#ignore(read.reason);
      return;
    }
    const { from, message } = read;
    if (from === this.#options.instance) this.#ignore('own');
    else this.#take(message, from, nowMs);
  }

  #take(message: PeerMessage, from: string, nowMs: number): void {
    switch (message.kind) {
      case 'changes':
        for (const hint of message.hints) {
          if (this.#names.take(nowMs)) this.#takeHint(hint, from, nowMs);
          else {
            this.#ignore('too_many_names');
            return;
          }
        }
        return;
      case 'switched':
        if (this.#mayAsk(`group ${message.group}`, SAME_GROUP_INTERVAL_MS, nowMs)) {
          this.#effects.push({ kind: 'nudge_group', group: message.group });
        }
        return;
      case 'invalidate': {
        const { typeUrl, name } = message;
        const held = this.#options.held(typeUrl, name);
        if (held) this.#revalidate(typeUrl, held.asked, 'invalidation', nowMs);
        return;
      }
      case 'invalidate_authority': {
        const { authority } = message;
        if (this.#mayAsk(`authority ${authority}`, SAME_AUTHORITY_INTERVAL_MS, nowMs)) {
          this.#effects.push({ kind: 'revalidate_authority', authority });
        }
        return;
      }
      case 'digest':
        this.#takeDigest(message.rows, message.isQuestion, nowMs);
        return;
    }
  }

  #takeHint(hint: NameHint, from: string, nowMs: number): void {
    const { typeUrl, name } = hint;
    const held = this.#options.held(typeUrl, name);
    if (!held) return;
    const key = keyOf(typeUrl, name);
    // The other peers have received this hint too.
    if (this.#outbox.get(key)?.version === hint.version) this.#outbox.delete(key);
    this.#remember(key, hint);
    const waiting = this.#checks.get(key);
    if (agrees(hint, held)) {
      // Only the sender of the pending hint may cancel it: another peer that agrees with us may be as
      // outdated as we are.
      if (waiting?.from === from) this.#checks.delete(key);
      return;
    }
    if (!waiting && this.#checks.size >= MAX_CHECKS) {
      this.#ignore('too_many_names');
      return;
    }
    const dueMs = waiting?.dueMs ?? nowMs + this.#options.graceMs;
    this.#checks.set(key, { ...hint, from, dueMs });
  }

  #takeDigest(rows: readonly DigestRow[], isQuestion: boolean, nowMs: number): void {
    const different = new Map<string, DigestRow>();
    for (const row of rows) {
      const key = rowKeyOf(row);
      const own = this.#digest.row(row.typeUrl, row.authority);
      if (!own || own.hash === row.hash) continue;
      if (!this.#wasAsked(`digest ${key}`, DIGEST_ANSWER_INTERVAL_MS, nowMs)) {
        different.set(key, own);
      } else if (isQuestion) {
        // Postpone the reply instead of dropping it: a peer that has just connected did not receive
        // the previous one.
        this.#owed.set(key, own);
        this.#owedAtMs = Math.min(this.#owedAtMs, nowMs + DIGEST_ANSWER_INTERVAL_MS);
      }
    }
    this.#answer(different, isQuestion, nowMs);
  }

  #answer(rows: ReadonlyMap<string, DigestRow>, isQuestion: boolean, nowMs: number): void {
    if (rows.size === 0) return;
    for (const key of rows.keys()) this.#noteAsked(`digest ${key}`, nowMs);
    if (isQuestion) this.#publishAll(digestMessages(false, rows.values()));
    this.#publishAll(inMessages([...this.#recentOf(rows)].slice(-MAX_ANSWER_NAMES)));
  }

  #sendPostponed(nowMs: number): void {
    const rows = new Map<string, DigestRow>();
    for (const [key, { typeUrl, authority }] of this.#owed) {
      const own = this.#digest.row(typeUrl, authority);
      if (own) rows.set(key, own);
    }
    this.#owedAtMs = Infinity;
    this.#owed.clear();
    this.#answer(rows, true, nowMs);
  }

  /** The current versions of recently changed names: a bounded list. */
  *#recentOf(rows: ReadonlyMap<string, DigestRow>): IterableIterator<NameHint> {
    for (const { typeUrl, name } of this.#recent.values()) {
      if (!rows.has(rowKeyOf({ typeUrl, authority: name.authority }))) continue;
      const held = this.#options.held(typeUrl, name);
      if (held?.version !== undefined) yield { typeUrl, name, version: held.version };
      else if (held?.kind === 'absent') yield { typeUrl, name, version: null };
    }
  }

  // ---- time ---------------------------------------------------------------------------------

  handleTimer(nowMs: number): void {
    for (const [key, check] of this.#checks) {
      if (check.dueMs > nowMs || this.#notBeforeMs > nowMs) break;
      const held = this.#options.held(check.typeUrl, check.name);
      const disagrees = held !== undefined && !agrees(check, held);
      if (disagrees && !this.#revalidate(check.typeUrl, held.asked, 'hint', nowMs, held)) break;
      this.#checks.delete(key);
    }
    if (this.#tellAtMs !== undefined && this.#tellAtMs <= nowMs) {
      this.#tellAtMs = undefined;
      this.#publishAll(inMessages(this.#outbox.values()));
      this.#outbox.clear();
    }
    if (this.#owedAtMs <= nowMs) this.#sendPostponed(nowMs);
    if (this.#digestAtMs <= nowMs) {
      // Jitter: otherwise all instances that connected together would publish together for ever.
      this.#digestAtMs = nowMs + DIGEST_INTERVAL_MS * (0.5 + this.#options.random());
      this.#publishAll(digestMessages(true, this.#digest.rows()));
    }
  }

  nextDeadlineMs(): number | undefined {
    const [check] = this.#checks.values();
    const checkMs = check && Math.max(check.dueMs, this.#notBeforeMs);
    return soonestOf(checkMs, this.#tellAtMs, this.#owedAtMs, this.#digestAtMs);
  }

  takeEffects(): readonly HintEffect[] {
    if (this.#effects.length === 0) return [];
    const taken = this.#effects;
    this.#effects = [];
    return taken;
  }

  // ---- bounds -------------------------------------------------------------------------------

  /** @returns false when the total rate is exhausted: the caller tries again at `#notBeforeMs`. */
  #revalidate(
    typeUrl: string,
    asked: ResourceName,
    cause: RevalidationCause,
    nowMs: number,
    held?: HeldState,
  ): boolean {
    const key = keyOf(typeUrl, asked);
    if (this.#wasAsked(key, SAME_NAME_INTERVAL_MS, nowMs)) return true;
    if (!this.#revalidations.take(nowMs)) {
      this.#notBeforeMs = Math.max(nowMs + 1, this.#revalidations.nextTokenMs);
      return false;
    }
    this.#noteAsked(key, nowMs);
    // Do not resubscribe a whole collection for one member: its live stream delivers the changes
    // anyway, and a burst of changes would transfer the collection again and again.
    if (held?.inCollection === true) this.#effects.push({ kind: 'nudge_sources_of', name: asked });
    else this.#effects.push({ kind: 'revalidate', typeUrl, name: asked, cause });
    return true;
  }

  #mayAsk(key: string, intervalMs: number, nowMs: number): boolean {
    if (this.#wasAsked(key, intervalMs, nowMs) || !this.#revalidations.take(nowMs)) return false;
    this.#noteAsked(key, nowMs);
    return true;
  }

  #wasAsked(key: string, intervalMs: number, nowMs: number): boolean {
    const atMs = this.#requestedAtMs.get(key);
    return atMs !== undefined && nowMs - atMs < intervalMs;
  }

  #noteAsked(key: string, nowMs: number): void {
    this.#requestedAtMs.delete(key);
    this.#requestedAtMs.set(key, nowMs);
    for (const [oldest, atMs] of this.#requestedAtMs) {
      // The longest of the intervals.
      if (nowMs - atMs < SAME_AUTHORITY_INTERVAL_MS) break;
      this.#requestedAtMs.delete(oldest);
    }
  }

  #remember(key: string, hint: NameHint): void {
    this.#recent.delete(key);
    this.#recent.set(key, hint);
    if (this.#recent.size <= MAX_RECENT) return;
    const [oldest = ''] = this.#recent.keys();
    this.#recent.delete(oldest);
  }

  // ---- messages -----------------------------------------------------------------------------

  #publishAll(messages: readonly PeerMessage[]): void {
    for (const message of messages) this.#publish(message);
  }

  #publish(message: PeerMessage): void {
    const bytes = encodePeerMessage(this.#options.instance, message);
    this.#effects.push({ kind: 'publish', bytes });
  }

  #ignore(reason: IgnoredReason): void {
    this.#effects.push({ kind: 'ignored', reason });
  }
}

/** Whether the hint matches our state, so that a new request would change nothing. */
function agrees({ version }: NameHint, held: HeldState): boolean {
  if (version === null) return held.kind !== 'present';
  if (version === '') return held.kind === 'present';
  return held.version === version;
}

const keyOf = (typeUrl: string, name: ResourceName): string => `${typeUrl} ${name.key}`;
const rowKeyOf = ({ typeUrl, authority }: Pick<DigestRow, 'typeUrl' | 'authority'>): string =>
  `${typeUrl} ${authority}`;

/**
 * What this instance tells the others of its cluster, and what it makes of what they tell. Whatever
 * comes from there is a hint: the most it leads to is that our own sources are asked once more, at a
 * bounded rate, so lost, doubled, reordered, forged and replayed messages change nothing that a
 * client holds. Bulk machine without IO; inputs carry the time, effects are taken by the shell.
 */
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
import { RateBound } from '../session/rate-bound.js';
import type { HeldChange, HeldState } from '../cache/resource-cache.js';

/** The way to the other instances, or into the void. Never throws, never waits. */
export interface PeerExchange {
  publish(bytes: Uint8Array): void;
}

export type RevalidationCause = 'hint' | 'invalidation';
export type IgnoredReason =
  'own' | 'malformed' | 'oversize' | 'unknown_format' | 'too_fast' | 'too_many_names';

export type HintEffect =
  | { readonly kind: 'publish'; readonly bytes: Uint8Array }
  /** Ask our sources about this name or glob again. */
  | {
      readonly kind: 'revalidate';
      readonly typeUrl: string;
      readonly name: ResourceName;
      readonly cause: RevalidationCause;
    }
  | { readonly kind: 'revalidate_authority'; readonly authority: string }
  /** Try the sources that are not connected: of a name, or of a group. */
  | { readonly kind: 'nudge_sources_of'; readonly name: ResourceName }
  | { readonly kind: 'nudge_group'; readonly group: string }
  /** A message had no use. */
  | { readonly kind: 'ignored'; readonly reason: IgnoredReason }
  /** There was more to tell than may wait. */
  | { readonly kind: 'not_told'; readonly names: number };

export interface PeerHintsOptions {
  /** Of this process, unlike any other's. */
  readonly instance: string;
  /** How long our own sources have to bring by themselves what a hint says. */
  readonly graceMs: number;
  /** What can be said here of a name; undefined: nobody asks for it. */
  readonly held: (typeUrl: string, name: ResourceName) => HeldState | undefined;
  /** In [0, 1). */
  readonly random: () => number;
}

/** Whatever floods in, our sources are asked no more often than this. */
const REVALIDATIONS_PER_SECOND = 100;
const SAME_NAME_INTERVAL_MS = 10_000;
const SAME_GROUP_INTERVAL_MS = 5_000;
/** All of an authority is asked again by one order: whoever forges it gets no more than that. */
const SAME_AUTHORITY_INTERVAL_MS = 60_000;
/**
 * Above these messages are dropped unread, and names unlooked. Reading costs by the byte: what is
 * forged to be slow to read takes a tenth of a core at this rate.
 */
const MESSAGES_PER_SECOND = 500;
const BYTES_PER_SECOND = 1_024 * 1_024;
const NAMES_PER_SECOND = 10_000;
/** Names that wait: to be told, to be compared; and names remembered as told or heard. */
const MAX_OUTBOX = 2_000;
const MAX_CHECKS = 4_000;
const MAX_RECENT = 4_000;
/** The first answers of a name are told only while there is room to spare. */
const MAX_FIRST_ANSWERS = 500;
/** A change waits for others, and for another instance to tell it first. */
const MIN_TELL_MS = 5;
const MAX_TELL_MS = 50;
/** How often a digest is told when nothing goes wrong, and how often one is answered at most. */
const DIGEST_INTERVAL_MS = 60_000;
const DIGEST_ANSWER_INTERVAL_MS = 1_000;
/** Of the names that changed last, so many are told to whoever holds something else. */
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

  /** To be told, by name: the latest counts. */
  readonly #outbox = new Map<string, NameHint>();
  #tellAtMs: number | undefined;
  /** Told or heard, the latest last: not told again, and what is told after a partition. */
  readonly #recent = new Map<string, NameHint>();
  #digestAtMs = Infinity;
  /** Rows of which one asked right after they were told to another, who may hear what it did not. */
  readonly #owed = new Map<string, DigestRow>();
  #owedAtMs = Infinity;

  /** Hints that disagreed, in order of deadline, since all wait equally long. */
  readonly #checks = new Map<string, Check>();
  /** What was asked again lately, the latest last. */
  readonly #askedAtMs = new Map<string, number>();
  readonly #revalidations = new RateBound(REVALIDATIONS_PER_SECOND);
  readonly #messages = new RateBound(MESSAGES_PER_SECOND);
  readonly #bytes = new RateBound(BYTES_PER_SECOND);
  readonly #names = new RateBound(NAMES_PER_SECOND);
  #notBeforeMs = 0;

  constructor(options: PeerHintsOptions) {
    this.#options = options;
  }

  /** What is held here, in comparable form. */
  digest(): readonly DigestRow[] {
    return this.#digest.rows().filter(({ count }) => count > 0);
  }

  // ---- what happens here --------------------------------------------------------------------

  handleHeld(change: HeldChange, nowMs: number): void {
    const { typeUrl, name, before, after, cause } = change;
    const isSecret = typeUrl === TYPE_URL.secret;
    // A hash of a short secret is a way to guess it.
    if (!isSecret) this.#digest.handle(typeUrl, name, before, after);
    if (cause === 'dropped') return;
    const key = keyOf(typeUrl, name);
    const version = after === undefined ? null : isSecret ? '' : after;
    if (this.#recent.get(key)?.version === version && !isSecret) {
      // What was about to be told is overtaken by what another instance told.
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

  /** A name or glob is asked for here from now on, or not any more. */
  handleAsked(typeUrl: string, name: ResourceName, change: 1 | -1): void {
    if (typeUrl !== TYPE_URL.secret) this.#digest.handleAsked(typeUrl, name, change);
  }

  handleSwitched(group: string, to: string): void {
    this.#publish({ kind: 'switched', group, to });
  }

  /**
   * An operator's order, given here; to the others it is a hint.
   *
   * @returns whether anybody asks for the name here.
   */
  invalidate(typeUrl: string, name: ResourceName): boolean {
    this.#publish({ kind: 'invalidate', typeUrl, name });
    const asked = this.#options.held(typeUrl, name)?.asked;
    if (!asked) return false;
    this.#effects.push({ kind: 'revalidate', typeUrl, name: asked, cause: 'invalidation' });
    return true;
  }

  /** The same for an authority; asking here is up to the caller. */
  invalidateAuthority(authority: string): void {
    this.#publish({ kind: 'invalidate_authority', authority });
  }

  // ---- the exchange -------------------------------------------------------------------------

  /** For the first time or once more: what was told meanwhile was missed, on both sides. */
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
    // Those that are too large are not read either.
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
    // The others have heard it too.
    if (this.#outbox.get(key)?.version === hint.version) this.#outbox.delete(key);
    this.#remember(key, hint);
    const waiting = this.#checks.get(key);
    if (agrees(hint, held)) {
      // What another one said still counts: who agrees may be as late as we are.
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
        // Put off and not dropped: who has just connected did not hear that answer.
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

  #answerOwed(nowMs: number): void {
    const rows = new Map<string, DigestRow>();
    for (const [key, { typeUrl, authority }] of this.#owed) {
      const own = this.#digest.row(typeUrl, authority);
      if (own) rows.set(key, own);
    }
    this.#owedAtMs = Infinity;
    this.#owed.clear();
    this.#answer(rows, true, nowMs);
  }

  /** What is held now under the names that changed lately: a list that has a bound. */
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
    if (this.#owedAtMs <= nowMs) this.#answerOwed(nowMs);
    if (this.#digestAtMs <= nowMs) {
      // Not all at the same time, for ever.
      this.#digestAtMs = nowMs + DIGEST_INTERVAL_MS * (0.5 + this.#options.random());
      this.#publishAll(digestMessages(true, this.#digest.rows()));
    }
  }

  nextDeadlineMs(): number | undefined {
    const [check] = this.#checks.values();
    const checkMs = check ? Math.max(check.dueMs, this.#notBeforeMs) : Infinity;
    const atMs = Math.min(checkMs, this.#tellAtMs ?? Infinity, this.#owedAtMs, this.#digestAtMs);
    return atMs === Infinity ? undefined : atMs;
  }

  takeEffects(): readonly HintEffect[] {
    if (this.#effects.length === 0) return [];
    const taken = this.#effects;
    this.#effects = [];
    return taken;
  }

  // ---- bounds -------------------------------------------------------------------------------

  /** @returns false when the bound of all names together is reached; it is to be tried again later. */
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
      this.#notBeforeMs = nowMs + this.#revalidations.waitMs;
      return false;
    }
    this.#noteAsked(key, nowMs);
    // A stream that lives brings the changes of a collection by itself. To have all of it sent again
    // for one member's sake would cost more than it is worth, in a storm of changes above all.
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
    const atMs = this.#askedAtMs.get(key);
    return atMs !== undefined && nowMs - atMs < intervalMs;
  }

  #noteAsked(key: string, nowMs: number): void {
    this.#askedAtMs.delete(key);
    this.#askedAtMs.set(key, nowMs);
    for (const [oldest, atMs] of this.#askedAtMs) {
      // The longest of them.
      if (nowMs - atMs < SAME_AUTHORITY_INTERVAL_MS) break;
      this.#askedAtMs.delete(oldest);
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

/** Would asking again only bring what is known? */
function agrees({ version }: NameHint, held: HeldState): boolean {
  if (version === null) return held.kind !== 'present';
  if (version === '') return held.kind === 'present';
  return held.version === version;
}

const keyOf = (typeUrl: string, name: ResourceName): string => `${typeUrl} ${name.key}`;
const rowKeyOf = ({ typeUrl, authority }: Pick<DigestRow, 'typeUrl' | 'authority'>): string =>
  `${typeUrl} ${authority}`;

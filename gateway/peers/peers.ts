/**
 * The shell of peer-hints.ts: it connects the core to a timer, the exchange and our upstream side, and
 * decides nothing. Without an exchange it works for this instance alone.
 */
import { randomUUID } from 'node:crypto';
import type { ResourceName } from '../../protos/resource-name.js';
import {
  PeerHints,
  type HintEffect,
  type IgnoredReason,
  type PeerExchange,
  type RevalidationCause,
} from '../core/peers/peer-hints.js';
import type { DigestRow } from '../core/peers/peer-message.js';
import type { HeldChange, HeldState } from '../core/cache/resource-cache.js';

/** The part of the upstream side that hints use. */
export interface Revalidator {
  revalidate(typeUrl: string, name: ResourceName): boolean;
  /** @returns the number of names and globs that are requested again. */
  revalidateAuthority(authority: string): number;
  nudge(groupId: string): void;
  groupIdOf(name: ResourceName): string | undefined;
}

export interface PeersEvents {
  onRevalidated(cause: RevalidationCause, names: number): void;
  onIgnored(reason: IgnoredReason): void;
  onReceived(): void;
  onNotTold(names: number): void;
  onError(error: unknown): void;
}

export interface PeersOptions {
  readonly graceMs: number;
  readonly held: (typeUrl: string, name: ResourceName) => HeldState | undefined;
  readonly upstream: Revalidator;
  readonly events: PeersEvents;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
}

/** Node may fire a timer up to 1 ms early by rounding; without slack nothing would be due yet. */
const TIMER_SLACK_MS = 1;

export class Peers {
  /** Unique id of this process. */
  readonly instance = randomUUID();
  readonly #options: PeersOptions;
  readonly #hints: PeerHints;
  #exchange: PeerExchange | undefined;
  #timer: NodeJS.Timeout | undefined;
  #timerAtMs = Infinity;
  #performing = false;
  #closed = false;

  constructor(options: PeersOptions) {
    this.#options = options;
    const { graceMs, held } = options;
    const { instance } = this;
    this.#hints = new PeerHints({ instance, graceMs, held, random: Math.random });
  }

  digest(): readonly DigestRow[] {
    return this.#hints.digest();
  }

  join(exchange: PeerExchange): void {
    this.#exchange = exchange;
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  handleHeld(change: HeldChange): void {
    this.#run((nowMs) => {
      this.#hints.handleHeld(change, nowMs);
    });
  }

  handleAsked(typeUrl: string, name: ResourceName, change: 1 | -1): void {
    this.#run(() => {
      this.#hints.handleAsked(typeUrl, name, change);
    });
  }

  handleSwitched(group: string, to: string): void {
    this.#run(() => {
      this.#hints.handleSwitched(group, to);
    });
  }

  handleConnected(): void {
    this.#run((nowMs) => {
      this.#hints.handleConnected(nowMs);
    });
  }

  handleDisconnected(): void {
    this.#run(() => {
      this.#hints.handleDisconnected();
    });
  }

  handleMessage(bytes: Uint8Array): void {
    this.#options.events.onReceived();
    this.#run((nowMs) => {
      this.#hints.handleMessage(bytes, nowMs);
    });
  }

  /** @returns whether a client subscribes to the name here. */
  invalidate(typeUrl: string, name: ResourceName): boolean {
    let isAsked = false;
    this.#run(() => {
      isAsked = this.#hints.invalidate(typeUrl, name);
    });
    return isAsked;
  }

  /** @returns the number of names and globs that are requested again here. */
  invalidateAuthority(authority: string): number {
    let names = 0;
    this.#run(() => {
      this.#hints.invalidateAuthority(authority);
      names = this.#revalidateAuthority(authority);
    });
    return names;
  }

  /** Callers are the cache, the NATS library and a timer: an exception must not reach any of them. */
  #run(input: (nowMs: number) => void): void {
    if (this.#closed) return;
    try {
      input(this.#options.clock());
      this.#perform();
      this.#armTimer();
    } catch (error) {
      this.#options.events.onError(error);
    }
  }

  #perform(): void {
    if (this.#performing) return;
    this.#performing = true;
    try {
      for (;;) {
        const effects = this.#hints.takeEffects();
        if (effects.length === 0) return;
        for (const effect of effects) this.#performOne(effect);
      }
    } finally {
      this.#performing = false;
    }
  }

  #performOne(effect: HintEffect): void {
    const { upstream, events } = this.#options;
    switch (effect.kind) {
      case 'publish':
        this.#exchange?.publish(effect.bytes);
        return;
      case 'revalidate': {
        const isWatched = upstream.revalidate(effect.typeUrl, effect.name);
        if (isWatched) events.onRevalidated(effect.cause, 1);
        return;
      }
      case 'revalidate_authority':
        this.#revalidateAuthority(effect.authority);
        return;
      case 'nudge_sources_of': {
        const group = upstream.groupIdOf(effect.name);
        if (group !== undefined) upstream.nudge(group);
        return;
      }
      case 'nudge_group':
        upstream.nudge(effect.group);
        return;
      case 'ignored':
        events.onIgnored(effect.reason);
        return;
      case 'not_told':
        events.onNotTold(effect.names);
        return;
    }
  }

  #revalidateAuthority(authority: string): number {
    const { upstream, events } = this.#options;
    const names = upstream.revalidateAuthority(authority);
    events.onRevalidated('invalidation', names);
    return names;
  }

  #armTimer(): void {
    const dueMs = this.#hints.nextDeadlineMs() ?? Infinity;
    if (dueMs === this.#timerAtMs) return;
    clearTimeout(this.#timer);
    this.#timerAtMs = dueMs;
    if (dueMs === Infinity) return;
    const waitMs = Math.max(0, dueMs - this.#options.clock()) + TIMER_SLACK_MS;
    this.#timer = setTimeout(() => {
      this.#timerAtMs = Infinity;
      this.#run((nowMs) => {
        this.#hints.handleTimer(nowMs);
      });
    }, waitMs);
    this.#timer.unref();
  }
}

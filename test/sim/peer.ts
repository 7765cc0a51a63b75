/**
 * Does around the core of the hints what gateway/peers/peers.ts and gateway/peers/connect-peers.ts
 * do, in their order.
 */
import type { Federation } from '../../authorities/core/federation.js';
import { PeerHints, type HintEffect } from '../../gateway/core/peers/peer-hints.js';
import type { DigestRow } from '../../gateway/core/peers/peer-message.js';
import type { HeldChange, ResourceCache } from '../../gateway/core/cache/resource-cache.js';
import type { ResourceName } from '../../protos/resource-name.js';
import type { ProcessClock } from './clocks.js';
import type { HintWatch } from './hint-watch.js';
import type { Nats, NatsMember } from './nats.js';
import type { Random } from './random.js';

/** The process that contains it. */
export interface PeerHost {
  readonly name: string;
  readonly process: string;
  readonly clock: ProcessClock;
  readonly federation: Federation;
  readonly cache: ResourceCache;
  readonly isAlive: boolean;
  act(work: () => void): void;
}

/** The network between instances. */
export interface PeerNet {
  readonly nats: Nats;
  readonly dice: Random;
  readonly watch: HintWatch;
}

const GRACE_MS = 1_000;

export class Peer implements NatsMember {
  readonly name: string;
  readonly #host: PeerHost;
  readonly #net: PeerNet;
  readonly #hints: PeerHints;
  #timerAtMs = Infinity;
  #timer = 0;
  #performing = false;
  /** The present effects come from an operator's order, which has no rate limit. */
  #isOrder = false;

  constructor(host: PeerHost, net: PeerNet) {
    this.name = host.name;
    this.#host = host;
    this.#net = net;
    this.#hints = new PeerHints({
      instance: host.process,
      graceMs: GRACE_MS,
      held: (typeUrl, name) => host.cache.held(typeUrl, name),
      random: () => net.dice.next(),
    });
  }

  start(): void {
    this.#net.nats.join(this);
  }

  close(): void {
    this.#net.nats.leave(this);
  }

  digest(): readonly DigestRow[] {
    return this.#hints.digest();
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
    this.#run((nowMs) => {
      this.#hints.handleMessage(bytes, nowMs);
    });
  }

  invalidate(typeUrl: string, name: ResourceName): void {
    this.#isOrder = true;
    this.#run(() => {
      this.#hints.invalidate(typeUrl, name);
    });
    this.#isOrder = false;
  }

  invalidateAuthority(authority: string): void {
    this.#run(() => {
      this.#hints.invalidateAuthority(authority);
      this.#host.act(() => {
        this.#revalidateAuthority(authority);
      });
    });
  }

  #run(input: (nowMs: number) => void): void {
    if (!this.#host.isAlive) return;
    input(this.#host.clock.nowMs);
    this.#perform();
    this.#armTimer();
  }

  #perform(): void {
    if (this.#performing) return;
    this.#performing = true;
    for (;;) {
      const effects = this.#hints.takeEffects();
      if (effects.length === 0) break;
      const upstream = effects.filter((effect) => !this.#performHere(effect));
      if (upstream.length === 0) continue;
      // Pumped once, like work scheduled for the end of a turn.
      this.#host.act(() => {
        for (const effect of upstream) this.#performUpstream(effect);
      });
    }
    this.#performing = false;
  }

  #performHere(effect: HintEffect): boolean {
    if (effect.kind === 'publish') this.#net.nats.publish(this, effect.bytes);
    return effect.kind === 'publish' || effect.kind === 'ignored' || effect.kind === 'not_told';
  }

  #performUpstream(effect: HintEffect): void {
    const { federation, clock, process } = this.#host;
    if (!this.#isOrder) this.#net.watch.onEffect(process, effect, clock.nowMs);
    switch (effect.kind) {
      case 'revalidate':
        federation.revalidate(effect.typeUrl, effect.name, clock.nowMs);
        return;
      case 'revalidate_authority':
        this.#revalidateAuthority(effect.authority);
        return;
      case 'nudge_sources_of': {
        const group = federation.groupFor(effect.name);
        if (group) this.#nudge(group.id);
        return;
      }
      case 'nudge_group':
        this.#nudge(effect.group);
        return;
      default:
    }
  }

  #revalidateAuthority(authority: string): void {
    const { federation, clock } = this.#host;
    for (const group of federation.groupsOf(authority)) group.revalidateAll(clock.nowMs);
  }

  #nudge(groupId: string): void {
    const { federation, clock } = this.#host;
    federation.groups.find(({ id }) => id === groupId)?.nudge(clock.nowMs);
  }

  #armTimer(): void {
    const dueMs = this.#hints.nextDeadlineMs() ?? Infinity;
    if (dueMs === this.#timerAtMs) return;
    this.#timerAtMs = dueMs;
    const armed = ++this.#timer;
    if (dueMs === Infinity) return;
    const { clock } = this.#host;
    clock.at(Math.max(dueMs, clock.nowMs) + 1, () => {
      if (armed !== this.#timer) return;
      this.#timerAtMs = Infinity;
      this.#run((nowMs) => {
        this.#hints.handleTimer(nowMs);
      });
    });
  }
}

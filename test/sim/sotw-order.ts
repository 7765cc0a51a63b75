/**
 * The unacknowledged responses of a state-of-the-world client, and the order of the next ones (GRPC
 * 9): additions come before the resources that refer to them, and removals come last. Every wait of
 * the gateway has a deadline, so this is checked only where none can have passed.
 */
import { MOST_DRIFT } from './clocks.js';
import { REPLACED_WAIT_MS } from './delta-order.js';
import { waitingOf, type Sent } from './in-flight.js';
import type { WhichResponse } from './model-client.js';
import { CDS, EDS, LDS, rankOf, RDS } from './names.js';
import { Violation, type Oracle } from './oracle.js';
import type { SotwHeld } from './sotw-state.js';
import { ACK_DEADLINE_MS } from './world.js';

export interface Unanswered extends Sent {
  readonly versionInfo: string;
  /** Number among the responses of this client. */
  readonly order: number;
  readonly bringsNew: boolean;
  /** The names in it. */
  readonly names: readonly string[];
  /** What the client held of the type then, as far as it still wants it. */
  readonly offered: Map<string, SotwHeld>;
  /** The names that its version covers, wanted or not. */
  readonly covered: ReadonlySet<string>;
}

/** The effect of a response. */
export interface Change {
  readonly typeUrl: string;
  readonly resources: number;
  /** Names from this stream that the response leaves out. */
  readonly removed: readonly string[];
  readonly sentMs: number;
}

const SURELY_WAITING_MS = ACK_DEADLINE_MS / 2;
/** Removals take effect after this quiet time. */
const QUIET_MS = 1_000 * (1 - 2 * MOST_DRIFT);

export class SotwOrder {
  readonly #oracle: Oracle;
  #unanswered: Unanswered[] = [];
  /** When the client last had acknowledged everything; when it last sent a late ACK. */
  #settledMs = -Infinity;
  #slowMs = -Infinity;
  /** When content was last sent. */
  #busyMs = -Infinity;

  constructor(oracle: Oracle) {
    this.#oracle = oracle;
  }

  /** @param mutedType the type that the client never acknowledges. */
  unansweredSinceMs(mutedType: string | undefined): number | undefined {
    return this.#unanswered.find(({ typeUrl }) => typeUrl !== mutedType)?.sentMs;
  }

  of(typeUrl: string): readonly Unanswered[] {
    return this.#unanswered.filter((one) => one.typeUrl === typeUrl);
  }

  waiting(typeUrl: string): readonly Unanswered[] {
    return waitingOf(this.of(typeUrl));
  }

  /** A new stream began. */
  clear(): void {
    this.#unanswered = [];
    this.#busyMs = -Infinity;
  }

  push(response: Unanswered): void {
    this.#unanswered.push(response);
  }

  /** @returns the first matching response, which is acknowledged now. */
  take(nowMs: number, which: WhichResponse): Unanswered | undefined {
    const at = this.#unanswered.findIndex(which);
    const [answered] = at < 0 ? [] : this.#unanswered.splice(at, 1);
    if (!answered) return undefined;
    for (const one of this.waiting(answered.typeUrl)) one.isPassedOver = one.order < answered.order;
    if (nowMs - answered.sentMs > ACK_DEADLINE_MS / 8) this.#slowMs = nowMs;
    if (waitingOf(this.#unanswered).length === 0) this.#settledMs = nowMs;
    return answered;
  }

  /** @throws Violation */
  check(change: Change): void {
    const { resources, removed, sentMs } = change;
    const isSettled = sentMs - this.#settledMs <= SURELY_WAITING_MS;
    const isQuick = sentMs - this.#slowMs >= 2 * ACK_DEADLINE_MS;
    if (isSettled && isQuick) this.#checkWaits(change);
    if (this.#isJustGone(change)) {
      if (sentMs < this.#busyMs + QUIET_MS) {
        throw new Violation('GRPC 9', `${removed[0]} is left out right after other changes`);
      }
    }
    if (resources > 0 && removed.length === 0) this.#busyMs = sentMs;
  }

  #checkWaits(change: Change): void {
    const { typeUrl, resources, removed, sentMs } = change;
    const unanswered = waitingOf(this.#unanswered);
    const replacing = unanswered.filter((one) => one.bringsNew);
    const isLate = typeUrl === LDS || typeUrl === RDS;
    const isContent = resources > 0 && removed.length === 0;
    if (isContent && isLate && replacing.some((one) => one.typeUrl === CDS)) {
      throw new Violation('6', `${typeUrl} comes before the ACK of new clusters`);
    }
    if (!this.#isJustGone(change)) return;
    const [name] = removed;
    const mayReplace = (one: Unanswered): boolean =>
      rankOf(one.typeUrl) > rankOf(EDS) || one.sentMs > sentMs - REPLACED_WAIT_MS;
    if (replacing.some(mayReplace)) {
      throw new Violation('16', `${name} is removed before the ACK of new resources`);
    }
    const rank = Math.max(rankOf(typeUrl), rankOf(EDS));
    const above = unanswered.find((one) => rankOf(one.typeUrl) > rank);
    if (above) throw new Violation('6', `${name} is removed before the ACK of ${above.typeUrl}`);
  }

  /**
   * A removal waits for other things too, but not beyond a deadline: so only recent deletions
   * count.
   */
  #isJustGone({ removed, sentMs }: Change): boolean {
    return this.#haveGone(removed, sentMs - SURELY_WAITING_MS);
  }

  #haveGone(removed: readonly string[], sinceMs: number): boolean {
    return removed.length > 0 && removed.every((name) => this.#oracle.wentSince(name, sinceMs));
  }
}

/**
 * When a client sends its ACKs, beyond its normal delay. An Envoy withholds the ACK of clusters
 * until they are warm, for ever if a secret never comes, and continues to read.
 */
import { Random } from './random.js';

export interface AckManners {
  /** It never acknowledges a response of this type. */
  readonly mutedType: string | undefined;
  /** This continues after the faults are healed. */
  readonly staysMute: boolean;
  /** Share of responses with a late ACK, and the maximum delay. */
  readonly lateShare: number;
  readonly lateMs: number;
  /**
   * A late ACK delays later ACKs of its type; otherwise a newer response may be acknowledged first.
   */
  readonly keepsOrder: boolean;
}

const SHARE_OF_WORLDS = 0.35;
/** Share of a client's new streams. */
const WARMING_SHARE = 0.3;
/** Longer than the gateway waits for it. */
const LONGEST_WARMING_MS = 20_000;

export class AckHabits {
  readonly #dice: Random;
  readonly #types: readonly string[];
  readonly #share: number;

  constructor(seed: number, isThere: boolean, types: readonly string[]) {
    this.#dice = new Random(seed, 'late acks');
    this.#types = types;
    this.#share = this.#dice.chance(SHARE_OF_WORLDS) && isThere ? this.#dice.pick([0.5, 1]) : 0;
  }

  get areThere(): boolean {
    return this.#share > 0;
  }

  /** For the next client; undefined: it acknowledges every response when it has read it. */
  next(): AckManners | undefined {
    if (!this.#dice.chance(this.#share)) return undefined;
    return {
      mutedType: this.#dice.chance(0.4) ? this.#dice.pick(this.#types) : undefined,
      staysMute: this.#dice.chance(0.5),
      lateShare: this.#dice.pick([0, 0.2, 0.7]),
      lateMs: this.#dice.pick([1_500, 6_000, 30_000]),
      keepsOrder: this.#dice.chance(0.5),
    };
  }
}

/** The delays of one client's ACKs. */
export class AckDelays {
  readonly #manners: AckManners;
  readonly #dice: Random;
  /** By type: the time of the latest ACK. */
  readonly #busyUntilMs = new Map<string, number>();
  #isHealed = false;

  constructor(manners: AckManners, seed: number, client: string) {
    this.#manners = manners;
    this.#dice = new Random(seed, `late acks of ${client}`);
  }

  get keepsOrder(): boolean {
    return this.#manners.keepsOrder;
  }

  /** @returns how long a new stream lacks the request for clusters, since one of them warms (ENVOY 24) */
  warmingMs(): number | undefined {
    if (this.#isHealed || !this.#dice.chance(WARMING_SHARE)) return undefined;
    return this.#dice.between(100, LONGEST_WARMING_MS);
  }

  heal(): void {
    this.#isHealed = true;
    this.#busyUntilMs.clear();
  }

  /** @returns when to acknowledge a response that is read now; undefined: never. */
  dueMs(typeUrl: string, nowMs: number): number | undefined {
    const { mutedType, staysMute, lateShare, lateMs, keepsOrder } = this.#manners;
    if (typeUrl === mutedType && (staysMute || !this.#isHealed)) return undefined;
    if (this.#isHealed) return nowMs;
    const dueMs = this.#dice.chance(lateShare) ? nowMs + this.#dice.between(0, lateMs) : nowMs;
    if (!keepsOrder) return dueMs;
    const afterMs = Math.max(dueMs, this.#busyUntilMs.get(typeUrl) ?? 0);
    this.#busyUntilMs.set(typeUrl, afterMs);
    return afterMs;
  }
}

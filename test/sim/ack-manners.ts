/**
 * When a client acknowledges a response, beside the time that it thinks: an Envoy withholds the ACK of
 * clusters until they are warm, for ever if a secret never comes, and reads on meanwhile.
 */
import { Random } from './random.js';

export interface AckManners {
  /** It never acknowledges a response of this type. */
  readonly mutedType: string | undefined;
  /** It goes on so when everything is well again. */
  readonly staysMute: boolean;
  /** The share of responses that it acknowledges late, and how late at most. */
  readonly lateShare: number;
  readonly lateMs: number;
  /** A late ACK holds up those of the same type; else a newer response is acknowledged before an older one. */
  readonly keepsOrder: boolean;
}

const SHARE_OF_WORLDS = 0.35;

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

  /** Of the next client; undefined: it acknowledges everything when it has read it. */
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

/** Decides for the responses of one client. */
export class AckDelays {
  readonly #manners: AckManners;
  readonly #dice: Random;
  /** By type: no response of it is acknowledged before. */
  readonly #busyUntilMs = new Map<string, number>();
  #isHealed = false;

  constructor(manners: AckManners, seed: number, client: string) {
    this.#manners = manners;
    this.#dice = new Random(seed, `late acks of ${client}`);
  }

  get keepsOrder(): boolean {
    return this.#manners.keepsOrder;
  }

  heal(): void {
    this.#isHealed = true;
    this.#busyUntilMs.clear();
  }

  /** @returns when a response that was read now is acknowledged; undefined: never. */
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

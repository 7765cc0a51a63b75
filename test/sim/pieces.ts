/**
 * Servers that split a response into several messages, moments apart, and that may die in between.
 * Each message is small, so nothing shows that more will come. Uses its own dice.
 */
import type { AuthorityMap } from '../../config/model.js';
import { Random } from './random.js';

/** A part of a response, with its delay after the first part. */
export interface Piece<T> {
  readonly items: readonly T[];
  readonly afterMs: number;
}

const SHARE_OF_WORLDS = 0.3;
const MOST_PIECES = 5;
const LEAST_GAP_MS = 20;
const MOST_GAP_MS = 2_000;
/** A collection counts as complete when no message came for `switch_wait` plus this. */
const QUIET_EXTRA_MS = 500;

/** The habits of the servers of one world. */
export class PieceHabits {
  readonly #seed: number;
  readonly #share: number;
  readonly #mostGapMs: number;

  /** @param latencyMs maximum by which the gap between two messages may grow on the network. */
  constructor(seed: number, isThere: boolean, map: AuthorityMap, latencyMs: number) {
    const dice = new Random(seed, 'pieces');
    this.#seed = seed;
    this.#share = dice.chance(SHARE_OF_WORLDS) && isThere ? dice.pick([0.5, 1]) : 0;
    const specs = [...map.authorities.values(), ...(map.oldStyle?.servedBy ?? [])];
    const waitsMs = specs.map(({ failover }) => failover.switchWaitMs);
    const quietMs = Math.min(...waitsMs) + QUIET_EXTRA_MS;
    this.#mostGapMs = Math.min(MOST_GAP_MS, Math.floor(0.9 * quietMs) - 2 * latencyMs);
  }

  get areThere(): boolean {
    return this.#share > 0;
  }

  /** For one server; undefined: it responds in one message. */
  of(source: string): Pieces | undefined {
    const dice = new Random(this.#seed, `pieces of ${source}`);
    return dice.chance(this.#share) ? new Pieces(dice, this.#mostGapMs) : undefined;
  }
}

export class Pieces {
  readonly #dice: Random;
  readonly #mostGapMs: number;
  #isWell = false;

  constructor(dice: Random, mostGapMs: number) {
    this.#dice = dice;
    this.#mostGapMs = mostGapMs;
  }

  /** It dies no more. */
  heal(): void {
    this.#isWell = true;
  }

  /** @param isAnswer a response to a request; otherwise a change. */
  cut<T>(items: readonly T[], isAnswer: boolean): readonly Piece<T>[] {
    if (items.length < 2 || !this.#dice.chance(isAnswer ? 0.8 : 0.3)) {
      return [{ items, afterMs: 0 }];
    }
    const pieces: Piece<T>[] = [];
    const shuffled = this.#dice.shuffled(items);
    const most = Math.min(MOST_PIECES, items.length);
    let afterMs = 0;
    for (let left = this.#dice.between(2, most); left > 0; left--) {
      const count =
        left === 1 ? shuffled.length : this.#dice.between(1, shuffled.length - left + 1);
      pieces.push({ items: shuffled.splice(0, count), afterMs });
      afterMs += this.#dice.between(LEAST_GAP_MS, this.#mostGapMs);
    }
    return pieces;
  }

  /**
   * @returns when the stream ends after the first piece, without the rest; undefined: it does not.
   */
  deathMs(pieces: readonly Piece<unknown>[]): number | undefined {
    const last = pieces.at(-1);
    if (this.#isWell || !last || pieces.length < 2 || !this.#dice.chance(0.15)) return undefined;
    return this.#dice.between(0, last.afterMs - 1);
  }
}

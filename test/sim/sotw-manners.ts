/** Which clients of a world use the state-of-the-world protocol, and how. Uses its own dice. */
import { Random } from './random.js';

/** Differences between such clients (docs/GRPC.md). */
export interface SotwManners {
  /** Names and types in any order, like gRPC's clients. */
  readonly shuffles: boolean;
  /** Its Node requests each resource in a `Resource`. */
  readonly wraps: boolean;
  /** A Node in every request, like Envoy and grpc-java. */
  readonly repeatsNode: boolean;
  /** NACKs and the next stream carry the refused version, like the C core and grpc-js. */
  readonly tellsRefusedVersion: boolean;
}

/** Settings of the gateway for such clients. */
export interface SotwSettings {
  readonly placeholders: boolean;
  readonly endsUnanswerable: boolean;
}

const SHARE_OF_WORLDS = 0.4;

export class Flavours {
  readonly settings: SotwSettings;
  readonly #dice: Random;
  readonly #share: number;

  constructor(seed: number, mayHaveSotw: boolean) {
    this.#dice = new Random(seed, 'flavours');
    this.#share = this.#dice.chance(SHARE_OF_WORLDS) && mayHaveSotw ? this.#dice.pick([0.5, 1]) : 0;
    this.settings = {
      placeholders: this.#dice.chance(0.4),
      endsUnanswerable: this.#dice.chance(0.3),
    };
  }

  /** For the next client; undefined: it uses delta. */
  next(): SotwManners | undefined {
    if (!this.#dice.chance(this.#share)) return undefined;
    const isEnvoy = this.#dice.chance(0.4);
    return {
      shuffles: !isEnvoy,
      wraps: this.#dice.chance(0.3),
      repeatsNode: isEnvoy || this.#dice.chance(0.3),
      tellsRefusedVersion: !isEnvoy && this.#dice.chance(0.4),
    };
  }
}

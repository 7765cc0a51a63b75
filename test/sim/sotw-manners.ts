/** Which clients of a world speak the state-of-the-world flavour, and how. The dice are of their own. */
import { Random } from './random.js';

/** In what clients of that flavour differ (docs/GRPC.md). */
export interface SotwManners {
  /** Names and types in any order, as gRPC's have them. */
  readonly shuffles: boolean;
  /** Its Node asks for each resource in a `Resource`. */
  readonly wraps: boolean;
  /** A Node in every request, as Envoy and grpc-java send it. */
  readonly repeatsNode: boolean;
  /** A NACK tells the version that it refuses, and so does the next stream: the C core, grpc-js. */
  readonly tellsRefusedVersion: boolean;
}

/** How the gateway is set for such clients. */
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

  /** Of the next client; undefined: delta. */
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

/**
 * Clients that subscribe the wildcard of old-style names, leave it before its source answers, and
 * subscribe it again. Uses its own dice.
 */
import type { ClientLink } from './client-link.js';
import { nameText, oldAuthority } from './names.js';
import { Random } from './random.js';
import type { Scene } from './scene.js';

/** Longer than an instance takes to notice that no client has a name: one second. */
const AWAY_MS = { least: 1_000, most: 4_000 };
/** Less than the time after which a name counts as absent. */
const MOST_SLOW_MS = 3_000;

/** The type of the toggled wildcards; another type keeps the stream to the source open. */
export const toggledType = (types: readonly string[]): string => types.at(-1)!;

export class WildcardToggles {
  readonly #scene: Scene;
  readonly #dice: Random;
  #stopped = false;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#dice = new Random(scene.spec.seed, 'wildcard toggles');
  }

  start(): void {
    if (this.#scene.spec.rare !== 'wildcards') return;
    for (const { temper } of this.#scene.upstreams.values()) {
      temper.slowMs = this.#dice.between(100, MOST_SLOW_MS);
    }
    for (const link of this.#scene.clients) this.#askLater(link, 20_000);
  }

  /** Those who have left it by then stay away. */
  stop(): void {
    this.#stopped = true;
  }

  #later(leastMs: number, mostMs: number, act: () => void): void {
    this.#scene.queue.after(this.#dice.between(leastMs, mostMs), () => {
      if (!this.#stopped) act();
    });
  }

  #askLater(link: ClientLink, mostMs: number): void {
    this.#later(AWAY_MS.least, mostMs, () => {
      this.#ask(link);
    });
  }

  /** Subscribes it for a moment, and then for longer. */
  #ask(link: ClientLink): void {
    this.#change(link, true);
    this.#later(1, 300, () => {
      this.#change(link, false);
      this.#later(AWAY_MS.least, AWAY_MS.most, () => {
        this.#change(link, true);
        this.#later(20_000, 120_000, () => {
          this.#change(link, false);
          this.#askLater(link, 60_000);
        });
      });
    });
  }

  #change(link: ClientLink, asks: boolean): void {
    const { node } = link.client.spec;
    if (node === undefined) return;
    const typeUrl = toggledType(this.#scene.spec.types);
    const wildcard = nameText(oldAuthority(node), typeUrl, '*');
    if (asks) link.change(typeUrl, [wildcard], []);
    // The workload may have left it. A first request without names would subscribe it (seed 81696).
    else if (link.client.type(typeUrl).subscribed.has(wildcard)) {
      link.change(typeUrl, [], [wildcard]);
    }
  }
}

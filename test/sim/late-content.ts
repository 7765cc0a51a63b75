/**
 * Servers without their full content when they start: for some seconds they are silent, report
 * everything absent, have a few names only, or know no endpoints (`isBare`). The gateway's deletion guard holds for longer. Uses
 * its own dice.
 */
import type { AuthorityMap } from '../../config/model.js';
import { Random } from './random.js';
import type { Scene } from './scene.js';
import type { Upstream } from './upstream.js';

const LEAST_MS = 1_000;
const MOST_MS = 8_000;
/** It ends this long before the deletion guard. */
const MARGIN_MS = 500;

export class LateContent {
  readonly #scene: Scene;
  readonly #dice: Random;
  /** Of later worlds: the others stay as they were. */
  readonly #bareDice: Random;
  readonly #mostMs: number;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#dice = new Random(scene.spec.seed, 'late content');
    this.#bareDice = new Random(scene.spec.seed, 'bare starts');
    this.#mostMs = Math.min(MOST_MS, leastGuardMs(scene.spec.map) - MARGIN_MS);
  }

  /** Some have no content when the world begins. */
  start(): void {
    for (const server of this.#scene.upstreams.values()) {
      if (this.#dice.chance(0.3)) this.#begin(server);
    }
  }

  /** A server restarts; its content comes late. */
  restart(server: Upstream): void {
    const { links } = this.#scene;
    for (const link of links.of(server.name)) links.cut(link);
    this.#begin(server);
  }

  heal(): void {
    for (const server of this.#scene.upstreams.values()) this.#release(server);
  }

  #begin(server: Upstream): void {
    // Directories have no such phase.
    if (server.onAnnounced || server.missing) return;
    const { queue, oracle } = this.#scene;
    const kind = this.#dice.pick(['silent', 'empty', 'empty', 'few'] as const);
    const isBare = this.#scene.spec.hasBareStarts && this.#bareDice.chance(0.3);
    const names = kind === 'few' && !isBare ? this.#dice.some(server.names, 0.3) : [];
    const missing = { isSilent: kind === 'silent' && !isBare, isBare, kept: new Set(names) };
    const ms = this.#dice.between(LEAST_MS, this.#mostMs);
    this.#scene.log(`${server.name} starts ${isBare ? 'bare' : kind} for ${ms} ms`);
    server.missing = missing;
    if (isBare) oracle.history.noteBare(server.name, queue.nowMs, queue.nowMs + ms);
    if (!missing.isSilent && !isBare)
      oracle.history.noteDenying(server.name, missing.kept, queue.nowMs);
    queue.after(ms, () => {
      if (server.missing === missing) this.#release(server);
    });
  }

  #release(server: Upstream): void {
    if (!server.missing) return;
    const { queue, oracle } = this.#scene;
    this.#scene.log(`${server.name} has all`);
    if (!server.missing.isBare) oracle.history.noteReleased(server.name, queue.nowMs);
    server.release();
  }
}

function leastGuardMs({ authorities, oldStyle }: AuthorityMap): number {
  const specs = [...authorities.values(), ...(oldStyle?.servedBy ?? [])];
  return Math.min(...specs.map(({ failover }) => failover.deletionGuard.waitMs));
}

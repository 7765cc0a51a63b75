/** Machines that restart while their sources are away, in worlds that keep content on disk. */
import { Random } from './random.js';
import type { Scene } from './scene.js';

export class ContentFaults {
  readonly #scene: Scene;
  readonly #dice: Random;
  #isHealed = false;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#dice = new Random(scene.spec.seed, 'content faults');
  }

  start(): void {
    const { queue, spec } = this.#scene;
    if (!spec.keepsContent) return;
    queue.after(this.#dice.between(1, 4 * spec.faultEveryMs), () => {
      if (this.#isHealed) return;
      this.#startInOutage();
      this.start();
    });
  }

  heal(): void {
    this.#isHealed = true;
  }

  #startInOutage(): void {
    const scene = this.#scene;
    const dice = this.#dice;
    const index = dice.below(scene.instances.length);
    const awayMs = dice.between(100, 8_000);
    scene.log(`FAULT start_in_outage of gateway${index}`);
    scene.crash(index, awayMs);
    for (const server of dice.some([...scene.upstreams.values()], 0.8)) {
      server.temper.reachability = 'refuse';
      for (const link of scene.links.of(server.name)) scene.links.cut(link);
      scene.queue.after(awayMs + dice.between(1, 20_000), () => {
        server.temper.reachability = 'up';
      });
    }
  }
}

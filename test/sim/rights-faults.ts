/** Rules for clients that change while the clients are served. */
import { Random } from './random.js';
import { makeRules } from './rights.js';
import type { Scene } from './scene.js';

/** Changes the rules again and again until the world is healed. */
export class RightsFaults {
  readonly #scene: Scene;
  readonly #dice: Random;
  #healed = false;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#dice = new Random(scene.spec.seed, 'changes of rights');
  }

  start(): void {
    if (!this.#scene.spec.map.clients) return;
    const { queue, spec } = this.#scene;
    queue.after(this.#dice.between(1, 3 * spec.faultEveryMs), () => {
      if (this.#healed) return;
      this.#scene.log('FAULT rights');
      const { map } = this.#scene;
      const names = spec.clients.map(({ name }) => name);
      this.#scene.reload({ ...map, clients: makeRules(this.#dice, map, names) });
      this.start();
    });
  }

  heal(): void {
    this.#healed = true;
  }
}

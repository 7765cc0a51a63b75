/** What goes wrong around starts, of sources and of the gateway; by dice of its own. */
import { LateContent } from './late-content.js';
import { Random } from './random.js';
import type { Scene } from './scene.js';

export class ColdFaults {
  readonly #scene: Scene;
  readonly #dice: Random;
  readonly #lateContent: LateContent;
  readonly #kinds: readonly (readonly [string, () => void])[];
  #healed = false;

  constructor(scene: Scene) {
    const { hasLateContent } = scene.spec;
    this.#scene = scene;
    this.#dice = new Random(scene.spec.seed, 'cold faults');
    this.#lateContent = new LateContent(scene);
    const restart = (): void => {
      this.#lateContent.restart(this.#dice.pick([...scene.upstreams.values()]));
    };
    this.#kinds = [...(hasLateContent ? [['restart_source', restart] as const] : [])];
  }

  start(): void {
    if (this.#scene.spec.hasLateContent) this.#lateContent.start();
    if (this.#kinds.length > 0) this.#next();
  }

  #next(): void {
    const { queue, spec } = this.#scene;
    queue.after(this.#dice.between(1, 2 * spec.faultEveryMs), () => {
      if (this.#healed) return;
      const [name, fault] = this.#dice.pick(this.#kinds);
      this.#scene.log(`FAULT ${name}`);
      fault();
      this.#next();
    });
  }

  heal(): void {
    this.#healed = true;
    this.#lateContent.heal();
    for (const { pieces } of this.#scene.upstreams.values()) pieces?.heal();
  }
}

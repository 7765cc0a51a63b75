/** Faults of the features that only some worlds have, each with its own dice. */
import { MACHINE_CLOCK_FAULTS } from './clock-faults.js';
import { DISK_FAULTS } from './disk-faults.js';
import type { ExtraFault } from './extra-fault.js';
import type { Extra } from './extras.js';
import { FILE_FAULTS } from './file-faults.js';
import { TTL_FAULTS } from './heartbeats.js';
import { NATS_FAULTS } from './nats-faults.js';
import { Random } from './random.js';
import type { Scene } from './scene.js';

type Kinds = Readonly<Record<string, ExtraFault>>;

const KINDS: Readonly<Partial<Record<Extra, Kinds>>> = {
  nats: NATS_FAULTS,
  clocks: MACHINE_CLOCK_FAULTS,
  ttls: TTL_FAULTS,
  disk: DISK_FAULTS,
  files: FILE_FAULTS,
};

export class ExtraFaults {
  readonly #scene: Scene;
  readonly #dice: Random;
  readonly #kinds: readonly (readonly [string, ExtraFault])[];
  #healed = false;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#dice = new Random(scene.spec.seed, 'extra faults');
    const all = [...scene.spec.extras].flatMap((extra) => Object.entries(KINDS[extra] ?? {}));
    this.#kinds = this.#dice.some(all, 0.7);
  }

  start(): void {
    if (this.#kinds.length > 0) this.#next();
  }

  #next(): void {
    const { queue, spec } = this.#scene;
    queue.after(this.#dice.between(1, 2 * spec.faultEveryMs), () => {
      if (this.#healed) return;
      const [name, fault] = this.#dice.pick(this.#kinds);
      this.#scene.log(`FAULT ${name}`);
      fault(this.#scene, this.#dice);
      this.#next();
    });
  }

  heal(): void {
    this.#healed = true;
    this.#scene.peerNet?.nats.heal();
    for (const directory of this.#scene.directories) {
      directory.torn = 0;
      directory.isReadable = true;
      directory.writeAll();
    }
  }
}

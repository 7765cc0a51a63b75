/** Sources that change a cluster and take the change back, as operators do. Uses its own dice. */
import type { Publication } from './history.js';
import { CDS, partsOf, payload } from './names.js';
import { Random } from './random.js';
import type { Scene } from './scene.js';
import type { Upstream } from './upstream.js';

const MOST_CHANGES = 6;
const MOST_PAUSE_MS = 600;

export class RollBacks {
  readonly #scene: Scene;
  readonly #dice: Random;
  #stopped = false;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#dice = new Random(scene.spec.seed, 'roll-backs');
  }

  start(): void {
    const { spec, queue } = this.#scene;
    if (spec.rare !== 'roll_backs') return;
    queue.after(this.#dice.between(1, 4 * spec.workloadEveryMs), () => {
      if (this.#stopped) return;
      this.#changeAndBack(this.#dice.pick([...this.#scene.upstreams.values()]));
      this.start();
    });
  }

  stop(): void {
    this.#stopped = true;
  }

  #changeAndBack(server: Upstream): void {
    const { history } = this.#scene.oracle;
    const contents = server.names.flatMap((name) => {
      const now = partsOf(name).typeUrl === CDS ? history.current(server.name, name) : undefined;
      return now && now.redirect === undefined ? [now] : [];
    });
    if (contents.length === 0) return;
    const former = this.#dice.pick(contents);
    const changed = { ...former, mark: history.newMark() };
    this.#alternate(server, [changed, former], this.#dice.between(2, MOST_CHANGES));
  }

  /** Publishes the two contents in turn, unless something else changes the name. */
  #alternate(
    server: Upstream,
    [next, other]: readonly [Publication, Publication],
    left: number,
  ): void {
    const { oracle, queue } = this.#scene;
    this.#publish(server, next);
    if (left === 1) return;
    queue.after(this.#dice.between(0, MOST_PAUSE_MS), () => {
      const isStill = oracle.history.current(server.name, next.name)?.mark === next.mark;
      if (isStill && !this.#stopped) this.#alternate(server, [other, next], left - 1);
    });
  }

  #publish(server: Upstream, content: Publication): void {
    const { oracle, queue } = this.#scene;
    const { name, reference, mark } = content;
    oracle.history.notePublished({ ...content, atMs: queue.nowMs });
    server.set(name, payload(CDS, name, reference, mark), false);
    this.#scene.log(`${server.name} publishes ${name} #${mark}`);
    server.announce([name]);
  }
}

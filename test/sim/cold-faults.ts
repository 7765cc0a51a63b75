/** Faults around starts of sources and of the gateway, with their own dice. */
import { FILE_KINDS, replaceFile } from './cold-disks.js';
import { LateContent } from './late-content.js';
import { Random } from './random.js';
import { RESUMES } from './resumes.js';
import type { Scene } from './scene.js';

type ColdFault = (faults: ColdFaults) => void;

/** A server restarts and has no content yet. */
const restartSource: ColdFault = ({ scene, dice, lateContent }) => {
  lateContent.restart(dice.pick([...scene.upstreams.values()]));
};

/**
 * The gateway restarts with another state file, perhaps together with its sources; clients resume.
 */
const startCold: ColdFault = ({ scene, dice, lateContent }) => {
  const { instances, disks, upstreams, clients, spec } = scene;
  const all = [...instances.keys()];
  for (const index of dice.chance(0.5) ? all : [dice.pick(all)]) {
    const kind = dice.pick(spec.rare === 'cold_sets' ? (['same'] as const) : FILE_KINDS);
    scene.crash(index, dice.between(100, 8_000));
    replaceFile(disks[index]!, kind, dice);
    scene.log(`gateway${index} is to start with ${kind} file`);
  }
  for (const client of clients) client.nextResume = dice.pick(RESUMES);
  if (!spec.hasLateContent || dice.chance(0.5)) return;
  for (const server of dice.some([...upstreams.values()], 0.6)) lateContent.restart(server);
};

/**
 * A client falls back to a server that the gateway does not know, and returns with less (gRFC A71).
 */
const fallBack: ColdFault = ({ scene, dice }) => {
  const link = dice.pick(scene.clients);
  link.disconnect(false);
  scene.queue.after(dice.between(1, 20_000), () => {
    if (link.isOpen) return;
    scene.log(`${link.client.spec.name} returns from another server`);
    link.client.dropSome(dice);
    link.connect(dice.pick(scene.instances), true);
  });
};

export class ColdFaults {
  readonly scene: Scene;
  readonly dice: Random;
  readonly lateContent: LateContent;
  readonly #kinds: readonly (readonly [string, ColdFault])[];
  isHealed = false;

  constructor(scene: Scene) {
    const { seed, hasLateContent, hasColdStarts, hasFallbacks, rare } = scene.spec;
    // A source that loses all while its gateway runs leaves other tombstones in the state file.
    const restartsAlone = hasLateContent && rare !== 'cold_sets';
    this.scene = scene;
    this.dice = new Random(seed, 'cold faults');
    this.lateContent = new LateContent(scene);
    this.#kinds = [
      ...(restartsAlone ? [['restart_source', restartSource] as const] : []),
      ...(hasColdStarts ? [['start_cold', startCold] as const] : []),
      ...(hasFallbacks ? [['fall_back', fallBack] as const] : []),
    ];
  }

  start(): void {
    if (this.scene.spec.hasLateContent) this.lateContent.start();
    if (this.#kinds.length > 0) this.#next();
  }

  #next(): void {
    const { queue, spec } = this.scene;
    queue.after(this.dice.between(1, 2 * spec.faultEveryMs), () => {
      if (this.isHealed) return;
      const [name, fault] = this.dice.pick(this.#kinds);
      this.scene.log(`FAULT ${name}`);
      fault(this);
      this.#next();
    });
  }

  heal(): void {
    this.isHealed = true;
    this.lateContent.heal();
    for (const { pieces } of this.scene.upstreams.values()) pieces?.heal();
  }
}

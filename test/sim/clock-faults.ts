/** The time of day is set while the process runs. */
import type { ExtraFault } from './extra-fault.js';

export const MACHINE_CLOCK_FAULTS: Readonly<Record<string, ExtraFault>> = {
  set_wall_clock: (scene, dice) => {
    dice.pick(scene.machineClocks).setWall();
  },
};

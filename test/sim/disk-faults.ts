/** Disks that lose acknowledged writes. */
import type { Disk } from './disk.js';
import type { ExtraFault } from './extra-fault.js';
import type { Random } from './random.js';

/** A machine loses power and restarts with whatever its disk kept. */
function crashWith(damage: (disk: Disk, dice: Random) => void): ExtraFault {
  return (scene, dice) => {
    const index = dice.below(scene.instances.length);
    const disk = scene.disks[index]!;
    scene.crash(index, dice.between(100, 20_000));
    disk.isDamaged = true;
    damage(disk, dice);
  };
}

export const DISK_FAULTS: Readonly<Record<string, ExtraFault>> = {
  lost_writes: crashWith((disk, dice) => {
    disk.lose(dice);
  }),
  torn_write: crashWith((disk, dice) => {
    disk.tear(dice);
  }),
  bit_flips: crashWith((disk, dice) => {
    disk.flipBits(dice);
  }),
};

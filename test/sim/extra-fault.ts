/** One thing that goes wrong with what only some worlds have; it may be over by itself. */
import type { Random } from './random.js';
import type { Scene } from './scene.js';

export type ExtraFault = (scene: Scene, dice: Random) => void;

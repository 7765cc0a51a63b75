/** A fault of a feature that only some worlds have; it may end by itself. */
import type { Random } from './random.js';
import type { Scene } from './scene.js';

export type ExtraFault = (scene: Scene, dice: Random) => void;

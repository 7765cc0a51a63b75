/** The content that a just-started server lacks, and which worlds have such servers. */
import { Random } from './random.js';

export interface Missing {
  /** It sends no response. */
  readonly isSilent: boolean;
  /** It has all names, and no endpoints. */
  readonly isBare: boolean;
  /** Names that it has nevertheless. */
  readonly kept: ReadonlySet<string>;
}

const SHARE_OF_WORLDS = 0.3;

/** @param isThere whether the world may have this feature */
export const hasLateContent = (seed: number, isThere: boolean): boolean =>
  new Random(seed, 'has late content').chance(SHARE_OF_WORLDS) && isThere;

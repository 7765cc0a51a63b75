/** What a server that has just started has not, and which worlds have such servers. */
import { Random } from './random.js';

export interface Missing {
  /** It answers nothing. */
  readonly isSilent: boolean;
  /** Names that it has all the same. */
  readonly kept: ReadonlySet<string>;
}

const SHARE_OF_WORLDS = 0.3;

/** @param isThere the world may have it */
export const hasLateContent = (seed: number, isThere: boolean): boolean =>
  new Random(seed, 'has late content').chance(SHARE_OF_WORLDS) && isThere;

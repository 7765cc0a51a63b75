/** What clients request of one failover group. */
import type { Candidate } from './candidate.js';
import type { Asked } from './candidate-content.js';

export interface Demand extends Asked {
  readonly requestedAtMs: number;
  /** Status code of the last `unavailable` event for this demand; undefined: none was sent. */
  lastErrorCode: number | undefined;
  /**
   * Globs only: the candidate in use has sent every member. Until then a missing member may still
   * come.
   */
  isWhole: boolean;
  /** The candidate in use has said that the name is absent, or has sent the collection, which may be empty. */
  isAnswered: boolean;
  /** The group has looked for content that an earlier process kept. `whole`: that had all members of the collection. */
  restored: 'no' | 'some' | 'whole';
}

/** The candidate whose content is served. */
export interface InUse {
  readonly index: number;
  readonly candidate: Candidate;
}

/**
 * Features that only some worlds have, each with its own dice: without them a world stays as it
 * was.
 */
import { Random } from './random.js';

export const EXTRAS = ['nats', 'clocks', 'ttls', 'files', 'disk'] as const;

export type Extra = (typeof EXTRAS)[number];

/** Features that were added to worlds later without being extras. They have their own dice, too. */
export const PARTS = ['lists', 'sotw', 'old_style', 'no_linger', 'losses', 'few_kept'] as const;

/** Features added with cold starts and paced ACKs. */
export const LATE_PARTS = [
  'cold_rules',
  'late_acks',
  'pieces',
  'late_content',
  'cold_starts',
  'fallback',
] as const;

/** Sources of every variant of the protocol. */
export const VARIANT_PARTS = ['sotw_sources'] as const;

/** Added once worlds with such sources were sound. */
export const LATEST_PARTS = ['marks', 'sotw_redirects'] as const;
/** Rules for clients. */
export const RIGHTS_PARTS = ['rights'] as const;
/** Requests that are handled name by name. */
export const PORTION_PARTS = ['portions'] as const;
/** Lists at sources of the state of the world, and lists with inline entries. */
export const LIST_PARTS = ['sotw_lists', 'entries'] as const;
/** Content on the disks of the machines. */
export const CONTENT_PARTS = ['content'] as const;
/** Kinds of worlds that are made for one trouble (rare-worlds.ts). */
export const RARE_PARTS = ['set_losses', 'cold_sets', 'wildcards', 'roll_backs'] as const;

/** Assignments with endpoints, and sources that start without any. */
export const ENDPOINT_PARTS = ['endpoints', 'bare_starts'] as const;

export type Part =
  | (typeof PARTS)[number]
  | (typeof LATE_PARTS)[number]
  | (typeof VARIANT_PARTS)[number]
  | (typeof LATEST_PARTS)[number]
  | (typeof RIGHTS_PARTS)[number]
  | (typeof PORTION_PARTS)[number]
  | (typeof LIST_PARTS)[number]
  | (typeof CONTENT_PARTS)[number]
  | (typeof RARE_PARTS)[number]
  | (typeof ENDPOINT_PARTS)[number];

export function extrasOf(seed: number, switchedOff: ReadonlySet<string>): ReadonlySet<Extra> {
  const dice = new Random(seed, 'extras');
  const share = dice.pick([0, 0.3, 0.5]);
  return new Set(EXTRAS.filter((extra) => dice.chance(share) && !switchedOff.has(extra)));
}

/** Parts that only some worlds have. Their dice are their own: without them a world is as it was. */
import { Random } from './random.js';

export const EXTRAS = ['nats', 'clocks', 'ttls', 'files', 'disk'] as const;

export type Extra = (typeof EXTRAS)[number];

/** What came into worlds later without being an extra. Their dice are their own, too. */
export const PARTS = ['lists', 'sotw', 'old_style', 'no_linger', 'losses', 'few_kept'] as const;

/** Parts that came with cold collections and paced acknowledgements. */
export const LATE_PARTS = [
  'cold_rules',
  'late_acks',
  'pieces',
  'late_content',
  'cold_starts',
  'fallback',
] as const;

export type Part = (typeof PARTS)[number] | (typeof LATE_PARTS)[number];

export function extrasOf(seed: number, switchedOff: ReadonlySet<string>): ReadonlySet<Extra> {
  const dice = new Random(seed, 'extras');
  const share = dice.pick([0, 0.3, 0.5]);
  return new Set(EXTRAS.filter((extra) => dice.chance(share) && !switchedOff.has(extra)));
}

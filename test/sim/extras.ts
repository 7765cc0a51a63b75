/** Parts that only some worlds have. Their dice are their own: without them a world is as it was. */
import { Random } from './random.js';

export const EXTRAS = ['nats', 'clocks', 'ttls', 'files', 'disk'] as const;

export type Extra = (typeof EXTRAS)[number];

export function extrasOf(seed: number, switchedOff: ReadonlySet<string>): ReadonlySet<Extra> {
  const dice = new Random(seed, 'extras');
  const share = dice.pick([0, 0.3, 0.5]);
  return new Set(EXTRAS.filter((extra) => dice.chance(share) && !switchedOff.has(extra)));
}

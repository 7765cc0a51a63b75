/** Runs a comparison of two sources between the work for clients: in each turn of the event loop a bounded part. */
import { setImmediate, setTimeout } from 'node:timers/promises';
import type { Comparison, ComparisonOutcome } from './core/failover/comparison.js';

/** How often a comparison that waits looks for answers. */
const LOOK_EVERY_MS = 50;

export interface ComparisonPort {
  readonly nowMs: () => number;
  /** Sends what the comparison requested, and takes what came. */
  readonly pump: () => void;
  /** Why the gateway has no room for further content; undefined: it has. */
  readonly refusal: () => string | undefined;
}

export type ComparisonEnd =
  | ComparisonOutcome
  /** The gateway has no room for the content of the other source. */
  | { readonly kind: 'no_room'; readonly reason: string };

/** Subscribes nothing any more when it ends, whatever the result. */
export async function runComparison(
  comparison: Comparison,
  { nowMs, pump, refusal }: ComparisonPort,
): Promise<ComparisonEnd> {
  try {
    for (;;) {
      const reason = refusal();
      if (reason !== undefined) return { kind: 'no_room', reason };
      const step = comparison.step(nowMs());
      pump();
      if (step.kind === 'more') await setImmediate();
      else if (step.kind === 'waiting') await setTimeout(LOOK_EVERY_MS);
      else return step;
    }
  } finally {
    while (!comparison.close(nowMs())) await setImmediate();
    pump();
  }
}

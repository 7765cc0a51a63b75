/**
 * Requests caused by hints are rate-limited, whatever instances receive (docs/INSTANCES.md,
 * "Messages are hints"), and hints have no other effect: sources are requested again, or connected.
 */
import type { HintEffect } from '../../gateway/core/peers/peer-hints.js';
import { Violation } from './oracle.js';

const SAME_NAME_MS = 10_000;
const SAME_GROUP_MS = 5_000;
const SAME_AUTHORITY_MS = 60_000;
/** A burst of this many, then this many a second: so at most twice as many within any second. */
const PER_SECOND = 2 * 100;

interface Past {
  readonly askedMs: Map<string, number>;
  secondMs: number;
  count: number;
}

export class HintWatch {
  readonly #pasts = new Map<string, Past>();
  questions = 0;

  /** When a name was last requested again, by the clock of that process. */
  askedMs(process: string, key: string): number {
    return this.#pasts.get(process)?.askedMs.get(key) ?? -Infinity;
  }

  /** @param nowMs by the clock of that process */
  onEffect(process: string, effect: HintEffect, nowMs: number): void {
    const [key, apartMs] = questionOf(effect);
    if (key === undefined) return;
    this.questions++;
    let past = this.#pasts.get(process);
    if (!past) {
      past = { askedMs: new Map<string, number>(), secondMs: nowMs, count: 0 };
      this.#pasts.set(process, past);
    }
    const lastMs = past.askedMs.get(key) ?? -Infinity;
    if (nowMs - lastMs < apartMs) {
      throw new Violation('14', `${process} requests ${key} again after ${nowMs - lastMs} ms`);
    }
    past.askedMs.set(key, nowMs);
    if (nowMs - past.secondMs >= 1_000) Object.assign(past, { secondMs: nowMs, count: 0 });
    if (++past.count > PER_SECOND) {
      throw new Violation('14', `${process} sends ${past.count} requests within a second`);
    }
  }
}

/** The key of the request, and the minimum time between two with the same key. */
function questionOf(effect: HintEffect): readonly [string, number] | readonly [undefined, 0] {
  switch (effect.kind) {
    case 'revalidate':
      return [`${effect.typeUrl} ${effect.name.key}`, SAME_NAME_MS];
    case 'nudge_sources_of':
      return [`sources of ${effect.name.key}`, SAME_NAME_MS];
    case 'nudge_group':
      return [`group ${effect.group}`, SAME_GROUP_MS];
    case 'revalidate_authority':
      return [`authority ${effect.authority}`, SAME_AUTHORITY_MS];
    default:
      return [undefined, 0];
  }
}

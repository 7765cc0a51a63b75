/** A case: messages made from a seed for a fresh subject; a failing case is reduced. */
import { Random } from '../sim/random.js';
import type { Prepared, Target } from './target.js';

export interface Step {
  readonly message: Uint8Array;
  readonly dice: number;
  readonly isMutated: boolean;
}

export interface Counts {
  mutated: number;
  accepted: number;
}

export interface Failure {
  readonly target: string;
  readonly seed: number;
  readonly error: string;
  /** The messages needed for the failure, with their dice, as few as could be found. */
  readonly steps: readonly (readonly [message: string, dice: number])[];
}

const FOUND_SHARE = 0.3;

/** Generates the messages of a case on demand. */
export function* stepsOf(
  target: Target,
  prepared: Prepared,
  seeds: readonly Uint8Array[],
  seed: number,
): IterableIterator<Step> {
  const random = new Random(seed, target.name);
  for (let mutated = 0; mutated < target.perCase;) {
    const isMutated = !random.chance(target.valid);
    if (isMutated) mutated++;
    // Most messages found by exploring are malformed already.
    const known = random.chance(FOUND_SHARE) ? seeds : prepared.seeds;
    const message = isMutated ? prepared.mutate(random, known) : random.pick(prepared.seeds);
    yield { message, dice: random.below(256), isMutated };
  }
}

/**
 * @param onStep called before each message
 * @returns the failure, if there is one
 */
export function runCase(
  target: Target,
  prepared: Prepared,
  seeds: readonly Uint8Array[],
  seed: number,
  counts: Counts,
  onStep: () => void = () => undefined,
): Failure | undefined {
  const subject = prepared.open();
  try {
    for (const { message, dice, isMutated } of stepsOf(target, prepared, seeds, seed)) {
      onStep();
      const accepted = subject.take(message, dice);
      if (!isMutated) continue;
      counts.mutated++;
      if (accepted) counts.accepted++;
    }
    subject.end?.();
    return undefined;
  } catch (first) {
    const steps = shrink(prepared, [...stepsOf(target, prepared, seeds, seed)]);
    const error = withStack(() => replay(prepared, steps)) ?? first;
    return {
      target: target.name,
      seed,
      error: (error instanceof Error ? error.stack : undefined) ?? String(error),
      steps: steps.map(({ message, dice }) => [Buffer.from(message).toString('base64'), dice]),
    };
  }
}

function withStack<T>(work: () => T): T {
  const before = Error.stackTraceLimit;
  Error.stackTraceLimit = 20;
  try {
    return work();
  } finally {
    Error.stackTraceLimit = before;
  }
}

/** @returns the failure that these messages cause, if any. */
export function replay(prepared: Prepared, steps: readonly Step[]): unknown {
  const subject = prepared.open();
  try {
    for (const { message, dice } of steps) subject.take(message, dice);
    subject.end?.();
    return undefined;
  } catch (error) {
    return error;
  }
}

/** Removes messages while the case still fails, several at once at first. */
function shrink(prepared: Prepared, all: readonly Step[]): readonly Step[] {
  let steps = all;
  for (let size = Math.ceil(steps.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let at = steps.length - size; at >= 0; at -= size) {
      const fewer = [...steps.slice(0, at), ...steps.slice(at + size)];
      if (fewer.length > 0 && replay(prepared, fewer) !== undefined) steps = fewer;
    }
  }
  return steps;
}

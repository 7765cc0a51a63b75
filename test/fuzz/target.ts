/** A fuzz target: a row of the table in targets.ts. */
import type { Random } from '../sim/random.js';

/** Receives the messages. Each case gets a fresh one. */
export interface Subject {
  /**
   * Takes one message; throws if anything forbidden happens.
   *
   * @param dice 0 to 255; decides what else happens, so that a case can be replayed without random
   * numbers
   * @returns whether the message was accepted
   */
  take(message: Uint8Array, dice: number): boolean;
  /** Called after the last message: throws if the messages left a forbidden trace. */
  end?(): void;
}

/** A target that is ready: corpus read, mutator chosen. */
export interface Prepared {
  readonly seeds: readonly Uint8Array[];
  /** @param seeds the corpus, and messages found by exploring */
  mutate(random: Random, seeds: readonly Uint8Array[]): Uint8Array;
  open(): Subject;
}

export interface Target {
  readonly name: string;
  /** Number of mutated messages in a full run. */
  readonly messages: number;
  /** Number of mutated messages for one subject. */
  readonly perCase: number;
  /**
   * Share of messages that are unmutated seeds, so that the others meet a subject with some state.
   */
  readonly valid: number;
  /** Approximate microseconds per message: expensive targets start first. */
  readonly cost: number;
  readonly prepare: () => Prepared | Promise<Prepared>;
}

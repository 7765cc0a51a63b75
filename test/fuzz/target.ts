/** What is fuzzed: a row of the table in targets.ts. */
import type { Random } from '../sim/random.js';

/** What the messages are given to. A fresh one for every case. */
export interface Subject {
  /**
   * Gives it one message, and throws if anything happens that must not.
   *
   * @param dice from 0 to 255: what else happens, so that a case can be replayed without its random
   * numbers
   * @returns whether the message was accepted
   */
  take(message: Uint8Array, dice: number): boolean;
  /** After the last message: throws if it left a trace where it must not. */
  end?(): void;
}

/** A target that is ready: corpus read, mutator chosen. */
export interface Prepared {
  readonly seeds: readonly Uint8Array[];
  /** @param seeds those, and what was found to reach more of the code */
  mutate(random: Random, seeds: readonly Uint8Array[]): Uint8Array;
  open(): Subject;
}

export interface Target {
  readonly name: string;
  /** Mutated messages in a whole run. */
  readonly messages: number;
  /** Mutated messages that a subject takes one after the other. */
  readonly perCase: number;
  /** Share of messages that are seeds as they are, so that the others meet more than a beginning. */
  readonly valid: number;
  /** Microseconds for a message, roughly: long targets are started first. */
  readonly cost: number;
  readonly prepare: () => Prepared | Promise<Prepared>;
}

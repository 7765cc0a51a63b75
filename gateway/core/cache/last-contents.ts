/**
 * The content of removed clusters, for a minute. A state-of-the-world client that was away during the removal still holds the
 * cluster, and its routes may need it until they are replaced. The gateway can only keep it in the client's set if it has the content.
 */
import type { Projection } from '../../../authorities/index.js';
import { ChangeLog, LOG_START, type Sequenced } from './change-log.js';

/** Clients come back within seconds, most of them. Milliseconds. */
const KEPT_MS = 60_000;
/** The oldest are forgotten above this. A count. */
const MOST = 10_000;

export interface LastContent {
  /** Undefined: forgotten. */
  readonly content: Projection | undefined;
}

interface Kept extends Sequenced {
  content: Projection | undefined;
  readonly untilMs: number;
}

export class LastContents {
  readonly #kept = new ChangeLog<Kept>();

  keep(content: Projection, nowMs: number): LastContent {
    const kept: Kept = { content, untilMs: nowMs + KEPT_MS, seq: LOG_START };
    this.#kept.append(kept);
    this.#forgetWhile(() => this.#kept.size > MOST);
    return kept;
  }

  /** When the next one is to be forgotten; undefined: none is kept. */
  get nextMs(): number | undefined {
    return this.#kept.oldest()?.untilMs;
  }

  forgetDue(nowMs: number): void {
    this.#forgetWhile(({ untilMs }) => untilMs <= nowMs);
  }

  #forgetWhile(isDue: (oldest: Kept) => boolean): void {
    let oldest = this.#kept.oldest();
    while (oldest && isDue(oldest)) {
      oldest.content = undefined;
      this.#kept.drop(oldest);
      oldest = this.#kept.oldest();
    }
  }
}

/**
 * The content of removed clusters, for a minute. A state-of-the-world client that was away during the removal still holds the
 * cluster, and its routes may need it until they are replaced. The gateway can only keep it in the client's set if it has the content.
 */
import type { Projection } from '../../../authorities/index.js';
import { ChangeLog, LOG_START, type Sequenced } from './change-log.js';
import { sizeInMessage } from './message-size.js';

/** Clients come back within seconds, most of them. Milliseconds. */
const KEPT_MS = 60_000;
/**
 * The oldest are forgotten above these. The quota of their source counts them no more, so a source that replaces large clusters
 * again and again would fill the memory. A count, and bytes.
 */
const MOST = 10_000;
const MOST_BYTES = 16 * 1_024 * 1_024;

export interface LastContent {
  /** Undefined: forgotten. */
  readonly content: Projection | undefined;
}

interface Kept extends Sequenced {
  content: Projection | undefined;
  readonly bytes: number;
  readonly untilMs: number;
}

export class LastContents {
  readonly #kept = new ChangeLog<Kept>();
  #bytes = 0;

  keep(content: Projection, nowMs: number): LastContent {
    const bytes = sizeInMessage(content);
    const kept: Kept = { content, bytes, untilMs: nowMs + KEPT_MS, seq: LOG_START };
    this.#kept.append(kept);
    this.#bytes += bytes;
    this.#forgetWhile(() => this.#kept.size > MOST || this.#bytes > MOST_BYTES);
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
      this.#bytes -= oldest.bytes;
      this.#kept.drop(oldest);
      oldest = this.#kept.oldest();
    }
  }
}

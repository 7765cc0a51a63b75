/**
 * Answers of one type (delta: of one type and authority) that the client has not acknowledged. The ACK
 * paces answers and does not gate them: an Envoy withholds the ACK of clusters while one of them warms,
 * for ever if its secret never comes, and what is deleted meanwhile has to reach it all the same.
 *
 * An answer is one response, or the several responses into which a large one was cut.
 */

/** Without an ACK the next answer follows after this time, while the client reads. */
const PACE_MS = 1_000;
/** So many answers at most: a client that acknowledges nothing gets no more. */
const MAX_UNACKNOWLEDGED = 4;
/** Nonces of answers that a later ACK passed over; an ACK of them may still come. */
const MAX_PASSED_OVER = 64;

interface SentAnswer {
  readonly nonces: Set<string>;
  readonly sentMs: number;
  /** When it last brought something new: an answer in several responses is sent piece by piece. */
  newMs: number | undefined;
}

export class Unacknowledged {
  /** Oldest first. */
  #answers: SentAnswer[] = [];
  readonly #passedOver = new Map<string, number>();
  #lastSentMs = -Infinity;

  get isEmpty(): boolean {
    return this.#answers.length === 0;
  }

  /** When the oldest of them was sent; undefined: there is none. */
  get sinceMs(): number | undefined {
    return this.#answers[0]?.sentMs;
  }

  /** When the latest of them was begun; undefined: there is none. */
  get latestMs(): number | undefined {
    return this.#answers.at(-1)?.sentMs;
  }

  /** @param goesOn this response belongs to the same answer as the one before it */
  handleSent(nonce: string, bringsNew: boolean, goesOn: boolean, nowMs: number): void {
    this.#lastSentMs = nowMs;
    let answer = this.#answers.at(-1);
    if (!goesOn || !answer) {
      answer = { nonces: new Set(), sentMs: nowMs, newMs: undefined };
      this.#answers.push(answer);
    }
    answer.nonces.add(nonce);
    if (bringsNew) answer.newMs = nowMs;
  }

  /**
   * An ACK or a NACK. It stands for the answers before it too: an Envoy of the state of the world whose
   * subscription was paused acknowledges only the last of several responses.
   *
   * @returns when the answer was sent; undefined: no answer that is known has this nonce.
   */
  handleAcknowledged(nonce: string): number | undefined {
    const at = this.#answers.findIndex(({ nonces }) => nonces.has(nonce));
    const answer = this.#answers[at];
    if (!answer) {
      const sentMs = this.#passedOver.get(nonce);
      this.#passedOver.delete(nonce);
      return sentMs;
    }
    for (const { nonces, sentMs } of this.#answers.splice(0, at)) {
      for (const one of nonces) this.#passedOver.set(one, sentMs);
    }
    answer.nonces.delete(nonce);
    if (answer.nonces.size === 0) this.#answers.shift();
    for (const oldest of this.#passedOver.keys()) {
      if (this.#passedOver.size <= MAX_PASSED_OVER) break;
      this.#passedOver.delete(oldest);
    }
    return answer.sentMs;
  }

  /** Until when the next answer has to wait; Infinity: for an ACK; undefined: it may go. */
  waitUntilMs(nowMs: number): number | undefined {
    if (this.isEmpty) return undefined;
    if (this.#answers.length >= MAX_UNACKNOWLEDGED) return Infinity;
    const untilMs = this.#lastSentMs + PACE_MS;
    return nowMs < untilMs ? untilMs : undefined;
  }

  /**
   * Until when something has to wait for the ACK of what an answer brought, if that is `waitMs` at most;
   * undefined: nothing new is on its way.
   */
  newUntilMs(waitMs: number): number | undefined {
    const newMs = this.#answers.findLast((answer) => answer.newMs !== undefined)?.newMs;
    return newMs === undefined ? undefined : newMs + waitMs;
  }
}

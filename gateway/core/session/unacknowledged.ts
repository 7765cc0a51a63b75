/**
 * Unacknowledged responses of one type (delta: of one type and authority).
 *
 * ACKs pace responses but do not gate them. Envoy withholds the ACK of clusters while one of them
 * warms, forever if its secret never comes; deletions made meanwhile have to reach it all the same
 * (ENVOY 6).
 *
 * Delta: a large response is sent in several chunks, each with its own nonce; all chunks count as one
 * response. State of the world: each response counts by itself.
 */
import { appended, noMap, ownMap } from '../../../protos/empty-collections.js';

/** Without an ACK the next response follows after this time, if the client still reads. */
const PACE_MS = 1_000;
/** A client that acknowledges nothing gets no more responses than this. */
const MAX_UNACKNOWLEDGED = 4;
/** Nonces kept of responses that a later ACK covered; an ACK of their own may still arrive. */
const MAX_PASSED_OVER = 64;

interface SentAnswer {
  /** One for each chunk that is not acknowledged yet. */
  readonly nonces: string[];
  readonly sentMs: number;
  /** When it last brought something new: an answer in several responses is sent piece by piece. */
  newMs: number | undefined;
}

export class Unacknowledged {
  /** Oldest first. */
  #answers: SentAnswer[] = [];
  #passedOver: Map<string, number> = noMap();
  #lastSentMs = -Infinity;

  get isEmpty(): boolean {
    return this.#answers.length === 0;
  }

  /** Was any response sent? */
  get hasSent(): boolean {
    return this.#lastSentMs > -Infinity;
  }

  /** When the oldest unacknowledged response was sent; undefined: there is none. */
  get sinceMs(): number | undefined {
    return this.#answers[0]?.sentMs;
  }

  /** When the first chunk of the latest one was sent; undefined: there is none. */
  get latestMs(): number | undefined {
    return this.#answers.at(-1)?.sentMs;
  }

  /** @param goesOn this message is a further chunk of the response before it */
  handleSent(nonce: string, bringsNew: boolean, goesOn: boolean, nowMs: number): void {
    this.#lastSentMs = nowMs;
    const answer = goesOn ? this.#answers.at(-1) : undefined;
    const newMs = bringsNew ? nowMs : undefined;
    if (answer) {
      answer.nonces.push(nonce);
      answer.newMs = newMs ?? answer.newMs;
    } else {
      this.#answers = appended(this.#answers, { nonces: [nonce], sentMs: nowMs, newMs });
    }
  }

  /**
   * Handles an ACK or a NACK. It covers earlier responses too: a state-of-the-world Envoy with a
   * paused subscription acknowledges only the last of several responses.
   *
   * @returns when the response was sent; undefined: the nonce belongs to no known response.
   */
  handleAcknowledged(nonce: string): number | undefined {
    const at = this.#answers.findIndex(({ nonces }) => nonces.includes(nonce));
    const answer = this.#answers[at];
    if (!answer) {
      const sentMs = this.#passedOver.get(nonce);
      this.#passedOver.delete(nonce);
      return sentMs;
    }
    if (at > 0) this.#passOver(this.#answers.splice(0, at));
    if (answer.nonces.length === 1) this.#answers.shift();
    else answer.nonces.splice(answer.nonces.indexOf(nonce), 1);
    return answer.sentMs;
  }

  #passOver(answers: readonly SentAnswer[]): void {
    for (const { nonces, sentMs } of answers) {
      for (const nonce of nonces) {
        this.#passedOver = ownMap(this.#passedOver).set(nonce, sentMs);
      }
    }
    for (const oldest of this.#passedOver.keys()) {
      if (this.#passedOver.size <= MAX_PASSED_OVER) break;
      this.#passedOver.delete(oldest);
    }
  }

  /** Until when the next response has to wait; Infinity: for an ACK; undefined: send now. */
  waitUntilMs(nowMs: number): number | undefined {
    if (this.isEmpty) return undefined;
    if (this.#answers.length >= MAX_UNACKNOWLEDGED) return Infinity;
    const untilMs = this.#lastSentMs + PACE_MS;
    return nowMs < untilMs ? untilMs : undefined;
  }

  /**
   * Until when to wait for the ACK of the latest response with new resources, `waitMs` at most
   * after it was sent; undefined: no such response is unacknowledged.
   */
  newUntilMs(waitMs: number): number | undefined {
    const newMs = this.#answers.findLast((answer) => answer.newMs !== undefined)?.newMs;
    return newMs === undefined ? undefined : newMs + waitMs;
  }
}

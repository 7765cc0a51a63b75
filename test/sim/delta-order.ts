/**
 * Make before break at a delta client: additions come before the resources that refer to them, and
 * removals come last. Every wait of the gateway has a deadline. So this is checked only for a
 * client that recently had no unacknowledged response and has not been slow.
 */
import type { DeltaResponse } from '../../protos/discovery.js';
import { MOST_DRIFT } from './clocks.js';
import type { Sent } from './in-flight.js';
import { CDS, EDS, LDS, rankOf, RDS } from './names.js';
import { Violation } from './oracle.js';
import { ACK_DEADLINE_MS, type WorldSpec } from './world.js';

/** A response to a delta client. */
export interface Ordered extends Sent {
  readonly response: DeltaResponse;
  readonly authority: string;
  readonly bringsNew: boolean;
}

/** Larger than any response of a simulated world. */
export const WHOLE_BYTES = 1_000_000;

/** Shortened by the error of the gateway's clock. */
export const REPLACED_WAIT_MS = 1_000 * (1 - 2 * MOST_DRIFT);

export class DeltaOrder {
  readonly #client: string;
  readonly #isWhole: boolean;
  /** By authority: when the client last had acknowledged everything. */
  readonly #settledMs = new Map<string, number>();
  /** When the client last sent a late ACK: waits for it may have reached their deadline. */
  #slowMs = -Infinity;

  constructor(client: string, { chunkBytes }: WorldSpec) {
    this.#client = client;
    // A response in several parts goes on, whatever changes meanwhile.
    this.#isWhole = chunkBytes >= WHOLE_BYTES;
  }

  /** @param unacknowledged the responses that remain. */
  noteAnswered(
    { authority, sentMs }: Ordered,
    unacknowledged: readonly Ordered[],
    nowMs: number,
  ): void {
    if (nowMs - sentMs > ACK_DEADLINE_MS / 8) this.#slowMs = nowMs;
    if (unacknowledged.some((one) => one.authority === authority)) return;
    this.#settledMs.set(authority, nowMs);
  }

  /**
   * @param gone the removed names that the client holds from this stream.
   * @throws Violation
   */
  check(
    { typeUrl, response, authority, sentMs }: Ordered,
    unacknowledged: readonly Ordered[],
    gone: readonly string[],
  ): void {
    const waiting = unacknowledged.filter((one) => one.authority === authority);
    const settledMs = this.#settledMs.get(authority) ?? -Infinity;
    if (waiting.length === 0 || sentMs - settledMs > ACK_DEADLINE_MS / 2) return;
    if (sentMs - this.#slowMs < 2 * ACK_DEADLINE_MS) return;
    const addsSome = response.resources.length > 0;
    if (addsSome && (typeUrl === LDS || typeUrl === RDS) && this.#isWhole) {
      if (waiting.some((one) => one.typeUrl === CDS && one.bringsNew)) {
        throw new Violation('6', `${this.#client} gets ${typeUrl} before the ACK of new clusters`);
      }
    }
    const [name] = gone;
    if (name === undefined) return;
    if (addsSome) throw new Violation('16', `${name} is removed beside additions`);
    if (waiting.some((one) => one.bringsNew && this.#mayReplace(one, sentMs))) {
      throw new Violation('16', `${name} is removed before the ACK of new resources`);
    }
    const leastRank = Math.max(rankOf(typeUrl), rankOf(EDS));
    const above = waiting.find((one) => rankOf(one.typeUrl) > leastRank);
    if (above) throw new Violation('6', `${name} is removed before the ACK of ${above.typeUrl}`);
  }

  /**
   * Unacknowledged clusters do not count for long: the routes to them follow soon, and those wait
   * for the ACK themselves.
   */
  #mayReplace({ typeUrl, response, sentMs }: Ordered, nowMs: number): boolean {
    if (response.resources.length === 0) return false;
    return rankOf(typeUrl) > rankOf(EDS) || sentMs > nowMs - REPLACED_WAIT_MS;
  }
}

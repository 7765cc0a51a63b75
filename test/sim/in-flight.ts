/**
 * What a gateway may send while a client has not acknowledged what it was sent before (invariant 5). The
 * rules look at what the client had acknowledged when it read a response, so the gateway can have known
 * no more.
 */
import { MOST_DRIFT } from './clocks.js';
import { isListed } from './names.js';
import { Violation, type Oracle } from './oracle.js';

/**
 * How many responses of one type and authority (state of the world: of one type) may wait for their
 * acknowledgement. One: nothing follows an unacknowledged response.
 */
export const MOST_UNACKNOWLEDGED: number = 4;
/** A response follows an unacknowledged one so much later. */
const PACE_MS = 1_000 * (1 - 2 * MOST_DRIFT);

/** A response that the client read. */
export interface Sent {
  readonly typeUrl: string;
  readonly nonce: string;
  readonly sentMs: number;
  /** How many requests of the stream the gateway had read when it wrote this. */
  readonly readRequests: number;
  /** The client acknowledged a later one: that stands for this one too, until its own ACK comes. */
  isPassedOver: boolean;
}

/** What the gateway may wait for. */
export const waitingOf = <T extends Sent>(unacknowledged: readonly T[]): readonly T[] =>
  unacknowledged.filter(({ isPassedOver }) => !isPassedOver);

/**
 * @param waiting the unacknowledged responses of the same type and authority, in order.
 * @throws Violation where there are too many, or the next one came too soon.
 */
export function checkPace(what: string, waiting: readonly Sent[], sentMs: number): void {
  const last = waiting.at(-1);
  if (!last) return;
  if (waiting.length >= MOST_UNACKNOWLEDGED) {
    throw new Violation('5', `${what}: a response beside ${waiting.length} unacknowledged ones`);
  }
  if (sentMs - last.sentMs >= PACE_MS) return;
  throw new Violation('5', `${what}: the next response ${sentMs - last.sentMs} ms after the last`);
}

/** What a response said of one name. */
interface Said {
  /** Undefined: that it is not there. */
  readonly content: string | undefined;
  /** Of the responses of this client, and of the requests that the gateway had read. */
  readonly order: number;
  readonly readRequests: number;
  readonly sentMs: number;
  isAnswered: boolean;
  /** The request that refused it. */
  refusedBy: number | undefined;
}

/** What was said last of each name on one stream: a client is told the same again only if it asks again. */
export class LastSaid {
  readonly #said = new Map<string, Said>();
  /** By name or glob: the last request of the stream that asked for it, or that counts as such. */
  readonly #asked = new Map<string, number>();
  readonly #knowsRefusals: boolean;
  readonly #oracle: Oracle;

  constructor(knowsRefusals: boolean, oracle: Oracle) {
    this.#knowsRefusals = knowsRefusals;
    this.#oracle = oracle;
  }

  clear(): void {
    this.#said.clear();
    this.#asked.clear();
  }

  noteAsked(name: string, request: number): void {
    this.#asked.set(name, request);
  }

  /**
   * @param questions what this may be the answer to.
   * @throws Violation where the same is on its way, or was refused.
   */
  check(
    name: string,
    content: string | undefined,
    { order, readRequests, sentMs }: Pick<Said, 'order' | 'readRequests' | 'sentMs'>,
    questions: readonly string[],
  ): void {
    const before = this.#said.get(name);
    const state = { isAnswered: false, refusedBy: undefined };
    this.#said.set(name, { content, order, readRequests, sentMs, ...state });
    if (!before || content === undefined || before.content !== content) return;
    if (questions.some((one) => (this.#asked.get(one) ?? 0) > before.readRequests)) return;
    // What went and is back meanwhile comes anew.
    if (this.#oracle.mayBeGone(name, { sinceMs: before.sentMs })) return;
    // And so does what another entry of a list leads to.
    const hasChanged = (list: string): boolean => this.#oracle.mayHaveChanged(list, before.sentMs);
    if (isListed(name) && questions.some(hasChanged)) return;
    if (!before.isAnswered) throw new Violation('5', `${name} is sent again, unacknowledged`);
    if (!this.#knowsRefusals || before.refusedBy === undefined) return;
    // It was another meanwhile.
    if (this.#oracle.mayHaveChanged(name, before.sentMs)) return;
    if (readRequests >= before.refusedBy) {
      throw new Violation('5', `${name} is sent again, though it was refused`);
    }
  }

  /** @param refusedBy the request that refused the response; undefined: it was accepted. */
  noteAnswered(name: string, order: number, refusedBy: number | undefined): void {
    const said = this.#said.get(name);
    if (said?.order === order) Object.assign(said, { isAnswered: true, refusedBy });
  }
}

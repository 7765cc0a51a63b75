/**
 * What the gateway may send while a client has unacknowledged responses (invariant 5). The rules
 * use what the client had acknowledged when it read a response, so the gateway cannot have known
 * more.
 */
import { MOST_DRIFT } from './clocks.js';
import { isListed } from './names.js';
import { Violation, type Oracle } from './oracle.js';

/**
 * Maximum number of unacknowledged responses of one type and authority (state of the world: of one
 * type). 1 would mean that nothing follows an unacknowledged response.
 */
export const MOST_UNACKNOWLEDGED: number = 4;
/** Minimum time between an unacknowledged response and the next one. */
const PACE_MS = 1_000 * (1 - 2 * MOST_DRIFT);

/** A response that the client read. */
export interface Sent {
  readonly typeUrl: string;
  readonly nonce: string;
  readonly sentMs: number;
  /** Requests of the stream that the gateway had read when it wrote this. */
  readonly readRequests: number;
  /** The client acknowledged a later response. That counts for this one until its own ACK comes. */
  isPassedOver: boolean;
}

/** The responses whose ACK the gateway may wait for. */
export const waitingOf = <T extends Sent>(unacknowledged: readonly T[]): readonly T[] =>
  unacknowledged.filter(({ isPassedOver }) => !isPassedOver);

/**
 * @param waiting the unacknowledged responses of the same type and authority, in order.
 * @throws Violation if there are too many, or the next one came too soon.
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

/** A statement of a response about a name. */
interface Said {
  /** Undefined: the name is absent. */
  readonly content: string | undefined;
  /** Number among the responses of this client. */
  readonly order: number;
  readonly readRequests: number;
  readonly sentMs: number;
  isAnswered: boolean;
  refused: Refusal | undefined;
}

/** Of a response. */
export interface Refusal {
  /** The number of the request with the NACK. */
  readonly request: number;
  readonly atMs: number;
}

/** The gateway sends again what was refused after this time at the soonest: the reason may have passed. */
const RETRY_AFTER_MS = 60_000 * (1 - 2 * MOST_DRIFT);

/**
 * The last statement about each name on a stream. The gateway may repeat it only on a new request.
 */
export class LastSaid {
  readonly #said = new Map<string, Said>();
  /**
   * By name or glob: the last request of the stream that subscribed it, or that counts as such.
   */
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

  /** Was it requested again after this many requests? */
  isAskedSince(name: string, readRequests: number): boolean {
    return (this.#asked.get(name) ?? 0) > readRequests;
  }

  /**
   * @param questions subscriptions that this may answer.
   * @param clusters whose change makes the gateway send it again, if it is an assignment (ENVOY 5)
   * @throws Violation if the same content is unacknowledged or was refused.
   */
  check(
    name: string,
    content: string | undefined,
    { order, readRequests, sentMs }: Pick<Said, 'order' | 'readRequests' | 'sentMs'>,
    questions: readonly string[],
    clusters: readonly string[] = [],
  ): void {
    const before = this.#said.get(name);
    const state = { isAnswered: false, refused: undefined };
    this.#said.set(name, { content, order, readRequests, sentMs, ...state });
    if (!before || content === undefined || before.content !== content) return;
    if (questions.some((one) => (this.#asked.get(one) ?? 0) > before.readRequests)) return;
    // A resource that was removed and returned is sent anew.
    if (this.#oracle.mayBeGone(name, { sinceMs: before.sentMs })) return;
    // So is a resource to which another list entry leads.
    const hasChanged = (list: string): boolean => this.#oracle.mayHaveChanged(list, before.sentMs);
    if (isListed(name) && questions.some(hasChanged)) return;
    // Content that changed and changed back is newer content, even if both changes merged and the
    // client got nothing between. Found by seed 100522.
    if (this.#oracle.mayHaveChanged(name, before.sentMs)) return;
    // A cluster that changed and changed back needs its assignment after each change. Found by seed 1150 of the
    // worlds in which most planted bugs are searched.
    if (clusters.some((one) => this.#oracle.mayHaveChanged(one, before.sentMs))) return;
    if (!before.isAnswered) throw new Violation('5', `${name} is sent again, unacknowledged`);
    if (!this.#knowsRefusals || before.refused === undefined) return;
    const isRetry = sentMs - before.refused.atMs >= RETRY_AFTER_MS;
    if (readRequests >= before.refused.request && !isRetry) {
      throw new Violation('5', `${name} is sent again, though it was refused`);
    }
  }

  /** @param refused undefined: the response was accepted. */
  noteAnswered(name: string, order: number, refused: Refusal | undefined): void {
    const said = this.#said.get(name);
    if (said?.order === order) Object.assign(said, { isAnswered: true, refused });
  }
}

/** The responses that one client rejected (NACK) on its stream; the admin endpoints show them. */
import type { RpcStatus } from '../../protos/discovery.js';
import { noMap, ownMap } from '../../protos/empty-collections.js';
import type { SessionEvent, StreamSession } from '../core/session/stream-session.js';

/**
 * The last response of one type that a client rejected (NACK); of a delta client, of one type and authority. Times are
 * of `clock`.
 */
export interface Rejection {
  readonly typeUrl: string;
  readonly authority: string;
  readonly atMs: number;
  readonly detail: RpcStatus;
  /**
   * When the client next accepted a response. A delta client may still lack the rejected resource then,
   * since that response may have had other ones.
   */
  readonly acceptedAtMs?: number;
}

/** What a response was about. */
type Subject = Pick<Rejection, 'typeUrl' | 'authority'>;

/** The client's stream. */
export interface AnsweredStream {
  readonly flavour: 'delta' | 'sotw' | 'poll';
  readonly session: Pick<StreamSession<never>, 'allSubscriptions'>;
}

/** Rejections that a stream keeps, whether it still subscribes to what it rejected or not. A count. */
const MAX_REJECTIONS = 100;

export class Rejections {
  readonly #clock: () => number;
  readonly #stream: AnsweredStream;
  /** At most one for each type and authority. `#forget` drops those without subscriptions. */
  #byKey: Map<string, Rejection> = noMap();
  /** With more, those without subscriptions are forgotten. */
  #most = MAX_REJECTIONS;

  constructor(clock: () => number, stream: AnsweredStream) {
    this.#clock = clock;
    this.#stream = stream;
  }

  /** The last rejection of each type, and of each authority if the client speaks delta. */
  get all(): readonly Rejection[] {
    return [...this.#byKey.values()];
  }

  /** The last rejection of what these subscriptions were sent; undefined: none. */
  of(subscriptions: Subject): Rejection | undefined {
    return this.#byKey.get(this.#keyOf(subscriptions));
  }

  /** A NACK is kept. The first ACK after it gives its rejection the time `acceptedAtMs`. Other events change nothing. */
  noteEvent(event: SessionEvent): void {
    if (event.kind === 'nack') {
      const { typeUrl, authority, detail } = event;
      const rejection = { typeUrl, authority, atMs: this.#clock(), detail };
      this.#byKey = ownMap(this.#byKey).set(this.#keyOf(event), rejection);
      if (this.#byKey.size > this.#most) this.#forget();
    } else if (event.kind === 'ack' && this.#byKey.size > 0) {
      const key = this.#keyOf(event);
      const rejected = this.#byKey.get(key);
      if (rejected?.acceptedAtMs === undefined && rejected)
        this.#byKey.set(key, { ...rejected, acceptedAtMs: this.#clock() });
    }
  }

  /** A client may reject what it was sent of a thousand authorities, and leave each. */
  #forget(): void {
    const { allSubscriptions } = this.#stream.session;
    const subscribed = new Set(allSubscriptions.map((one) => this.#keyOf(one)));
    for (const key of this.#byKey.keys()) {
      if (!subscribed.has(key)) this.#byKey.delete(key);
    }
    this.#most = Math.max(MAX_REJECTIONS, 2 * this.#byKey.size);
  }

  /** In the state of the world, a type has one version for all authorities, whose number changes. */
  #keyOf({ typeUrl, authority }: Subject): string {
    return this.#stream.flavour === 'delta' ? `${typeUrl} ${authority}` : typeUrl;
  }
}

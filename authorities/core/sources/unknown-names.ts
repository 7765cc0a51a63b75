/**
 * Leaves names out of the requests for endpoints while a state-of-the-world server is silent about all of
 * them. Some servers answer no name of a request with a name that they lack (java-control-plane for ADS),
 * because an Envoy that is connected to them would only request what their own clusters refer to. The
 * clients of the gateway may hold clusters of another source, and request those endpoints too.
 *
 * A server without this rule is silent only while it has none of the names, or is slow. So the names that
 * no cluster of the source refers to are left out for some seconds only, and then requested again.
 */
import { TYPE_URL } from '../../../protos/type-urls.js';
import type { SourceContents, SourceSubscription } from './source-contents.js';

/** Silence about endpoints, on a stream that has answered clusters. */
export const SILENCE_MS = 2_000;
/** How long names are left out before the server is asked for all of them again. */
export const LEAVE_OUT_MS = 10_000;

export class UnknownNames {
  readonly #contents: SourceContents;
  /** Names are left out of requests. */
  #isNarrow = false;
  /** When to leave names out, or to request them again; undefined: the server answers all. */
  #nextMs: number | undefined;
  #hasRequested = false;

  constructor(contents: SourceContents) {
    this.#contents = contents;
  }

  /** A new stream. */
  restart(): void {
    this.#isNarrow = false;
    this.#nextMs = undefined;
    this.#hasRequested = false;
  }

  handleRequested(typeUrl: string, nowMs: number): void {
    if (this.#hasRequested || typeUrl !== TYPE_URL.clusterLoadAssignment) return;
    const [clusters] = this.#contents.subscriptions(TYPE_URL.cluster);
    if (!clusters) return;
    this.#hasRequested = true;
    this.#nextMs = nowMs + SILENCE_MS;
  }

  /** @returns whether endpoints are to be requested again: the clusters may refer to more of them. */
  handleResponse(typeUrl: string): boolean {
    if (typeUrl === TYPE_URL.cluster) return this.#isNarrow;
    if (typeUrl !== TYPE_URL.clusterLoadAssignment || this.#isNarrow) return false;
    // What the server has just answered, it also has.
    if (this.#unknown().size === 0) this.#nextMs = undefined;
    return false;
  }

  get nextMs(): number | undefined {
    return this.#nextMs;
  }

  /**
   * @param hasClusters the present stream has sent clusters
   * @returns whether endpoints are to be requested again, with other names
   */
  handleTimer(nowMs: number, hasClusters: boolean): boolean {
    if (this.#nextMs === undefined || nowMs < this.#nextMs) return false;
    const wasNarrow = this.#isNarrow;
    this.#isNarrow = !wasNarrow && hasClusters && this.#unknown().size > 0;
    this.#nextMs = nowMs + (wasNarrow ? SILENCE_MS : LEAVE_OUT_MS);
    return this.#isNarrow !== wasNarrow;
  }

  /** The subscriptions of a type that its next request has. */
  requested(
    typeUrl: string,
    subscriptions: readonly SourceSubscription[],
  ): readonly SourceSubscription[] {
    if (!this.#isNarrow || typeUrl !== TYPE_URL.clusterLoadAssignment) return subscriptions;
    const unknown = this.#unknown();
    return subscriptions.filter((one) => !unknown.has(one));
  }

  /** Endpoints that the source has not sent, and that no cluster of it refers to. */
  #unknown(): ReadonlySet<SourceSubscription> {
    const clusters = [...this.#contents.entries(TYPE_URL.cluster)];
    const referred = new Set(clusters.map(({ projection }) => projection.edsKey));
    return new Set(
      [...this.#contents.subscriptions(TYPE_URL.clusterLoadAssignment)].filter(
        ({ name, status }) => !name.isGlob && status !== 'present' && !referred.has(name.key),
      ),
    );
  }
}

/**
 * Does a returning client still have to request its clusters? While a cluster warms, Envoy sends no request for clusters, not
 * even on a new stream (ENVOY 24). Listeners and routes may name clusters that such a client lacks, so they wait for that
 * request.
 *
 * Only the versions of the endpoints tell that the client has clusters from an earlier stream: the gateway marks these
 * versions. If a client requests listeners and routes before endpoints, they wait a moment for the request for endpoints.
 */
import { TYPE_URL } from '../../../protos/type-urls.js';

/**
 * The mark where the versions of the clusters do not matter or are not known yet. Otherwise it is their digest
 * (`DeltaSession.clustersBehind`).
 */
export const SOME_CLUSTERS = '.c';

/** A version that a gateway gave: a digest, a plus sign for a part of a set, the mark. Versions of other servers may have dots. */
const MARKED_VERSION = /^[\w-]{22}\+?\.(?:c|[\w-]{8})$/;

/** @param version of endpoints */
export const hasClusterMark = (version: string): boolean => MARKED_VERSION.test(version);

/** Clients send the first requests of a stream one after the other. Milliseconds. */
const ENDPOINTS_WAIT_MS = 2_000;

/** The versions in the first request of a type. */
export interface Resumed {
  /**
   * It has versions. In the state of the world only those of a collection count: a gRPC client names its listener, and may
   * request its clusters only after it has the route.
   */
  readonly isResumed: boolean;
  /** It requests endpoints, and their versions have the mark. */
  readonly hasMark: boolean;
}

/** For one ADS stream. */
export class ClustersToCome {
  readonly #ackDeadlineMs: number;
  /** `owed`: the client has clusters from an earlier stream, and has not requested them on this one. */
  #clusters: 'unknown' | 'none' | 'owed' | 'requested' = 'unknown';
  #untilMs: number | undefined;

  constructor(ackDeadlineMs: number) {
    this.#ackDeadlineMs = ackDeadlineMs;
  }

  /** Until when listeners and routes wait; undefined: for nothing. */
  get untilMs(): number | undefined {
    return this.#untilMs;
  }

  get areOwed(): boolean {
    return this.#clusters === 'owed';
  }

  /** Does the client have clusters, as far as is known? */
  get areThere(): boolean {
    return this.#clusters === 'owed' || this.#clusters === 'requested';
  }

  /** Handles the first request of a type. */
  handleFirst(typeUrl: string, { isResumed, hasMark }: Resumed, nowMs: number): void {
    const { cluster, clusterLoadAssignment, listener, routeConfiguration } = TYPE_URL;
    if (typeUrl === cluster) {
      this.#clusters = 'requested';
      this.#untilMs = undefined;
    } else if (this.#clusters !== 'unknown') {
      return;
    } else if (typeUrl === clusterLoadAssignment) {
      this.#clusters = hasMark ? 'owed' : 'none';
      this.#untilMs = hasMark ? nowMs + this.#ackDeadlineMs : undefined;
    } else if (isResumed && (typeUrl === listener || typeUrl === routeConfiguration)) {
      this.#untilMs ??= nowMs + ENDPOINTS_WAIT_MS;
    }
  }
}

/**
 * What a resuming delta client claims to hold: the `initial_resource_versions` of its first request of a
 * type on a stream. Versions in later requests do not count (xDS protocol).
 */
import type { DeltaRequest } from '../../../protos/discovery.js';
import { globKeyOf } from '../../../protos/resource-name.js';
import type { NameReader } from '../session/asked-name.js';
import { MAYBE_HELD, type Held } from '../session/holdings.js';
import type { SubscriptionTable } from './subscription-table.js';

/** Of the version of an assignment: see `DeltaSession.clustersBehind`. */
const SUFFIX = /\..*$/s;

export class ResumedVersions {
  readonly #request: DeltaRequest;
  readonly #isOfOneType: boolean;
  /** Of a subscribed name without a version. */
  readonly #untold: Held | undefined;

  /** @param isOfOneType the client has a stream for each type, and the request came on one of them */
  constructor(request: DeltaRequest, isOfOneType: boolean) {
    this.#request = request;
    this.#isOfOneType = isOfOneType;
    // A resuming client may hold a resource without giving its version, for example after it
    // rejected a later one.
    this.#untold = request.initialVersions.size > 0 ? MAYBE_HELD : undefined;
  }

  /** @returns what the client claims to hold of a name that it subscribes to; undefined: nothing */
  claimOf(text: string): Held | undefined {
    const version = this.#request.initialVersions.get(text);
    return version === undefined ? this.#untold : this.#heldOf(version);
  }

  /**
   * The gateway never sends an empty version, so with one the client holds the resource in some
   * other version. On a stream of one type the suffix of a version, which encodes clusters, says
   * nothing: the clusters come on another stream, and a client that changes a cluster subscribes
   * its endpoints anew.
   */
  #heldOf(version: string): Held {
    if (version === '') return MAYBE_HELD;
    return this.#isOfOneType ? version.replace(SUFFIX, '') : version;
  }

  /**
   * Notes the versions of members whose glob or list the request subscribes to. Versions of other
   * members are ignored. Stops before each version.
   */
  *noteMembers(table: SubscriptionTable, names: NameReader): IterableIterator<void> {
    const { typeUrl, initialVersions, subscribe } = this.#request;
    if (initialVersions.size === 0) return;
    const asked = new Set(subscribe);
    const lists = table.listsOf(typeUrl);
    for (const [text, version] of initialVersions) {
      yield;
      const held = asked.has(text) ? undefined : names.read(typeUrl, text);
      if (!held?.ok) continue;
      const { key, authority } = held.name;
      const globKey = globKeyOf(held.name);
      const subscriptions = table.find(typeUrl, authority);
      if (subscriptions?.subscribed.globs.has(globKey))
        subscriptions.noteClaim(globKey, key, this.#heldOf(version));
      // Members of a list may have any name: with two lists, the owner of a member is unknown.
      else if (lists.length === 1)
        lists[0]?.subscriptions.noteClaim(lists[0].key, key, this.#heldOf(version));
    }
  }
}

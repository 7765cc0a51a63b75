/**
 * The subscriptions of one delta stream: a table of authority × type. Pure core, no IO.
 */
import type { Projection } from '../../../authorities/index.js';
import { authorityOfKey } from '../../../protos/resource-name.js';
import { TYPE_URL } from '../../../protos/type-urls.js';
import type { Collection } from '../cache/collection.js';
import type { DeltaSubscriptions } from './delta-subscriptions.js';
import type { Standing } from './subscription.js';

/** A subscribed glob or list, and the subscriptions that it belongs to. */
export interface SubscribedCollection {
  readonly subscriptions: DeltaSubscriptions;
  readonly key: string;
  readonly collection: Collection;
}

export class SubscriptionTable {
  readonly #all: DeltaSubscriptions[] = [];
  readonly #byAuthority = new Map<string, Map<string, DeltaSubscriptions>>();
  /** Those that have, or had, a list: their names may be of any authority. */
  readonly #withLists = new Set<DeltaSubscriptions>();

  /** In push order: always the same array. */
  get all(): readonly DeltaSubscriptions[] {
    return this.#all;
  }

  /** By type. */
  ofAuthority(authority: string): ReadonlyMap<string, DeltaSubscriptions> | undefined {
    return this.#byAuthority.get(authority);
  }

  allOf(authority: string): readonly DeltaSubscriptions[] {
    return [...(this.#byAuthority.get(authority)?.values() ?? [])];
  }

  find(typeUrl: string, authority: string): DeltaSubscriptions | undefined {
    return this.#byAuthority.get(authority)?.get(typeUrl);
  }

  add(subscriptions: DeltaSubscriptions): DeltaSubscriptions {
    const { typeUrl, authority, rank } = subscriptions;
    let siblings = this.#byAuthority.get(authority);
    if (!siblings)
      this.#byAuthority.set(authority, (siblings = new Map<string, DeltaSubscriptions>()));
    siblings.set(typeUrl, subscriptions);
    const before = this.#all.findLastIndex((other) => other.rank <= rank);
    this.#all.splice(before + 1, 0, subscriptions);
    return subscriptions;
  }

  /** A list was subscribed. */
  handleList(subscriptions: DeltaSubscriptions): void {
    this.#withLists.add(subscriptions);
  }

  delete(subscriptions: DeltaSubscriptions): void {
    this.#withLists.delete(subscriptions);
    const siblings = this.#byAuthority.get(subscriptions.authority);
    siblings?.delete(subscriptions.typeUrl);
    if (siblings?.size === 0) this.#byAuthority.delete(subscriptions.authority);
    this.#all.splice(this.#all.indexOf(subscriptions), 1);
  }

  clear(): void {
    this.#all.length = 0;
    this.#byAuthority.clear();
    this.#withLists.clear();
  }

  listsOf(typeUrl: string): readonly SubscribedCollection[] {
    return this.#collectionsOf(typeUrl, true);
  }

  /** Without lists. */
  globsOf(typeUrl: string): readonly SubscribedCollection[] {
    return this.#collectionsOf(typeUrl, false);
  }

  #collectionsOf(typeUrl: string, areLists: boolean): readonly SubscribedCollection[] {
    return this.#all
      .filter((subscriptions) => subscriptions.typeUrl === typeUrl)
      .flatMap((subscriptions) => {
        const { globs, lists } = subscriptions.subscribed;
        return [...globs]
          .filter(([, glob]) => lists.has(glob) === areLists)
          .map(([key, { entry }]) => ({ subscriptions, key, collection: entry.collection }));
      });
  }

  /** Does the client subscribe to this cluster? A list of one authority may contain clusters of another. */
  standingOf(cluster: Projection): Standing {
    const own = this.find(TYPE_URL.cluster, cluster.name.authority)?.subscribed.standingOf(cluster);
    if (own !== undefined && own !== 'not_asked') return own;
    for (const { typeUrl, subscribed } of this.#withLists) {
      const isIn = typeUrl === TYPE_URL.cluster;
      const standing = isIn ? subscribed.standingOf(cluster) : 'not_asked';
      if (standing !== 'not_asked') return standing;
    }
    return 'not_asked';
  }

  /** Does the client subscribe to this name, by itself, through a glob or through a list? */
  covers(typeUrl: string, key: string): boolean {
    if (this.find(typeUrl, authorityOfKey(key))?.subscribed.covers(key) === true) return true;
    for (const one of this.#withLists) {
      if (one.typeUrl === typeUrl && one.subscribed.covers(key)) return true;
    }
    return false;
  }
}

/** The watchers of each requested name, glob or list. */
import type { RpcStatus } from '../../protos/discovery.js';
import { globKeyOf, type ResourceName } from '../../protos/resource-name.js';
import { TypedMap } from '../../protos/typed-map.js';
import type { FailoverGroup } from './failover/failover-group.js';
import type { NodeGroup } from './node-groups/node-group.js';
import type { ResourceWatcher } from './watcher.js';

export interface Watched {
  readonly typeUrl: string;
  readonly name: ResourceName;
  readonly watchers: Set<ResourceWatcher>;
  /**
   * The group that requests it from sources; undefined for lists, and for names without a route in
   * the map.
   */
  group: FailoverGroup | NodeGroup | undefined;
}

type Asked = Pick<Watched, 'typeUrl' | 'name'>;

export class Watches {
  readonly #watched = new TypedMap<Watched>();

  add(typeUrl: string, name: ResourceName, watcher: ResourceWatcher): Watched {
    let watched = this.#watched.get(typeUrl, name.key);
    if (!watched) {
      watched = { typeUrl, name, watchers: new Set(), group: undefined };
      this.#watched.set(typeUrl, name.key, watched);
    }
    watched.watchers.add(watcher);
    return watched;
  }

  /** @returns the entry if its last watcher left. */
  delete(typeUrl: string, name: ResourceName, watcher: ResourceWatcher): Watched | undefined {
    const watched = this.#watched.get(typeUrl, name.key);
    if (!watched?.watchers.delete(watcher) || watched.watchers.size > 0) return undefined;
    this.#watched.delete(typeUrl, name.key);
    return watched;
  }

  get(typeUrl: string, key: string): Watched | undefined {
    return this.#watched.get(typeUrl, key);
  }

  values(): IterableIterator<Watched> {
    return this.#watched.values();
  }

  /** Is the name watched, by itself or through its glob? */
  covers(typeUrl: string, name: ResourceName): boolean {
    return this.#watched.has(typeUrl, name.key) || this.#watched.has(typeUrl, globKeyOf(name));
  }

  /** The watchers to notify about a name: its own, and those of its glob. */
  watchersOf(typeUrl: string, name: ResourceName): Iterable<ResourceWatcher> {
    const exact = this.#watched.get(typeUrl, name.key)?.watchers;
    const globKey = globKeyOf(name);
    const glob = globKey === name.key ? undefined : this.#watched.get(typeUrl, globKey)?.watchers;
    if (!exact || !glob) return [...(exact ?? glob ?? [])];
    return new Set([...exact, ...glob]);
  }

  /** No source could answer this name, or the map has no route for it. */
  tellError({ typeUrl, name }: Asked, status: RpcStatus): void {
    for (const watcher of this.watchersOf(typeUrl, name)) {
      watcher.onResourceError(typeUrl, name, status);
    }
  }
}

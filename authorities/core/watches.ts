/** Who watches what: one entry for each name, glob or list that anybody asks for. */
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
  /** Where it is demanded; undefined while the map has no such authority, and for lists. */
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

  /** @returns the entry if that was the last who watched it. */
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

  /** Is the name watched, or the glob that it is a member of? */
  covers(typeUrl: string, name: ResourceName): boolean {
    return this.#watched.has(typeUrl, name.key) || this.#watched.has(typeUrl, globKeyOf(name));
  }

  /** Who is to be told of a name: those who watch it, and those who watch its glob. */
  watchersOf(typeUrl: string, name: ResourceName): Iterable<ResourceWatcher> {
    const exact = this.#watched.get(typeUrl, name.key)?.watchers;
    const globKey = globKeyOf(name);
    const glob = globKey === name.key ? undefined : this.#watched.get(typeUrl, globKey)?.watchers;
    if (!exact || !glob) return [...(exact ?? glob ?? [])];
    return new Set([...exact, ...glob]);
  }

  /** Nothing can be said of this name, or it is not there for anybody. */
  tellError({ typeUrl, name }: Asked, status: RpcStatus): void {
    for (const watcher of this.watchersOf(typeUrl, name)) {
      watcher.onResourceError(typeUrl, name, status);
    }
  }
}

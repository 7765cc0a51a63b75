/** The watchers of each requested name, glob or list. */
import { globKeyOf, type ResourceName } from '../../protos/resource-name.js';
import { TypedMap } from '../../protos/typed-map.js';
import type { FailoverGroup } from './failover/failover-group.js';
import type { NameEvent } from './failover/resource-events.js';
import type { NodeGroup } from './node-groups/node-group.js';
import { unreachable } from './reasons.js';
import type { ResourceWatcher } from './watcher.js';

export interface Watched {
  readonly typeUrl: string;
  readonly name: ResourceName;
  readonly watchers: Set<ResourceWatcher>;
  /**
   * The watchers among them that get the whole state at the next flush, and no event before; undefined:
   * none, which is nearly always so.
   */
  newcomers: Set<ResourceWatcher> | undefined;
  /**
   * The group that requests it from sources; undefined for lists, and for names without a route in
   * the map.
   */
  group: FailoverGroup | NodeGroup | undefined;
}

export class Watches {
  readonly #watched = new TypedMap<Watched>();

  add(typeUrl: string, name: ResourceName, watcher: ResourceWatcher): Watched {
    let watched = this.#watched.get(typeUrl, name.key);
    if (!watched) {
      watched = {
        typeUrl,
        name,
        watchers: new Set(),
        newcomers: undefined,
        group: undefined,
      };
      this.#watched.set(typeUrl, name.key, watched);
    }
    if (!watched.watchers.has(watcher)) (watched.newcomers ??= new Set()).add(watcher);
    watched.watchers.add(watcher);
    return watched;
  }

  /** @returns the entry if its last watcher left. */
  delete(typeUrl: string, name: ResourceName, watcher: ResourceWatcher): Watched | undefined {
    const watched = this.#watched.get(typeUrl, name.key);
    watched?.newcomers?.delete(watcher);
    if (!watched?.watchers.delete(watcher) || watched.watchers.size > 0) return undefined;
    this.#watched.delete(typeUrl, name.key);
    return watched;
  }

  get(typeUrl: string, key: string): Watched | undefined {
    return this.#watched.get(typeUrl, key);
  }

  /** The group that requests this name, by itself or as a member of its glob. */
  groupOf(typeUrl: string, name: ResourceName): FailoverGroup | NodeGroup | undefined {
    return (this.get(typeUrl, name.key) ?? this.get(typeUrl, globKeyOf(name)))?.group;
  }

  values(): IterableIterator<Watched> {
    return this.#watched.values();
  }

  /** Is the name watched, by itself or through its glob? */
  covers(typeUrl: string, name: ResourceName): boolean {
    return this.#watched.has(typeUrl, name.key) || this.#watched.has(typeUrl, globKeyOf(name));
  }

  /** The watchers of a name, and those of its glob. */
  watchersOf(typeUrl: string, name: ResourceName): Iterable<ResourceWatcher> {
    return this.#gather(typeUrl, name, ({ watchers }) => watchers);
  }

  /** The watchers to notify about a change of a name: all but the newcomers. */
  audienceOf(typeUrl: string, name: ResourceName): Iterable<ResourceWatcher> {
    return this.#gather(typeUrl, name, ({ watchers, newcomers }) =>
      newcomers ? [...watchers].filter((one) => !newcomers.has(one)) : watchers,
    );
  }

  #gather(
    typeUrl: string,
    name: ResourceName,
    watchersAt: (watched: Watched) => Iterable<ResourceWatcher>,
  ): Iterable<ResourceWatcher> {
    const exact = this.#watched.get(typeUrl, name.key);
    const globKey = globKeyOf(name);
    const glob = globKey === name.key ? undefined : this.#watched.get(typeUrl, globKey);
    if (exact && glob) return new Set([...watchersAt(exact), ...watchersAt(glob)]);
    const one = exact ?? glob;
    return one ? [...watchersAt(one)] : [];
  }

  /** Passes an event on to the watchers of its name. */
  notify(event: NameEvent): void {
    const { typeUrl, name } = 'projection' in event ? event.projection : event;
    notify(this.audienceOf(typeUrl, name), event);
  }
}

/** Passes an event on to these watchers. */
export function notify(watchers: Iterable<ResourceWatcher>, event: NameEvent): void {
  for (const watcher of watchers) tell(watcher, event);
}

function tell(watcher: ResourceWatcher, event: NameEvent): void {
  if (event.kind === 'changed') {
    watcher.onChanged(event.projection);
    return;
  }
  if (event.kind === 'confirmed') {
    watcher.onConfirmed?.(event.projection);
    return;
  }
  const { typeUrl, name, status } = event;
  switch (event.kind) {
    case 'removed':
      watcher.onRemoved(typeUrl, name, status);
      return;
    case 'absent':
      watcher.onDoesNotExist(typeUrl, name, status);
      return;
    case 'complete':
      watcher.onComplete(typeUrl, name, event.isProof, status);
      return;
    case 'unavailable':
      watcher.onResourceError(typeUrl, name, status ?? unreachable(name));
  }
}

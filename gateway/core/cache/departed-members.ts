/**
 * The members of globs that no client subscribes to any more. The observers of held versions and the edges forget
 * them in portions: to forget 100,000 clusters at once kept the event loop for 100 ms.
 */
import type { Projection } from '../../../authorities/index.js';
import { globKeyOf, type ResourceName } from '../../../protos/resource-name.js';
import { TypedMap } from '../../../protos/typed-map.js';
import type { Member } from './collection.js';

interface Departed {
  readonly typeUrl: string;
  readonly glob: ResourceName;
  /** By key. */
  readonly members: Map<string, Member>;
}

export class DepartedMembers {
  readonly #globs = new TypedMap<Departed>();

  get isEmpty(): boolean {
    return this.#globs.size === 0;
  }

  /** @param members by key; this class changes the map */
  add(typeUrl: string, glob: ResourceName, members: Map<string, Member>): void {
    // A client may have subscribed again and left again.
    for (const [key, member] of this.#globs.get(typeUrl, glob.key)?.members ?? []) {
      if (!members.has(key)) members.set(key, member);
    }
    this.#globs.set(typeUrl, glob.key, { typeUrl, glob, members });
  }

  /** The resource of this name as it was last held, if it is not forgotten yet. */
  find(typeUrl: string, name: ResourceName): Projection | undefined {
    if (this.isEmpty) return undefined;
    return this.#globs.get(typeUrl, globKeyOf(name))?.members.get(name.key)?.projection;
  }

  /**
   * Forgets members.
   *
   * @param most number of members
   * @param forget called before each is forgotten; returns what is to be done afterwards
   */
  forgetSome(most: number, forget: (departed: Projection) => () => void): void {
    let left = most;
    for (const departed of this.#globs.values()) {
      for (const [key, { projection }] of departed.members) {
        if (left-- === 0) return;
        const afterwards = forget(projection);
        departed.members.delete(key);
        afterwards();
      }
      this.#globs.delete(departed.typeUrl, departed.glob.key);
    }
  }
}

/**
 * The members of collections that no client subscribes to any more. The observers of held versions and the edges forget
 * them in portions: to forget 100,000 clusters at once kept the event loop for 100 ms.
 */
import type { Projection } from '../../../authorities/index.js';
import { isListName } from '../../../protos/list-collection.js';
import { globKeyOf, type ResourceName } from '../../../protos/resource-name.js';
import { TypedMap } from '../../../protos/typed-map.js';
import type { Member } from './collection.js';

interface Departed {
  readonly typeUrl: string;
  /** A glob or list. */
  readonly collection: ResourceName;
  /** By key. */
  readonly members: Map<string, Member>;
}

export class DepartedMembers {
  readonly #collections = new TypedMap<Departed>();
  /** The lists among them: members of a list may have any name. */
  readonly #lists = new Set<Departed>();

  get isEmpty(): boolean {
    return this.#collections.size === 0;
  }

  /** @param members by key; this class changes the map */
  add(typeUrl: string, collection: ResourceName, members: Map<string, Member>): void {
    const earlier = this.#collections.get(typeUrl, collection.key);
    if (earlier) {
      // A client subscribed again and left again.
      for (const [key, member] of earlier.members) if (!members.has(key)) members.set(key, member);
      this.#lists.delete(earlier);
    }
    const departed = { typeUrl, collection, members };
    this.#collections.set(typeUrl, collection.key, departed);
    if (isListName(typeUrl, collection)) this.#lists.add(departed);
  }

  /** The resource of this name as it was last held, if it is not forgotten yet. */
  find(typeUrl: string, name: ResourceName): Projection | undefined {
    if (this.isEmpty) return undefined;
    const ofGlob = this.#collections.get(typeUrl, globKeyOf(name))?.members.get(name.key);
    if (ofGlob) return ofGlob.projection;
    for (const list of this.#lists) {
      const member = list.typeUrl === typeUrl ? list.members.get(name.key) : undefined;
      if (member) return member.projection;
    }
    return undefined;
  }

  /**
   * Forgets members.
   *
   * @param most number of members
   * @param forget called before each is forgotten; returns what is to be done afterwards
   */
  forgetSome(most: number, forget: (departed: Projection) => () => void): void {
    let left = most;
    for (const departed of this.#collections.values()) {
      for (const [key, { projection }] of departed.members) {
        if (left-- === 0) return;
        const afterwards = forget(projection);
        departed.members.delete(key);
        afterwards();
      }
      this.#collections.delete(departed.typeUrl, departed.collection.key);
      this.#lists.delete(departed);
    }
  }
}

/**
 * Collections that are rarely filled. An empty Map takes 184 bytes and an empty Set 152, and each client has some
 * twenty of them. So each begins as one shared empty collection, and gets its own when it is first filled:
 *
 *   #left: Map<string, Name> = noMap();
 *   this.#left = ownMap(this.#left).set(key, name);
 */
function refuse(): never {
  throw new TypeError('the shared empty collection must stay empty: use ownMap or ownSet');
}

const NO_ENTRIES: Map<unknown, unknown> = Object.assign(new Map(), { set: refuse });
const NO_MEMBERS: Set<unknown> = Object.assign(new Set(), { add: refuse });

/** The shared empty Map: its `set` throws. */
export const noMap = <K, V>(): Map<K, V> => NO_ENTRIES as Map<K, V>;

/** The shared empty Set: its `add` throws. */
export const noSet = <T>(): Set<T> => NO_MEMBERS as Set<T>;

/** @returns the map itself, or a new one in place of the shared one */
export const ownMap = <K, V>(map: Map<K, V>): Map<K, V> =>
  (map as Map<unknown, unknown>) === NO_ENTRIES ? new Map<K, V>() : map;

/** @returns the set itself, or a new one in place of the shared one */
export const ownSet = <T>(set: Set<T>): Set<T> =>
  (set as Set<unknown>) === NO_MEMBERS ? new Set<T>() : set;

/**
 * Appends to a list that is nearly always empty or has one element: `push` on an empty array reserves 17 places.
 *
 * @returns the list itself, or a new one in place of an empty one, which may be shared
 */
export function appended<T>(list: T[], element: T): T[] {
  if (list.length === 0) return [element];
  list.push(element);
  return list;
}

/** The requested names with dynamic parameters (TP2), by the name without. */
import { plainKeyOf } from './old-style-name.js';
import type { ResourceName } from './resource-urn.js';

interface Use {
  readonly name: ResourceName;
  /** A name may be requested for several types. A count. */
  count: number;
}

const NONE: readonly ResourceName[] = [];

export class VariantNames {
  /** By the key of the name without parameters, then by their own. */
  readonly #byName = new Map<string, Map<string, Use>>();

  get isEmpty(): boolean {
    return this.#byName.size === 0;
  }

  /** Does nothing for a name without parameters. */
  add(name: ResourceName): void {
    if (name.parameters === undefined) return;
    const plainKey = plainKeyOf(name.key);
    const those = this.#byName.get(plainKey) ?? new Map<string, Use>();
    const count = (those.get(name.key)?.count ?? 0) + 1;
    this.#byName.set(plainKey, those.set(name.key, { name, count }));
  }

  /** The inverse of `add`. */
  delete(name: ResourceName): void {
    const plainKey = plainKeyOf(name.key);
    const those = this.#byName.get(plainKey);
    const use = those?.get(name.key);
    if (!those || !use) return;
    use.count--;
    if (use.count === 0) those.delete(name.key);
    if (those.size === 0) this.#byName.delete(plainKey);
  }

  /** The number of variants of a name, which may have parameters itself. */
  countOf({ key }: ResourceName): number {
    return this.#byName.get(plainKeyOf(key))?.size ?? 0;
  }

  /** The variants of a name without parameters. */
  of({ key }: ResourceName): readonly ResourceName[] {
    const those = this.#byName.get(key);
    return those ? [...those.values()].map(({ name }) => name) : NONE;
  }
}

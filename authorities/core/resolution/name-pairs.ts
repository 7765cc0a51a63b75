/**
 * Names with an alternative of their own (`#alt=`), each with its name at every authority of its
 * chain. All names with the same chain of authorities fail over together, like those of an
 * alternative in the authority map.
 */
import type { NameMapping } from './name-mapping.js';
import { locatorOfName, type ResourceName } from '../../../protos/resource-name.js';

const NO_NAMES: readonly ResourceName[] = [];

export class NamePairs {
  /** By requested name: its name at each authority of the chain. */
  readonly #chains = new Map<string, readonly ResourceName[]>();
  /** Uses of a name beyond the first: it may be watched as several types. */
  readonly #moreUses = new Map<string, number>();
  /** For each authority of the chain: the requested names, by the name there. */
  readonly #askedBy: readonly Map<string, Map<string, ResourceName>>[];

  /** @param length number of authorities in the chain */
  constructor(length: number) {
    this.#askedBy = Array.from({ length }, () => new Map<string, Map<string, ResourceName>>());
  }

  /** @param chain the name at each authority, the requested name itself first */
  add(asked: ResourceName, chain: readonly ResourceName[]): void {
    if (this.#chains.has(asked.key)) {
      this.#moreUses.set(asked.key, (this.#moreUses.get(asked.key) ?? 0) + 1);
    }
    this.#forget(asked);
    this.#chains.set(asked.key, chain);
    for (const [level, name] of chain.entries()) {
      const askedBy = this.#askedBy[level];
      const those = askedBy?.get(name.key) ?? new Map<string, ResourceName>();
      askedBy?.set(name.key, those.set(asked.key, asked));
    }
  }

  delete(asked: ResourceName): void {
    const moreUses = this.#moreUses.get(asked.key) ?? 0;
    if (moreUses > 1) this.#moreUses.set(asked.key, moreUses - 1);
    else this.#moreUses.delete(asked.key);
    if (moreUses === 0) this.#forget(asked);
  }

  #forget(asked: ResourceName): void {
    for (const [level, name] of (this.#chains.get(asked.key) ?? []).entries()) {
      const those = this.#askedBy[level]?.get(name.key);
      those?.delete(asked.key);
      if (those?.size === 0) this.#askedBy[level]?.delete(name.key);
    }
    this.#chains.delete(asked.key);
  }

  /** The mapping to the names of one authority; level 0 is the first of the chain. */
  mapping(level: number): NameMapping {
    const askedBy = (published: ResourceName): readonly ResourceName[] => [
      ...(this.#askedBy[level]?.get(published.key)?.values() ?? NO_NAMES),
    ];
    return {
      identity: false,
      toSource: (asked) => (this.#chains.get(asked.key) ?? namesIn(asked))[level] ?? asked,
      toAsked: askedBy,
      toReference: (published) => {
        const [asked] = askedBy(published);
        // References carry no directives: a client holds the neighbour under its bare name, if at
        // all.
        return (asked && this.#chains.get(asked.key)?.[0]) ?? published;
      },
    };
  }
}

/** The names inside a name with directives, for lookups of names that no client requests. */
function namesIn(asked: ResourceName): readonly ResourceName[] {
  const names: ResourceName[] = [];
  for (let at = locatorOfName(asked); at; at = at.alternatives[0]) names.push(at.name);
  return names;
}

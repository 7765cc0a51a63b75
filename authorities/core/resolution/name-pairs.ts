/**
 * Names that have an alternative of their own (`#alt=`), each with what it is called at every
 * authority where it may be had. The names of one chain of authorities move together, as those of an
 * alternative in the authority map do.
 */
import type { NameMapping } from './name-mapping.js';
import { locatorOfName, type ResourceName } from '../../../protos/resource-name.js';

const NOBODY: readonly ResourceName[] = [];

export class NamePairs {
  /** By asked name: the name at each authority of the chain. */
  readonly #chains = new Map<string, readonly ResourceName[]>();
  /** How often a name is asked beyond once: it may be watched as several types. */
  readonly #moreUses = new Map<string, number>();
  /** For each authority of the chain: who asks, by the name there. */
  readonly #askedBy: readonly Map<string, Map<string, ResourceName>>[];

  /** @param length how many authorities the chain has */
  constructor(length: number) {
    this.#askedBy = Array.from({ length }, () => new Map<string, Map<string, ResourceName>>());
  }

  /** @param chain the name at each authority, the asked name's own first */
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

  /** The mapping to the names of one authority of the chain, 0 being the first. */
  mapping(level: number): NameMapping {
    const askedBy = (published: ResourceName): readonly ResourceName[] => [
      ...(this.#askedBy[level]?.get(published.key)?.values() ?? NOBODY),
    ];
    return {
      identity: false,
      toSource: (asked) => (this.#chains.get(asked.key) ?? namesIn(asked))[level] ?? asked,
      toAsked: askedBy,
      toReference: (published) => {
        const [asked] = askedBy(published);
        // References have no directives: the bare name is what a client holds, if it holds it.
        return (asked && this.#chains.get(asked.key)?.[0]) ?? published;
      },
    };
  }
}

/** The names that a name with directives has in it; for those who look at one that nobody asks for. */
function namesIn(asked: ResourceName): readonly ResourceName[] {
  const names: ResourceName[] = [];
  for (let at = locatorOfName(asked); at; at = at.alternatives[0]) names.push(at.name);
  return names;
}

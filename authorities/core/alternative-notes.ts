/**
 * Alternatives that were found in references: TP1 has a Cluster name its endpoints
 * `…/foo#alt=xdstp://onprem/…/bar`, and clients drop the fragment or cannot read it. So it is taken
 * off, and the name has that alternative for as long as a resource that says so is served.
 */
import {
  formatResourceLocator,
  type ResourceLocator,
  type ResourceName,
} from '../../protos/resource-name.js';
import type { Projection } from './projection.js';

/** A resource that says so. */
interface Holder {
  readonly typeUrl: string;
  readonly name: ResourceName;
  readonly says: readonly ResourceLocator[];
}

interface Note {
  readonly locator: ResourceLocator;
  /** The resources that say so, by type and name. */
  readonly holders: Set<string>;
}

const NONE: readonly ResourceLocator[] = [];

export class AlternativeNotes {
  /** By name, then by what is said of it. */
  readonly #notes = new Map<string, Map<string, Note>>();
  readonly #holders = new Map<string, Holder>();

  /** @returns the names whose alternative is another one now. */
  handleChanged({ typeUrl, name, alternatives = NONE }: Projection): readonly ResourceName[] {
    return this.#handle({ typeUrl, name, says: alternatives });
  }

  handleGone(typeUrl: string, name: ResourceName): readonly ResourceName[] {
    return this.#handle({ typeUrl, name, says: NONE });
  }

  /** Nobody asks for some resources any more. @returns as above. */
  handleUnwatched(
    isAsked: (typeUrl: string, name: ResourceName) => boolean,
  ): readonly ResourceName[] {
    return [...this.#holders.values()].flatMap(({ typeUrl, name }) =>
      isAsked(typeUrl, name) ? [] : this.handleGone(typeUrl, name),
    );
  }

  /** Where several resources say different things, the first in the order of their texts counts. */
  alternativeOf(key: string): ResourceLocator | undefined {
    const notes = this.#notes.get(key);
    const first = notes && [...notes.keys()].sort()[0];
    return first === undefined ? undefined : notes?.get(first)?.locator;
  }

  #handle(holder: Holder): readonly ResourceName[] {
    const { typeUrl, name, says } = holder;
    // Nearly always, so it must cost nothing.
    if (says.length === 0 && this.#holders.size === 0) return [];
    const key = `${typeUrl} ${name.key}`;
    const said = this.#holders.get(key)?.says ?? NONE;
    const named = new Map([...said, ...says].map((locator) => [locator.name.key, locator.name]));
    const before = new Map([...named.keys()].map((one) => [one, this.#text(one)]));
    for (const locator of says) this.#add(key, locator);
    const texts = new Set(says.map(textOf));
    for (const locator of said) if (!texts.has(textOf(locator))) this.#delete(key, locator);
    if (says.length > 0) this.#holders.set(key, holder);
    else this.#holders.delete(key);
    return [...named.values()].filter((one) => this.#text(one.key) !== before.get(one.key));
  }

  #text(key: string): string | undefined {
    const locator = this.alternativeOf(key);
    return locator && textOf(locator);
  }

  #add(holder: string, locator: ResourceLocator): void {
    const { key } = locator.name;
    let notes = this.#notes.get(key);
    if (!notes) this.#notes.set(key, (notes = new Map<string, Note>()));
    const text = textOf(locator);
    const note = notes.get(text) ?? { locator, holders: new Set<string>() };
    note.holders.add(holder);
    notes.set(text, note);
  }

  #delete(holder: string, locator: ResourceLocator): void {
    const notes = this.#notes.get(locator.name.key);
    const note = notes?.get(textOf(locator));
    if (!notes || !note?.holders.delete(holder) || note.holders.size > 0) return;
    notes.delete(textOf(locator));
    if (notes.size === 0) this.#notes.delete(locator.name.key);
  }
}

const textOf = (locator: ResourceLocator): string => formatResourceLocator(locator);

/**
 * Alternatives found in references: in TP1 a Cluster may name its endpoints
 * `…/foo#alt=xdstp://onprem/…/bar`, but clients drop the fragment or cannot parse it. The gateway
 * removes it and gives `…/foo` that alternative while it serves a resource with the reference.
 */
import {
  formatResourceLocator,
  globKeyOf,
  type ResourceLocator,
  type ResourceName,
} from '../../../protos/resource-name.js';
import { TypedMap } from '../../../protos/typed-map.js';
import type { Projection } from '../projection.js';

/** A resource whose references carry alternatives. */
interface Holder {
  readonly typeUrl: string;
  readonly name: ResourceName;
  readonly says: readonly ResourceLocator[];
}

interface Note {
  readonly locator: ResourceLocator;
  /** The resources with this reference, by type and name. */
  readonly holders: Set<string>;
}

const NONE: readonly ResourceLocator[] = [];

export class AlternativeNotes {
  /** By name, then by the text of the locator. */
  readonly #notes = new Map<string, Map<string, Note>>();
  /**
   * By collection, then by name: when the last watcher of a collection leaves, all its members go
   * too.
   */
  readonly #holders = new TypedMap<Map<string, Holder>>();

  /** @returns the names whose alternative changed. */
  handleChanged({ typeUrl, name, alternatives = NONE }: Projection): readonly ResourceName[] {
    return this.#handle({ typeUrl, name, says: alternatives });
  }

  handleGone(typeUrl: string, name: ResourceName): readonly ResourceName[] {
    return this.#handle({ typeUrl, name, says: NONE });
  }

  /**
   * The last watcher of this name or glob left.
   *
   * @param isWatched whether a member is still watched
   * @returns the names whose alternative changed
   */
  handleUnwatched(
    typeUrl: string,
    name: ResourceName,
    isWatched: (member: ResourceName) => boolean,
  ): readonly ResourceName[] {
    const holders = this.#holders.get(typeUrl, globKeyOf(name));
    const own = holders?.get(name.key);
    const concerned = name.isGlob ? [...(holders?.values() ?? [])] : own ? [own] : [];
    return concerned.flatMap((holder) =>
      isWatched(holder.name) ? [] : this.handleGone(typeUrl, holder.name),
    );
  }

  /** If resources disagree, the alphabetically first locator counts. */
  alternativeOf(key: string): ResourceLocator | undefined {
    const notes = this.#notes.get(key);
    const first = notes && [...notes.keys()].sort()[0];
    return first === undefined ? undefined : notes?.get(first)?.locator;
  }

  #handle(holder: Holder): readonly ResourceName[] {
    const { typeUrl, name, says } = holder;
    // The usual case, which must cost nothing.
    if (says.length === 0 && this.#holders.size === 0) return [];
    const key = `${typeUrl} ${name.key}`;
    const globKey = globKeyOf(name);
    const holders = this.#holders.get(typeUrl, globKey) ?? new Map<string, Holder>();
    const said = holders.get(name.key)?.says ?? NONE;
    const named = new Map([...said, ...says].map((locator) => [locator.name.key, locator.name]));
    const before = new Map([...named.keys()].map((one) => [one, this.#text(one)]));
    for (const locator of says) this.#add(key, locator);
    const texts = new Set(says.map(textOf));
    for (const locator of said) if (!texts.has(textOf(locator))) this.#delete(key, locator);
    if (says.length > 0) holders.set(name.key, holder);
    else holders.delete(name.key);
    if (holders.size > 0) this.#holders.set(typeUrl, globKey, holders);
    else this.#holders.delete(typeUrl, globKey);
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

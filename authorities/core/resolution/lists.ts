/** The list collections that are asked for: one view each, and the bounds on lists within lists. */
import { isListName } from '../../../protos/list-collection.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import { TypedMap } from '../../../protos/typed-map.js';
import type { Hop } from './hops.js';
import { ListEntryWatch } from './list-entry.js';
import { ListView, type Nesting } from './list-view.js';
import type { LinkPort } from './redirects.js';

export class Lists implements Nesting {
  readonly #port: LinkPort;
  readonly #views = new TypedMap<ListView>();
  /** Those with a list in them, or with so many entries, that was out of bounds when they were read. */
  readonly #outOfBounds = new Set<ListView>();
  /** Some list changed, or nobody asks for it any more: what was out of bounds may be within now. */
  #changed = false;

  constructor(port: LinkPort) {
    this.#port = port;
  }

  /** Is this answered from a list, rather than by a source under its own name? */
  isOurs(typeUrl: string, name: ResourceName): boolean {
    return isListName(typeUrl, name);
  }

  /** Somebody asks for a list, or for one entry of it. */
  handleWatched(typeUrl: string, name: ResourceName): void {
    const known = this.#views.get(typeUrl, name.key);
    if (known) {
      known.tellAgain();
      return;
    }
    const view = new ListView(typeUrl, name, this.#port, this);
    this.#views.set(typeUrl, name.key, view);
    view.open();
  }

  handleUnwatched(typeUrl: string, name: ResourceName): void {
    const view = this.#views.get(typeUrl, name.key);
    if (!view) return;
    this.#views.delete(typeUrl, name.key);
    this.#outOfBounds.delete(view);
    this.#changed = true;
    view.close();
  }

  /** @returns whether anything was looked at again. */
  retry(): boolean {
    if (!this.#changed) return false;
    const retried = [...this.#outOfBounds];
    for (const view of retried) view.handleRulesChanged();
    // What they did themselves is no reason to do it again.
    this.#changed = false;
    return retried.length > 0;
  }

  /** The map may allow other hops now. */
  handleRulesChanged(): void {
    for (const view of [...this.#views.values()]) view.handleRulesChanged();
  }

  /** What the source is asked for, under the type of lists; undefined for what is no list. */
  listOf(typeUrl: string, name: ResourceName): ResourceName | undefined {
    return this.#views.get(typeUrl, name.key)?.list;
  }

  hops(typeUrl: string, name: ResourceName): readonly Hop[] {
    return this.#views.get(typeUrl, name.key)?.hops() ?? [];
  }

  // ---- bounds -------------------------------------------------------------------------------

  nestingProblem(view: ListView, nested: ResourceName): string | undefined {
    const problem = this.#nestingProblem(view, nested);
    if (problem !== undefined) this.#outOfBounds.add(view);
    return problem;
  }

  #nestingProblem(view: ListView, nested: ResourceName): string | undefined {
    const { maxHops, maxListEntries, maxNestedLists } = this.#port.bounds;
    const below = this.#views.get(view.typeUrl, nested.key);
    if (view.nested.length >= maxNestedLists) {
      return `is one of more than ${maxNestedLists} lists in one`;
    }
    if (nested.key === view.name.key || (below && this.#reaches(below, view))) {
      return 'leads back to the list itself';
    }
    const hops = this.#heightAbove(view) + 1 + (below ? this.#depthBelow(below) : 0);
    if (hops > maxHops) return `is one of more than ${maxHops} lists within lists`;
    const more = below ? this.#total(below) : 0;
    const fits = [...this.#around(view)].every((one) => this.#total(one) + more <= maxListEntries);
    return fits ? undefined : `would make more than ${maxListEntries} entries`;
  }

  handleChanged(view: ListView): void {
    this.#outOfBounds.delete(view);
    this.#changed = true;
  }

  fits(view: ListView, entryCount: number): boolean {
    const { maxListEntries } = this.#port.bounds;
    const more = entryCount - view.entryCount;
    const fits = [...this.#around(view)].every((one) => this.#total(one) + more <= maxListEntries);
    if (!fits) this.#outOfBounds.add(view);
    return fits;
  }

  #reaches(from: ListView, to: ListView): boolean {
    return from === to || this.#nested(from).some((one) => this.#reaches(one, to));
  }

  #depthBelow(view: ListView): number {
    return Math.max(0, ...this.#nested(view).map((one) => 1 + this.#depthBelow(one)));
  }

  #heightAbove(view: ListView): number {
    return Math.max(0, ...this.#nesting(view).map((one) => 1 + this.#heightAbove(one)));
  }

  /** Entries of a list and of all that it nests. */
  #total(view: ListView): number {
    return this.#nested(view).reduce((sum, one) => sum + this.#total(one), view.entryCount);
  }

  /** The list, and those that nest it, at whatever height. */
  *#around(view: ListView): IterableIterator<ListView> {
    yield view;
    for (const above of this.#nesting(view)) yield* this.#around(above);
  }

  #nested(view: ListView): readonly ListView[] {
    return view.nested.flatMap(({ key }) => this.#views.get(view.typeUrl, key) ?? []);
  }

  /** The lists that have this one as an entry. */
  #nesting({ typeUrl, name }: ListView): readonly ListView[] {
    const watchers = [...this.#port.watchersOf(typeUrl, name)];
    return watchers.flatMap((one) =>
      one instanceof ListEntryWatch && one.owner instanceof ListView ? [one.owner] : [],
    );
  }
}

/** The list collections that clients request: one view per list, and the limits of nested lists. */
import { isListName } from '../../../protos/list-collection.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import { TypedMap } from '../../../protos/typed-map.js';
import { Agenda } from '../agenda.js';
import type { Hop } from './hops.js';
import { ListEntryWatch } from './list-entry.js';
import { ListView, type ViewOwner } from './list-view.js';
import type { ResolutionPort } from './resolution-port.js';
import type { ResourceWatcher } from '../watcher.js';

/** Entries of all lists that are read or left in one turn of the event loop, some 0.5 ms of CPU, and 20 ms at first. A count. */
const ENTRIES_PER_TURN = 50;

export class Lists implements ViewOwner {
  readonly #port: ResolutionPort;
  readonly #views = new TypedMap<ListView>();
  /** Views that exceeded a limit of nesting or of entries when their list was read. */
  readonly #outOfBounds = new Set<ListView>();
  /** By name of a nested list: the lists that have it as an entry. */
  readonly #above = new TypedMap<Set<ListView>>();
  /**
   * Number of entries of each list and of all lists nested in it. Kept, since a source can nest 10,000 lists:
   * to count them again for each entry took seconds.
   */
  readonly #totals = new Map<ListView, number>();
  /**
   * Long lists that are being read or left, and lists whose new content waits because it came too
   * soon after the last one.
   */
  readonly #agenda = new Agenda<ListView>();
  /** A list changed, or its last watcher left: views that exceeded a limit may be within it now. */
  #changed = false;
  /** Entries for which the present turn has room. */
  #room = ENTRIES_PER_TURN;

  constructor(port: ResolutionPort) {
    this.#port = port;
  }

  /** Is this name answered from a list, not by a source under its own name? */
  isOurs(typeUrl: string, name: ResourceName): boolean {
    return isListName(typeUrl, name);
  }

  /** A list, or one entry of a list, has new watchers. */
  handleWatched(typeUrl: string, name: ResourceName, newcomers: readonly ResourceWatcher[]): void {
    const known = this.#views.get(typeUrl, name.key);
    if (known) {
      known.replay(newcomers);
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
    this.#totals.delete(view);
  }

  /** Checks the views again that exceeded a limit. @returns whether there were any. */
  retry(): boolean {
    if (!this.#changed) return false;
    const retried = [...this.#outOfBounds];
    for (const view of retried) view.retry();
    // Their own changes must not trigger another check.
    this.#changed = false;
    return retried.length > 0;
  }

  /** When `readDue` must run next; Infinity: not before another input. */
  nextDeadlineMs(nowMs: number): number {
    return this.#agenda.nextDeadlineMs(nowMs);
  }

  /** A turn of the event loop begins, which reads entries. */
  beginTurn(): void {
    this.#room = ENTRIES_PER_TURN;
  }

  endTurn(): void {
    this.#room = 0;
  }

  takeRoom(): boolean {
    if (this.#room === 0) return false;
    this.#room--;
    return true;
  }

  /**
   * Goes on with the lists that wait, as long as the turn has room.
   *
   * @returns whether there was one
   */
  readDue(nowMs: number): boolean {
    if (this.#room === 0) return false;
    const due = this.#agenda.beginTurnAndTakeDue(nowMs);
    for (const view of due) {
      // The others are due again.
      if (this.#room === 0) break;
      view.continueReading();
    }
    return due.length > 0;
  }

  /** A new map may allow other hops. */
  handleRulesChanged(): void {
    for (const view of [...this.#views.values()]) view.handleRulesChanged();
  }

  /**
   * The name that is requested from the source, with the type of lists; undefined if the name is
   * not a list.
   */
  listOf(typeUrl: string, name: ResourceName): ResourceName | undefined {
    return this.#views.get(typeUrl, name.key)?.list;
  }

  hops(typeUrl: string, name: ResourceName): readonly Hop[] {
    return this.#views.get(typeUrl, name.key)?.hops() ?? [];
  }

  // ---- limits -------------------------------------------------------------------------------

  admitNested(view: ListView, nested: ResourceName): string | undefined {
    const problem = this.#nestingProblem(view, nested);
    if (problem !== undefined) this.#outOfBounds.add(view);
    return problem;
  }

  #nestingProblem(view: ListView, nested: ResourceName): string | undefined {
    const { maxHops, maxListEntries, maxNestedLists } = this.#port.bounds;
    const below = this.#views.get(view.typeUrl, nested.key);
    if (view.nested.length >= maxNestedLists) {
      return `exceeds the limit of ${maxNestedLists} lists nested in one list`;
    }
    if (nested.key === view.name.key || (below && this.#reaches(below, view))) {
      return 'leads back to the list itself';
    }
    const hops = this.#heightAbove(view) + 1 + (below ? this.#depthBelow(below) : 0);
    if (hops > maxHops) return `exceeds the limit of ${maxHops} levels of nested lists`;
    const more = below ? this.#total(below) : 0;
    const fits = [...this.#around(view)].every((one) => this.#total(one) + more <= maxListEntries);
    return fits ? undefined : `would exceed the limit of ${maxListEntries} entries`;
  }

  handleDeadlineChanged(view: ListView): void {
    this.#agenda.handleDeadlineChanged(view);
  }

  handleEntry(view: ListView, nested: ResourceName | undefined): void {
    const { typeUrl } = view;
    const below = nested && this.#views.get(typeUrl, nested.key);
    if (nested) {
      const above = this.#above.get(typeUrl, nested.key) ?? new Set<ListView>();
      this.#above.set(typeUrl, nested.key, above.add(view));
    }
    this.#count(view, 1 + (below ? this.#total(below) : 0));
  }

  handleCounted(view: ListView, entryCount: number): void {
    this.#count(view, entryCount);
  }

  handleRead(view: ListView): void {
    this.#count(view, -1);
  }

  handleCleared(view: ListView, nested: readonly ResourceName[]): void {
    const { typeUrl } = view;
    for (const { key } of nested) {
      const above = this.#above.get(typeUrl, key);
      above?.delete(view);
      if (above?.size === 0) this.#above.delete(typeUrl, key);
    }
    this.#count(view, -this.#total(view));
  }

  /** @param more entries; negative: fewer */
  #count(view: ListView, more: number): void {
    if (more === 0) return;
    this.#totals.set(view, this.#total(view) + more);
    for (const above of this.#above.get(view.typeUrl, view.name.key) ?? [])
      this.#count(above, more);
  }

  handleChanged(view: ListView): void {
    this.#outOfBounds.delete(view);
    this.#changed = true;
  }

  admitEntries(view: ListView, entryCount: number): boolean {
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
    return Math.max(0, ...this.#listsAbove(view).map((one) => 1 + this.#heightAbove(one)));
  }

  /** Number of entries of a list and of all lists nested in it. */
  #total(view: ListView): number {
    return this.#totals.get(view) ?? 0;
  }

  /** The list, and every list that nests it, directly or not. */
  *#around(view: ListView): IterableIterator<ListView> {
    yield view;
    for (const above of this.#listsAbove(view)) yield* this.#around(above);
  }

  #nested(view: ListView): readonly ListView[] {
    const views = view.nested.map(({ key }) => this.#views.get(view.typeUrl, key));
    return views.filter((one) => one !== undefined);
  }

  /** The lists that have this list as an entry. */
  #listsAbove({ typeUrl, name }: ListView): readonly ListView[] {
    const watchers = [...this.#port.watchersOf(typeUrl, name)];
    return watchers
      .filter((one) => one instanceof ListEntryWatch)
      .map(({ owner }) => owner)
      .filter((owner) => owner instanceof ListView);
  }
}

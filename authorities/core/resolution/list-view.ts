/**
 * The members of one list collection (TP1, "List"). A client that requests the list as resources of
 * its element type gets the targets of all entries, at whatever authority. A client that requests
 * one entry (`#entry=`) gets that one.
 */
import { STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';
import {
  isListName,
  listTypeOf,
  readList,
  type ListEntries,
  type ListEntry,
} from '../../../protos/list-collection.js';
import { bodyOf } from '../../../protos/resource-field.js';
import { locatorOfName, nameOfLocator, type ResourceName } from '../../../protos/resource-name.js';
import { messageOf } from '../../../protos/type-urls.js';
import { authorityProblem, typeOfNamed, type Hop } from './hops.js';
import { ListEntryWatch, type EntryOwner } from './list-entry.js';
import { inlineMemberName, locatedMemberName } from './list-member.js';
import { readResource, type Projection } from '../projection.js';
import type { ResolutionPort } from './resolution-port.js';
import type { ResourceWatcher } from '../watcher.js';

/** The owner of all views. */
export interface ViewOwner {
  /** `nextDeadlineMs` of the view changed. */
  handleDeadlineChanged(view: ListView): void;
  /** The list changed or is gone. */
  handleChanged(view: ListView): void;
  /** The list, which had no entries, has this many; they are about to be read. */
  handleCounted(view: ListView, entryCount: number): void;
  /** One counted entry is read: `handleEntry` counts it again if the list takes it. */
  handleRead(view: ListView): void;
  /** The list has one more entry. @param nested the list that it leads to; undefined: it leads to none */
  handleEntry(view: ListView, nested: ResourceName | undefined): void;
  /** The list has no entries any more. @param nested the lists that were nested in it */
  handleCleared(view: ListView, nested: readonly ResourceName[]): void;
  /** @returns why `view` may not nest this list, or undefined. A refused view is tried again when room may have come. */
  admitNested(view: ListView, nested: ResourceName): string | undefined;
  /** Takes room for one entry in the present turn of the event loop. @returns whether there was room */
  takeRoom(): boolean;
  /** No room is left in the present turn. */
  endTurn(): void;
  /**
   * Would this list, and each list that nests it, stay within the limits with this many entries? If not, the view is tried again when
   * room may have come.
   */
  admitEntries(view: ListView, entryCount: number): boolean;
}

/** Reading this much takes some 10 ms of CPU; 10,000 entries have at least 500,000 bytes. */
const LONG_LIST_BYTES = 128 * 1_024;

/** A long list is not read again for this time. Further content replaces what waits. Milliseconds. */
const LONG_LIST_PAUSE_MS = 1_000;

const isLong = ({ field }: Projection): boolean => field.bodyLength >= LONG_LIST_BYTES;

export class ListView implements ResourceWatcher, EntryOwner {
  readonly typeUrl: string;
  readonly name: ResourceName;
  readonly #port: ResolutionPort;
  readonly #owner: ViewOwner;
  /** The name that is requested from the source: the list itself, with the type of lists. */
  readonly list: ResourceName;
  /** The one requested entry; undefined: all of them. */
  readonly #entryName: string | undefined;
  /** By target, in the order of the list. */
  #entries = new Map<string, ListEntryWatch>();
  /** Entries of the former content that have not been found in the new one yet. */
  #former = new Map<string, ListEntryWatch>();
  /** Maps the locators in the content that is being read; undefined: no alternative sent the content. */
  #mapEntry: Projection['mapEntry'];
  /** Reads one more entry with each step, and then leaves the former ones; undefined: all is done. */
  #reading: Iterator<void> | undefined;
  /** Entries of the present content that have not been read. A count. */
  #unreadCount = 0;
  /** By member name: the content from each entry that leads there. */
  readonly #members = new Map<string, Map<ListEntryWatch, Projection>>();
  readonly #told = new Map<string, Projection>();
  /** Entries that have not been answered yet. */
  readonly #waitingFor = new Set<ListEntryWatch>();
  #nested: ResourceName[] = [];
  #problems: readonly Hop[] = [];
  #content: Projection | undefined;
  /** When the present content was read, or the view closed. */
  #readingSinceMs = 0;
  /** No content of the list is read before this. */
  #nextReadMs = -Infinity;
  /** The content has not been read yet. */
  #isPostponed = false;
  #isKnown = false;
  /** The last watcher left. Another view may have the name already, so this one tells nothing more. */
  #isClosed = false;
  /** The reason that the source gave for the missing list. */
  #absence: RpcStatus | undefined;
  /** Why the list cannot be read now, if so. */
  #error: RpcStatus | undefined;
  /** `isProof` of the last completion sent; undefined: none was sent. */
  #proofTold: boolean | undefined;

  constructor(typeUrl: string, name: ResourceName, port: ResolutionPort, owner: ViewOwner) {
    this.typeUrl = typeUrl;
    this.name = name;
    this.#port = port;
    this.#owner = owner;
    const locator = locatorOfName(name);
    this.#entryName = locator?.entries[0];
    this.list = locator ? nameOfLocator({ ...locator, entries: [] }) : { ...name, isGlob: false };
  }

  get entryCount(): number {
    return this.#entries.size + this.#unreadCount;
  }

  /** The lists nested in it. */
  get nested(): readonly ResourceName[] {
    return this.#nested;
  }

  open(): void {
    this.#port.watch(listTypeOf(this.typeUrl), this.list, this);
  }

  close(): void {
    this.#port.unwatch(listTypeOf(this.typeUrl), this.list, this);
    this.#clear();
    // A map change that is being announced may still reach this view.
    this.#content = undefined;
    this.#isPostponed = false;
    this.#isClosed = true;
    this.#reading = this.#former.size > 0 ? this.#leaveFormer() : undefined;
    this.#readOn();
  }

  /** Sends the whole state to new watchers. */
  replay(newcomers: readonly ResourceWatcher[]): void {
    for (const projection of this.#told.values()) this.#tellChanged(projection, newcomers);
    if (this.#error) this.#tellError(this.#error, newcomers);
    // If entries are unanswered, the newcomers get the completion with all other watchers.
    this.#proofTold = undefined;
    this.#tellIfComplete(newcomers);
  }

  /** When `continueReading` is due; undefined: nothing waits. */
  nextDeadlineMs(): number | undefined {
    if (this.#reading) return this.#readingSinceMs;
    return this.#isPostponed ? this.#nextReadMs : undefined;
  }

  /** Handles the next entries, or reads the content that waited. */
  continueReading(): void {
    if (this.#reading) this.#readOn();
    else if (this.#content) this.#read(this.#content);
  }

  /** The lists around it changed, so it may be within the limits now. */
  retry(): void {
    if (this.#content) this.onChanged(this.#content);
  }

  /** A new map may allow other hops. */
  handleRulesChanged(): void {
    if (this.#content) this.#read(this.#content);
  }

  hops(): readonly Hop[] {
    const taken = [...this.#entries.values()].flatMap(({ target }) =>
      target ? [this.#hop(target.key, undefined)] : [],
    );
    return [...taken, ...this.#problems];
  }

  // ---- events of the list -------------------------------------------------------------------

  onChanged(projection: Projection): void {
    // Watchers are told one after the other, and what another one did may have closed this view.
    if (this.#isClosed) return;
    this.#content = projection;
    const nowMs = this.#port.nowMs();
    // Do not restart a list that changes while it is read: it would never be read to its end. A long list is read in the next
    // turn, since this turn took it from its source.
    if (this.#reading || nowMs < this.#nextReadMs || isLong(projection)) {
      this.#nextReadMs = Math.max(nowMs, this.#nextReadMs);
      this.#postpone(true);
    } else this.#read(projection);
  }

  #postpone(isPostponed: boolean): void {
    this.#isPostponed = isPostponed;
    this.#owner.handleDeadlineChanged(this);
  }

  #read(projection: Projection): void {
    this.#postpone(false);
    if (isLong(projection)) {
      this.#nextReadMs = this.#port.nowMs() + LONG_LIST_PAUSE_MS;
    }
    this.#owner.handleChanged(this);
    const { maxListEntries } = this.#port.bounds;
    const list = readList(bodyOf(projection.field), maxListEntries);
    if (!list.ok) {
      this.#refuse(list.reason);
      return;
    }
    if (!this.#owner.admitEntries(this, list.entries.length)) {
      this.#refuse(
        `would bring this list, or a list that nests it, above the limit of ${maxListEntries} entries`,
      );
      return;
    }
    this.#clear();
    this.#mapEntry = projection.mapEntry;
    this.#unreadCount = list.entries.length;
    this.#owner.handleCounted(this, this.#unreadCount);
    this.#isKnown = true;
    this.#absence = undefined;
    this.#error = undefined;
    this.#reading = this.#takeAll(list.entries);
    if (isLong(projection)) this.#owner.endTurn();
    this.#readOn();
  }

  /** Handles some of the entries that are left to read or to leave, and the rest in later turns. */
  #readOn(): void {
    while (!this.#reading || this.#owner.takeRoom()) {
      if (this.#reading?.next().done === false) continue;
      this.#reading = undefined;
      this.#tellIfComplete();
      break;
    }
    this.#owner.handleDeadlineChanged(this);
  }

  *#takeAll(entries: ListEntries): IterableIterator<void> {
    const problems: Hop[] = [];
    this.#problems = problems;
    let place = 0;
    for (const entry of entries) {
      this.#unreadCount--;
      this.#owner.handleRead(this);
      const problem = this.#take(entry, place++);
      if (problem) problems.push(problem);
      yield;
    }
    // Removed entries go after added ones have come.
    yield* this.#leaveFormer();
  }

  *#leaveFormer(): IterableIterator<void> {
    for (const [key, entry] of this.#former) {
      this.#former.delete(key);
      this.#leave(entry);
      yield;
    }
  }

  onRemoved(_typeUrl: string, _name: ResourceName, status?: RpcStatus): void {
    this.#handleGone(status);
  }

  onDoesNotExist(_typeUrl: string, _name: ResourceName, status?: RpcStatus): void {
    this.#handleGone(status);
  }

  onResourceError(_typeUrl: string, _name: ResourceName, status: RpcStatus): void {
    this.#error = status;
    this.#tellError(status);
  }

  #tellError(status: RpcStatus, to = this.#audience()): void {
    // Members already sent stay while the list is unavailable.
    if (this.#told.size > 0) return;
    // The next answer ends the error, also if it is the same as before.
    this.#proofTold = undefined;
    for (const watcher of to) watcher.onResourceError(this.typeUrl, this.name, status);
  }

  /* c8 ignore start -- the list is watched as a single resource, which never gets these */
  onComplete(): void {}
  onMemberChanged(): void {}
  onMemberRemoved(): void {}
  /* c8 ignore stop */

  #refuse(reason: string): void {
    const message = `the list ${this.list.key} ${reason}`;
    this.#problems = [this.#hop(this.list.key, reason)];
    const status = { code: STATUS_CODE.internal, message };
    this.onResourceError(this.typeUrl, this.name, status);
  }

  #handleGone(status: RpcStatus | undefined): void {
    if (this.#isClosed) return;
    this.#clear();
    this.#absence = status;
    this.#error = undefined;
    this.#content = undefined;
    this.#postpone(false);
    this.#owner.handleChanged(this);
    this.#isKnown = true;
    this.#problems = [];
    this.#reading = this.#former.size > 0 ? this.#leaveFormer() : undefined;
    this.#readOn();
  }

  // ---- entries ------------------------------------------------------------------------------

  /** The entries until now are former ones. */
  #clear(): void {
    const nested = this.#nested;
    for (const [key, entry] of this.#entries) this.#former.set(key, entry);
    this.#readingSinceMs = this.#port.nowMs();
    this.#reading = undefined;
    this.#unreadCount = 0;
    this.#entries = new Map();
    this.#nested = [];
    this.#owner.handleCleared(this, nested);
  }

  #add(key: string, watch: ListEntryWatch, nested?: ResourceName): void {
    this.#entries.set(key, watch);
    this.#former.delete(key);
    if (nested) this.#nested.push(nested);
    this.#owner.handleEntry(this, nested);
  }

  /** @returns the problem of an entry that is left out. */
  #take(entry: ListEntry, place: number): Hop | undefined {
    switch (entry.kind) {
      case 'refused':
        return this.#hop(`entry ${place}`, entry.reason);
      case 'inline':
        return this.#takeInline(entry, place);
      case 'locator':
        // `#entry=` can only name an inline entry.
        return this.#entryName === undefined ? this.#takeLocator(entry) : undefined;
    }
  }

  #takeInline(entry: Extract<ListEntry, { kind: 'inline' }>, place: number): Hop | undefined {
    if (this.#entryName !== undefined && entry.name !== this.#entryName) return undefined;
    const name =
      this.#entryName === undefined
        ? inlineMemberName(this.list, this.typeUrl, entry, place, this.#mapEntry)
        : this.name;
    if (!name) return this.#hop(`entry ${place}`, 'has no valid resource name');
    const { typeUrl, body } = entry;
    const read = readResource(name, this.typeUrl, typeUrl, body, this.#mapEntry);
    if (!read.ok) return this.#hop(name.key, read.reason);
    if (read.projection.redirect) return this.#hop(name.key, 'is a redirect in a list');
    const key = `inline ${name.key}`;
    if (this.#entries.has(key)) return this.#hop(name.key, 'occurs twice');
    const watch =
      this.#former.get(key) ?? new ListEntryWatch(this, undefined, undefined, this.#port);
    this.#add(key, watch);
    this.handleMember(watch, read.projection);
    return undefined;
  }

  #takeLocator(entry: Extract<ListEntry, { kind: 'locator' }>): Hop | undefined {
    const name = this.#mapEntry?.(entry.locator.name) ?? entry.locator.name;
    const locator = { ...entry.locator, name };
    const { alternatives, entries } = locator;
    const plain = entries.length === 0 && (name.isGlob || alternatives.length === 0);
    const one = plain ? name : nameOfLocator(locator);
    const isList = entries.length === 0 && isListName(this.typeUrl, name);
    const target = isList ? { ...one, isGlob: true } : one;
    const member = target.isGlob ? undefined : locatedMemberName(locator, this.typeUrl);
    const problem = this.#locatorProblem(target, isList);
    if (problem !== undefined) return this.#hop(target.key, problem);
    if (this.#entries.has(target.key)) return undefined;
    const known = this.#former.get(target.key);
    const watch = known ?? new ListEntryWatch(this, target, member, this.#port);
    this.#add(target.key, watch, isList ? target : undefined);
    if (known) return undefined;
    this.#waitingFor.add(watch);
    watch.open();
    return undefined;
  }

  #locatorProblem(target: ResourceName, isList: boolean): string | undefined {
    const type = typeOfNamed(target);
    if (!isList && type !== messageOf(this.typeUrl)) return `leads to another type, ${type}`;
    return (
      authorityProblem(this.#port, this.name.authority, target.authority) ??
      (isList ? this.#owner.admitNested(this, target) : undefined)
    );
  }

  #hop(to: string, problem: string | undefined): Hop {
    return { kind: 'list', from: this.name.key, to, problem };
  }

  #leave(entry: ListEntryWatch): void {
    entry.close();
    this.#waitingFor.delete(entry);
    for (const name of [...entry.members.values()]) this.handleMemberGone(entry, name);
  }

  // ---- members ------------------------------------------------------------------------------

  handleMember(entry: ListEntryWatch, projection: Projection): void {
    const { key } = projection.name;
    entry.members.set(key, projection.name);
    let said = this.#members.get(key);
    if (!said) this.#members.set(key, (said = new Map<ListEntryWatch, Projection>()));
    said.set(entry, projection);
    this.#tellMember(projection.name, said);
  }

  handleMemberGone(entry: ListEntryWatch, name: ResourceName): void {
    entry.members.delete(name.key);
    const said = this.#members.get(name.key);
    if (!said?.delete(entry)) return;
    if (said.size === 0) this.#members.delete(name.key);
    this.#tellMember(name, said);
  }

  handleEntryAnswered(entry: ListEntryWatch): void {
    this.#waitingFor.delete(entry);
    this.#tellIfComplete();
  }

  /** If several entries lead to one name, the first that sent content counts. */
  #tellMember(name: ResourceName, said: ReadonlyMap<ListEntryWatch, Projection>): void {
    const [projection] = said.values();
    const told = this.#told.get(name.key);
    if (!projection) {
      this.#told.delete(name.key);
      for (const watcher of this.#audience()) this.#tellGone(watcher, name);
      return;
    }
    if (told?.version === projection.version) return;
    this.#told.set(name.key, projection);
    this.#tellChanged(projection);
  }

  #tellChanged(projection: Projection, to = this.#audience()): void {
    for (const watcher of to) {
      if (this.name.isGlob) watcher.onMemberChanged(this.name, projection);
      else watcher.onChanged(projection);
    }
  }

  #tellGone(watcher: ResourceWatcher, name: ResourceName): void {
    if (this.name.isGlob) watcher.onMemberRemoved(this.typeUrl, this.name, name);
    else watcher.onRemoved(this.typeUrl, this.name);
  }

  #tellIfComplete(to = this.#audience()): void {
    if (!this.#isKnown || this.#reading) return;
    if (this.#proofTold === true || this.#waitingFor.size > 0) return;
    if (this.#error && this.#told.size === 0) return;
    const isProof = [...this.#entries.values()].every((entry) => entry.isProof);
    if (this.#proofTold === isProof) return;
    this.#proofTold = isProof;
    const [typeUrl, name, status] = [this.typeUrl, this.name, this.#absence];
    for (const watcher of to) {
      if (name.isGlob) watcher.onComplete(typeUrl, name, isProof, status);
      else if (this.#told.size === 0) watcher.onDoesNotExist(typeUrl, name, status);
    }
  }

  #audience(): readonly ResourceWatcher[] {
    return this.#isClosed ? [] : [...this.#port.audienceOf(this.typeUrl, this.name)];
  }
}

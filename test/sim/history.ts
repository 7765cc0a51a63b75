/** The history of a simulated world: what each source published and when, and the maps in force. */
import type { AuthorityMap } from '../../config/model.js';
import { BARE_MARKS, globOf } from './names.js';
import { placesOf, type Place } from './places.js';

/** A publication of a name by a source. Several sources may publish the same content. */
export interface Publication {
  readonly mark: number;
  readonly source: string;
  readonly name: string;
  /** The name that the payload refers to; empty: none. */
  readonly reference: string;
  /** The target, if it is a redirect. */
  readonly redirect: string | undefined;
  /** Lists only: the names and globs that the entries lead to, and those of inline entries. */
  readonly list?: readonly string[];
  /** Lists only: the marks of inline entries, by the names that the gateway gives them. */
  readonly inline?: ReadonlyMap<string, number>;
  readonly atMs: number;
  /** Its number among the publications of this name by this source. */
  readonly order: number;
}

export interface Era {
  readonly fromMs: number;
  /** Undefined: the source lacks the name. */
  readonly publication: Publication | undefined;
}

/** A period in which a source claimed to have only these names. */
export interface Denial {
  readonly kept: ReadonlySet<string>;
  readonly fromMs: number;
  untilMs: number;
}

/** A source lost all its content. */
export interface Loss {
  readonly atMs: number;
  /** Time of the previous loss. */
  readonly lastMs: number;
  readonly had: readonly string[];
}

/** The full history of one source. */
interface Past {
  readonly eras: Map<string, Era[]>;
  /** By glob: every name ever published in it, in order. */
  readonly members: Map<string, string[]>;
  /** By name: every redirect target it ever had; for a list, every entry. */
  readonly redirects: Map<string, Set<string>>;
  readonly listed: Map<string, Set<string>>;
  readonly denials: Denial[];
  loss: Loss | undefined;
}

const NONE: readonly never[] = [];
const NO_ENTRIES: ReadonlyMap<string, number> = new Map();

export class History {
  readonly maps: { readonly fromMs: number; readonly map: AuthorityMap }[] = [];
  /** By process and source: processes that may have received only a part of a response. */
  readonly #interrupted = new Set<string>();
  readonly #heardMs = new Map<string, number>();
  readonly #startedMs = new Map<string, number>();
  /** By source: when it began to withhold names, and when it mended; `Infinity`: it has not. */
  readonly #mute = new Map<string, { readonly fromMs: number; untilMs: number }[]>();
  readonly #pasts = new Map<string, Past>();
  readonly #byMark = new Map<number, Publication[]>();
  readonly #places = new Map<AuthorityMap, Map<string, readonly Place[]>>();
  readonly #bare = new Map<string, { readonly fromMs: number; readonly untilMs: number }>();
  #hasDenials = false;
  readonly #markStep: number;
  #lastMark = 0;

  /** @param hasEndpoints may assignments have endpoints? See `lacksEndpoints` in names.ts */
  constructor(hasEndpoints = true) {
    this.#markStep = hasEndpoints ? 1 : BARE_MARKS;
  }

  newMark(): number {
    return (this.#lastMark += this.#markStep);
  }

  // ---- recording ----------------------------------------------------------------------------

  noteMap(map: AuthorityMap, nowMs: number): void {
    this.maps.push({ fromMs: nowMs, map });
  }

  noteStarted(process: string, nowMs: number): void {
    this.#startedMs.set(process, nowMs);
  }

  noteMute(source: string, fromMs: number): void {
    const all = this.#mute.get(source) ?? [];
    this.#mute.set(source, all);
    if (all.at(-1)?.untilMs !== Infinity) all.push({ fromMs, untilMs: Infinity });
  }

  noteMended(source: string, nowMs: number): void {
    const last = this.#mute.get(source)?.at(-1);
    if (last) last.untilMs = Math.min(last.untilMs, nowMs);
  }

  /** A process receives a message from a source. */
  noteHeard(process: string, source: string, nowMs: number): void {
    const key = `${process} ${source}`;
    if (!this.#heardMs.has(key)) this.#heardMs.set(key, nowMs);
  }

  /** The rest of a response may be lost, and the process notices that only later. */
  noteInterrupted(process: string, source: string): void {
    this.#interrupted.add(`${process} ${source}`);
  }

  notePublished(publication: Omit<Publication, 'order'>): void {
    const { source, name, mark, redirect, list, inline, atMs } = publication;
    const { redirects, listed } = this.#past(source);
    this.#noteInline(source, name, inline ?? NO_ENTRIES, atMs);
    const eras = this.#erasToExtend(source, name);
    const noted = { ...publication, order: eras.length };
    eras.push({ fromMs: atMs, publication: noted });
    if (redirect !== undefined) addTo(redirects, name, [redirect]);
    if (list) addTo(listed, name, list);
    const same = this.#byMark.get(mark);
    if (same) same.push(noted);
    else this.#byMark.set(mark, [noted]);
  }

  /** The inline entries of a list come and go with it. */
  #noteInline(
    source: string,
    list: string,
    inline: ReadonlyMap<string, number>,
    atMs: number,
  ): void {
    for (const name of this.current(source, list)?.inline?.keys() ?? []) {
      if (!inline.has(name)) this.noteDeleted(source, name, atMs);
    }
    for (const [name, mark] of inline) {
      if (this.current(source, name)?.mark === mark) continue;
      this.notePublished({ mark, source, name, reference: '', redirect: undefined, atMs });
    }
  }

  /** Has the source published anything since? Then it is not empty, though it has just started. */
  hasPublishedSince(source: string, sinceMs: number): boolean {
    for (const eras of this.#past(source).eras.values()) {
      if (eras.some(({ fromMs, publication }) => publication && fromMs >= sinceMs)) return true;
    }
    return false;
  }

  noteDeleted(source: string, name: string, nowMs: number): void {
    this.#noteInline(source, name, NO_ENTRIES, nowMs);
    this.#erasToExtend(source, name).push({ fromMs: nowMs, publication: undefined });
  }

  /** A source has just started and claims to have only these names. */
  noteDenying(source: string, kept: ReadonlySet<string>, nowMs: number): void {
    this.#past(source).denials.push({ kept, fromMs: nowMs, untilMs: Infinity });
    this.#hasDenials = true;
  }

  /** It has its full content again. */
  noteReleased(source: string, nowMs: number): void {
    const last = this.#past(source).denials.at(-1);
    if (last) last.untilMs = Math.min(last.untilMs, nowMs);
  }

  /** It has started, and knows no endpoints until then. */
  noteBare(source: string, fromMs: number, untilMs: number): void {
    this.#bare.set(source, { fromMs, untilMs });
  }

  isBareAt(source: string, atMs: number): boolean {
    const { fromMs, untilMs } = this.#bare.get(source) ?? { fromMs: Infinity, untilMs: 0 };
    return fromMs <= atMs && atMs < untilMs;
  }

  /** A source lost its content and its streams. */
  noteLost(source: string, nowMs: number): void {
    const past = this.#past(source);
    const had = [...past.eras].flatMap(([name, eras]) => (eras.at(-1)?.publication ? [name] : []));
    past.loss = { atMs: nowMs, lastMs: past.loss?.atMs ?? -Infinity, had };
  }

  #past(source: string): Past {
    let past = this.#pasts.get(source);
    if (past) return past;
    past = {
      eras: new Map(),
      members: new Map(),
      redirects: new Map(),
      listed: new Map(),
      denials: [],
      loss: undefined,
    };
    this.#pasts.set(source, past);
    return past;
  }

  #erasToExtend(source: string, name: string): Era[] {
    const past = this.#past(source);
    let eras = past.eras.get(name);
    if (eras) return eras;
    // Before the first publication there was nothing.
    eras = [{ fromMs: -Infinity, publication: undefined }];
    past.eras.set(name, eras);
    const glob = globOf(name);
    const members = past.members.get(glob);
    if (members) members.push(name);
    else past.members.set(glob, [name]);
    return eras;
  }

  // ---- queries ------------------------------------------------------------------------------

  get map(): AuthorityMap {
    return this.maps.at(-1)!.map;
  }

  /** The longest time for which the source has withheld names without a pause; 0: never. */
  muteForMs(source: string, nowMs: number): number {
    const all = this.#mute.get(source) ?? [];
    return Math.max(0, ...all.map(({ fromMs, untilMs }) => Math.min(untilMs, nowMs) - fromMs));
  }

  startedMs(process: string): number {
    return this.#startedMs.get(process) ?? -Infinity;
  }

  /** When a process first received something from a source. */
  heardMs(process: string, source: string): number {
    return this.#heardMs.get(`${process} ${source}`) ?? Infinity;
  }

  wasInterrupted(process: string, source: string): boolean {
    return this.#interrupted.size > 0 && this.#interrupted.has(`${process} ${source}`);
  }

  get hasDenials(): boolean {
    return this.#hasDenials;
  }

  /** Empty: the source never had this name. */
  eras(source: string, name: string): readonly Era[] {
    return this.#pasts.get(source)?.eras.get(name) ?? NONE;
  }

  /** The eras of every name that a source ever had. */
  *allEras(source: string): IterableIterator<readonly [string, readonly Era[]]> {
    yield* this.#pasts.get(source)?.eras ?? [];
  }

  current(source: string, name: string): Publication | undefined {
    return this.#pasts.get(source)?.eras.get(name)?.at(-1)?.publication;
  }

  ofMark(mark: number): readonly Publication[] | undefined {
    return this.#byMark.get(mark);
  }

  /** Every name that a source ever published in a glob. */
  membersEver(source: string, glob: string): readonly string[] {
    return this.#pasts.get(source)?.members.get(glob) ?? NONE;
  }

  redirects(source: string, name: string): Iterable<string> {
    return this.#pasts.get(source)?.redirects.get(name) ?? NONE;
  }

  hadRedirect(source: string, name: string): boolean {
    return this.#pasts.get(source)?.redirects.has(name) === true;
  }

  /** Sources that ever had a list with this entry. */
  sourcesListing(entry: string): readonly string[] {
    return [...this.#pasts].flatMap(([source, { listed }]) =>
      [...listed.values()].some((entries) => entries.has(entry) || entries.has(globOf(entry)))
        ? [source]
        : [],
    );
  }

  listed(source: string, list: string): Iterable<string> {
    return this.#pasts.get(source)?.listed.get(list) ?? NONE;
  }

  denials(source: string): readonly Denial[] {
    return this.#pasts.get(source)?.denials ?? NONE;
  }

  loss(source: string): Loss | undefined {
    return this.#pasts.get(source)?.loss;
  }

  placesIn(map: AuthorityMap, name: string): readonly Place[] {
    let byName = this.#places.get(map);
    if (!byName) this.#places.set(map, (byName = new Map<string, readonly Place[]>()));
    let places = byName.get(name);
    if (!places) byName.set(name, (places = placesOf(map, name)));
    return places;
  }
}

function addTo(sets: Map<string, Set<string>>, key: string, values: readonly string[]): void {
  const set = sets.get(key) ?? new Set<string>();
  for (const value of values) set.add(value);
  sets.set(key, set);
}

export function eraAt(eras: readonly Era[], atMs: number): Era | undefined {
  return eras.findLast(({ fromMs }) => fromMs <= atMs);
}

/** The era at that time, and all later ones. */
export function erasSince(eras: readonly Era[], sinceMs: number): readonly Era[] {
  const from = eras.findLastIndex(({ fromMs }) => fromMs <= sinceMs);
  return from <= 0 ? eras : eras.slice(from);
}

/**
 * Knows what is true and what the gateway may send: what each source published and when, and which
 * authority maps were in force and when. It knows nothing of how the gateway works.
 */
import type { AuthorityMap } from '../../config/model.js';
import {
  eraAt,
  erasSince,
  type Denial,
  type Era,
  type History,
  type Publication,
} from './history.js';
import {
  authorityOf,
  globOf,
  inlineOf,
  isGlob,
  isPayload,
  lacksEndpoints,
  markOf,
  nameText,
  partsOf,
  wireName,
} from './names.js';
import { isWholeType } from './upstream-wire.js';
import { everyEntry, mappedBack, problemIn, referenceAt, type Place } from './places.js';

/** A rule was broken, which ends the run of this seed. */
export class Violation extends Error {
  readonly rule: string;

  constructor(rule: string, message: string) {
    super(message);
    this.rule = rule;
  }
}

/**
 * A path from a requested name to a publication, with the reference that the payload must then
 * carry.
 */
export interface Way {
  readonly publication: Publication;
  readonly reference: string;
}

/** Content that a client may hold: its possible publications, and the reference as the client sees it. */
export interface Content {
  readonly publications: readonly Publication[];
  readonly reference: string;
}

/** The limit of redirects in a chain (docs/ARCHITECTURE.md). */
const MAX_HOPS = 4;
/** A message of a source may be on its way, or its stream half open, for at most this long. */
const STALENESS_MS = 60_000;

/** Knowledge about TTLs. */
export interface Ends {
  /**
   * May this process remove the name because its TTL, or that of its redirect target, ended since
   * then?
   */
  mayHaveEnded(process: string, name: string, sinceMs: number, atMs: number): boolean;
}

/** A removal that a process sends. */
export interface Removal {
  /** The client's content is not older than this, or the process knows of nothing older. */
  readonly sinceMs: number;
  /** The sources of the content, if this process sent it. */
  readonly cameFrom?: readonly string[];
  readonly process?: string;
  /** Does the process know that the client may hold it? */
  readonly isClaimed?: boolean;
}

export class Oracle {
  /** Undefined: this world has no TTLs. */
  ends: Ends | undefined;
  /** Does this source send a response in pieces? */
  splits: (source: string) => boolean = () => false;
  /** Instances read responses in small portions. */
  readsInPortions = false;
  readonly history: History;
  /** By name, then by version. */
  readonly #contents = new Map<string, Map<string, Uint8Array>>();

  constructor(history: History) {
    this.history = history;
  }

  get map(): AuthorityMap {
    return this.history.map;
  }

  /**
   * The end of the deletion guard for a name that its source lost; undefined if the guard is not
   * certain to trigger. It is certain if the source is the only one of its authority and has
   * published nothing since, and this client, on a stream from before the loss, held more than half
   * of what the source had. The name must not have gone before in another way.
   */
  guardedUntil(name: string, heldNow: readonly string[], connectedMs: number): number | undefined {
    const { authority, typeUrl } = partsOf(name);
    const spec = this.map.authorities.get(authority);
    const [source, ...others] = spec?.sources ?? [];
    const loss = source === undefined ? undefined : this.history.loss(source);
    if (!spec || !loss || source === undefined || this.history.maps.length > 1) return undefined;
    if (loss.atMs < connectedMs || this.mayBeRedirected(name)) return undefined;
    const late = erasSince(this.history.eras(source, name), this.#staleSince(loss.atMs));
    const isGone = ({ fromMs, publication }: Era): boolean =>
      !publication && fromMs > -Infinity && fromMs < loss.atMs;
    if (late.some(isGone)) return undefined;
    if (others.length + spec.alternatives.length > 0) return undefined;
    // A removal from a directory takes effect at once.
    if (this.map.sources.get(source)?.kind === 'path') return undefined;
    for (const [one, eras] of this.history.allEras(source)) {
      if (authorityOf(one) === authority && eras.at(-1)!.fromMs > loss.atMs) return undefined;
    }
    const had = loss.had.filter((one) => authorityOf(one) === authority);
    if (had.some((one) => this.history.current(source, one))) return undefined;
    const lost = heldNow.filter((one) => had.includes(one) && partsOf(one).typeUrl === typeUrl);
    const { count, waitMs } = spec.failover.deletionGuard;
    // Content of an earlier loss may still be served.
    if (loss.atMs - loss.lastMs < 2 * waitMs) return undefined;
    const isMost =
      (lost.length > count && 2 * lost.length >= had.length) || lost.length === had.length;
    return isMost && lost.includes(name) ? loss.atMs + waitMs : undefined;
  }

  /** Was any of the names behind this one ever a redirect? */
  mayBeRedirected(name: string): boolean {
    const places = this.history.maps.flatMap(({ map }) => this.history.placesIn(map, name));
    return places.some((place) => this.history.hadRedirect(place.source, place.name));
  }

  /** How often this content was published. */
  placesOf(mark: number): number {
    return this.history.ofMark(mark)?.length ?? 0;
  }

  // ---- what the gateway may send --------------------------------------------------------------

  /**
   * @param version of this resource; undefined: it has no version of its own
   * @throws Violation unless an allowed source published this content for this name, with these
   * references
   */
  checkContent(name: string, version: string | undefined, body: Uint8Array): Content {
    const mark = markOf(body);
    const all = mark === undefined ? undefined : this.history.ofMark(mark);
    if (!all) throw new Violation('1', `${name} has content that no source published`);
    const told = this.#ways(name, all);
    if (told.length === 0) {
      throw new Violation('1', `${name} has content that ${sourcesOf(all)} may not give it`);
    }
    const { typeUrl } = partsOf(name);
    const way = told.find(({ reference }) => isPayload(body, typeUrl, name, reference));
    if (!way) {
      throw new Violation('1', `${name} has content of ${sourcesOf(all)} with other names in it`);
    }
    if (version !== undefined) this.#checkVersion(name, version, body);
    return { publications: told.map(({ publication }) => publication), reference: way.reference };
  }

  /** The version of a set identifies its content, whichever instance sends it (invariant 4). */
  checkSet(typeUrl: string, version: string, set: ReadonlyMap<string, Uint8Array>): void {
    const texts = [...set].map(
      ([name, body]) => `${wireName(name)} ${Buffer.from(body).toString('latin1')}`,
    );
    const whole = Buffer.from(texts.sort().join('\n'), 'latin1');
    this.#checkVersion(`the set of ${typeUrl}`, version, whole);
  }

  #checkVersion(name: string, version: string, body: Uint8Array): void {
    let ofName = this.#contents.get(name);
    if (!ofName) this.#contents.set(name, (ofName = new Map<string, Uint8Array>()));
    const before = ofName.get(version);
    if (!before) ofName.set(version, Uint8Array.from(body));
    else if (Buffer.compare(before, body) !== 0) {
      throw new Violation('4', `${name} has two contents at version ${version}`);
    }
  }

  /** Every path from a name to one of these publications. */
  #ways(name: string, wanted: readonly Publication[], seen = new Set<string>()): Way[] {
    if (seen.has(name)) return [];
    seen.add(name);
    const ways: Way[] = [];
    for (const { map } of this.history.maps) {
      for (const place of this.history.placesIn(map, name)) {
        for (const publication of wanted) {
          const isHere = publication.source === place.source && publication.name === place.name;
          if (isHere) ways.push({ publication, reference: referenceAt(publication, place) });
        }
        for (const target of this.history.redirects(place.source, place.name)) {
          const isAllowed = this.history.maps.some((one) => !problemIn(one.map, name, target));
          if (isAllowed) ways.push(...this.#ways(target, wanted, seen));
        }
      }
    }
    return ways;
  }

  /**
   * May the gateway remove a name that a client holds? Reasons: the primary lacked it since; an
   * alternative that had it deleted it; the map or a redirect changed. If several entries serve the
   * name, the reason must apply to the entry that sent the content: the others may be unreachable.
   */
  mayBeGone(name: string, removal: Removal, seen = new Set<string>()): boolean {
    const { sinceMs, cameFrom = [], process } = removal;
    // An entry goes with its list, and the list of an alternative may lack it (docs/RESOLUTION.md).
    const { entryOf } = partsOf(name);
    if (entryOf !== undefined && this.mayLeaveList(entryOf, inlineOf(name), sinceMs)) return true;
    // A cycle of redirects leads to nothing, and so does a chain that is too long.
    if (seen.has(name) || seen.size > MAX_HOPS) return true;
    seen.add(name);
    if (this.mapChangedSince(sinceMs)) return true;
    const places = this.history.placesIn(this.map, name);
    if (places.length === 0) return true;
    const entries = places.flatMap(({ source, entry }) =>
      cameFrom.includes(source) ? [entry] : [],
    );
    return places.some((place) => {
      if (entries.length > 0 && !entries.includes(place.entry)) return false;
      const eras = this.history.eras(place.source, place.name);
      const targets = [...this.history.redirects(place.source, place.name)];
      // The target of a redirect may be younger than the deletion of the redirect.
      const mayBeOlder = place.isPrimary || targets.length > 0;
      const from = mayBeOlder ? this.#staleSince(sinceMs, process) : sinceMs;
      if (this.#everLacked(eras, from, place.isPrimary)) return true;
      if (process !== undefined && this.history.wasInterrupted(process, place.source)) return true;
      const denials = this.history.denials(place.source).filter(({ untilMs }) => untilMs >= from);
      if (denials.some((one) => this.#mayDelete(one, place, removal))) return true;
      // The last redirect of an unreachable source counts until the source returns.
      return targets.some((target) => {
        return (
          problemIn(this.map, name, target) ||
          this.mayBeGone(target, { ...removal, isClaimed: false }, seen)
        );
      });
    });
  }

  /**
   * May a source's denial remove this name? Not if the source denies everything and the process
   * knows the name only from clients: the deletion guard holds until the source has content. A
   * process that received something from the source before may lose those few names.
   */
  #mayDelete(
    { kept, fromMs }: Denial,
    { source, name }: Place,
    { process, isClaimed = false }: Removal,
  ): boolean {
    if (kept.has(name)) return false;
    if (kept.size > 0 || !isClaimed || this.history.hadRedirect(source, name)) return true;
    if (this.history.hasPublishedSince(source, fromMs)) return true;
    // Entries of old-style names are judged together: the names of the others show that not all is
    // lost.
    const { servedBy = [] } = this.map.oldStyle ?? {};
    if (servedBy.length > 1 && servedBy.some(({ sources }) => sources.includes(source)))
      return true;
    return process === undefined || this.history.heardMs(process, source) < fromMs;
  }

  /** Do several sources have this name, or was it published since? */
  mayHaveChanged(name: string, sinceMs: number): boolean {
    const [place, ...others] = this.history.placesIn(this.map, name);
    if (!place || others.length > 0 || this.mayBeRedirected(name)) return true;
    const last = this.history.eras(place.source, place.name).at(-1);
    return last === undefined || last.fromMs >= sinceMs - STALENESS_MS;
  }

  /** Did the only source of this name have it from the beginning, with whatever content? */
  wasAlwaysThere(name: string): boolean {
    const [place, ...others] = this.history.placesIn(this.map, name);
    if (!place || others.length > 0 || this.history.maps.length > 1) return false;
    if (this.history.denials(place.source).some(({ kept }) => !kept.has(place.name))) return false;
    const [, ...eras] = this.history.eras(place.source, place.name);
    const isThere = ({ publication }: Era): boolean => !isNothing(publication);
    return (
      eras.length > 0 && eras[0]!.fromMs <= this.history.maps[0]!.fromMs && eras.every(isThere)
    );
  }

  /** Has the only source of this name had it ever since? */
  wasThereSince(name: string, sinceMs: number): boolean {
    const [place, ...others] = this.history.placesIn(this.map, name);
    if (!place || others.length > 0 || this.mayBeRedirected(name)) return false;
    const [, ...eras] = erasSince(this.history.eras(place.source, place.name), sinceMs);
    const there = this.history.eras(place.source, place.name);
    const before = eraAt(there, sinceMs);
    return !isNothing(before?.publication) && eras.every((era) => !isNothing(era.publication));
  }

  /** Was this name deleted exactly once since then, and not before? */
  wentSince(name: string, sinceMs: number): boolean {
    const [primary, ...others] = this.history.placesIn(this.map, name);
    if (!primary || this.history.maps.length > 1) return false;
    // The next entry may serve the name for a while.
    if (others.some(({ entry }) => entry > 0)) return false;
    const eras = erasSince(this.history.eras(primary.source, primary.name), sinceMs - STALENESS_MS);
    if (eras.some(({ publication }) => publication?.redirect !== undefined)) return false;
    const [gone, ...more] = eras.filter(({ publication }) => publication === undefined);
    return gone !== undefined && more.length === 0 && gone.fromMs >= sinceMs;
  }

  /**
   * Since when a message may be stale: it may have been on its way, but it is not older than the
   * world or than the process that receives it.
   */
  #staleSince(sinceMs: number, process?: string): number {
    const beganMs = this.history.maps[0]!.fromMs;
    const startedMs = process === undefined ? beganMs : this.history.startedMs(process);
    return Math.max(sinceMs - STALENESS_MS, startedMs);
  }

  /** Has a reload changed the map since then? */
  mapChangedSince(sinceMs: number): boolean {
    return this.history.maps.length > 1 && this.history.maps.at(-1)!.fromMs > sinceMs;
  }

  #everLacked(eras: readonly Era[], sinceMs: number, isPrimary: boolean): boolean {
    if (eras.length === 0) return isPrimary;
    const [first, ...later] = erasSince(eras, sinceMs);
    const deleted = later.some(({ publication }) => publication === undefined);
    return deleted || (isPrimary && first?.publication === undefined);
  }

  /** May the gateway report absence to a client that holds nothing? */
  mayBeAbsent(name: string, sinceMs: number): boolean {
    if (!isGlob(name)) {
      const isGone = this.mayBeGone(name, { sinceMs }) && this.#mayAllLack(name, sinceMs);
      return isGone || this.#wasDenied(name);
    }
    if (this.mapChangedSince(sinceMs)) return true;
    const places = this.history.placesIn(this.map, name);
    return places.length === 0 || everyEntry(places, (one) => this.#wasEmpty(one, sinceMs));
  }

  /**
   * A source of the state of the world that withholds its sets for `resource_timeout` seems to lack what was not in the
   * last one (SPEC, "What each variant of a source does"). Found by seed 95061.
   */
  mayHaveTimedOut(name: string, nowMs: number): boolean {
    return this.history.placesIn(this.map, name).some(({ source }) => {
      const spec = this.map.sources.get(source);
      const isWhole = this.#isSotw(source) && isWholeType(partsOf(name).typeUrl);
      if (!isWhole || spec?.kind !== 'grpc') return false;
      return this.history.muteForMs(source, nowMs) >= spec.timers.resourceTimeoutMs;
    });
  }

  /** An entry that never had the name proves nothing of the others; a deletion by one counts (ADR 0009). */
  #mayAllLack(name: string, sinceMs: number): boolean {
    if (this.mapChangedSince(sinceMs)) return true;
    const places = this.history.placesIn(this.map, name);
    const [first, ...others] = places;
    if (others.every(({ entry }) => entry === first?.entry)) return true;
    const erasAt = ({ source, name: there }: Place): readonly Era[] =>
      this.history.eras(source, there);
    if (places.some((place) => erasAt(place).some(isEndOf))) return true;
    const fromMs = this.#staleSince(sinceMs);
    return everyEntry(places, (place) => {
      // A collection counts as whole if only pieces without anything new come for a while. Found by seed 5346.
      const mayCome = this.splits(place.source);
      return mayCome || this.#everLacked(erasAt(place), fromMs, place.isPrimary);
    });
  }

  /** Has the process received anything from a source of this name? */
  mayKnow(process: string, name: string, seen = new Set<string>()): boolean {
    if (seen.has(name) || this.history.maps.length > 1) return true;
    seen.add(name);
    // A list that its source changed no longer leads to it, whatever its own source has.
    const hasHeard = (source: string): boolean =>
      this.map.sources.get(source)?.kind === 'path' ||
      this.history.heardMs(process, source) < Infinity;
    if (this.history.sourcesListing(name).some(hasHeard)) return true;
    const places = this.history.placesIn(this.map, name);
    if (places.length === 0) return true;
    return places.some(({ source, name: there }) => {
      if (hasHeard(source)) return true;
      const targets = [...this.history.redirects(source, there)];
      return targets.some((target) => this.mayKnow(process, target, seen));
    });
  }

  /** Did a source ever deny this name although it had it? */
  #wasDenied(name: string, seen = new Set<string>()): boolean {
    if (!this.history.hasDenials || seen.has(name)) return false;
    seen.add(name);
    return this.history.placesIn(this.map, name).some(({ source, name: there }) => {
      if (this.history.denials(source).some(({ kept }) => !kept.has(there))) return true;
      const targets = [...this.history.redirects(source, there)];
      return targets.some((target) => this.#wasDenied(target, seen));
    });
  }

  /**
   * Was the collection ever empty here? At an alternative that counts only if members were deleted
   * or redirected to nothing: its absence proves nothing.
   */
  #wasEmpty(place: Place, sinceMs: number): boolean {
    const isMember = (one: string): boolean => globOf(one) === place.name;
    // A member that was deleted, or that is a redirect, may be nothing to the client.
    const mayBeNothing = (one: string): boolean =>
      this.history
        .eras(place.source, one)
        .some((era) => isEndOf(era) || era.publication?.redirect !== undefined);
    const denies = ({ kept }: Denial): boolean => [...kept].filter(isMember).every(mayBeNothing);
    const histories = this.history
      .membersEver(place.source, place.name)
      .map((name) => this.history.eras(place.source, name));
    const isProof =
      place.isPrimary || histories.some((eras) => eras.some(({ publication }) => publication));
    if (!isProof) return false;
    if (this.history.denials(place.source).some(denies)) return true;
    const fromMs = this.#staleSince(sinceMs);
    const moments = histories.flat().map((era) => era.fromMs);
    // What changed in one moment may come in pieces, or be read in portions: docs/SPEC.md, "Not yet". Found by seeds
    // 71256 and 71627.
    const isSplit = this.readsInPortions || this.splits(place.source);
    const isNothingAt = (eras: readonly Era[], atMs: number): boolean =>
      isNothing(eraAt(eras, atMs)?.publication) ||
      (isSplit && isNothing(eraAt(eras, atMs - 1)?.publication));
    const isEmptyAt = (atMs: number): boolean =>
      atMs >= fromMs && histories.every((eras) => isNothingAt(eras, atMs));
    return [fromMs, ...moments].some(isEmptyAt);
  }

  // ---- what must hold at the end --------------------------------------------------------------

  /**
   * What every subscriber of a name must hold once all faults are healed. `unsure`: old content may
   * stay, behind a redirect that is not allowed or where deletions are not passed on.
   */
  truth(name: string): Way | 'nothing' | 'unsure' {
    let at = name;
    let keeps = this.keepsDeleted(name);
    for (let hops = 0; hops <= MAX_HOPS; hops++) {
      const primaries = this.history.placesIn(this.map, at).filter(({ isPrimary }) => isPrimary);
      const place = primaries.find(({ source, name: there }) =>
        this.history.current(source, there),
      );
      const publication = place && this.history.current(place.source, place.name);
      const before = primaries.slice(0, place ? primaries.indexOf(place) : undefined);
      if (before.some((one) => this.hidesAbsence(one))) return 'unsure';
      if (!publication) return keeps ? 'unsure' : 'nothing';
      if (publication.redirect === undefined) {
        // To the deletion guard an assignment without endpoints is a removal, and it may keep the endpoints for ever.
        if (keeps && lacksEndpoints(partsOf(name).typeUrl, publication.mark)) return 'unsure';
        return { publication, reference: referenceAt(publication, place) };
      }
      if (problemIn(this.map, at, publication.redirect)) return 'unsure';
      at = publication.redirect;
      keeps ||= this.keepsDeleted(at);
    }
    return 'unsure';
  }

  /** The names of this collection at its primary. */
  members(glob: string): readonly string[] {
    const primaries = this.history.placesIn(this.map, glob).filter(({ isPrimary }) => isPrimary);
    const { authority, typeUrl } = partsOf(glob);
    const names = primaries.flatMap((place) =>
      this.history
        .membersEver(place.source, place.name)
        .filter((name) => this.history.current(place.source, name)),
    );
    return [...new Set(names.map((name) => nameText(authority, typeUrl, partsOf(name).id)))];
  }

  // ---- lists --------------------------------------------------------------------------------

  /** Did a list ever lead to this name, from any source? */
  everListed(list: string, name: string): boolean {
    const glob = globOf(name);
    return this.history.maps.some(({ map }) =>
      this.history.placesIn(map, list).some((place) => {
        for (const entry of this.history.listed(place.source, place.name)) {
          const there = mappedBack(entry, place);
          const leadsThere = there === name || there === glob;
          if (leadsThere && !listProblem(map, list, there)) return true;
        }
        return false;
      }),
    );
  }

  /** What every subscriber of a list must hold once all faults are healed; see `truth`. */
  listed(list: string): ReadonlyMap<string, Way | 'nothing' | 'unsure'> | 'unsure' {
    const [primary] = this.history.placesIn(this.map, list);
    const publication = primary && this.history.current(primary.source, primary.name);
    const expected = new Map<string, Way | 'nothing' | 'unsure'>();
    if (!publication?.list) {
      // Nothing says that a list is deleted that a source of the state of the world had.
      const stays = primary !== undefined && this.hidesAbsence(primary);
      return stays || this.keepsDeleted(list) ? 'unsure' : expected;
    }
    for (const entry of publication.list) {
      if (listProblem(this.map, list, entry)) return 'unsure';
      for (const name of isGlob(entry) ? this.members(entry) : [entry]) {
        expected.set(name, this.truth(name));
      }
    }
    return expected;
  }

  /**
   * May it never be proven that a name is not in this list? For most types a source of the state of the world says
   * neither that a name does not exist, nor that it has sent all members of a glob.
   */
  mayStayUnproven(list: string): boolean {
    return this.entries(list).some((entry) => this.#isNeverProven(entry));
  }

  /** Names and globs that the list has at its primary source. */
  entries(list: string): readonly string[] {
    const [primary] = this.history.placesIn(this.map, list);
    const publication = primary && this.history.current(primary.source, primary.name);
    return publication?.list ?? [];
  }

  #isNeverProven(entry: string): boolean {
    if (!isGlob(entry)) return this.maySayNothing(entry);
    const places = this.history.placesIn(this.map, entry);
    return places.some((place) => place.isPrimary && this.hidesAbsence(place));
  }

  /** May a name have left the list since then? */
  mayLeaveList(list: string, name: string, sinceMs: number): boolean {
    if (this.mapChangedSince(sinceMs) || this.#wasDenied(list)) return true;
    const glob = globOf(name);
    return this.history.placesIn(this.map, list).some((place) => {
      const eras = this.history.eras(place.source, place.name);
      const from = place.isPrimary ? this.#staleSince(sinceMs) : sinceMs;
      const leads = (entry: string): boolean => {
        const there = mappedBack(entry, place);
        return there === name || there === glob;
      };
      const lacks = ({ publication }: Era): boolean => !publication?.list?.some(leads);
      return eras.length === 0 || erasSince(eras, from).some(lacks);
    });
  }

  /** May the gateway report the list as empty? */
  mayBeEmpty(list: string): boolean {
    const places = this.history.placesIn(this.map, list);
    const isEmpty = ({ publication }: Era): boolean =>
      publication?.list?.every((entry) => this.mayBeAbsent(entry, 0)) ?? true;
    return (
      this.mapChangedSince(0) ||
      this.history.hasDenials ||
      places.length === 0 ||
      places.some(({ source, name }) => {
        const eras = this.history.eras(source, name);
        return eras.length === 0 || eras.some(isEmpty);
      })
    );
  }

  /**
   * Adds the names to request from a source for one requested name: redirects, lists and
   * alternatives.
   */
  addNeeded(name: string, source: string, needed: Set<string>, seen = new Set<string>()): void {
    if (seen.has(name)) return;
    seen.add(name);
    const { entryOf } = partsOf(name);
    if (entryOf !== undefined) this.addNeeded(entryOf, source, needed, seen);
    for (const place of this.history.placesIn(this.map, name)) {
      // An inline entry is not a resource of a source.
      if (place.source === source && entryOf === undefined) needed.add(place.name);
      for (const entry of this.history.listed(place.source, place.name)) {
        this.addNeeded(mappedBack(entry, place), source, needed, seen);
      }
      for (const one of isGlob(place.name)
        ? this.history.membersEver(place.source, place.name)
        : [place.name]) {
        for (const target of this.history.redirects(place.source, one)) {
          this.addNeeded(target, source, needed, seen);
        }
      }
    }
  }

  #isSotw(source: string): boolean {
    const spec = this.map.sources.get(source);
    return spec?.kind === 'grpc' && spec.apiType === 'AGGREGATED_GRPC';
  }

  /** Responses of the state of the world say nothing about names that they lack, but of two types. */
  hidesAbsence({ source, name }: Pick<Place, 'source' | 'name'>): boolean {
    const isSotw = this.#isSotw(source);
    const { typeUrl, entryOf } = partsOf(name);
    // A list shows which entries it lacks, and nothing shows that the list is gone.
    if (entryOf !== undefined) return isSotw && !this.history.current(source, entryOf);
    return isSotw && !isWholeType(typeUrl);
  }

  /**
   * May its sources never say anything about this name or glob, although all is well?
   *
   * @param isSoon within `resource_timeout`: even an absent listener or cluster is not proven to be absent then
   */
  maySayNothing(asked: string, isSoon = false): boolean {
    const primaries = this.history.placesIn(this.map, asked).filter(({ isPrimary }) => isPrimary);
    return primaries.some((place) => {
      const { source, name } = place;
      const names = isGlob(name) ? this.history.membersEver(source, name) : [name];
      const hasAny = names.some((one) => this.history.current(source, one));
      return !hasAny && (this.hidesAbsence(place) || (isSoon && this.#isSotw(source)));
    });
  }

  /** Does every subscriber hold this name, or a member of this glob, once all faults are healed? */
  isThere(asked: string): boolean {
    const names = isGlob(asked) ? this.members(asked) : [asked];
    return names.some((name) => typeof this.truth(name) !== 'string');
  }

  /** May the operator's map keep this name, or the members of this list, after their source deleted them? */
  keepsDeleted(name: string): boolean {
    const spec = this.map.authorities.get(partsOf(name).authority);
    if (!spec) return false;
    return spec.ignoreDeletion || spec.failover.deletionGuard.then === 'keep';
  }
}

const isEndOf = ({ fromMs, publication }: Era): boolean => !publication && fromMs > -Infinity;

/** A redirect may lead to nothing. */
const isNothing = (one: Publication | undefined): boolean =>
  one === undefined || one.redirect !== undefined;

const sourcesOf = (all: readonly Publication[]): string =>
  all.map(({ source, name }) => `${source} (${name})`).join(', ');

/** Is the list not allowed to lead to this name or glob? */
function listProblem(map: AuthorityMap, list: string, entry: string): boolean {
  const from = nameText(partsOf(list).authority, partsOf(entry).typeUrl, 'list');
  return problemIn(map, from, isGlob(entry) ? entry.replace('*', 'x') : entry);
}

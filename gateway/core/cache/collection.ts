/**
 * One glob collection, shared by all its clients: members and removals, each in order of change.
 */
import type { ResourceName } from '../../../protos/resource-name.js';
import type { Projection } from '../../../authorities/index.js';
import { ChangeLog, LOG_START, type Sequenced } from './change-log.js';
import type { LastContent } from './last-contents.js';
import { RememberedMembers, type RememberedMember } from './remembered-members.js';
import { SentVersions } from './sent-versions.js';
import { SetDigest } from './set-digest.js';
import { WholeSet } from './whole-set.js';

export interface Member extends Sequenced {
  readonly key: string;
  projection: Projection;
  /** Sequence at which it joined: a client that has read less does not know the member. */
  joinedSeq: number;
  /**
   * It was removed before it joined: a client that had read its former membership, and has not read that
   * removal, still holds it. Undefined: no removal of it is remembered.
   */
  readonly former: FormerMember | undefined;
}

/** A membership that ended, as sequences of the members and of the removals. */
export interface FormerMember {
  readonly joinedSeq: number;
  readonly removedSeq: number;
}

/** When a member joined, as `Member` has it. */
type Membership = Pick<Member, 'joinedSeq' | 'former'>;

/** A removed member; kept so that returning clients receive the removal (invariant 18). */
export interface Tombstone extends Sequenced {
  readonly key: string;
  /** Sequence at which the member had joined first; Infinity: before the last subscription or restart. */
  readonly joinedSeq: number;
  readonly removedAtMs: number;
  /** What it had, and its membership; undefined: not a cluster, or removed before the last subscription or restart. */
  readonly last: { readonly kept: LastContent; readonly membership: Membership } | undefined;
}

export interface TombstoneLimits {
  readonly tombstonesPerCollection: number;
  readonly tombstoneMaxAgeMs: number;
}

/** What a restart must preserve so that returning clients receive removals: names, no content. */
export interface CollectionNames {
  readonly typeUrl: string;
  readonly glob: ResourceName;
  /** Keys of members that clients may hold. */
  readonly members: readonly string[];
  /** In order of removal. */
  readonly removed: readonly RemovedName[];
  /** Clients may have received the members until this time. */
  readonly knownAtMs: number;
}

export type RemovedName = Pick<Tombstone, 'key' | 'removedAtMs'>;

/** A client's place in the removals of a collection. */
export interface RemovalReader {
  readonly removedSeq: number;
}

/** Minimum time between two searches for expired tombstones. */
const PRUNE_INTERVAL_MS = 60_000;
/** A stuck reader may retain this many times `tombstonesPerCollection`, and so may a collection that is never proven. */
const MANY_TIMES = 10;

export class Collection {
  readonly glob: ResourceName;
  readonly members = new ChangeLog<Member>();
  readonly tombstones = new ChangeLog<Tombstone>();
  /** Clients of the collection. A tombstone is kept until all of them have read it. */
  readonly readers = new Set<RemovalReader>();
  readonly #limits: TombstoneLimits;
  #membersByKey = new Map<string, Member>();
  readonly #tombstonesByKey = new Map<string, Tombstone>();
  /**
   * Time of each removal from before the last subscription or restart, by key. They take effect when the
   * collection is complete: until then a removed member may turn out to exist again.
   */
  readonly #earlier = new Map<string, number>();
  /**
   * Members at the time when the last client unsubscribed. A name that the new members lack was removed
   * meanwhile: once the collection is proven, these are the names that it lacks, and the deletion guard decides on them.
   */
  #remembered = new RememberedMembers();
  /** The sources have sent all members. */
  complete = false;
  /** The primary source completed it at least once: a name that is not a member does not exist. */
  proven = false;

  /** It lacks remembered names, and the deletion guard has not decided on them yet. */
  isDoubted = false;

  #digest = new SetDigest();
  /** The digest has the members up to this place in the order of change. */
  #digestSeq = LOG_START;
  #wholeSet: WholeSet | undefined;
  #sentVersions: SentVersions | undefined;
  #droppedSeq = LOG_START;
  #sizeAfterPrune = 0;
  #pruneAgainAtMs = 0;

  constructor(glob: ResourceName, limits: TombstoneLimits) {
    this.glob = glob;
    this.#limits = limits;
  }

  member(key: string): Member | undefined {
    return this.#membersByKey.get(key);
  }

  /** Whether this member was removed after a reader's place in the removals. */
  wentAfter(key: string, removedSeq: number): boolean {
    const tombstone = this.#tombstonesByKey.get(key);
    return tombstone !== undefined && tombstone.seq > removedSeq;
  }

  /** Whether a removal of this key is known. */
  isBuried(key: string): boolean {
    return this.#tombstonesByKey.has(key) || this.#earlier.has(key);
  }

  /** @returns whether anything changed. */
  put(projection: Projection): boolean {
    const { key } = projection.name;
    const known = this.#membersByKey.get(key);
    if (known?.projection.version === projection.version) {
      // Now a source has it, too.
      if (known.projection.isRestored) known.projection = projection;
      return false;
    }
    const tombstone = this.#tombstonesByKey.get(key);
    const former = tombstone ? formerOf(tombstone) : this.#formerOfRemembered(key);
    if (tombstone) {
      this.tombstones.drop(tombstone);
      this.#tombstonesByKey.delete(key);
    }
    this.#earlier.delete(key);
    if (known) {
      this.#undigest(known);
      known.projection = projection;
      this.members.append(known);
      return true;
    }
    const member: Member = { key, projection, seq: LOG_START, joinedSeq: LOG_START, former };
    this.#membersByKey.set(key, member);
    this.members.append(member);
    member.joinedSeq = member.seq;
    return true;
  }

  /** Clients may have been sent it before the cache dropped the content, and no removal of it is known. */
  #formerOfRemembered(key: string): FormerMember | undefined {
    const joinedSeq = this.#remembered.joinedSeqOf(key);
    return joinedSeq === Infinity ? undefined : { joinedSeq, removedSeq: Infinity };
  }

  /** @returns the removed member as it was, with the place of its last change; undefined: it is not a member. */
  remove(key: string, nowMs: number, last?: LastContent): Member | undefined {
    const member = this.#membersByKey.get(key);
    if (!member) return undefined;
    const gone = { ...member };
    this.#membersByKey.delete(key);
    this.#undigest(member);
    this.#wholeSet?.delete(key);
    this.members.drop(member);
    const { joinedSeq, former } = member;
    const had = last && { kept: last, membership: { joinedSeq, former } };
    this.#bury(key, nowMs, former?.joinedSeq ?? joinedSeq, had);
    return gone;
  }

  /** Digest of the members. Its cost follows the changes since its last use. */
  get digest(): SetDigest {
    this.digestSome(Infinity);
    return this.#digest;
  }

  /**
   * Does a portion of the work of `digest`.
   *
   * @param most members to digest
   * @returns whether nothing is left to do
   */
  digestSome(most: number): boolean {
    let left = most;
    for (const { projection, seq } of this.members.since(this.#digestSeq)) {
      if (left-- <= 0) return false;
      this.#digest.add(projection);
      this.#digestSeq = seq;
    }
    return true;
  }

  /** Before a member changes or goes. */
  #undigest({ projection, seq }: Member): void {
    if (seq <= this.#digestSeq) this.#digest.delete(projection);
  }

  /** The members, encoded for state-of-the-world responses; kept from the first use on. */
  get wholeSet(): WholeSet {
    return (this.#wholeSet ??= new WholeSet(this.members));
  }

  /**
   * A set with all members went to a state-of-the-world client.
   *
   * @param removed keys of removed members that it has nevertheless
   */
  noteSent(version: string, removed: Iterable<string>): void {
    let removedSeq = this.tombstones.lastSeq;
    for (const key of removed) {
      const { seq } = this.#tombstonesByKey.get(key) ?? {};
      if (seq !== undefined) removedSeq = Math.min(removedSeq, seq - 1);
    }
    this.#sentVersions ??= new SentVersions();
    this.#sentVersions.note(version, { sentSeq: this.members.lastSeq, removedSeq });
  }

  /** Is the set with this version among the latest that went out? */
  hasSent(version: string): boolean {
    return this.#sentVersions?.placeOf(version) !== undefined;
  }

  /** Members of the set with this version that were removed since, as they were then; those that are not forgotten. */
  *removedSince(version: string): IterableIterator<Projection> {
    const place = this.#sentVersions?.placeOf(version);
    if (place === undefined) return;
    const { sentSeq, removedSeq } = place;
    for (const { last } of this.tombstones.since(removedSeq)) {
      if (!last || !mayHold(last.membership, sentSeq, removedSeq)) continue;
      if (last.kept.content) yield last.kept.content;
    }
  }

  /**
   * @param isCurrent the sources have answered the collection. If not, its content is that of an earlier process or an
   *   alternative, and a name whose removal is remembered may exist again (seed 5998)
   * @returns remembered names that are not members: probably removed while no client subscribed. Names that the guard keeps
   *   are left out
   */
  handleComplete(isProof: boolean, isCurrent: boolean = isProof): readonly string[] {
    this.complete = true;
    if (isCurrent) {
      for (const [key, removedAtMs] of this.#earlier) this.#bury(key, removedAtMs);
      this.#earlier.clear();
    }
    if (!isProof) return [];
    this.proven = true;
    const lacking = this.#gone();
    this.#remembered = new RememberedMembers(lacking);
    const undecided: string[] = [];
    for (const { key, isKept } of lacking) if (isKept !== true) undecided.push(key);
    this.isDoubted = undecided.length > 0;
    return undecided;
  }

  /** The guard has decided that a remembered name stays, until it is a member again. */
  keepRemembered(key: string): void {
    const lacking = this.#lacking(key);
    if (lacking) lacking.isKept = true;
  }

  /**
   * The source proves that all remembered names are gone.
   *
   * @returns whether any was removed
   */
  removeRemembered(nowMs: number): boolean {
    this.handleComplete(true);
    const lacking = this.#remembered.values();
    const removed = lacking.filter(({ key }) => this.settleRemembered(key, nowMs));
    this.isDoubted = false;
    return removed.length > 0;
  }

  /** Removes a remembered name unless it is a member again. @returns whether it was removed. */
  settleRemembered(key: string, nowMs: number): boolean {
    const lacking = this.#lacking(key);
    if (!lacking) return false;
    this.#remembered.delete(lacking);
    if (this.#membersByKey.has(key)) return false;
    this.#bury(key, nowMs, lacking.joinedSeq);
    return true;
  }

  /** Number of names that clients hold or may hold. */
  get nameCount(): number {
    let count = this.#membersByKey.size;
    if (count === 0) return this.#remembered.size;
    for (const { key } of this.#remembered.values()) if (!this.#membersByKey.has(key)) count++;
    return count;
  }

  /**
   * No client is left: drops the content and remembers the names.
   *
   * @returns the former members, by key
   */
  forgetContent(): Map<string, Member> {
    const members = this.#membersByKey;
    const gone = this.#gone();
    // A collection that is never proven gets more of them each time.
    const most = MANY_TIMES * this.#limits.tombstonesPerCollection;
    const remembered = gone.slice(Math.max(0, gone.length - most));
    for (const { key, joinedSeq } of members.values()) {
      remembered.push({ key, joinedSeq });
    }
    this.#remembered = new RememberedMembers(remembered);
    this.members.clear();
    this.#membersByKey = new Map();
    for (const { key, removedAtMs } of this.#tombstonesByKey.values()) {
      this.#earlier.set(key, removedAtMs);
    }
    this.tombstones.clear();
    this.#tombstonesByKey.clear();
    this.#digest = new SetDigest();
    this.#digestSeq = LOG_START;
    this.#wholeSet = undefined;
    this.#sentVersions = undefined;
    this.complete = false;
    this.proven = false;
    this.isDoubted = false;
    return members;
  }

  /** Number of names whose removal returning clients may have to receive; see `forgetContent`. */
  get rememberedCount(): number {
    return this.#remembered.size + this.#earlier.size;
  }

  /** Returning clients get no removal of its former members. */
  forgetNames(): void {
    this.#remembered = new RememberedMembers();
    this.#earlier.clear();
  }

  /** Takes over the names that an earlier process knew of this collection. */
  restore({ members, removed }: CollectionNames, nowMs: number): void {
    // No client of this process was sent them.
    this.#remembered = new RememberedMembers(members.map((key) => ({ key, joinedSeq: Infinity })));
    for (const { key, removedAtMs } of removed) {
      if (nowMs - removedAtMs <= this.#limits.tombstoneMaxAgeMs)
        this.#earlier.set(key, removedAtMs);
    }
  }

  names(typeUrl: string, knownAtMs: number): CollectionNames {
    const earlier = [...this.#earlier].map(([key, removedAtMs]) => ({ key, removedAtMs }));
    const removed = [...earlier, ...this.tombstones.since(LOG_START)];
    return { typeUrl, glob: this.glob, members: this.#memberKeys(), removed, knownAtMs };
  }

  #memberKeys(): readonly string[] {
    return [...this.#gone().map(({ key }) => key), ...this.#membersByKey.keys()];
  }

  /** The remembered members that are not members again. */
  #gone(): readonly RememberedMember[] {
    const all = this.#remembered.values();
    return this.#membersByKey.size === 0 ? all : all.filter(({ key }) => !this.member(key));
  }

  /** A remembered member that the proven collection lacks, or lacked when it was proven. */
  #lacking(key: string): RememberedMember | undefined {
    return this.proven ? this.#remembered.get(key) : undefined;
  }

  /**
   * The names that a client may hold if it was sent members up to `sentSeq`, and removals up to
   * `removedSeq`. Names that were removed before the cache dropped the content are not known any more.
   */
  keysSentTo(sentSeq: number, removedSeq: number): readonly string[] {
    const keys = new Set<string>();
    for (const member of this.#membersByKey.values()) {
      if (mayHold(member, sentSeq, removedSeq)) keys.add(member.key);
    }
    for (const { key, joinedSeq } of this.#remembered.values()) {
      if (joinedSeq <= sentSeq) keys.add(key);
    }
    for (const { key, joinedSeq } of this.tombstones.since(removedSeq)) {
      if (joinedSeq <= sentSeq) keys.add(key);
    }
    return [...keys];
  }

  /** Tombstones up to this sequence are dropped: a reader behind it has missed removals. */
  get droppedSeq(): number {
    return this.#droppedSeq;
  }

  #bury(key: string, nowMs: number, joinedSeq = Infinity, last?: Tombstone['last']): void {
    // It has a tombstone already, newer than the remembered removal.
    if (this.#tombstonesByKey.has(key)) return;
    const tombstone: Tombstone = { key, joinedSeq, removedAtMs: nowMs, last, seq: LOG_START };
    this.#tombstonesByKey.set(key, tombstone);
    this.tombstones.append(tombstone);
    const { tombstonesPerCollection, tombstoneMaxAgeMs } = this.#limits;
    const oldest = this.tombstones.oldest();
    const tooOld = oldest !== undefined && nowMs - oldest.removedAtMs > tombstoneMaxAgeMs;
    // Prune only after 10 % growth: one pass over the readers then serves many removals, even while a
    // stuck reader retains them.
    const grown = Math.max(tombstonesPerCollection, this.#sizeAfterPrune) * 1.1;
    if (this.tombstones.size > grown || (tooOld && nowMs >= this.#pruneAgainAtMs))
      this.#prune(nowMs);
  }

  #prune(nowMs: number): void {
    this.#dropOldest(nowMs);
    const { tombstonesPerCollection, tombstoneMaxAgeMs } = this.#limits;
    this.#sizeAfterPrune = this.tombstones.size;
    this.#pruneAgainAtMs = nowMs + Math.min(PRUNE_INTERVAL_MS, tombstoneMaxAgeMs);
    // Above this bound a stuck reader loses removals (see `droppedSeq`).
    const most = tombstonesPerCollection * MANY_TIMES;
    let oldest = this.tombstones.oldest();
    while (oldest && this.tombstones.size > most) {
      this.#drop(oldest);
      oldest = this.tombstones.oldest();
    }
  }

  #drop(tombstone: Tombstone): void {
    this.#droppedSeq = tombstone.seq;
    this.tombstones.drop(tombstone);
    this.#tombstonesByKey.delete(tombstone.key);
  }

  #dropOldest(nowMs: number): void {
    const { tombstonesPerCollection, tombstoneMaxAgeMs } = this.#limits;
    let readByAll = Infinity;
    for (const { removedSeq } of this.readers) readByAll = Math.min(readByAll, removedSeq);
    for (let oldest = this.tombstones.oldest(); oldest; oldest = this.tombstones.oldest()) {
      const tooOld = nowMs - oldest.removedAtMs > tombstoneMaxAgeMs;
      const tooMany = this.tombstones.size > tombstonesPerCollection;
      if ((!tooOld && !tooMany) || oldest.seq > readByAll) return;
      this.#drop(oldest);
    }
  }
}

/** Does a client hold it, if it was sent members up to `sentSeq`, and removals up to `removedSeq`? */
export const mayHold = (
  { joinedSeq, former }: Membership,
  sentSeq: number,
  removedSeq: number,
): boolean =>
  joinedSeq <= sentSeq ||
  // Removed and back before the client was sent either.
  (former !== undefined && former.joinedSeq <= sentSeq && former.removedSeq > removedSeq);

const formerOf = ({ joinedSeq, seq }: Tombstone): FormerMember | undefined =>
  joinedSeq === Infinity ? undefined : { joinedSeq, removedSeq: seq };

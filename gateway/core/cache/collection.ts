/**
 * One glob collection as all its clients share it: members and removals, each in order of change.
 */
import type { ResourceName } from '../../../protos/resource-name.js';
import type { Projection } from '../../../authorities/index.js';
import { ChangeLog, LOG_START, type Sequenced } from './change-log.js';
import { SetDigest } from '../sotw/set-digest.js';

export interface Member extends Sequenced {
  readonly key: string;
  projection: Projection;
  /** Sequence at which it joined: new to a client that had read less. */
  joinedSeq: number;
}

/** A member that went; kept so that clients who were away hear of it (invariant 18). */
export interface Tombstone extends Sequenced {
  readonly key: string;
  readonly removedAtMs: number;
}

export interface TombstoneLimits {
  readonly tombstonesPerCollection: number;
  readonly tombstoneMaxAgeMs: number;
}

/** All that has to outlive the process, so that a client that returns hears what went: names alone. */
export interface CollectionNames {
  readonly typeUrl: string;
  readonly glob: ResourceName;
  /** Keys of what clients may hold. */
  readonly members: readonly string[];
  /** In order of removal. */
  readonly removed: readonly RemovedName[];
  /** Clients may have held the members until then. */
  readonly knownAtMs: number;
}

export type RemovedName = Pick<Tombstone, 'key' | 'removedAtMs'>;

/** A client's place in the removals of a collection. */
export interface RemovalReader {
  readonly removedSeq: number;
}

/** How often removals that are too old are looked for. */
const PRUNE_INTERVAL_MS = 60_000;
const STUCK_READER_FACTOR = 10;

export class Collection {
  readonly glob: ResourceName;
  readonly members = new ChangeLog<Member>();
  readonly tombstones = new ChangeLog<Tombstone>();
  /** Who reads along: a removal is kept until all of them have it. */
  readonly readers = new Set<RemovalReader>();
  readonly #limits: TombstoneLimits;
  readonly #membersByKey = new Map<string, Member>();
  readonly #tombstonesByKey = new Map<string, Tombstone>();
  /**
   * Removals of an earlier time, by key: when each was. They count when the collection is complete: until
   * then what went may be there again.
   */
  readonly #earlier = new Map<string, number>();
  /** Members at the time when the last client left: what is not among the new ones went meanwhile. */
  #rememberedKeys: Set<string> | undefined;
  /** The sources have said all there is. */
  complete = false;
  /** And once it was the primary that said so: what is no member does not exist. */
  proven = false;

  /** It lacks remembered names, and that is not judged yet. */
  isDoubted = false;

  #digest: SetDigest | undefined;
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

  /** Did this member go after a reader's place in the removals? */
  wentAfter(key: string, removedSeq: number): boolean {
    const tombstone = this.#tombstonesByKey.get(key);
    return tombstone !== undefined && tombstone.seq > removedSeq;
  }

  /** Is it known to have gone? */
  isBuried(key: string): boolean {
    return this.#tombstonesByKey.has(key) || this.#earlier.has(key);
  }

  /** @returns whether anything changed. */
  put(projection: Projection): boolean {
    const { key } = projection.name;
    const known = this.#membersByKey.get(key);
    if (known?.projection.version === projection.version) return false;
    const tombstone = this.#tombstonesByKey.get(key);
    if (tombstone) {
      this.tombstones.drop(tombstone);
      this.#tombstonesByKey.delete(key);
    }
    this.#earlier.delete(key);
    this.#digest?.add(projection);
    if (known) {
      this.#digest?.delete(known.projection);
      known.projection = projection;
      this.members.append(known);
      return true;
    }
    const member: Member = { key, projection, seq: LOG_START, joinedSeq: LOG_START };
    this.#membersByKey.set(key, member);
    this.members.append(member);
    member.joinedSeq = member.seq;
    return true;
  }

  /** @returns the member that it was, or undefined. */
  remove(key: string, nowMs: number): Member | undefined {
    const member = this.#membersByKey.get(key);
    if (!member) return undefined;
    this.#membersByKey.delete(key);
    this.#digest?.delete(member.projection);
    this.members.drop(member);
    this.#bury(key, nowMs);
    return member;
  }

  /** Of the members; kept up to date from when it was first asked for. */
  get digest(): SetDigest {
    if (this.#digest) return this.#digest;
    this.#digest = new SetDigest();
    for (const { projection } of this.#membersByKey.values()) this.#digest.add(projection);
    return this.#digest;
  }

  /** @returns remembered names that are no members: they seem to have gone while nobody looked. */
  handleComplete(isProof: boolean): readonly string[] {
    this.complete = true;
    for (const [key, removedAtMs] of this.#earlier) this.#bury(key, removedAtMs);
    this.#earlier.clear();
    if (!isProof) return [];
    this.proven = true;
    const missing = [...(this.#rememberedKeys ?? [])].filter((key) => !this.#membersByKey.has(key));
    this.#rememberedKeys = missing.length === 0 ? undefined : new Set(missing);
    this.isDoubted = missing.length > 0;
    return missing;
  }

  /** A remembered name was judged. @returns whether it has gone. */
  settleRemembered(key: string, nowMs: number): boolean {
    if (!this.proven || !this.#rememberedKeys?.delete(key) || this.#membersByKey.has(key)) {
      return false;
    }
    this.#bury(key, nowMs);
    return true;
  }

  /** Names that clients hold or may hold. */
  get nameCount(): number {
    return this.#memberKeys().length;
  }

  /**
   * No client is left: names are remembered, content is not.
   * @returns whether there is anything to remember.
   */
  forgetContent(): boolean {
    this.#rememberedKeys = new Set(this.#memberKeys());
    for (const member of this.#membersByKey.values()) this.members.drop(member);
    this.#membersByKey.clear();
    for (const tombstone of this.#tombstonesByKey.values()) {
      this.#earlier.set(tombstone.key, tombstone.removedAtMs);
      this.tombstones.drop(tombstone);
    }
    this.#tombstonesByKey.clear();
    this.#digest = undefined;
    this.complete = false;
    this.proven = false;
    this.isDoubted = false;
    return this.#rememberedKeys.size + this.#earlier.size > 0;
  }

  /** What a new collection is to know of one that another process held. */
  restore({ members, removed }: CollectionNames, nowMs: number): void {
    this.#rememberedKeys = new Set(members);
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
    if (!this.#rememberedKeys) return [...this.#membersByKey.keys()];
    return [...new Set([...this.#rememberedKeys, ...this.#membersByKey.keys()])];
  }

  /** Removals up to here are forgotten: a reader that is behind has missed some. */
  get droppedSeq(): number {
    return this.#droppedSeq;
  }

  #bury(key: string, nowMs: number): void {
    // Buried since it was remembered: once is enough.
    if (this.#tombstonesByKey.has(key)) return;
    const tombstone: Tombstone = { key, removedAtMs: nowMs, seq: LOG_START };
    this.#tombstonesByKey.set(key, tombstone);
    this.tombstones.append(tombstone);
    const { tombstonesPerCollection, tombstoneMaxAgeMs } = this.#limits;
    const oldest = this.tombstones.oldest();
    const tooOld = oldest !== undefined && nowMs - oldest.removedAtMs > tombstoneMaxAgeMs;
    // Seldom, so that one pass over the readers serves many removals, also while one is stuck.
    const grown = Math.max(tombstonesPerCollection, this.#sizeAfterPrune) * 1.1;
    if (this.tombstones.size > grown || (tooOld && nowMs >= this.#pruneAgainAtMs))
      this.#prune(nowMs);
  }

  #prune(nowMs: number): void {
    this.#dropOldest(nowMs);
    const { tombstonesPerCollection, tombstoneMaxAgeMs } = this.#limits;
    this.#sizeAfterPrune = this.tombstones.size;
    this.#pruneAgainAtMs = nowMs + Math.min(PRUNE_INTERVAL_MS, tombstoneMaxAgeMs);
    // A reader that is stuck may hold back so many; then it has missed them (see `droppedSeq`).
    const most = tombstonesPerCollection * STUCK_READER_FACTOR;
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

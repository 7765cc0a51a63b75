/**
 * Listeners, clusters, scoped routes and collections of unsettled types of a state-of-the-world client. If a response
 * of these lacks a resource, the client deletes it at once, with all traffic that needs it. So each response has the
 * whole set, and the gateway sends none while it does not know the set (invariant 19).
 */
import type { Projection } from '../../../authorities/index.js';
import type { ResourceError } from '../../../protos/discovery.js';
import { noSet } from '../../../protos/empty-collections.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import { TYPE_URL } from '../../../protos/type-urls.js';
import { LOG_START } from '../cache/change-log.js';
import type { Member } from '../cache/collection.js';
import { sizeInMessage } from '../cache/message-size.js';
import { placeholderCluster } from './placeholder.js';
import { dutyOf, MAYBE_HELD } from '../session/holdings.js';
import { isDoubtful, isKnown, isStuck, isUnreachable, reportedOf } from '../cache/entries.js';
import { isIncluded, wholeContentOf } from './set-draft.js';
import type { Sample, FirstSet, SetLoss } from './set-losses.js';
import {
  FIRST_ANSWER_WAIT_MS,
  type Responses,
  type SotwContent,
  type TakeOptions,
} from './responses.js';
import { explain, explainGlob, type SotwGlob, type SotwName } from './sotw-subscription.js';
import type { SotwSubscriptions } from './sotw-subscriptions.js';

/** Results of processing the changes. */
interface Findings {
  changed: boolean;
  bringsNew: boolean;
  removed: number;
  readonly clusters: Projection[];
}

const NOTHING_NEW: Pick<Findings, 'bringsNew' | 'clusters'> = { bringsNew: false, clusters: [] };

/** The suffix of a gateway's version: the number of resources in the set (GRPC 6). */
const COUNT = /\.(\d+)$/;

export class AllRequiredResponses implements Responses, FirstSet {
  readonly isWhole = true;
  readonly #subscriptions: SotwSubscriptions;
  readonly #isCluster: boolean;
  readonly #placeholderAfterMs: number | undefined;
  /**
   * Names that no longer exist. Their last content stays in responses until their removal may be
   * sent.
   */
  readonly #gone = new Set<SotwName>();
  /** Clusters that never had content. */
  readonly #missing = new Set<SotwName>();
  /** Keys of the assignments from which the client's placeholder clusters get endpoints. */
  readonly #emptyAssignments = new Set<string>();
  /** Names without content whose error was not sent yet. */
  readonly #unexplained = new Set<SotwName>();
  /**
   * Number of resources that the client holds, read from its version; undefined: another server
   * created the version.
   */
  readonly #claimed: number | undefined;
  #hasSpoken = false;
  /** `SetLosses` sets it: until when the first set may not be sent. */
  heldUntilMs: number | undefined;
  isGuarded = false;

  /** Results of responses that were withheld because they are too large. */
  #withheld: SotwContent | undefined;
  /**
   * The client may hold, from an earlier stream, an earlier version of a resource that is now too
   * large for it.
   */
  #mayHoldMore: boolean;

  /**
   * @param placeholderAfterMs milliseconds after which a cluster that no source has is replaced by
   * a placeholder; undefined: never
   */
  constructor(of: SotwSubscriptions, placeholderAfterMs: number | undefined) {
    this.#subscriptions = of;
    this.#mayHoldMore = of.isResuming;
    this.#isCluster = of.typeUrl === TYPE_URL.cluster;
    this.#placeholderAfterMs = this.#isCluster ? placeholderAfterMs : undefined;
    const count = COUNT.exec(of.resumedVersion)?.[1];
    this.#claimed = count === undefined ? undefined : Number(count);
  }

  /** Does a placeholder cluster of this client get its endpoints from this assignment? */
  isEmptyAssignment(key: string): boolean {
    return this.#emptyAssignments.has(key);
  }

  blockedUntilMs(nowMs: number, isRelease: boolean): number | undefined {
    if (this.#subscriptions.unsettled.size > 0) return this.#unsettledUntilMs(nowMs);
    if (!this.#hasContent(isRelease) && this.#asksUnknown) return Infinity;
    return this.heldUntilMs !== undefined && nowMs < this.heldUntilMs
      ? this.heldUntilMs
      : undefined;
  }

  /**
   * For a client that brought a version, the set waits until each unknown name is answered or replaced: the client deletes each
   * resource that the set lacks. A client without a version may be new, so its set waits only briefly.
   */
  #unsettledUntilMs(nowMs: number): number | undefined {
    if (this.#subscriptions.isResuming) return this.#replacedUntilMs(nowMs);
    const untilMs = this.#subscriptions.createdAtMs + FIRST_ANSWER_WAIT_MS;
    if (
      nowMs < untilMs &&
      [...this.#subscriptions.unsettled].some(({ entry }) => !isUnreachable(entry))
    )
      return untilMs;
    return this.#hasContent(false) ? undefined : Infinity;
  }

  /**
   * A gRPC client that follows a route requests the new cluster beside the one that it holds. Some clients serve no call until
   * they have the new one, and wait for ever. The source may be silent about the old one because that was deleted (delta only).
   * If it has answered for the new one, which was requested later, it has had time to answer for the old one too.
   *
   * @returns Infinity: something is unknown that was not replaced
   */
  #replacedUntilMs(nowMs: number): number | undefined {
    const { added, unsettled } = this.#subscriptions;
    if (added.size === 0) return Infinity;
    const askedMs = new Map<string, number>();
    for (const { entry, sinceMs } of added) {
      const { authority } = entry.name;
      const isFirst = sinceMs < (askedMs.get(authority) ?? Infinity);
      if (isFirst && this.#subscriptions.isPresent(entry)) askedMs.set(authority, sinceMs);
    }
    let untilMs = 0;
    for (const { entry } of unsettled) {
      if ('collection' in entry || !this.#subscriptions.isSilent(entry)) return Infinity;
      const replacedMs = askedMs.get(entry.name.authority) ?? Infinity;
      untilMs = Math.max(untilMs, replacedMs + FIRST_ANSWER_WAIT_MS);
    }
    return nowMs < untilMs ? untilMs : undefined;
  }

  /**
   * Is anything subscribed still unknown? A client takes an empty set for everything there is, so
   * none is sent until then.
   */
  get #asksUnknown(): boolean {
    for (const { entry } of this.#subscriptions.names.values())
      if (!isKnown(entry.state)) return true;
    for (const { entry } of this.#subscriptions.globs.values()) {
      if (!entry.collection.complete || entry.collection.isDoubted) return true;
    }
    return false;
  }

  /**
   * Does the next set contain any resource?
   *
   * @param isRelease the set drops removed resources
   */
  #hasContent(isRelease: boolean): boolean {
    for (const known of this.#subscriptions.names.values()) {
      const held = isRelease && this.#gone.has(known) ? undefined : known.sent;
      if (held ?? known.placeholder ?? known.entry.state.kind === 'present') return true;
    }
    for (const { entry, included, lingering } of this.#subscriptions.globs.values()) {
      const { complete, isDoubted, members } = entry.collection;
      const stays = lingering.size > 0 && !(isRelease && included);
      if (stays || (complete && !isDoubted && members.size > 0)) return true;
    }
    return false;
  }

  /**
   * Resources that the first set would delete from a resuming client; empty if that is unknown, or
   * the set was sent.
   */
  get losses(): readonly SetLoss[] {
    if (
      !this.#subscriptions.isResuming ||
      this.#hasSpoken ||
      this.#subscriptions.unsettled.size > 0
    )
      return [];
    const { typeUrl } = this.#subscriptions;
    const losses: SetLoss[] = [];
    for (const { entry } of this.#heldOf(this.#subscriptions.names)) {
      const { name: sample, state } = entry;
      losses.push({ typeUrl, sample, held: 1, lost: isDoubtful(state) ? 1 : 0 });
    }
    losses.push(...this.#lossesOfGlobs());
    return losses;
  }

  /** The client cannot lose what it subscribed to while its first set waited (seed 17551). */
  #heldOf<T extends SotwName | SotwGlob>(subscribed: ReadonlyMap<string, T>): readonly T[] {
    return [...subscribed.values()].filter(({ mayBeHeld }) => mayBeHeld);
  }

  /**
   * A version tells how many resources the client holds, but not which collections they belong to.
   * So each empty collection counts as having lost all that are missing. If this process sent the version, nothing is lost: it
   * has seen, and judged, each removal since.
   */
  #lossesOfGlobs(): readonly SetLoss[] {
    const { typeUrl, resumedVersion } = this.#subscriptions;
    const entries = this.#heldOf(this.#subscriptions.globs).map(({ entry }) => entry);
    // The version counts the members of a collection that the client may no longer ask for.
    if (entries.some(({ denial }) => denial)) return [];
    const globs = entries.map(({ collection }) => collection);
    if (globs.every((collection) => collection.hasSent(resumedVersion))) return [];
    const size = globs.reduce((sum, { members }) => sum + members.size, 0);
    // A name without content may never have had any, so it may not be one of them (seed 12159). A member that is subscribed by
    // its name too counts once (seed 25423).
    const named = this.#heldOf(this.#subscriptions.names).filter(
      ({ entry: { name, state } }) =>
        // A doubtful one is a loss of its own.
        (state.kind === 'present' || isDoubtful(state)) && !this.#subscriptions.coveringOf(name),
    );
    // The version of another server contains no number.
    const held = this.#claimed === undefined ? size + 1 : this.#claimed - named.length;
    const lost = Math.max(0, held - size);
    const empty = globs.filter(({ members }) => members.size === 0);
    if (empty.length > 0) {
      return empty.map(({ glob }) => ({ typeUrl, sample: glob, held: lost, lost }));
    }
    const isUnknown = this.#claimed === undefined;
    return globs
      .slice(0, 1)
      .map(({ glob }) => ({ typeUrl, sample: glob, held, lost: isUnknown ? 0 : lost }));
  }

  /** Only a collection can bring clusters that the client did not name, so only then do routes wait for the set. */
  holdsFirstSet(nowMs: number): boolean {
    if (this.#subscriptions.globs.size === 0) return false;
    return this.isUndecided || nowMs < (this.heldUntilMs ?? -Infinity);
  }

  get guardedUntilMs(): number | undefined {
    return this.isGuarded && this.#subscriptions.globs.size > 0 ? this.heldUntilMs : undefined;
  }

  /** May the client hold resources that no source has answered yet? */
  get isUndecided(): boolean {
    if (!this.#subscriptions.isResuming || this.#hasSpoken) return false;
    return [...this.#subscriptions.unsettled].some(({ entry }) => mayStillBeAnswered(entry));
  }

  /**
   * The collections that are unknown before the first set only because the deletion guard holds
   * back names of them for all clients. Empty while a source may still answer another one.
   */
  get doubted(): readonly Sample[] {
    if (!this.#subscriptions.isResuming || this.#hasSpoken) return [];
    const doubted: Sample[] = [];
    for (const { entry } of this.#subscriptions.unsettled) {
      if (isUnreachable(entry)) continue;
      if (!('collection' in entry) || !entry.collection.isDoubted) return [];
      doubted.push({ typeUrl: this.#subscriptions.typeUrl, sample: entry.collection.glob });
    }
    return doubted;
  }

  /** What a source has answered. */
  get answered(): readonly Sample[] {
    const { names, globs, unsettled } = this.#subscriptions;
    const all = [...names.values(), ...globs.values()];
    return all.filter((one) => !unsettled.has(one)).map((one) => this.#sampleOf(one));
  }

  /** Unknown names and collections whose sources are unreachable. */
  get unreachable(): readonly Sample[] {
    const unreachable = [...this.#subscriptions.unsettled].filter(({ entry }) =>
      isUnreachable(entry),
    );
    return unreachable.map((one) => this.#sampleOf(one));
  }

  #sampleOf({ entry }: SotwName | SotwGlob): Sample {
    const sample = 'collection' in entry ? entry.collection.glob : entry.name;
    return { typeUrl: this.#subscriptions.typeUrl, sample };
  }

  get hasRemovals(): boolean {
    if (this.#gone.size > 0) return true;
    return [...this.#subscriptions.globs.values()].some(({ entry, included, lingering }) => {
      if (!included) return false;
      for (const key of lingering.keys()) if (!entry.collection.member(key)) return true;
      return false;
    });
  }

  handleMemberGone(glob: SotwGlob, gone: Member): void {
    const held = this.#subscriptions.limit.admit(gone.projection);
    if (!held || gone.joinedSeq > glob.sentSeq) return;
    glob.lingering.set(gone.key, { projection: held, wasSent: gone.seq <= glob.sentSeq });
  }

  handleNameLeft(known: SotwName): void {
    this.#gone.delete(known);
    this.#missing.delete(known);
    this.#unexplained.delete(known);
    this.#emptyAssignments.delete(edsKeyOf(known.placeholder));
    // From now on its glob covers it. Until the glob is sent, the client keeps the resource.
    const { entry, sent: projection, hadContent, held } = known;
    const { name } = entry;
    if (!projection || !hadContent || this.#subscriptions.coveringOf(name)?.glob.included) return;
    const wasSent = held !== MAYBE_HELD;
    this.#subscriptions.heirOf(name)?.lingering.set(name.key, { projection, wasSent });
  }

  /**
   * A list, or the glob of a name, may contain these members. Until it is sent, the client keeps
   * them.
   */
  handleGlobLeft({ entry, sentSeq, lingering }: SotwGlob): void {
    if (this.#subscriptions.globs.size === 0) return;
    for (const { key, projection, seq, joinedSeq } of entry.collection.members.since(LOG_START)) {
      const held = joinedSeq <= sentSeq ? this.#subscriptions.limit.admit(projection) : undefined;
      if (held) lingering.set(key, { projection: held, wasSent: seq <= sentSeq });
    }
    for (const [key, one] of lingering) {
      const { name } = one.projection;
      if (this.#subscriptions.names.has(key) || this.#subscriptions.coveringOf(name)?.glob.included)
        continue;
      this.#subscriptions.heirOf(name)?.lingering.set(key, one);
    }
  }

  /**
   * Drops resources that the client may no longer ask for and whose latest content it was not sent.
   * They go at once, even before routes that need them (GRPC 9): a set cannot repeat the content
   * that the client holds, because the gateway no longer has it.
   */
  dropUnsent(mayAsk: (name: ResourceName) => boolean): boolean {
    let hasDropped = false;
    for (const known of this.#subscriptions.names.values()) {
      const wasSent = known.held !== MAYBE_HELD && !this.#withheld;
      if (!known.sent || wasSent || mayAsk(known.entry.name)) continue;
      this.#subscriptions.noteSent(known, undefined);
      this.#gone.delete(known);
      hasDropped = true;
    }
    for (const { lingering } of this.#subscriptions.globs.values()) {
      for (const [key, { projection, wasSent }] of lingering) {
        if ((wasSent && !this.#withheld) || mayAsk(projection.name)) continue;
        lingering.delete(key);
        hasDropped = true;
      }
    }
    return hasDropped;
  }

  /** Makes the placeholders that are due. @returns when the next one is due if nothing changes before; undefined: none */
  ripen(nowMs: number): number | undefined {
    if (this.#placeholderAfterMs === undefined) return undefined;
    // `take` does not process the pending names of a blocked set, so check them here. A resuming
    // client gets no placeholder yet: it may hold real content.
    for (const known of this.#subscriptions.isResuming ? [] : this.#subscriptions.pending) {
      if (!known.hadContent && !this.#contentOf(known)) this.#missing.add(known);
    }
    let nextMs: number | undefined;
    for (const known of this.#missing) {
      const dueMs = known.sinceMs + this.#placeholderAfterMs;
      if (dueMs > nowMs) {
        nextMs = Math.min(nextMs ?? Infinity, dueMs);
        continue;
      }
      this.#missing.delete(known);
      known.placeholder = placeholderCluster(known.entry.name);
      this.#subscriptions.pending.add(known);
    }
    return nextMs;
  }

  get isWithheld(): boolean {
    return this.#withheld !== undefined;
  }

  handleSent(versionInfo: string): void {
    this.#mayHoldMore = false;
    if (!this.#isCluster) return;
    for (const { entry, included, lingering } of this.#subscriptions.globs.values()) {
      if (included) entry.collection.noteSent(versionInfo, lingering.keys());
    }
  }

  /** The response was not sent because it is too large: its contents are still due. */
  handleWithheld(answer: SotwContent): void {
    this.#withheld = answer;
  }

  prepare(wraps: boolean, most: number): boolean {
    // An incomplete collection is in no response.
    const due = [...this.#subscriptions.globs.values()].filter(
      ({ entry: { collection }, included }) => collection.complete || included,
    );
    return due.every(
      ({ entry: { collection } }) =>
        collection.digestSome(most) && collection.wholeSet.prepare(wraps, most),
    );
  }

  take({ greet, release }: TakeOptions): SotwContent | undefined {
    const found: Findings = {
      changed: this.#subscriptions.takeVersionCoversMore(),
      bringsNew: false,
      removed: 0,
      clusters: [],
    };
    for (const known of this.#subscriptions.pending) this.#lookAtName(known, found);
    this.#subscriptions.pending.clear();
    this.#subscriptions.globsPending = false;
    for (const glob of this.#subscriptions.globs.values()) this.#lookAtGlob(glob, found);
    if (release) this.#release(found);
    const resumed = this.#subscriptions.resumedVersion;
    this.#subscriptions.resumedVersion = '';
    this.#subscriptions.unsettled.clear();
    this.#subscriptions.added = noSet();
    const isFirst = !this.#hasSpoken;
    this.#hasSpoken = true;
    // An error alone triggers no response: it is sent with the next change (GRPC 11).
    if (!found.changed && !isFirst && !this.#withheld) return undefined;
    const before = this.#takeWithheld(found);
    const { tooLarge, ...set } = wholeContentOf(this.#subscriptions);
    // A client that names resources may have dropped them since it acknowledged that version
    // (GRPC 6).
    const hasAll = resumed === set.versionInfo && this.#subscriptions.names.size === 0;
    if (hasAll && !greet) return undefined;
    const { bringsNew, clusters } = hasAll ? NOTHING_NEW : found;
    const errors = [...before, ...this.#errors()];
    const answer = { ...set, bringsNew, clusters, removed: found.removed, errors };
    if (tooLarge.length === 0 || !this.#mayHoldMore) return answer;
    // The set would delete earlier versions, which the client may hold, of the resources that are
    // too large.
    const own = [...set.resources, ...tooLarge].map(sizeInMessage);
    const shared = set.segments.map((segment) => segment.bytes);
    const bytes = [...own, ...shared].reduce((sum, one) => sum + one, 0);
    this.#subscriptions.limit.withholdSet(this.#subscriptions.typeUrl, bytes);
    this.handleWithheld(answer);
    return undefined;
  }

  #lookAtName(known: SotwName, found: Findings): void {
    const { state } = known.entry;
    const last = this.#lastOf(known);
    if (state.kind === 'present') this.#gone.delete(known);
    else if (last || (known.hadContent && dutyOf(reportedOf(state), known.held) === 'remove')) {
      this.#gone.add(known);
    }
    const content = this.#contentOf(known) ?? last;
    if (!content) {
      if (this.#placeholderAfterMs !== undefined && !known.hadContent) this.#missing.add(known);
      this.#unexplained.add(known);
      return;
    }
    this.#missing.delete(known);
    this.#unexplained.delete(known);
    known.told = undefined;
    if (dutyOf('present', known.held, content.version) === 'nothing') return;
    found.changed = true;
    found.bringsNew ||= known.sent === undefined;
    if (this.#isCluster) found.clusters.push(content);
    this.#subscriptions.noteSent(known, content);
    if (content === known.placeholder) {
      this.#emptyAssignments.add(edsKeyOf(content));
      return;
    }
    this.#emptyAssignments.delete(edsKeyOf(known.placeholder));
    known.hadContent = true;
    // A placeholder replaces a cluster that never existed, not one that was removed.
    known.placeholder = undefined;
  }

  /** The current content; otherwise the last one, so that nothing is absent for a moment. */
  #contentOf({ entry, sent, placeholder }: SotwName): Projection | undefined {
    const content = this.#subscriptions.limit.contentOf(entry.state);
    if (content) return content;
    if (sent) return sent;
    // The watch of a collection may have a result although that of the name has none yet.
    const covering = isKnown(entry.state) ? undefined : this.#subscriptions.coveringOf(entry.name);
    return (covering && this.#subscriptions.limit.admit(covering.member.projection)) ?? placeholder;
  }

  /**
   * Content that was removed while the client was away. The client's routes may still need it, so it is dropped after they
   * change, as for a connected client. A direct connection to a control plane that is silent about missing names costs no
   * call either.
   */
  #lastOf({ entry: { state }, mayBeHeld }: SotwName): Projection | undefined {
    if (!this.#isReturn || !mayBeHeld || state.kind !== 'absent') return undefined;
    const { content } = state.last ?? {};
    return content && this.#subscriptions.limit.admit(content);
  }

  /** The same for members of a collection. An Envoy waits 15 s for the endpoints of a cluster that it did not hold. */
  #keepRemoved({ entry: { collection }, mayBeHeld, lingering }: SotwGlob): void {
    if (!this.#isReturn || !mayBeHeld) return;
    for (const content of collection.removedSince(this.#subscriptions.resumedVersion)) {
      const { key } = content.name;
      const projection = this.#subscriptions.names.has(key)
        ? undefined
        : this.#subscriptions.limit.admit(content);
      if (projection) lingering.set(key, { projection, wasSent: false });
    }
  }

  /** Is the next set the first one of a client that was away? */
  get #isReturn(): boolean {
    return this.#subscriptions.isResuming && !this.#hasSpoken;
  }

  #lookAtGlob(glob: SotwGlob, found: Findings): void {
    const { collection } = glob.entry;
    // Half a set would end a client's wait for its first clusters: leave the collection out until
    // it is complete.
    if (!collection.complete || collection.isDoubted) {
      this.#refreshLingering(glob, found);
      return;
    }
    if (!glob.included) {
      found.changed = true;
      this.#keepRemoved(glob);
      this.#passOn(glob);
    }
    for (const { key, projection, joinedSeq } of collection.members.since(glob.sentSeq)) {
      const content = this.#subscriptions.limit.admit(projection);
      // Deleted and published again too large: the client keeps what it holds.
      if (content || this.#subscriptions.names.has(key)) glob.lingering.delete(key);
      if (!content || this.#subscriptions.names.has(key)) continue;
      found.changed = true;
      found.bringsNew ||= joinedSeq > glob.sentSeq;
      if (this.#isCluster) found.clusters.push(content);
    }
    glob.sentSeq = collection.members.lastSeq;
    glob.included = true;
  }

  /**
   * This collection lacks resources that the client holds. Their globs, if the client subscribed to those since, or a
   * list that is not complete yet may contain them.
   */
  #passOn({ entry, lingering }: SotwGlob): void {
    for (const [key, one] of lingering) {
      const heir = entry.collection.member(key)
        ? undefined
        : this.#subscriptions.heirOf(one.projection.name);
      if (!heir || heir.included || heir.entry === entry) continue;
      lingering.delete(key);
      heir.lingering.set(key, one);
    }
  }

  /** Held resources of an incomplete glob follow the content that is known of them. */
  #refreshLingering({ entry, lingering }: SotwGlob, found: Findings): void {
    for (const [key, { projection }] of lingering) {
      const member = entry.collection.member(key);
      const now = member && this.#subscriptions.limit.admit(member.projection);
      if (!now || now.version === projection.version) continue;
      lingering.set(key, { projection: now, wasSent: false });
      found.changed = true;
      if (this.#isCluster) found.clusters.push(now);
    }
  }

  /** Drops removed resources from responses from now on. */
  #release(found: Findings): void {
    found.removed = this.#gone.size;
    for (const known of this.#gone) {
      this.#subscriptions.noteSent(known, undefined);
      this.#unexplained.add(known);
    }
    this.#gone.clear();
    for (const { entry, included, lingering } of this.#subscriptions.globs.values()) {
      if (!included) continue;
      for (const key of lingering.keys()) {
        if (entry.collection.member(key)) continue;
        lingering.delete(key);
        found.removed++;
      }
    }
    found.changed ||= found.removed > 0;
  }

  /**
   * Merges the contents of a withheld response into `found`.
   *
   * @returns its errors, which are still to be sent.
   */
  #takeWithheld(found: Findings): readonly ResourceError[] {
    if (!this.#withheld) return [];
    const { clusters, errors, bringsNew, removed } = this.#withheld;
    this.#withheld = undefined;
    const again = new Set(found.clusters.map(({ name }) => name.key));
    for (const cluster of clusters) {
      if (!again.has(cluster.name.key) && this.#isInSet(cluster)) found.clusters.push(cluster);
    }
    found.bringsNew ||= bringsNew;
    found.removed += removed;
    return errors;
  }

  #isInSet(cluster: Projection): boolean {
    const known = this.#subscriptions.names.get(cluster.name.key);
    if (known) return known.sent === cluster;
    const covering = this.#subscriptions.coveringOf(cluster.name, isIncluded);
    return (
      covering !== undefined &&
      this.#subscriptions.limit.admit(covering.member.projection) === cluster
    );
  }

  #errors(): readonly ResourceError[] {
    const errors = this.#subscriptions.refused.takeErrors();
    for (const known of this.#unexplained) explain(known, errors);
    this.#unexplained.clear();
    for (const glob of this.#subscriptions.globs.values()) explainGlob(glob, errors);
    return errors;
  }
}

/** May a source still answer, or the guard still decide? Not if the source failed, or an alternative sent all that it has. */
const mayStillBeAnswered = (entry: SotwName['entry'] | SotwGlob['entry']): boolean =>
  !isStuck(entry) ||
  ('collection' in entry && entry.collection.isDoubted && entry.error === undefined);

const edsKeyOf = (cluster: Projection | undefined): string => cluster?.edsKey ?? '';

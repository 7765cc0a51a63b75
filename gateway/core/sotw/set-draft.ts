/** The whole set of one type (`AllRequiredResponses`) that a client is to hold: the contents of its next response. */
import type { Projection } from '../../../authorities/index.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import { SetDigest } from '../cache/set-digest.js';
import type { Segment } from '../cache/whole-set.js';
import { countOf, type SotwContent } from './responses.js';
import type { SotwGlob, SotwName } from './sotw-subscription.js';
import type { SotwSubscriptions } from './sotw-subscriptions.js';

export type WholeContent = Pick<SotwContent, 'segments' | 'resources' | 'versionInfo'> & {
  /** The set lacks these, since no version of them fits into a message of the client. */
  readonly tooLarge: readonly Projection[];
};

/** Are its members in the set? */
export const isIncluded = ({ included }: SotwGlob): boolean => included;

/** The next whole set. Marks its lingering resources as sent. */
export function wholeContentOf(of: SotwSubscriptions): WholeContent {
  const draft = new SetDraft(of);
  for (const known of of.names.values()) draft.addName(known);
  for (const glob of of.globs.values()) {
    if (glob.included) draft.addMembers(glob);
    draft.addLingering(glob);
  }
  return draft.content;
}

class SetDraft {
  readonly #subscriptions: SotwSubscriptions;
  readonly #segments: Segment[] = [];
  /** By name: a list may share members with other collections, and clients reject a response that names a resource twice. */
  readonly #resources = new Map<string, Projection>();
  readonly #tooLarge: Projection[] = [];
  /** Removed resources that stay for a while. A count. */
  #lingering = 0;
  readonly #digests: SetDigest[];
  /** Segments with a member that the client subscribes to by its name too. */
  readonly #named: ReadonlySet<Segment>;

  constructor(of: SotwSubscriptions) {
    this.#subscriptions = of;
    this.#digests = [of.digest];
    this.#named = of.globs.size === 0 ? new Set() : this.#namedSegments();
  }

  #namedSegments(): ReadonlySet<Segment> {
    const named = new Set<Segment>();
    for (const { entry } of this.#subscriptions.names.values()) {
      const { glob } = this.#subscriptions.coveringOf(entry.name) ?? {};
      const segment = glob?.entry.collection.wholeSet.segmentOf(entry.name.key);
      if (segment) named.add(segment);
    }
    return named;
  }

  addName({ entry, sent }: SotwName): void {
    if (sent) this.#add(sent, sent);
    else if (entry.state.kind === 'present') this.#tooLarge.push(entry.state.projection);
  }

  addMembers(glob: SotwGlob): void {
    const { digest, wholeSet } = glob.entry.collection;
    this.#digests.push(digest);
    const isList = this.#subscriptions.isList(glob);
    for (const segment of wholeSet.segments) {
      if (isList) this.#addMembersOfList(segment);
      else if (this.#isShared(segment)) this.#segments.push(segment);
      else for (const member of segment.members) this.#addMember(member);
    }
  }

  /** No two globs have a member in common, so a segment of a glob is the same for nearly every client. */
  #isShared(segment: Segment): boolean {
    const { limit, typeUrl } = this.#subscriptions;
    return !this.#named.has(segment) && limit.takesEach(segment, typeUrl);
  }

  #addMembersOfList({ members }: Segment): void {
    const isGlob = (glob: SotwGlob): boolean => glob.included && !this.#subscriptions.isList(glob);
    for (const member of members) {
      if (!this.#subscriptions.coveringOf(member.name, isGlob)) this.#addMember(member);
    }
  }

  #addMember(member: Projection): void {
    if (!this.#subscriptions.names.has(member.name.key)) this.#add(member);
  }

  addLingering({ lingering }: SotwGlob): void {
    if (lingering.size === 0) return;
    const stay = new SetDigest();
    this.#digests.push(stay);
    for (const [key, one] of lingering) {
      const { projection } = one;
      stay.add(projection);
      one.wasSent = true;
      const isElsewhere =
        this.#subscriptions.names.has(key) ||
        this.#resources.has(key) ||
        this.#isInSet(projection.name);
      if (!isElsewhere) {
        this.#lingering++;
        this.#add(projection, projection);
      }
    }
  }

  #isInSet(name: ResourceName): boolean {
    const covering = this.#subscriptions.coveringOf(name, isIncluded);
    return (
      covering !== undefined &&
      this.#subscriptions.limit.admit(covering.member.projection) !== undefined
    );
  }

  /** @param sent the version that the client holds and is to keep, if any */
  #add(projection: Projection, sent?: Projection): void {
    const { limit } = this.#subscriptions;
    const content = sent ?? limit.admit(projection);
    if (content && limit.takes(content)) this.#resources.set(content.name.key, content);
    else this.#tooLarge.push(projection);
  }

  get content(): WholeContent {
    // A version without the withheld resources must not be valid for a resume.
    const mark = this.#subscriptions.limit.isWithholding(this.#subscriptions.typeUrl) ? '+' : '';
    const set = { segments: this.#segments, resources: [...this.#resources.values()] };
    // Another process must not take the removed resources for losses of its source: they are no part of the count.
    const count = countOf(set) - this.#lingering;
    const versionInfo = `${SetDigest.union(this.#digests)}${mark}.${count}`;
    return { ...set, versionInfo, tooLarge: this.#tooLarge };
  }
}

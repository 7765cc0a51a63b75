/**
 * The types whose state-of-the-world clients keep what a response leaves out, and single names of unknown types. Only
 * changes are sent, in as many responses as needed.
 */
import type { Projection } from '../../../authorities/index.js';
import type { ResourceError } from '../../../protos/discovery.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import { dutyOf, MAYBE_HELD } from '../session/holdings.js';
import { errorSize, type MessageLimit } from '../session/message-limit.js';
import { isKnown } from '../cache/entries.js';
import { SetDigest } from '../cache/set-digest.js';
import {
  FIRST_ANSWER_WAIT_MS,
  type Responses,
  type SotwContent,
  type TakeOptions,
} from './responses.js';
import { explain, explainGlob, type SotwGlob, type SotwName } from './sotw-subscription.js';
import type { SotwSubscriptions } from './sotw-subscriptions.js';

/** @returns the placeholder of an assignment, if one is due */
export type PlaceholderOf = (name: ResourceName) => Projection | undefined;

/** Collects the contents of one response. */
class PartialDraft {
  /**
   * Keyed by name: collections may share members, and clients reject a response that names a
   * resource twice.
   */
  readonly resources = new Map<string, Projection>();
  readonly errors: ResourceError[];
  /** Number of errors counted in `#bytes`. */
  #errorsCounted = 0;
  readonly #limit: MessageLimit;
  readonly #maxBytes: number;
  #bytes = 0;
  bringsNew = false;
  /** More responses follow. */
  isCut = false;

  constructor(maxBytes: number, errors: ResourceError[], limit: MessageLimit) {
    this.#maxBytes = maxBytes;
    this.#limit = limit;
    this.errors = errors;
  }

  /**
   * Is the response full, or would `next` exceed the client's message limit? An empty response
   * always takes one more resource.
   */
  isFullFor(next: Projection | undefined): boolean {
    this.#countErrors();
    if (this.#bytes >= this.#maxBytes) return true;
    if (!next || this.#bytes === 0) return false;
    return this.#limit.exceeds(next, this.resources.size, this.#bytes);
  }

  #countErrors(): void {
    if (this.#errorsCounted === this.errors.length) return;
    for (const error of this.errors.slice(this.#errorsCounted)) this.#bytes += errorSize(error);
    this.#errorsCounted = this.errors.length;
  }

  add(projection: Projection, isNew: boolean): void {
    this.resources.set(projection.name.key, projection);
    this.#bytes += projection.field.bytes.length;
    this.bringsNew ||= isNew;
  }
}

export class SelectiveResponses implements Responses {
  readonly isWhole = false;
  readonly isWithheld = false;
  readonly holdsFirstSet = (): boolean => false;
  readonly guardedUntilMs = undefined;
  /** A response of these types cannot remove a resource. */
  readonly hasRemovals = false;
  readonly #subscriptions: SotwSubscriptions;
  readonly #placeholderOf: PlaceholderOf;

  constructor(of: SotwSubscriptions, placeholderOf: PlaceholderOf) {
    this.#subscriptions = of;
    this.#placeholderOf = placeholderOf;
  }

  blockedUntilMs(nowMs: number): number | undefined {
    // A client that resumes only globs waits briefly: it may turn out to be current. Names are sent
    // in any case (GRPC 6).
    const untilMs = this.#subscriptions.createdAtMs + FIRST_ANSWER_WAIT_MS;
    const isWaiting =
      this.#subscriptions.names.size === 0 &&
      this.#subscriptions.unsettled.size > 0 &&
      nowMs < untilMs;
    return isWaiting ? untilMs : undefined;
  }

  handleMemberGone(): void {
    // The client keeps it: see `hasRemovals`.
  }

  dropUnsent(): boolean {
    // A response of these types has current content alone.
    return false;
  }

  handleGlobLeft(): void {
    // The client keeps its members.
  }

  handleSent(): void {
    // Nothing depends on it.
  }

  handleNameLeft(known: SotwName): void {
    const covering = this.#subscriptions.coveringOf(known.entry.name);
    // The name was unsubscribed before the collection's content was sent: send it as a member.
    if (!covering) return;
    const isCurrent = covering.member.projection.version === known.sent?.version;
    if (isCurrent && known.held !== MAYBE_HELD) return;
    covering.glob.sentSeq = Math.min(covering.glob.sentSeq, covering.member.seq - 1);
    this.#subscriptions.globsPending = true;
  }

  prepare(_wraps: boolean, most: number): boolean {
    const globs = [...this.#subscriptions.globs.values()];
    return globs.every(({ entry }) => entry.collection.digestSome(most));
  }

  take({ maxBytes, greet }: TakeOptions): SotwContent | undefined {
    const draft = new PartialDraft(
      maxBytes,
      this.#subscriptions.refused.takeErrors(),
      this.#subscriptions.limit,
    );
    const isCurrent = this.#resume();
    let emptyIsNews = this.#subscriptions.takeVersionCoversMore() || (isCurrent && greet);
    this.#subscriptions.globsPending = false;
    for (const glob of this.#subscriptions.globs.values()) {
      if (this.#takeMembers(glob, draft)) emptyIsNews = true;
    }
    this.#takeNames(draft);
    const { resources, errors, bringsNew, isCut } = draft;
    if (resources.size + errors.length === 0 && !emptyIsNews) return undefined;
    // A version of half a set must not be valid for a resume.
    const versionInfo =
      isCut || this.#subscriptions.limit.isWithholding(this.#subscriptions.typeUrl)
        ? `${this.#version}+`
        : this.#version;
    const all = [...resources.values()];
    return {
      segments: [],
      resources: all,
      versionInfo,
      errors,
      removed: 0,
      bringsNew,
      clusters: [],
    };
  }

  get #version(): string {
    const included = [...this.#subscriptions.globs.values()].filter((glob) => glob.included);
    return SetDigest.union([
      this.#subscriptions.digest,
      ...included.map(({ entry }) => entry.collection.digest),
    ]);
  }

  /**
   * @returns whether the client resumes globs with exactly their current members; then these count
   * as sent.
   */
  #resume(): boolean {
    const resumed = this.#subscriptions.resumedVersion;
    this.#subscriptions.resumedVersion = '';
    this.#subscriptions.unsettled.clear();
    // A client that names resources may have dropped them since it acknowledged that version
    // (GRPC 6).
    if (resumed === '' || this.#subscriptions.names.size > 0) return false;
    const globs = [...this.#subscriptions.globs.values()];
    const isWhole = globs.every(({ entry }) => entry.collection.complete);
    const version = SetDigest.union(globs.map(({ entry }) => entry.collection.digest));
    if (!isWhole || version !== resumed) return false;
    for (const glob of globs) {
      glob.sentSeq = glob.entry.collection.members.lastSeq;
      glob.included = true;
    }
    return true;
  }

  #takeNames(draft: PartialDraft): void {
    for (const known of this.#subscriptions.pending) {
      const projection = this.#contentOf(known);
      if (draft.isFullFor(projection)) {
        draft.isCut = true;
        return;
      }
      this.#subscriptions.pending.delete(known);
      if (!this.#mayHoldNewer(known, projection)) this.#takeName(known, projection, draft);
    }
  }

  /** A client that returns keeps what it holds while only the disk has content. With the word of a source the name is pending again. */
  #mayHoldNewer({ mayBeHeld, sent }: SotwName, content: Projection | undefined): boolean {
    return this.#subscriptions.isResuming && mayBeHeld && !sent && content?.isRestored === true;
  }

  #takeName(known: SotwName, projection: Projection | undefined, draft: PartialDraft): void {
    const { state, name } = known.entry;
    if (projection) {
      if (dutyOf('present', known.held, projection.version) === 'nothing') return;
      draft.add(projection, known.sent === undefined);
      this.#subscriptions.noteSent(known, projection);
      Object.assign(known, { hadContent: true, told: undefined });
      return;
    }
    const placeholder = known.hadContent ? undefined : this.#placeholderOf(name);
    if (placeholder) {
      if (dutyOf('present', known.held, placeholder.version) === 'nothing') return;
      draft.add(placeholder, known.sent === undefined);
      this.#subscriptions.noteSent(known, placeholder);
      return;
    }
    // A client that acts on the error drops the resource. If the resource returns, it has to be sent.
    if (isKnown(state)) this.#subscriptions.noteSent(known, undefined);
    explain(known, draft.errors);
  }

  #contentOf({ entry: { name, state }, sent, hadContent }: SotwName): Projection | undefined {
    if (state.kind === 'present') {
      return this.#subscriptions.limit.admit(state.projection) ?? (hadContent ? sent : undefined);
    }
    if (isKnown(state)) return undefined;
    // The watch of a glob may have a result although that of the name has none yet.
    const covering = this.#subscriptions.coveringOf(name);
    if (!covering?.glob.entry.collection.complete) return undefined;
    return this.#subscriptions.limit.admit(covering.member.projection);
  }

  /** @returns whether the glob is empty, and the client was not told so before. */
  #takeMembers(glob: SotwGlob, draft: PartialDraft): boolean {
    const { collection } = glob.entry;
    explainGlob(glob, draft.errors);
    if (!collection.complete) return false;
    for (const member of collection.members.since(glob.sentSeq)) {
      const projection = this.#subscriptions.limit.admit(member.projection);
      if (draft.isFullFor(projection)) {
        draft.isCut = true;
        this.#subscriptions.globsPending = true;
        return false;
      }
      const isNew = member.joinedSeq > glob.sentSeq;
      glob.sentSeq = member.seq;
      const named = this.#subscriptions.names.get(member.key);
      if (named) this.#subscriptions.pending.add(named);
      else if (projection) draft.add(projection, isNew);
    }
    if (glob.included) return false;
    glob.included = true;
    return collection.members.size === 0;
  }
}

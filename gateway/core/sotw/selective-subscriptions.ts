/**
 * All types of a state-of-the-world client except listeners and clusters. The client keeps what a
 * response of these types leaves out, so only changes are sent, in as many responses as needed.
 */
import type { Projection } from '../../../authorities/index.js';
import type { ResourceError } from '../../../protos/discovery.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import { errorSize, type MessageLimit } from '../session/message-limit.js';
import { SetDigest } from '../cache/set-digest.js';
import {
  FIRST_ANSWER_WAIT_MS,
  isKnown,
  SotwSubscriptions,
  type SotwAnswer,
  type SotwGlob,
  type SotwSubscriptionsOptions,
  type SotwName,
  type TakeOptions,
} from './sotw-subscriptions.js';

export interface SelectiveSubscriptionsOptions extends SotwSubscriptionsOptions {
  /** @returns the placeholder of an assignment, if one is due */
  readonly placeholderOf: (name: ResourceName) => Projection | undefined;
}

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

export class SelectiveSubscriptions extends SotwSubscriptions {
  readonly #placeholderOf: (name: ResourceName) => Projection | undefined;

  constructor(options: SelectiveSubscriptionsOptions) {
    super(options);
    this.#placeholderOf = options.placeholderOf;
  }

  override blockedUntilMs(nowMs: number): number | undefined {
    // A client that resumes only globs waits briefly: it may turn out to be current. Names are sent
    // in any case (GRPC 6).
    const untilMs = this.createdAtMs + FIRST_ANSWER_WAIT_MS;
    const isWaiting = this.names.size === 0 && this.unknown.size > 0 && nowMs < untilMs;
    return isWaiting ? untilMs : undefined;
  }

  protected override readonly isWhole = false;

  override readonly hasRemovals = false;

  /** Nothing to do: a response of these types cannot remove a resource. */
  protected override handleMemberGone(): void {}
  protected override forgetGlob(): void {}

  protected override forget(known: SotwName): void {
    super.forget(known);
    const covering = this.coveringOf(known.entry.name);
    // The name was unsubscribed before the collection's content was sent: send it as a member.
    if (!covering || covering.member.projection.version === known.sent?.version) return;
    covering.glob.sentSeq = Math.min(covering.glob.sentSeq, covering.member.seq - 1);
    this.globsPending = true;
  }

  override take({ maxBytes, greet }: TakeOptions): SotwAnswer | undefined {
    const draft = new PartialDraft(maxBytes, this.takeRefusals(), this.limit);
    const isCurrent = this.#resume();
    let emptyIsNews = this.takeLeft() || (isCurrent && greet);
    this.globsPending = false;
    for (const glob of this.globs.values()) {
      if (this.#takeMembers(glob, draft)) emptyIsNews = true;
    }
    this.#takeNames(draft);
    const { resources, errors, bringsNew, isCut } = draft;
    if (resources.size + errors.length === 0 && !emptyIsNews) return undefined;
    // A version of half a set must not be valid for a resume.
    const versionInfo =
      isCut || this.limit.isWithholding(this.typeUrl) ? `${this.#version}+` : this.#version;
    const all = [...resources.values()];
    return { resources: all, versionInfo, errors, removed: 0, bringsNew, clusters: [] };
  }

  get #version(): string {
    const included = [...this.globs.values()].filter((glob) => glob.included);
    return SetDigest.union([this.digest, ...included.map(({ entry }) => entry.collection.digest)]);
  }

  /**
   * @returns whether the client resumes globs with exactly their current members; then these count
   * as sent.
   */
  #resume(): boolean {
    const resumed = this.resumedVersion;
    this.resumedVersion = '';
    this.unknown.clear();
    // A client that names resources may have dropped them since it acknowledged that version
    // (GRPC 6).
    if (resumed === '' || this.names.size > 0) return false;
    const globs = [...this.globs.values()];
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
    for (const known of this.pending) {
      const projection = this.#contentOf(known);
      if (draft.isFullFor(projection)) {
        draft.isCut = true;
        return;
      }
      this.pending.delete(known);
      this.#takeName(known, projection, draft);
    }
  }

  #takeName(known: SotwName, projection: Projection | undefined, draft: PartialDraft): void {
    const { state, name } = known.entry;
    if (projection) {
      if (known.sent?.version === projection.version && !known.isDueAgain) return;
      draft.add(projection, known.sent === undefined);
      this.noteSent(known, projection);
      Object.assign(known, { hadContent: true, isDueAgain: false, told: undefined });
      return;
    }
    const placeholder = known.hadContent ? undefined : this.#placeholderOf(name);
    if (placeholder) {
      if (known.sent && !known.isDueAgain) return;
      draft.add(placeholder, known.sent === undefined);
      this.noteSent(known, placeholder);
      known.isDueAgain = false;
      return;
    }
    // A client that acts on the error drops the resource: if it returns, it has to be sent.
    if (isKnown(state)) this.noteSent(known, undefined);
    this.explain(known, draft.errors);
  }

  #contentOf({ entry: { name, state }, sent, hadContent }: SotwName): Projection | undefined {
    if (state.kind === 'present') {
      return this.limit.admit(state.projection) ?? (hadContent ? sent : undefined);
    }
    if (isKnown(state)) return undefined;
    // The watch of the name may have no result yet where that of a glob has one.
    const covering = this.coveringOf(name);
    if (!covering?.glob.entry.collection.complete) return undefined;
    return this.limit.admit(covering.member.projection);
  }

  /** @returns whether the glob turned out to be empty, which was not sent before. */
  #takeMembers(glob: SotwGlob, draft: PartialDraft): boolean {
    const { collection } = glob.entry;
    this.explainGlob(glob, draft.errors);
    if (!collection.complete) return false;
    for (const member of collection.members.since(glob.sentSeq)) {
      const projection = this.limit.admit(member.projection);
      if (draft.isFullFor(projection)) {
        draft.isCut = true;
        this.globsPending = true;
        return false;
      }
      const isNew = member.joinedSeq > glob.sentSeq;
      glob.sentSeq = member.seq;
      const named = this.names.get(member.key);
      if (named) this.pending.add(named);
      else if (projection) draft.add(projection, isNew);
    }
    if (glob.included) return false;
    glob.included = true;
    return collection.members.size === 0;
  }
}

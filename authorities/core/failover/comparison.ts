/**
 * What clients of a group would receive if it were served from another of its candidates (`tributary diff`).
 *
 * The comparison subscribes the names of the group at that candidate, as a listener of its own. Only groups hear
 * of changes, so a comparison changes neither what clients are served nor the state of a failover. It works in
 * steps of a bounded number of names; the caller decides when the next step comes, and closes it.
 */
import { globKeyOf, type ResourceName } from '../../../protos/resource-name.js';
import type { Projection } from '../projection.js';
import type { Source } from '../sources/source.js';
import type { Candidate } from './candidate.js';
import { entriesOf, projectedAs, statusAt, type Asked } from './candidate-content.js';
import { Differences } from './differences.js';
import type { FailoverGroup } from './failover-group.js';
import { WHOLE_MARGIN_MS } from './whole-waits.js';

export interface ComparisonOptions {
  readonly group: FailoverGroup;
  /** Index of a candidate; undefined: what the group serves. */
  readonly from: number | undefined;
  /** Index of a candidate. */
  readonly to: number;
  /** When the comparison stops waiting for answers. */
  readonly deadlineMs: number;
  /** Does the group still exist? A reload may replace it. */
  readonly isInUse: () => boolean;
  /** Old-style names: what another entry of the map has under the name. */
  readonly beside: (typeUrl: string, name: ResourceName) => Beside | undefined;
}

/** A resource of another group under the same old-style name. */
export interface Beside {
  readonly projection: Projection;
  /** It is served instead of a resource of this group. Otherwise it is served when this group has none. */
  readonly isFirst: boolean;
}

export type ComparisonOutcome =
  | {
      readonly kind: 'compared';
      readonly differences: Differences;
      /** Names with the same content on both sides. */
      readonly same: number;
    }
  /** The source did not respond. */
  | { readonly kind: 'unreachable'; readonly source: Source }
  /** The map changed, or the last client of a node group left. */
  | { readonly kind: 'group_gone' };

export type ComparisonStep =
  /** Work is left. */
  | { readonly kind: 'more' }
  /** A source has to answer. */
  | { readonly kind: 'waiting' }
  | ComparisonOutcome;

/** Names that one step subscribes, looks at or unsubscribes. A count. */
const STEP_NAMES = 1_000;

/** Renaming and hashing one resource costs as much as subscribing this many names. */
const COMPARED = 10;

/** Work that was done, in names; or a source has to answer first. */
type Pause = number | 'waiting';
type Work<Result> = Generator<Pause, Result, undefined>;

/** A demand at one of the compared candidates. */
interface Subscribed extends Asked {
  readonly candidate: Candidate;
  /** At the source. */
  readonly sourceName: ResourceName;
  readonly sinceMs: number;
  /** A collection whose members may come in several responses, and that was not answered before. */
  readonly comesInParts: boolean;
}

/** One of the two compared contents, under the names of the group. */
interface Side {
  readonly contentOf: (demand: Asked) => Iterable<Projection>;
  readonly at: (typeUrl: string, name: ResourceName) => Projection | undefined;
}

export class Comparison {
  readonly #options: ComparisonOptions;
  readonly #to: Candidate;
  readonly #asked: readonly Candidate[];
  readonly #from: Side;
  readonly #demands: readonly Asked[];
  readonly #subscribed: Subscribed[] = [];
  readonly #differences = new Differences();
  readonly #work: Work<ComparisonOutcome>;
  #same = 0;
  #nowMs = 0;
  /** Collections that may get further members after the deadline, by source, type and glob. */
  readonly #cut = new Set<string>();
  /**
   * Collections that get no more members, without a proof that they are answered. The gateway itself waits longer
   * for such a proof than an operator would, e.g. for a collection that it unsubscribed a moment ago.
   */
  readonly #quiet = new Set<string>();

  /** @throws RangeError for an index without a candidate */
  constructor(options: ComparisonOptions) {
    const { group, from, to } = options;
    this.#options = options;
    this.#to = candidateAt(group, to);
    const before = from === undefined ? undefined : candidateAt(group, from);
    this.#asked = before ? [before, this.#to] : [this.#to];
    this.#from = before ? sideOf(before) : servedSide(group);
    this.#demands = [...group.demands()];
    this.#work = this.#run();
  }

  /** Does the next part of the work. */
  step(nowMs: number): ComparisonStep {
    this.#nowMs = nowMs;
    if (!this.#options.isInUse()) return { kind: 'group_gone' };
    for (let names = 0; names < STEP_NAMES;) {
      const next = this.#work.next();
      if (next.done) return next.value;
      if (next.value === 'waiting') return { kind: 'waiting' };
      names += next.value;
    }
    return { kind: 'more' };
  }

  /** Gives back a part of the subscriptions. @returns whether none is left */
  close(nowMs: number): boolean {
    for (const { candidate, typeUrl, sourceName } of this.#subscribed.splice(-STEP_NAMES)) {
      candidate.source.unsubscribe(typeUrl, sourceName, this, nowMs);
    }
    return this.#subscribed.length === 0;
  }

  *#run(): Work<ComparisonOutcome> {
    yield* this.#subscribe();
    const unreachable = yield* this.#awaitAnswers();
    if (unreachable) return { kind: 'unreachable', source: unreachable.source };
    yield* this.#compare();
    return { kind: 'compared', differences: this.#differences, same: this.#same };
  }

  *#subscribe(): Work<void> {
    for (const candidate of this.#asked) {
      for (const demand of this.#demands) {
        const { typeUrl, name } = demand;
        const sourceName = candidate.mapping.toSource(name);
        candidate.source.subscribe(typeUrl, sourceName, this, this.#nowMs);
        const isNew = statusAt(candidate, demand) === 'requested';
        const comesInParts =
          name.isGlob && isNew && candidate.source.answersInParts(typeUrl, sourceName);
        const sinceMs = this.#nowMs;
        this.#subscribed.push({ typeUrl, name, candidate, sourceName, sinceMs, comesInParts });
        yield 1;
      }
      // A source that waits for its backoff is tried now.
      candidate.source.nudge(this.#nowMs);
    }
  }

  /** @returns a candidate that does not respond */
  *#awaitAnswers(): Work<Candidate | undefined> {
    const { deadlineMs } = this.#options;
    for (const one of this.#subscribed) {
      while (isOpen(one)) {
        const isLate = this.#nowMs >= deadlineMs;
        if (isDown(one.candidate) || (isLate && !isLive(one.candidate))) return one.candidate;
        if (isLate || this.#isQuiet(one)) break;
        yield 'waiting';
      }
      yield 1;
    }
    return yield* this.#awaitMembers();
  }

  /** The members of collections that came in parts; and streams that ended meanwhile. */
  *#awaitMembers(): Work<Candidate | undefined> {
    const inParts = this.#subscribed.filter(
      (one) => one.comesInParts && !this.#quiet.has(keyOf(one.candidate, one.typeUrl, one.name)),
    );
    const answeredAtMs = this.#nowMs;
    for (;;) {
      const isLate = this.#nowMs >= this.#options.deadlineMs;
      const lost = this.#asked.find((candidate) => !isLive(candidate));
      if (lost && (isLate || isDown(lost))) return lost;
      if (!lost && this.#nowMs >= this.#wholeAtMs(inParts, answeredAtMs)) return undefined;
      if (isLate) {
        for (const { candidate, typeUrl, name } of inParts) {
          this.#cut.add(keyOf(candidate, typeUrl, name));
        }
        return undefined;
      }
      yield 'waiting';
    }
  }

  #isQuiet(one: Subscribed): boolean {
    const { candidate, comesInParts, typeUrl, name, sourceName, sinceMs } = one;
    if (!comesInParts || this.#nowMs < this.#wholeAtMs([one], sinceMs)) return false;
    const hasMembers = !candidate.source.contents.members(typeUrl, sourceName).next().done;
    const isQuiet = hasMembers && isLive(candidate);
    if (isQuiet) this.#quiet.add(keyOf(candidate, typeUrl, name));
    return isQuiet;
  }

  /** When no more members of these collections are expected, as in `WholeWaits`. */
  #wholeAtMs(inParts: readonly Subscribed[], answeredAtMs: number): number {
    if (inParts.length === 0) return -Infinity;
    let lastMs = answeredAtMs;
    for (const { candidate, typeUrl } of inParts) {
      const { contents } = candidate.source;
      // A new stream sends the collection again.
      const { liveSinceMs } = candidate.source.facts();
      lastMs = Math.max(lastMs, liveSinceMs, contents.lastArrivalMs(typeUrl));
    }
    return lastMs + this.#options.group.spec.failover.switchWaitMs + WHOLE_MARGIN_MS;
  }

  *#compare(): Work<void> {
    const to = sideOf(this.#to);
    for (const demand of this.#demands) {
      yield 1;
      // Its last client left meanwhile.
      if (!this.#isDemanded(demand)) continue;
      for (const after of to.contentOf(demand)) {
        yield COMPARED;
        if (this.#isOther(demand, after.name)) continue;
        this.#judge(this.#from.at(after.typeUrl, after.name), after);
      }
      for (const before of this.#from.contentOf(demand)) {
        yield COMPARED;
        const { typeUrl, name } = before;
        if (!this.#isOther(demand, name) && !to.at(typeUrl, name)) this.#judgeMissing(before);
      }
      this.#judgeUnanswered(demand, to);
    }
  }

  #isDemanded({ typeUrl, name }: Asked): boolean {
    return this.#options.group.isDemanded(typeUrl, name);
  }

  /** Is the member of a glob also requested by its own name? Then it is compared there. */
  #isOther({ typeUrl, name }: Asked, member: ResourceName): boolean {
    return name.isGlob && this.#options.group.isDemanded(typeUrl, member);
  }

  #judge(own: Projection | undefined, after: Projection): void {
    const { typeUrl, name, version } = after;
    const beside = this.#options.beside(typeUrl, name);
    const before = (own ?? beside?.projection)?.version;
    if (before === version || beside?.isFirst) this.#same++;
    else if (before === undefined) {
      const [from = this.#to] = this.#asked;
      const isNew = from === this.#to || this.#isAbsent(from, typeUrl, name);
      this.#differences.add({
        kind: isNew ? 'added' : 'unanswered',
        typeUrl,
        name,
        after: version,
      });
    } else this.#differences.add({ kind: 'changed', typeUrl, name, before, after: version });
  }

  #judgeMissing({ typeUrl, name, version }: Projection): void {
    const { group, to } = this.#options;
    const beside = this.#options.beside(typeUrl, name);
    if (beside?.isFirst) {
      this.#same++;
      return;
    }
    const of = { typeUrl, name, before: version };
    if (!this.#isAbsent(this.#to, typeUrl, name))
      this.#differences.add({ ...of, kind: 'unanswered' });
    // Absence at an alternative proves nothing.
    else if (to !== 0 || group.spec.ignoreDeletion) this.#differences.add({ ...of, kind: 'kept' });
    else if (!beside) this.#differences.add({ ...of, kind: 'removed' });
    else if (beside.projection.version === version) this.#same++;
    else this.#differences.add({ ...of, kind: 'changed', after: beside.projection.version });
  }

  /** A name without content on both sides, or a collection that is not whole. */
  #judgeUnanswered(demand: Asked, to: Side): void {
    const { typeUrl, name } = demand;
    const key = keyOf(this.#to, typeUrl, name);
    const isKnown = name.isGlob
      ? this.#quiet.has(key) || (!this.#cut.has(key) && statusAt(this.#to, demand) === 'present')
      : this.#isAbsent(this.#to, typeUrl, name) ||
        [to, this.#from].some((side) => side.at(typeUrl, name) !== undefined);
    if (!isKnown) this.#differences.add({ kind: 'unanswered', typeUrl, name });
  }

  #isAbsent(candidate: Candidate, typeUrl: string, name: ResourceName): boolean {
    const { contents } = candidate.source;
    const sourceName = candidate.mapping.toSource(name);
    const key = keyOf(candidate, typeUrl, name);
    const answer = contents.answerFor(typeUrl, sourceName);
    if (answer === 'absent') return !this.#cut.has(key);
    const isMember = contents.subscription(typeUrl, sourceName) === undefined;
    return answer === 'requested' && isMember && this.#quiet.has(key);
  }
}

const keyOf = ({ source }: Candidate, typeUrl: string, name: ResourceName): string =>
  `${source.id} ${typeUrl} ${globKeyOf(name)}`;

const isLive = ({ source }: Candidate): boolean => source.facts().live;

const isOpen = ({ candidate, typeUrl, sourceName }: Subscribed): boolean =>
  !isLive(candidate) ||
  candidate.source.contents.subscription(typeUrl, sourceName)?.status === 'requested';

/** It counts as down, and its next attempt comes later. */
function isDown({ source }: Candidate): boolean {
  const { live, tripped, retryAtMs } = source.facts();
  return !live && tripped && retryAtMs !== undefined;
}

function candidateAt({ id, candidates }: FailoverGroup, index: number): Candidate {
  const candidate = candidates[index];
  if (!candidate) throw new RangeError(`group ${id} has no candidate ${index}`);
  return candidate;
}

const servedSide = (group: FailoverGroup): Side => ({
  contentOf: (demand) => group.servedFor(demand),
  at: (typeUrl, name) => group.served(typeUrl, name)?.projection,
});

/** What clients would receive from a candidate. */
const sideOf = (candidate: Candidate): Side => ({
  *contentOf(demand) {
    for (const entry of entriesOf(candidate, demand)) {
      const published = entry.projection.name;
      const names = demand.name.isGlob ? candidate.mapping.toAsked(published) : [demand.name];
      for (const name of names) {
        const projected = projectedAs(candidate, name, entry);
        if (projected.ok) yield projected.projection;
      }
    }
  },
  at: (typeUrl, name) => {
    const { source, mapping } = candidate;
    const entry = source.contents.entry(typeUrl, mapping.toSource(name));
    const projected = entry && projectedAs(candidate, name, entry);
    return projected?.ok ? projected.projection : undefined;
  },
});

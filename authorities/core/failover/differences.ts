/** The names that differ between two sources: all are counted, and the first of each kind are kept in order. */
import type { ResourceName } from '../../../protos/resource-name.js';

/**
 * `added`: clients get a name that they lack; `changed`: other content; `removed`: a name that the primary lacks;
 * `kept`: the other source lacks it, which proves nothing, so clients keep what they hold; `unanswered`: one of
 * the two sources gave no usable answer in time, so clients keep what they hold, if they hold anything.
 */
export const DIFFERENCE_KINDS = ['added', 'changed', 'removed', 'kept', 'unanswered'] as const;
export type DifferenceKind = (typeof DIFFERENCE_KINDS)[number];

export interface Difference {
  readonly kind: DifferenceKind;
  readonly typeUrl: string;
  /** As clients request it; for `unanswered` also a glob. */
  readonly name: ResourceName;
  /** Content hashes. */
  readonly before?: string;
  readonly after?: string;
}

/** Rows of each kind that are kept: an answer of bounded size. A count. */
export const MAX_ROWS = 1_000;

export class Differences {
  readonly #rows = new Map<DifferenceKind, Difference[]>();
  readonly #counts = new Map<DifferenceKind, number>();

  add(difference: Difference): void {
    const { kind } = difference;
    this.#counts.set(kind, this.count(kind) + 1);
    const rows = this.#rows.get(kind) ?? [];
    this.#rows.set(kind, rows);
    rows.splice(placeOf(rows, difference), 0, difference);
    if (rows.length > MAX_ROWS) rows.pop();
  }

  count(kind: DifferenceKind): number {
    return this.#counts.get(kind) ?? 0;
  }

  /** By kind, type and name; at most `MAX_ROWS` of each kind. */
  rows(): readonly Difference[] {
    return DIFFERENCE_KINDS.flatMap((kind) => this.#rows.get(kind) ?? []);
  }
}

/** The place of a difference among sorted ones. */
function placeOf(sorted: readonly Difference[], difference: Difference): number {
  let from = 0;
  let to = sorted.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    const other = sorted[middle];
    if (other && isBefore(other, difference)) from = middle + 1;
    else to = middle;
  }
  return from;
}

const isBefore = (one: Difference, other: Difference): boolean =>
  one.typeUrl === other.typeUrl ? one.name.key < other.name.key : one.typeUrl < other.typeUrl;

/**
 * Coverage guidance: V8's block coverage watches some thousand messages, and those that reach new
 * code join the corpus that the rest of the run mutates.
 */
import { Session, type Profiler } from 'node:inspector';
import { stepsOf } from './cases.js';
import type { Prepared, Target } from './target.js';

/** Only coverage of the code under test counts. */
const UNDER_TEST = /\/build[^/]*\/(protos|config|authorities|gateway)\//;
const WATCHED_MESSAGES = 2_400;
/**
 * Reading the coverage takes a millisecond, so it is read per batch: all its messages are kept, or
 * none.
 */
const BATCH = 8;
/** A large seed makes every message derived from it slow. */
const MAX_KEPT_BYTES = 2_000;

/**
 * @returns the messages that reached new code, in order; always the same for a target and its
 * messages.
 */
export function explore(
  target: Target,
  prepared: Prepared,
  onStep: () => void = () => undefined,
): readonly Uint8Array[] {
  const coverage = new Coverage();
  const found: Uint8Array[] = [];
  try {
    for (const seed of prepared.seeds) attempt(() => prepared.open().take(seed, 0));
    coverage.takeNew();
    let batch: Uint8Array[] = [];
    for (let round = 1, watched = 0; watched < WATCHED_MESSAGES; round++) {
      const subject = prepared.open();
      // Negative: seeds that the run does not use.
      for (const step of stepsOf(target, prepared, [...prepared.seeds, ...found], -round)) {
        onStep();
        attempt(() => subject.take(step.message, step.dice));
        if (step.isMutated && step.message.length < MAX_KEPT_BYTES) batch.push(step.message);
        if (++watched % BATCH !== 0) continue;
        if (coverage.takeNew()) found.push(...batch);
        batch = [];
      }
    }
  } finally {
    coverage.close();
  }
  return found;
}

/** Ignores exceptions: the run meets the same ones and reports them. */
function attempt(work: () => unknown): void {
  try {
    work();
  } catch {
    // See above.
  }
}

const keyOf = ({ startOffset, endOffset, count }: Profiler.CoverageRange): string =>
  `${startOffset}-${endOffset}${count > 0 ? '+' : ''}`;

class Coverage {
  readonly #session = new Session();
  /** By script: which of its characters were reached. */
  readonly #reached = new Map<string, Uint8Array>();
  /** Functions with the ranges that were reached together: most batches repeat what others did. */
  readonly #known = new Set<string>();

  constructor() {
    this.#session.connect();
    this.#session.post('Profiler.enable');
    this.#session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  }

  /** Has any new code been reached since the last call? */
  takeNew(): boolean {
    let result: Profiler.ScriptCoverage[] = [];
    this.#session.post('Profiler.takePreciseCoverage', (_error, taken) => {
      result = taken.result;
    });
    let isNew = false;
    for (const { url, functions } of result) {
      if (!UNDER_TEST.test(url)) continue;
      for (const one of functions) if (this.#add(url, one)) isNew = true;
    }
    return isNew;
  }

  /** Ranges nest: an inner range overrides the outer one. */
  #add(url: string, { ranges }: Profiler.FunctionCoverage): boolean {
    const [outer] = ranges;
    if (!outer || ranges.every(({ count }) => count === 0)) return false;
    const key = `${url} ${ranges.map(keyOf).join(' ')}`;
    if (this.#known.has(key)) return false;
    this.#known.add(key);
    const reached = this.#room(url, outer.endOffset);
    const now = new Uint8Array(outer.endOffset - outer.startOffset);
    for (const { startOffset, endOffset, count } of ranges) {
      now.fill(count > 0 ? 1 : 0, startOffset - outer.startOffset, endOffset - outer.startOffset);
    }
    let isNew = false;
    for (let at = 0; at < now.length; at++) {
      if (now[at] !== 1 || reached[outer.startOffset + at] === 1) continue;
      reached[outer.startOffset + at] = 1;
      isNew = true;
    }
    return isNew;
  }

  #room(url: string, size: number): Uint8Array {
    const known = this.#reached.get(url);
    if (known && known.length >= size) return known;
    const larger = new Uint8Array(Math.max(size, 2 * (known?.length ?? 0)));
    if (known) larger.set(known);
    this.#reached.set(url, larger);
    return larger;
  }

  close(): void {
    this.#session.post('Profiler.stopPreciseCoverage');
    this.#session.post('Profiler.disable');
    this.#session.disconnect();
  }
}

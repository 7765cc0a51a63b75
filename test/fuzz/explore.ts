/**
 * Guidance by coverage: some thousand messages are watched by V8's block coverage, and those that reach
 * code that none before reached join the corpus that the rest of the run mutates.
 */
import { Session, type Profiler } from 'node:inspector';
import { stepsOf } from './cases.js';
import type { Prepared, Target } from './target.js';

/** Only what is under test counts. */
const UNDER_TEST = /\/build[^/]*\/(protos|config|authorities|gateway)\//;
const WATCHED_MESSAGES = 2_400;
/** A look at the coverage costs a millisecond, so messages share one: all of them are kept, or none. */
const BATCH = 8;
/** What is large makes all that is made of it slow. */
const MAX_KEPT_BYTES = 2_000;

/** @returns the messages that reached new code, in order. Same target, same messages. */
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
      // Negative: these cases are not those of the run.
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

/** Whatever is thrown is left to the run, which meets the same and reports it. */
function attempt(work: () => unknown): void {
  try {
    work();
  } catch {
    // See above.
  }
}

class Coverage {
  readonly #session = new Session();
  /** By script: which characters of it were reached. */
  readonly #reached = new Map<string, Uint8Array>();

  constructor() {
    this.#session.connect();
    this.#session.post('Profiler.enable');
    this.#session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  }

  /** Was any code reached since the last call that was not before? */
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

  /** Ranges are nested: an inner one says more of its characters than the one around it. */
  #add(url: string, { ranges }: Profiler.FunctionCoverage): boolean {
    const [outer] = ranges;
    if (!outer || ranges.every(({ count }) => count === 0)) return false;
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

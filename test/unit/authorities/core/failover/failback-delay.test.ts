/**
 * Goal: what a better source leaves unanswered delays the return to it no longer than docs/CONTROL-PLANES.md says
 * ("How long a return takes").
 * Method: two servers in memory and a manual clock; the alternative serves throughout.
 */
import t from 'tap';
import type { SourceTimers } from '../../../../../config/model.js';
import { a, alt, b, glob, kindOf, member, TRIP_MS } from '../../../../support/authority-pair.js';
import {
  FederationDriver,
  mapOf,
  RecordingWatcher,
  THING,
  thing,
} from '../../../../support/federation-driver.js';

const OTHER = 'type.googleapis.com/test.v1.Other';
const other = 'xdstp://cloud/test.v1.Other/a';
const STEP_MS = 100;
const SHORT_HOLD_MS = 3_000;

interface Story {
  readonly holdMs: number;
  readonly timers?: Partial<SourceTimers>;
  /** Names of type THING that only the alternative has, and that the primary does not answer. */
  readonly unanswered?: readonly string[];
}

/** `a` and a collection are served by the alternative, and the primary has just returned. */
function returned({ holdMs, timers = {}, unanswered = [] }: Story) {
  const driver = new FederationDriver(
    mapOf({
      authorities: {
        cloud: { sources: ['c'], alternatives: [{ authority: 'onprem' }], failover: { holdMs } },
        onprem: { sources: ['o'] },
      },
      timers,
    }),
  );
  const watcher = new RecordingWatcher();
  for (const [source, nameOf] of [
    ['c', (name: string) => name],
    ['o', alt],
  ] as const) {
    driver.server(source).set(THING, nameOf(a), source);
    driver.server(source).set(OTHER, nameOf(other), source);
    driver.server(source).set(THING, nameOf(member('m')), source);
  }
  for (const name of unanswered) {
    driver.server('c').stalled.add(name);
    driver.server('o').set(THING, alt(name), 'o');
  }
  const watch = (name: string, typeUrl = THING): void => {
    driver.watch(name, watcher, typeUrl);
  };
  watch(other, OTHER);
  const leave = (): void => {
    driver.kill('c');
    driver.advance(TRIP_MS);
    driver.revive('c');
    while (!driver.isConnected('c')) driver.advance(STEP_MS);
  };
  /** Milliseconds from now until the primary is in use. */
  const returnMs = (): number => {
    const beganMs = driver.nowMs;
    while (kindOf(driver) !== 'primary' && driver.nowMs < beganMs + 120_000) {
      driver.advance(STEP_MS);
    }
    return driver.nowMs - beganMs;
  };
  return { driver, watcher, watch, leave, returnMs };
}

const isAbout = (ms: number, expectedMs: number): boolean =>
  Math.abs(ms - expectedMs) <= 2 * STEP_MS;

t.test('a primary that answers all names is in use after the hold', (t) => {
  const { watch, leave, returnMs } = returned({ holdMs: SHORT_HOLD_MS });
  watch(a);
  leave();
  t.ok(isAbout(returnMs(), SHORT_HOLD_MS));
  t.end();
});

for (const [timers, expectedMs] of [
  [{}, 15_000],
  [{ firstResponseTimeoutMs: 5_000 }, 5_000],
] as const) {
  t.test(
    `a collection of a type about which the primary is silent, since it did not change, counts as unchanged after ${expectedMs} ms (first_response_timeout)`,
    (t) => {
      const { watch, watcher, leave, returnMs } = returned({ holdMs: SHORT_HOLD_MS, timers });
      watch(glob);
      leave();
      t.ok(isAbout(returnMs(), expectedMs));
      t.equal(watcher.held.get(member('m')), 'c');
      t.end();
    },
  );
}

for (const [timers, expectedMs] of [
  [{}, 30_000],
  [{ resourceTimeoutMs: 5_000 }, 5_000],
] as const) {
  t.test(
    `a name that only the alternative has, and that the primary never answers, delays a short hold until ${expectedMs} ms after its request (resource_timeout)`,
    (t) => {
      const story = { holdMs: SHORT_HOLD_MS, timers, unanswered: [b] };
      const { watch, watcher, leave, returnMs } = returned(story);
      watch(b);
      leave();
      t.ok(isAbout(returnMs(), expectedMs));
      t.equal(watcher.held.get(b), 'o', 'silence proves nothing: it keeps its content');
      t.end();
    },
  );
}

t.test('with the default hold, a name that the primary never answers delays no return', (t) => {
  const { watch, leave, returnMs } = returned({ holdMs: 30_000, unanswered: [b] });
  watch(b);
  leave();
  t.ok(isAbout(returnMs(), 30_000));
  t.end();
});

t.test('names that clients request while the alternative is in use delay no return', (t) => {
  const alone = returned({ holdMs: SHORT_HOLD_MS, unanswered: [b] });
  alone.leave();
  alone.watch(b);
  t.ok(isAbout(alone.returnMs(), SHORT_HOLD_MS));
  const later = thing('cloud', 'later');
  const beside = returned({ holdMs: SHORT_HOLD_MS, unanswered: [b, later] });
  beside.watch(b);
  beside.leave();
  beside.driver.advance(2_000);
  beside.watch(later);
  t.ok(isAbout(beside.returnMs(), 28_000), 'b delays it until 30 s after the stream opened');
  t.end();
});

// Simulation, seed 21139: no later event looked at the group again.
t.test('the last answer ends the wait of the return, although it brings nothing new', (t) => {
  const { driver, watcher, watch } = returned({ holdMs: SHORT_HOLD_MS });
  watch(a);
  driver.kill('c');
  driver.advance(TRIP_MS);
  driver.server('c').stalled.add(a);
  driver.revive('c');
  while (!driver.isConnected('c')) driver.advance(STEP_MS);
  driver.advance(SHORT_HOLD_MS + STEP_MS);
  t.equal(kindOf(driver), 'failing_back');
  t.equal(watcher.held.get(a), 'o');
  driver.announce('c', THING, a);
  t.equal(kindOf(driver), 'primary');
  t.equal(watcher.held.get(a), 'c');
  t.end();
});

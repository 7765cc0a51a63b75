/**
 * Goal: `npm run soak` works, and after a few seconds of it the gateway retains nothing.
 * Method: its own program, shorter and faster. Only the full soak shows memory in the long run.
 */
import t from 'tap';
import { slopePerMinute, soak } from '../soak/soak-run.js';

t.setTimeout(240_000);

t.test(
  'after clients of all kinds, deaths of sources and reloads, timers, listeners, watches and sockets are as before',
  async (t) => {
    const outcome = await soak({
      durationMs: 9_000,
      warmUpMs: 0,
      sampleEveryMs: 3_000,
      connectsPerSecond: 50,
      pace: { restartEveryMs: 4_000, downMs: 1_500, reloadEveryMs: 3_000, pauseMs: 1_000 },
      withNats: false,
    });
    t.strictSame(outcome.leftOver, [], 'nothing is left over');
    t.strictSame([...outcome.ended], [], 'no client stream was ended');
    t.equal(outcome.handlerErrors, 0);
    t.strictSame(outcome.after.warnings, []);
    t.ok(
      [...outcome.visits.values()].every((count) => count > 0),
      'each kind of client took part',
    );
    t.ok(
      outcome.counts.deaths >= 2 && outcome.counts.reloads >= 3,
      'and all other events happened',
    );
  },
);

t.test('the slope is that of least squares, per minute', (t) => {
  const line = [0, 1, 2, 3].map((minute) => ({ atMs: minute * 60_000, aliveMiB: 20 + 3 * minute }));
  t.equal(slopePerMinute(line), 3);
  const bent = line.map((one, at) => ({
    ...one,
    aliveMiB: one.aliveMiB + (at % 3 === 0 ? 1 : -1),
  }));
  t.equal(slopePerMinute(bent), 3);
  t.end();
});

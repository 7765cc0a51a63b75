import t from 'tap';
import {
  healthDeadlineMs,
  stepHealth,
} from '../../../../../authorities/core/sources/source-health.js';
import { DEFAULT_TIMERS } from '../../../../../config/defaults.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { ended, FIRST, input, wanted } from '../../../../support/health-story.js';

const timers = DEFAULT_TIMERS;

t.test('after the loss of a stream that got a response, the next attempt comes within 1 s', (t) => {
  const story = wanted();
  story.random = 0.999_999;
  for (let attempt = 0; attempt < 12; attempt++) story.on(ended()).redialled();
  const waitMs = (): number => (healthDeadlineMs(story.state, timers) ?? Infinity) - story.nowMs;
  story.liveFor(5_000).on(ended());
  t.equal(waitMs(), 499, 'whatever the backoff had grown to');
  story.redialled().on(ended());
  t.equal(waitMs(), 29_999, 'for that one attempt only: then the backoff continues');
  story.redialled().liveFor(5_000).on(ended());
  t.equal(waitMs(), 799, 'the second short-lived stream within 5 min');
  t.end();
});

t.test(
  'the first attempt after a loss decides: its failure trips the source, so the alternative serves',
  (t) => {
    const story = wanted();
    for (let attempt = 0; attempt < 12; attempt++) story.on(ended()).redialled();
    story.liveFor(11_000).on(ended());
    t.equal(story.state.tripped, null);
    story.redialled().on(ended());
    t.equal(story.state.tripped, 'unreachable');
    t.end();
  },
);

t.test(
  'short streams raise the delay of the first attempt to 1 s at most, until they trip',
  (t) => {
    const patient = { ...timers, shortStreamLimit: 6 };
    const story = wanted();
    const shortStreamEndsMs = [1, 2, 3, 4].map((ms) => story.nowMs - ms);
    const flapping = { ...story.state, kind: 'live', attempt: 9, shortStreamEndsMs } as const;
    const lost = (shortStreamLimit: number): number => {
      const { state } = stepHealth(
        { ...flapping, sinceMs: story.nowMs, closeAtMs: null },
        ended(),
        {
          ...input({ nowMs: story.nowMs, random: 0.999 }),
          timers: { ...patient, shortStreamLimit },
        },
      );
      return (healthDeadlineMs(state, timers) ?? Infinity) - story.nowMs;
    };
    t.equal(lost(6), 999);
    t.ok(lost(5) > 1_000, 'it counts as down: the alternative serves');
    t.end();
  },
);

t.test('a server that answers once and dies gets at most 12 connects in the first minute', (t) => {
  for (const failedBefore of [0, 12]) {
    const story = wanted();
    for (let attempt = 0; attempt < failedBefore; attempt++) story.on(ended()).redialled();
    const startMs = story.nowMs;
    let reconnects = 0;
    for (; ; reconnects++) {
      story.on(FIRST).on(ended()).redialled();
      if (story.nowMs - startMs > 60_000) break;
    }
    t.ok(reconnects <= 12, `${reconnects} reconnects after ${failedBefore} failures`);
  }
  t.end();
});

t.test('the end of a stable stream is rotation: 200 of them, and no trip (A57)', (t) => {
  const story = wanted();
  for (let stream = 0; stream < 200; stream++) {
    story.liveFor(30_000).on(ended());
    const { state, nowMs } = story;
    t.ok(state.kind === 'waiting' && state.retryAtMs - nowMs < timers.backoffBaseMs);
    story.redialled();
  }
  t.notMatch(story.did.join(), /tripped/);
  t.equal(story.did.filter((what) => what === 'lost').length, 200);
  t.end();
});

t.test('attempts at a dead server: 0.5 s × 1.6ⁿ up to 30 s, one at a time', (t) => {
  const story = wanted();
  story.random = 0.999_999;
  const waitsMs: number[] = [];
  for (let attempt = 0; attempt < 12; attempt++) {
    story.on(ended());
    waitsMs.push((healthDeadlineMs(story.state, timers) ?? 0) - story.nowMs);
    story.redialled();
  }
  t.strictSame(waitsMs.slice(0, 3), [499, 799, 1279]);
  t.strictSame(waitsMs.slice(-2), [29_999, 29_999]);
  t.strictSame(story.did.filter((what) => what === 'dial').length, 13);
  t.equal(story.state.epoch, 13, 'each attempt has an epoch of its own');
  t.end();
});

t.test(
  'a refusal trips at once, and is tried again with the usual backoff for a while, then every 5 min',
  (t) => {
    const codes = [
      STATUS_CODE.unimplemented,
      STATUS_CODE.unauthenticated,
      STATUS_CODE.permissionDenied,
    ];
    for (const code of codes) {
      const story = wanted().on(ended({ code }));
      t.equal(story.did.at(-1), 'lost tripped:refused', `code ${code}`);
      let quick = 0;
      const waitMs = (): number => (healthDeadlineMs(story.state, timers) ?? 0) - story.nowMs;
      for (; waitMs() < 300_000; quick++) story.redialled().on(ended({ code }));
      // A server that has just started may not know its tokens yet (Consul).
      t.equal(quick, code === STATUS_CODE.unimplemented ? 0 : 15);
      t.equal(waitMs(), 300_000);
      t.equal(story.did.filter((what) => what.includes('tripped')).length, 1);
    }
    const deadline = wanted().on(
      ended({ code: STATUS_CODE.permissionDenied, detectedBy: 'deadline' }),
    );
    t.equal(deadline.did.at(-1), 'lost tripped:silent', 'only a status sent by the server refuses');
    t.end();
  },
);

t.test(
  'a source that refused old credentials is tried with new ones after the ordinary backoff',
  (t) => {
    const story = wanted().on(ended()).redialled();
    const refused = ended({ code: STATUS_CODE.unauthenticated });
    story.on(refused);
    for (let attempt = 0; attempt < 20; attempt++) story.redialled().on(refused);
    story.after(60_000);
    story.on({ kind: 'credentials_changed' });
    t.equal(healthDeadlineMs(story.state, timers), story.nowMs + timers.backoffBaseMs / 2);
    story.redialled().on(ended());
    t.equal(healthDeadlineMs(story.state, timers), story.nowMs + timers.backoffBaseMs / 2);
    const soon = wanted().on(ended());
    soon.random = 0.999_999;
    const dueMs = healthDeadlineMs(soon.state, timers);
    soon.on({ kind: 'credentials_changed' });
    t.equal(healthDeadlineMs(soon.state, timers), dueMs, 'an earlier attempt is not delayed');
    t.end();
  },
);

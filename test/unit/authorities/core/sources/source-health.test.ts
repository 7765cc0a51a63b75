import t from 'tap';
import {
  healthDeadlineMs,
  INITIAL_HEALTH,
  stepHealth,
  type HealthEvent,
  type SourceHealth,
} from '../../../../../authorities/core/sources/source-health.js';
import { DEFAULT_TIMERS } from '../../../../../config/defaults.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import {
  ended,
  FIRST,
  input,
  NOW_MS,
  TIMER,
  UNWANT,
  wanted,
  WANT,
  words,
  type Story,
} from '../../../../support/health-story.js';

const timers = DEFAULT_TIMERS;

type Kind = SourceHealth['kind'];
const EXAMPLE: { readonly [K in Kind]: Extract<SourceHealth, { kind: K }> } = {
  idle: { ...INITIAL_HEALTH, kind: 'idle' },
  queued: { ...INITIAL_HEALTH, kind: 'queued', wanted: true },
  connecting: {
    ...INITIAL_HEALTH,
    kind: 'connecting',
    epoch: 1,
    wanted: true,
    sinceMs: NOW_MS - 1_000,
    deadlineMs: NOW_MS + 14_000,
  },
  live: {
    ...INITIAL_HEALTH,
    kind: 'live',
    epoch: 1,
    wanted: true,
    sinceMs: NOW_MS - 60_000,
    closeAtMs: null,
  },
  waiting: {
    ...INITIAL_HEALTH,
    kind: 'waiting',
    epoch: 1,
    wanted: true,
    attempt: 1,
    retryAtMs: NOW_MS + 200,
    closeAtMs: null,
  },
};

/** Every event that differs in kind or in its decision. */
const EVENTS = {
  want: WANT,
  unwant: UNWANT,
  admitted: { kind: 'admitted' },
  first_response: FIRST,
  ended: ended(),
  refused: ended({ code: STATUS_CODE.unauthenticated }),
  probe_lost: ended({ detectedBy: 'probe' }),
  oversize: ended({ detectedBy: 'oversize' }),
  nudge: { kind: 'nudge' },
  credentials_changed: { kind: 'credentials_changed' },
  timer_early: TIMER,
  timer_late: TIMER,
} as const satisfies Record<string, HealthEvent>;
type Event = keyof typeof EVENTS;

interface Expected {
  readonly to: Kind;
  readonly does: string;
}
const same = (kind: Kind): Expected => ({ to: kind, does: '' });

/** Complete by type: a new state or event does not compile without its cells. */
const TABLE: Record<Kind, Record<Event, Expected>> = {
  idle: {
    want: { to: 'connecting', does: 'dial' },
    unwant: same('idle'),
    admitted: same('idle'),
    first_response: same('idle'),
    ended: same('idle'),
    refused: same('idle'),
    probe_lost: same('idle'),
    oversize: same('idle'),
    nudge: same('idle'),
    credentials_changed: same('idle'),
    timer_early: same('idle'),
    timer_late: same('idle'),
  },
  queued: {
    want: same('queued'),
    unwant: same('idle'),
    admitted: { to: 'connecting', does: 'dial' },
    first_response: same('queued'),
    ended: same('queued'),
    refused: same('queued'),
    probe_lost: same('queued'),
    oversize: same('queued'),
    nudge: same('queued'),
    credentials_changed: same('queued'),
    timer_early: same('queued'),
    timer_late: same('queued'),
  },
  connecting: {
    want: same('connecting'),
    unwant: { to: 'idle', does: 'hang_up' },
    admitted: same('connecting'),
    first_response: { to: 'live', does: 'up' },
    ended: { to: 'waiting', does: 'lost' },
    refused: { to: 'waiting', does: 'lost tripped:refused' },
    probe_lost: { to: 'waiting', does: 'lost' },
    oversize: { to: 'waiting', does: 'lost' },
    nudge: same('connecting'),
    credentials_changed: same('connecting'),
    timer_early: same('connecting'),
    timer_late: { to: 'waiting', does: 'hang_up lost tripped:silent' },
  },
  live: {
    want: same('live'),
    unwant: same('live'),
    admitted: same('live'),
    first_response: same('live'),
    ended: { to: 'waiting', does: 'lost' },
    refused: { to: 'waiting', does: 'lost' },
    probe_lost: { to: 'waiting', does: 'lost' },
    oversize: { to: 'waiting', does: 'lost' },
    nudge: same('live'),
    credentials_changed: same('live'),
    timer_early: same('live'),
    timer_late: same('live'),
  },
  waiting: {
    want: same('waiting'),
    unwant: same('waiting'),
    admitted: same('waiting'),
    first_response: same('waiting'),
    ended: same('waiting'),
    refused: same('waiting'),
    probe_lost: same('waiting'),
    oversize: same('waiting'),
    nudge: { to: 'connecting', does: 'dial' },
    credentials_changed: same('waiting'),
    timer_early: same('waiting'),
    timer_late: { to: 'connecting', does: 'dial' },
  },
};

const keysOf = <K extends string>(record: Readonly<Record<K, unknown>>): readonly K[] =>
  Object.keys(record) as K[];

t.test('the health of a source: every state × every event', (t) => {
  for (const kind of keysOf(TABLE)) {
    for (const event of keysOf(EVENTS)) {
      const nowMs = event === 'timer_late' ? NOW_MS + 3_600_000 : NOW_MS;
      const { state, effects } = stepHealth(EXAMPLE[kind], EVENTS[event], input({ nowMs }));
      const expected = TABLE[kind][event];
      t.strictSame({ to: state.kind, does: words(effects) }, expected, `${kind} × ${event}`);
    }
  }
  t.end();
});

t.test('an event without effect returns the same state object', (t) => {
  t.equal(stepHealth(EXAMPLE.idle, TIMER, input()).state, EXAMPLE.idle);
  t.equal(stepHealth(EXAMPLE.live, WANT, input()).state, EXAMPLE.live);
  t.equal(stepHealth(EXAMPLE.waiting, FIRST, input()).state, EXAMPLE.waiting);
  t.end();
});

t.test('two attempts in a row without a first response trip a source (Envoy’s number)', (t) => {
  const story = wanted().on(ended()).redialled().on(ended());
  t.strictSame(story.did, ['dial', 'lost', 'dial', 'lost tripped:unreachable']);
  t.equal(story.state.tripped, 'unreachable');
  story.redialled().on(ended());
  t.strictSame(story.did.slice(4), ['dial', 'lost'], 'a trip is reported once');
  story.redialled().on(FIRST);
  t.equal(story.state.tripped, null, 'and it ends with the first response');
  t.end();
});

t.test('a failure, a stable stream and a failure do not trip', (t) => {
  const story = wanted()
    .on(ended())
    .redialled()
    .liveFor(30_000)
    .on(ended())
    .redialled()
    .on(ended());
  t.notMatch(story.did.join(), /tripped/);
  t.end();
});

t.test('a short-lived stream resets nothing: failures around it add up', (t) => {
  const story = wanted().on(ended()).redialled().liveFor(29_999).on(ended()).redialled();
  story.on(ended());
  t.equal(story.did.at(-1), 'lost tripped:unreachable');
  t.end();
});

t.test('no first response within 15 s with names outstanding trips at once', (t) => {
  const story = wanted().after(14_999);
  t.equal(story.state.kind, 'connecting');
  story.after(1);
  t.equal(story.did.at(-1), 'hang_up lost tripped:silent');
  t.end();
});

t.test('silence without an owed response is a quiet resume, and counts as live', (t) => {
  const story = wanted();
  story.owesResponse = false;
  story.after(15_000);
  t.equal(story.state.kind, 'live');
  t.equal(story.did.at(-1), 'up');
  t.end();
});

t.test('a lost probe leads at once to one attempt of 3 s, and its failure trips', (t) => {
  const story = wanted()
    .liveFor(60_000)
    .on(ended({ detectedBy: 'probe' }));
  t.equal(
    healthDeadlineMs(story.state, timers),
    story.nowMs,
    'no backoff: seconds are lost already',
  );
  story.redialled();
  t.match(story.state, { kind: 'connecting', deadlineMs: story.nowMs + 3_000 });
  story.after(3_000);
  t.equal(story.did.at(-1), 'hang_up lost tripped:unreachable');
  t.end();
});

t.test(
  'only one attempt after a lost probe is short: a slow server must be able to return',
  (t) => {
    const story = wanted()
      .liveFor(60_000)
      .on(ended({ detectedBy: 'probe' }))
      .redialled()
      .after(3_000)
      .redialled();
    t.match(story.state, { kind: 'connecting', deadlineMs: story.nowMs + 15_000 });
    t.end();
  },
);

t.test(
  'an attempt that loses its probe is followed at once by one of 3 s, and the source trips after 16 s',
  (t) => {
    const probeLost = ended({ detectedBy: 'probe' });
    const story = wanted();
    const beganMs = story.nowMs;
    story.after(13_000).on(probeLost);
    t.equal(healthDeadlineMs(story.state, timers), story.nowMs);
    story.redialled();
    t.match(story.state, { kind: 'connecting', deadlineMs: story.nowMs + 3_000 });
    story.after(3_000);
    t.equal(story.did.at(-1), 'hang_up lost tripped:unreachable');
    t.equal(story.nowMs - beganMs, 16_000);
    story.redialled().after(13_000).on(probeLost);
    t.match(
      story.state,
      { suspect: false },
      'a source that has tripped is retried with its backoff',
    );
    t.end();
  },
);

t.test('a trip is forgotten once the source is no longer wanted', (t) => {
  const story = wanted().on(ended()).redialled().on(ended());
  t.equal(story.state.tripped, 'unreachable');
  story.on({ kind: 'want', wanted: false }).after(timers.lingerMs);
  t.match(story.state, { kind: 'idle', tripped: null, failures: 0, attempt: 0 });
  t.end();
});

t.test('a lost probe whose next attempt gets a response does not trip', (t) => {
  const story = wanted()
    .liveFor(60_000)
    .on(ended({ detectedBy: 'probe' }))
    .redialled();
  story.liveFor(60_000).on(ended()).redialled();
  t.match(story.state, { kind: 'connecting', suspect: false, tripped: null });
  t.end();
});

t.test(
  'after a lost probe, silence without an owed response counts as live only after 15 s',
  (t) => {
    const suspect = (): Story => {
      const story = wanted()
        .liveFor(60_000)
        .on(ended({ detectedBy: 'probe' }))
        .redialled();
      story.owesResponse = false;
      return story.after(3_000);
    };
    const quiet = suspect();
    t.equal(quiet.state.kind, 'connecting');
    t.equal(healthDeadlineMs(quiet.state, timers), quiet.nowMs + 12_000);
    quiet.after(12_000);
    t.match(quiet.state, { kind: 'live', suspect: false, tripped: null });
    const black = suspect()
      .after(10_000)
      .on(ended({ detectedBy: 'probe' }));
    t.equal(black.did.at(-1), 'lost tripped:unreachable', 'unless the next probe is lost too');
    t.end();
  },
);

t.test('three short-lived streams within 5 min trip, and stay tripped until one is stable', (t) => {
  const story = wanted();
  for (let stream = 0; stream < 3; stream++) story.liveFor(5_000).on(ended()).redialled();
  t.equal(story.state.tripped, 'unstable');
  t.equal(story.did.filter((what) => what.includes('tripped')).length, 1);
  story.on(FIRST);
  t.equal(story.state.tripped, 'unstable', 'one response is not enough (A88)');
  story.after(30_000);
  t.equal(story.state.tripped, null);
  t.end();
});

t.test('three short-lived streams over more than 5 min do not trip', (t) => {
  const story = wanted();
  for (let stream = 0; stream < 6; stream++) {
    story.liveFor(5_000).on(ended());
    story.nowMs += 150_000;
    story.redialled();
  }
  t.notMatch(story.did.join(), /tripped/);
  t.end();
});

t.test(
  'streams that the gateway itself ends never trip: they say nothing about the source',
  (t) => {
    const story = wanted();
    const own = ended({ detectedBy: 'gateway' });
    for (let stream = 0; stream < 10; stream++) {
      story.liveFor(1_000).on(own).redialled();
    }
    t.match(story.state, { failures: 0, tripped: null, shortStreamEndsMs: [] });
    t.notMatch(story.did.join(), /tripped/);
    t.end();
  },
);

t.test('RESOURCE_EXHAUSTED trips only if it lasts: the source bounds its new streams', (t) => {
  const busy = ended({ code: STATUS_CODE.resourceExhausted });
  const story = wanted();
  for (let attempt = 0; attempt < 7; attempt++) {
    t.equal(story.on(busy).did.at(-1), 'lost', `attempt ${attempt}`);
    story.redialled();
  }
  t.equal(story.on(busy).did.at(-1), 'lost tripped:unreachable');
  t.end();
});

t.test('after a lost probe, RESOURCE_EXHAUSTED shows that the source lives', (t) => {
  const story = wanted()
    .on(ended({ detectedBy: 'probe' }))
    .redialled();
  t.equal(story.on(ended({ code: STATUS_CODE.resourceExhausted })).did.at(-1), 'lost');
  t.end();
});

t.test('an oversize message never trips: slowest pace, and no failure counted', (t) => {
  const story = wanted();
  for (let stream = 0; stream < 10; stream++) {
    story.on(ended({ detectedBy: 'oversize' }));
    t.equal(healthDeadlineMs(story.state, timers), story.nowMs + timers.backoffMaxMs);
    story
      .redialled()
      .liveFor(1_000)
      .on(ended({ detectedBy: 'oversize' }))
      .redialled();
  }
  t.match(story.state, { failures: 0, tripped: null, shortStreamEndsMs: [] });
  t.notMatch(story.did.join(), /tripped/);
  t.end();
});

t.test('a stream without demand is closed after 30 s, not before', (t) => {
  const story = wanted().liveFor(60_000).on(UNWANT).after(29_999);
  t.equal(story.state.kind, 'live');
  t.equal(healthDeadlineMs(story.state, timers), story.nowMs + 1);
  story.after(1);
  t.equal(story.did.at(-1), 'hang_up');
  t.equal(story.state.kind, 'idle');
  t.equal(healthDeadlineMs(story.state, timers), undefined);
  t.end();
});

t.test('a stream that is wanted again in time stays', (t) => {
  const story = wanted().liveFor(60_000).on(UNWANT).after(29_999).on(WANT).after(3_600_000);
  t.equal(story.state.kind, 'live');
  t.strictSame(story.did, ['dial', 'up']);
  t.end();
});

t.test(
  'a source without demand is not reconnected: it waits out its linger time and becomes idle',
  (t) => {
    const story = wanted().on(ended()).on(UNWANT);
    t.equal(healthDeadlineMs(story.state, timers), story.nowMs + timers.lingerMs);
    story.after(1_000);
    t.equal(story.state.kind, 'waiting');
    story.after(29_000);
    t.equal(story.state.kind, 'idle');
    t.strictSame(story.did, ['dial', 'lost']);
    const lingering = wanted().liveFor(60_000).on(UNWANT).on(ended());
    t.equal(lingering.state.kind, 'idle', 'nor is a lingering stream that ends');
    t.end();
  },
);

t.test('a stream is stable after 30 s: backoff and failures are reset', (t) => {
  const story = wanted().on(ended()).redialled().on(FIRST);
  t.equal(healthDeadlineMs(story.state, timers), story.nowMs + 30_000);
  story.after(30_000);
  t.match(story.state, { attempt: 0, failures: 0 });
  t.equal(healthDeadlineMs(story.state, timers), undefined);
  t.end();
});

t.test(
  'a source is well from its first response until it fails; that streams rotate is no failure',
  (t) => {
    const story = wanted();
    t.equal(story.state.wellSinceMs, null);
    const wellSinceMs = story.nowMs;
    story.liveFor(30_000).on(ended()).redialled().liveFor(1_000);
    t.equal(story.state.wellSinceMs, wellSinceMs, 'the stream was stable');
    story
      .on(ended({ detectedBy: 'gateway' }))
      .redialled()
      .liveFor(1_000);
    t.equal(story.state.wellSinceMs, wellSinceMs, 'the gateway ended it');
    for (const [reason, livedMs, end] of [
      ['a short stream', 29_999, ended()],
      ['a lost probe', 30_000, ended({ detectedBy: 'probe' })],
      ['a message that is too large', 30_000, ended({ detectedBy: 'oversize' })],
    ] as const) {
      const failed = wanted().liveFor(livedMs).on(end);
      t.equal(failed.state.wellSinceMs, null, reason);
      failed.redialled();
      failed.on(FIRST);
      t.equal(failed.state.wellSinceMs, failed.nowMs, `after ${reason}`);
    }
    story.after(30_000).on(ended()).redialled().on(ended());
    t.equal(story.state.wellSinceMs, null, 'a failed attempt');
    t.end();
  },
);

t.test('an unstable source whose credentials were mended is trusted after a stable stream', (t) => {
  const story = wanted();
  for (let stream = 0; stream < 3; stream++) {
    if (stream > 0) story.redialled();
    story.liveFor(1_000).on(ended({ code: STATUS_CODE.unauthenticated }));
  }
  t.match(story.state, { kind: 'waiting', tripped: 'unstable' });
  story.on({ kind: 'credentials_changed' }).redialled().on(FIRST);
  t.match(story.state, { kind: 'live', attempt: 0, tripped: 'unstable' });
  t.equal(healthDeadlineMs(story.state, timers), story.nowMs + timers.minStableMs);
  story.after(timers.minStableMs);
  t.equal(story.state.tripped, null);
  story.on(ended({ code: 0 }));
  t.equal(story.state.tripped, null, 'an ordinary rotation moves no names');
  t.end();
});

t.test(
  'credentials that are refused eight times in a row are said to be refused, a method is not',
  (t) => {
    for (const code of [STATUS_CODE.unauthenticated, STATUS_CODE.permissionDenied]) {
      const story = wanted();
      for (let attempt = 0; attempt < 7; attempt++) story.on(ended({ code })).redialled();
      t.notOk(story.did.includes('lost refused'));
      t.equal(story.on(ended({ code })).did.at(-1), 'lost refused');
      t.equal(
        story.redialled().on(ended({ code })).did.at(-1),
        'lost refused',
        'at each later attempt',
      );
      t.equal(story.redialled().on(ended()).redialled().on(ended({ code })).did.at(-1), 'lost');
    }
    const story = wanted().on(ended({ code: STATUS_CODE.unimplemented }));
    t.equal(story.did.at(-1), 'lost tripped:refused');
    t.end();
  },
);

t.test('a response ends the row of refusals', (t) => {
  const refusal = ended({ code: STATUS_CODE.unauthenticated });
  const story = wanted();
  for (let attempt = 0; attempt < 7; attempt++) story.on(refusal).redialled();
  story.on(FIRST).after(60_000).on(ended()).redialled();
  for (let attempt = 0; attempt < 7; attempt++) story.on(refusal).redialled();
  t.notOk(story.did.some((one) => one.endsWith(' refused')));
  t.equal(story.on(refusal).did.at(-1), 'lost refused');
  t.end();
});

t.test('a source that was away for long and then refuses is tried as often as any other', (t) => {
  const story = wanted();
  for (let attempt = 0; attempt < 40; attempt++) story.on(ended()).redialled();
  const sinceMs = story.nowMs;
  for (let refusal = 0; refusal < 15; refusal++) {
    story.on(ended({ code: STATUS_CODE.unauthenticated })).redialled();
    if (refusal === 3) t.ok(story.nowMs - sinceMs < 3_000, 'soon at first');
  }
  t.ok(story.nowMs - sinceMs < 180_000);
  story.on(ended({ code: STATUS_CODE.unauthenticated })).redialled();
  t.ok(story.nowMs - sinceMs > timers.refusedRetryMs);
  t.end();
});

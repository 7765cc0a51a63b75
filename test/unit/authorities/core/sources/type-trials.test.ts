/**
 * Goal: a type for which a source ends its stream is not requested again soon, all others are, and the end of a stream is blamed
 * on a type only if nothing else explains it.
 */
import t from 'tap';
import { oldStyleName } from '../../../../../protos/resource-name.js';
import { encodeResponse } from '../../../../support/discovery-messages.js';
import { nameOf } from '../../../../support/fake-directory.js';
import { cds, lds } from '../../../../support/mesh-names.js';
import { managementServerOf } from '../../../../support/management-server.js';
import { TypeTrials } from '../../../../../authorities/core/sources/type-trials.js';
import type { StreamEnd } from '../../../../../authorities/core/sources/source-health.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';

const CDS = TYPE_URL.cluster;
const LDS = TYPE_URL.listener;
const SDS = TYPE_URL.secret;
const BAD = 'type.googleapis.com/made.up.Type';
const UNKNOWN = 2;
const endOf = (code = UNKNOWN, detectedBy: StreamEnd['detectedBy'] = 'stream'): StreamEnd => ({
  code,
  message: 'no cache defined',
  detectedBy,
});

/** A source and a clock: each stream requests what it may, and answers the types of `serves`. */
class Story {
  readonly trials = new TypeTrials(300_000);
  nowMs = 1_000_000;
  wanted: string[] = [];
  serves: readonly string[] = [CDS, LDS];
  isLive = false;

  open(...wanted: readonly string[]): this {
    if (wanted.length > 0) this.wanted = [...wanted];
    this.isLive = false;
    this.trials.handleOpened(this.wanted, this.nowMs);
    return this.request();
  }

  request(): this {
    for (const typeUrl of this.may()) {
      this.trials.handleRequested(typeUrl, this.nowMs);
      if (!this.serves.includes(typeUrl)) continue;
      this.trials.handleAnswered(typeUrl);
      this.isLive = true;
    }
    return this;
  }

  want(typeUrl: string): this {
    this.wanted.push(typeUrl);
    this.trials.handleWanted(typeUrl, this.nowMs);
    return this.request();
  }

  end(end = endOf()) {
    return this.trials.handleEnded(end, this.isLive, this.nowMs);
  }

  after(ms: number): this {
    this.nowMs += ms;
    this.trials.handleTimer(this.wanted, this.isLive, this.nowMs);
    return this.request();
  }

  may(): readonly string[] {
    return this.wanted.filter((typeUrl) => this.trials.mayRequest(typeUrl));
  }
}

t.test('the only type that a live stream has just requested is refused if the stream ends', (t) => {
  const story = new Story().open(CDS, LDS).after(60_000).want(BAD);
  t.strictSame(story.after(100).end(), { isExplained: true, refused: BAD });
  t.match(story.trials.refusal(BAD), {
    code: STATUS_CODE.unavailable,
    message: /no cache defined/,
  });
  t.strictSame(story.open().may(), [CDS, LDS]);
  t.end();
});

t.test('a refused type is tried again after 30 s, then 60 s, up to refused_retry', (t) => {
  const story = new Story().open(CDS).want(BAD);
  story.end();
  for (const waitMs of [30_000, 60_000, 120_000, 240_000, 300_000, 300_000]) {
    story.open().after(0);
    t.equal(story.trials.nextDeadlineMs, story.nowMs + waitMs);
    t.strictSame(story.after(waitMs - 1).may(), [CDS]);
    t.strictSame(story.after(1).may(), [CDS, BAD]);
    t.strictSame(story.after(100).end(), { isExplained: true, refused: BAD });
  }
  t.end();
});

t.test('a refused type does not delay the trial of a new one', (t) => {
  const story = new Story().open(CDS).want(BAD);
  story.end();
  story.open().want(LDS);
  t.strictSame(story.may(), [CDS]);
  t.strictSame(story.after(10_000).may(), [CDS, LDS]);
  t.strictSame(story.after(20_000).may(), [CDS, BAD, LDS], 'whose own trial comes in time');
  t.end();
});

t.test('a refused type that the source serves later is requested for good', (t) => {
  const story = new Story().open(CDS).want(BAD);
  story.end();
  story.open().serves = [CDS, BAD];
  story.after(30_000);
  t.equal(story.trials.refusal(BAD), undefined);
  t.strictSame(story.open().may(), [CDS, BAD]);
  t.end();
});

t.test('of several new types each is tried alone, those that matter most first', (t) => {
  const story = new Story();
  story.serves = [CDS];
  story.open(BAD, LDS, CDS);
  t.strictSame(story.end(), { isExplained: true });
  t.strictSame(story.open().may(), [CDS], 'which was answered');
  t.strictSame(story.after(0).may(), [LDS, CDS]);
  t.strictSame(story.after(1_999).may(), [LDS, CDS]);
  t.strictSame(story.after(1).may(), [BAD, LDS, CDS], 'the stream lived: not for listeners');
  t.strictSame(story.end(), { isExplained: true, refused: BAD });
  t.strictSame(story.open().may(), [LDS, CDS]);
  t.end();
});

t.test('a trial runs from the request, which may have to wait for a token', (t) => {
  const story = new Story();
  story.serves = [CDS];
  story.open(BAD, LDS, CDS).end();
  story.open();
  const { trials } = story;
  const late = (ms: number): void => {
    story.nowMs += ms;
    trials.handleTimer(story.wanted, true, story.nowMs);
  };
  late(0);
  t.ok(trials.mayRequest(LDS));
  late(10_000);
  t.equal(trials.nextDeadlineMs, story.nowMs + 2_000);
  trials.handleRequested(LDS, story.nowMs);
  t.strictSame(
    story.after(1_000).end(),
    { isExplained: true, refused: LDS },
    'no trust without a request',
  );
  t.end();
});

t.test('a trial ends when no client wants the type any more, and nothing was requested', (t) => {
  const story = new Story();
  story.serves = [CDS];
  story.open(BAD, LDS, CDS).end();
  story.open();
  const { trials } = story;
  trials.handleTimer(story.wanted, true, story.nowMs);
  t.ok(trials.mayRequest(LDS));
  story.wanted.splice(story.wanted.indexOf(LDS), 1);
  story.nowMs += 2_000;
  trials.handleTimer(story.wanted, true, story.nowMs);
  t.ok(trials.mayRequest(BAD), 'the next one has its turn');
  t.end();
});

t.test('a stream that nothing shows to be well tries one doubted type after the other', (t) => {
  const story = new Story();
  story.serves = [];
  story.open(LDS, BAD).end();
  t.strictSame(story.open().may(), [LDS]);
  t.strictSame(story.end(), { isExplained: false }, 'the source may be in trouble');
  t.strictSame(story.open().may(), [BAD]);
  story.end();
  story.serves = [LDS];
  t.strictSame(story.open().may(), [LDS]);
  t.strictSame(story.after(0).may(), [LDS, BAD]);
  t.end();
});

t.test(
  'after a verdict new types wait: a client that invents types ends a stream ever more rarely',
  (t) => {
    const story = new Story().open(CDS).want(BAD);
    story.end();
    const endsMs: number[] = [];
    for (let invented = 0; invented < 6; invented++) {
      const startMs = story.nowMs;
      story.wanted = [CDS, `${BAD}${invented}`];
      story.open();
      while (story.may().length < 2) story.after(1_000);
      story.end();
      endsMs.push(story.nowMs - startMs);
    }
    t.strictSame(endsMs, [10_000, 20_000, 40_000, 80_000, 160_000, 300_000]);
    t.end();
  },
);

t.test('no type explains the end of a stream that other causes may have', (t) => {
  const ofNothing = { isExplained: false };
  const live = new Story().open(CDS, BAD);
  t.strictSame(live.end(endOf(UNKNOWN, 'probe')), ofNothing, 'a lost probe');
  t.strictSame(live.end(endOf(0)), ofNothing, 'the source ends it in good order');
  t.strictSame(live.after(2_000).end(), ofNothing, 'long after the request');
  const answered = new Story().open(CDS, LDS);
  t.strictSame(answered.end(), ofNothing, 'all types have been answered');
  const gone = new Story().open(CDS, BAD);
  t.strictSame(gone.end(endOf(STATUS_CODE.unavailable)), ofNothing, 'the source may go away');
  const attempt = new Story();
  attempt.serves = [];
  attempt.open(CDS, BAD);
  t.strictSame(attempt.end(endOf(STATUS_CODE.unavailable)), ofNothing, 'it cannot be reached');
  t.strictSame(
    attempt.end(endOf(STATUS_CODE.unauthenticated)),
    ofNothing,
    'it refuses the gateway',
  );
  t.end();
});

t.test(
  'UNAVAILABLE on a live stream explains nothing the first time, and in a trial it does',
  (t) => {
    const story = new Story().open(CDS).want(BAD);
    const gone = endOf(STATUS_CODE.unavailable);
    t.strictSame(story.end(gone), { isExplained: false });
    t.strictSame(story.open().after(0).may(), [CDS, BAD]);
    t.strictSame(story.end(gone), { isExplained: true, refused: BAD });
    t.end();
  },
);

for (const apiType of ['AGGREGATED_DELTA_GRPC', 'AGGREGATED_GRPC'] as const) {
  t.test(
    `${apiType}: names of a refused type are UNAVAILABLE, and requested in its trials`,
    (t) => {
      const server = managementServerOf(
        { apiType },
        { oldStyle: { scope: '', mayServe: () => true } },
      );
      const listener = {};
      let nowMs = 0;
      const sent: string[] = [];
      const pump = (): void => {
        for (const effect of server.takeEffects(nowMs)) {
          if (effect.kind === 'send') sent.push(effect.typeUrl);
        }
      };
      const ask = (typeUrl: string, id: string) => {
        const name = oldStyleName('', id);
        server.subscribe(typeUrl, name, listener, nowMs);
        pump();
        return server.contents.subscription(typeUrl, name)!;
      };
      const end = (): void => {
        server.handleAttemptEvent(server.health.epoch, { kind: 'ended', end: endOf() }, nowMs);
        pump();
      };
      const after = (ms: number): void => {
        nowMs += ms;
        server.handleTimer(nowMs);
        pump();
      };
      // Both variants have the same numbers for these fields.
      const respond = (typeUrl: string): void => {
        const bytes = encodeResponse({ typeUrl, nonce: typeUrl });
        server.handleMessage(server.health.epoch, bytes, nowMs);
        pump();
      };
      const first = ask(BAD, 'a');
      ask(CDS, 'a');
      respond(CDS);
      end();
      t.match(first, { status: 'timed_out', absence: { code: STATUS_CODE.unavailable } });
      sent.length = 0;
      after(1_000);
      t.strictSame(sent, [CDS]);
      t.ok(server.facts().attempt?.isOwed(), 'for clusters');
      t.notOk(server.facts().tripped);
      t.equal(server.facts().wellSinceMs, 0);
      respond(CDS);
      const late = ask(BAD, 'b');
      t.match([first, late], [{ status: 'timed_out' }, { status: 'timed_out' }]);
      server.unsubscribe(BAD, oldStyleName('', 'b'), listener, nowMs);
      server.askAgain(BAD, oldStyleName('', 'a'), nowMs);
      ask(CDS, 'b');
      t.notOk(sent.includes(BAD));
      after(30_000);
      t.ok(sent.includes(BAD));
      t.equal(first.status, 'requested', 'so that it can be found absent');
      t.end();
    },
  );
}

t.test('a type that is not doubted does not wait for the backoff of doubted ones', (t) => {
  const server = managementServerOf({}, { random: () => 0.999 });
  const ask = (typeUrl: string, authority = 'c'): void => {
    const name = nameOf(`xdstp://${authority}/${typeUrl.split('/')[1]!}/a`);
    server.subscribe(typeUrl, name, ask, 0);
    server.takeEffects(0);
  };
  const end = (): void => {
    server.handleAttemptEvent(server.health.epoch, { kind: 'ended', end: endOf() }, 0);
  };
  ask(BAD);
  end();
  ask(BAD, 'other');
  t.equal(server.health.kind, 'waiting', 'the same type does wait');
  ask('type.googleapis.com/made.up.Other');
  t.equal(server.health.kind, 'connecting');
  end();
  ask('type.googleapis.com/made.up.Third');
  t.equal(server.health.kind, 'waiting', 'made-up types skip a backoff once in 5 s');
  server.handleTimer(1_000_000);
  server.takeEffects(0);
  end();
  ask(CDS);
  t.equal(server.health.kind, 'connecting', 'a known type skips it also then');
  const away = { kind: 'ended', end: endOf(STATUS_CODE.unavailable) } as const;
  server.handleAttemptEvent(server.health.epoch, away, 0);
  ask(CDS, 'other');
  t.equal(server.health.kind, 'waiting', 'but once: each name would dial the source');
  const gone = managementServerOf();
  gone.subscribe(CDS, nameOf(cds('a')), ask, 0);
  gone.takeEffects(0);
  const unreachable = { kind: 'ended', end: endOf(STATUS_CODE.unavailable) } as const;
  gone.handleAttemptEvent(gone.health.epoch, unreachable, 0);
  gone.subscribe(LDS, nameOf(lds('a')), ask, 0);
  t.equal(gone.health.kind, 'waiting', 'a source that is away has its backoff');
  t.end();
});

t.test('what a source answered is not doubted when it restarts', (t) => {
  const story = new Story().open(CDS, LDS);
  story.end(endOf(STATUS_CODE.unavailable));
  story.serves = [];
  story.open();
  t.strictSame(story.end(), { isExplained: false });
  t.strictSame(story.open().may(), [CDS, LDS]);
  t.end();
});

t.test('of types that nobody wants, 1,000 verdicts are remembered, and none is tried', (t) => {
  const story = new Story().open(CDS);
  const bad = (at: number): string => `${BAD}${at}`;
  for (let at = 0; at <= 1_001; at++) {
    story.wanted = [CDS, bad(at)];
    story.open();
    while (story.may().length < 2) story.after(100_000);
    story.end();
  }
  story.open(CDS);
  t.equal(story.trials.refusal(bad(0)), undefined, 'the oldest are forgotten');
  t.ok(story.trials.refusal(bad(1_001)));
  t.strictSame(story.after(0).may(), [CDS]);
  t.equal(story.trials.nextDeadlineMs, undefined);
  story.want(bad(1_001));
  t.ok(story.trials.nextDeadlineMs, 'and again for a client that wants one');
  t.end();
});

t.test('a client that invents thousands of types gets each of them tried alone', (t) => {
  const story = new Story().open(CDS).want(BAD);
  story.end();
  story.open(CDS, ...Array.from({ length: 3_000 }, (_, at) => `${BAD}${at}`));
  t.strictSame(story.may(), [CDS]);
  t.strictSame(story.after(10_000).may(), [CDS, `${BAD}0`]);
  story.end();
  t.strictSame(story.open().may(), [CDS]);
  t.end();
});

t.test(
  'a type that the source refuses for hours delays a new type by five minutes at most',
  (t) => {
    const story = new Story().open(CDS).want(BAD);
    story.end();
    story.open();
    for (let atMs = 0; atMs < 3 * 3_600_000; atMs += 10_000) {
      if (story.after(10_000).may().includes(BAD)) {
        story.end();
        story.open();
      }
    }
    story.serves = [CDS, SDS];
    story.want(SDS);
    const sinceMs = story.nowMs;
    while (!story.may().includes(SDS)) {
      if (story.after(1_000).may().includes(BAD)) {
        story.end();
        story.open();
      }
    }
    t.ok(story.nowMs - sinceMs <= 300_000, `${story.nowMs - sinceMs} ms`);
    t.end();
  },
);

t.test('a type that the source answered once is not doubted when its client comes back', (t) => {
  const story = new Story().open(CDS, LDS);
  story.open(CDS).want(BAD);
  story.end();
  t.strictSame(story.open(CDS, LDS, BAD).may(), [CDS, LDS]);
  t.end();
});

t.test('invented types wait for the trials of types that the gateway knows', (t) => {
  const story = new Story().open(CDS).want(BAD);
  story.end();
  story.serves = [CDS, SDS];
  const invented = Array.from({ length: 20 }, (_, at) => `${BAD}${at}`);
  story.open(CDS, ...invented, SDS);
  t.strictSame(story.after(10_000).may(), [CDS, SDS]);
  t.end();
});

t.test(
  'of types that the source answered, it trusts the known ones and 1,000 others at most',
  (t) => {
    const story = new Story().open(CDS);
    const invented = Array.from({ length: 1_100 }, (_, at) => `${BAD}${at}`);
    story.serves = [CDS, ...invented];
    for (const typeUrl of invented) story.want(typeUrl);
    story.open(CDS).want('type.googleapis.com/other.Type');
    story.end();
    story.open(CDS, ...invented);
    t.equal(story.may().length, 1_000, 'the oldest are new again');
    t.ok(story.may().includes(CDS));
    t.end();
  },
);

for (const apiType of ['AGGREGATED_DELTA_GRPC', 'AGGREGATED_GRPC'] as const) {
  t.test(
    `a stream that has requested 1,001 types which nobody wants any more is replaced (${apiType})`,
    (t) => {
      const server = managementServerOf({ apiType });
      const listener = { handleChange: () => undefined };
      const pump = () => server.takeEffects(nowMs);
      let nowMs = 0;
      server.subscribe(CDS, nameOf(cds('a')), listener, nowMs);
      pump();
      const bytes = encodeResponse({ typeUrl: CDS, nonce: '1' });
      server.handleMessage(server.health.epoch, bytes, nowMs);
      for (let at = 0; at <= 1_001; at++) {
        server.subscribe(`${BAD}${at}`, nameOf(cds('a')), listener, nowMs);
        pump();
        server.unsubscribe(`${BAD}${at}`, nameOf(cds('a')), listener, nowMs);
        pump();
      }
      nowMs += 10_000;
      server.handleTimer(nowMs);
      t.match(
        pump().filter(({ kind }) => kind === 'hang_up'),
        [{ reason: /types without subscriptions/ }],
      );
      t.equal(server.facts().wellSinceMs, 0, 'the source is well');
      t.end();
    },
  );
}

/**
 * Goal: a source gets each count once, at the interval that it asks for, over any number of broken streams;
 * a source without load reports is asked once.
 * Method: the machine of one source with a manual clock; the test is the transport.
 */
import fc from 'fast-check';
import t from 'tap';
import { ClientGauges } from '../../../../../authorities/core/load-reports/client-gauges.js';
import {
  SourceLoads,
  type LoadEffect,
} from '../../../../../authorities/core/load-reports/source-loads.js';
import type { StreamEnd } from '../../../../../authorities/core/sources/source-health.js';
import {
  decodeLoadStatsRequest,
  encodeLoadStatsResponse,
} from '../../../../../protos/load-stats-codec.js';
import type { ClusterLoad, LoadStatsResponse } from '../../../../../protos/load-stats.js';
import { encodeNode, hasClientFeature } from '../../../../../protos/node-codec.js';
import { clusterLoad, successfulIn } from '../../../../support/loads.js';

const UNAVAILABLE: StreamEnd = { code: 14, message: 'gone', detectedBy: 'stream' };
const UNIMPLEMENTED: StreamEnd = { code: 12, message: 'unknown service', detectedBy: 'stream' };
const ASK: LoadStatsResponse = { clusters: 'all', intervalMs: 10_000, byEndpoint: false };

/** The machine of one source, and the end of its calls. */
class Driver {
  nowMs = 1_000;
  readonly source = {
    id: 's',
    node: encodeNode({ id: 'n', cluster: '', userAgentName: '', userAgentVersion: '' }),
    health: { kind: 'live', epoch: 1 },
  };
  readonly loads = new SourceLoads(
    { source: this.source, maxEntries: 1_000, random: () => 0.5 },
    this.nowMs,
  );
  /** The number of the open call. */
  call: number | undefined;
  /** Messages that the test has not taken yet. */
  sent: Uint8Array[] = [];
  readonly kinds: string[] = [];
  readonly #gauges = new ClientGauges();

  update(hasClients: boolean): this {
    this.loads.update(hasClients, this.nowMs);
    return this.pump();
  }

  /** The xDS stream of the source goes up (with a new epoch) or down. */
  setLive(live: boolean): this {
    this.source.health = { kind: live ? 'live' : 'waiting', epoch: this.source.health.epoch + 1 };
    if (!live) {
      this.call = undefined;
      // What the connection has not taken is lost with it.
      this.sent = [];
    }
    return this.update(true);
  }

  add(successful: number, clusterName = 'c'): this {
    this.loads.add(clusterLoad(clusterName, [{ successful }]), this.#gauges);
    return this.pump();
  }

  ask(asked: Partial<LoadStatsResponse> = {}): this {
    const bytes = encodeLoadStatsResponse({ ...ASK, ...asked });
    this.loads.handleMessage(this.call ?? -1, bytes, this.nowMs);
    return this.pump();
  }

  end(end: StreamEnd = UNAVAILABLE): this {
    const { call } = this;
    this.call = undefined;
    this.sent = [];
    this.loads.handleEnded(call ?? -1, end, this.nowMs);
    return this.pump();
  }

  /** The transport takes all messages. @returns the reported clusters */
  take(): readonly ClusterLoad[] {
    const clusters: ClusterLoad[] = [];
    for (let bytes = this.sent.shift(); bytes; bytes = this.sent.shift()) {
      const decoded = decodeLoadStatsRequest(bytes, 1_000);
      if (!decoded.ok) throw new Error(decoded.reason);
      clusters.push(...decoded.message.clusters);
      this.loads.handleWritten(this.call ?? -1, this.nowMs);
      this.pump();
    }
    return clusters;
  }

  advance(ms: number): this {
    const untilMs = this.nowMs + ms;
    for (;;) {
      const dueMs = this.loads.nextDeadlineMs();
      if (dueMs === undefined || dueMs > untilMs) break;
      this.nowMs = Math.max(this.nowMs, dueMs);
      this.loads.handleTimer(this.nowMs);
      this.pump();
    }
    this.nowMs = untilMs;
    return this;
  }

  pump(): this {
    for (const effect of this.loads.takeEffects()) this.#perform(effect);
    return this;
  }

  #perform(effect: LoadEffect): void {
    this.kinds.push(effect.kind);
    if (effect.kind === 'open') {
      this.call = effect.call;
      this.sent = [];
    } else if (effect.kind === 'send') this.sent.push(effect.bytes);
    else if (effect.kind === 'end') this.call = undefined;
  }
}

t.test('the first request has the Node, with the feature for all clusters', (t) => {
  const driver = new Driver().update(true);
  const [first] = driver.sent;
  const decoded = decodeLoadStatsRequest(first ?? new Uint8Array(), 10);
  t.match(decoded, { ok: true, message: { clusters: [] } });
  const node = decoded.ok ? decoded.message.node : undefined;
  t.equal(hasClientFeature(node ?? new Uint8Array(), 'envoy.lrs.supports_send_all_clusters'), true);
  t.end();
});

t.test('a source is reported to at its interval, with the time that passed', (t) => {
  const driver = new Driver().update(true);
  driver.take();
  driver.advance(2_000).ask().add(1).advance(9_999);
  t.strictSame(driver.take(), []);
  driver.add(2).advance(1);
  t.match(driver.take(), [{ clusterName: 'c', intervalMs: 12_000 }]);
  driver.advance(10_000);
  t.equal(driver.kinds.filter((kind) => kind === 'reported').length, 2, 'also without loads');
  driver.ask({ intervalMs: 1 });
  driver.take();
  driver.add(1).advance(999);
  t.strictSame(driver.sent, [], 'not more often than once per second');
  driver.advance(1);
  t.equal(successfulIn(driver.take()), 1);
  t.end();
});

t.test('a stream is open while clients report or loads wait, and the source is live', (t) => {
  const driver = new Driver().pump();
  t.equal(driver.call, undefined, 'no client: no stream');
  driver.update(true);
  driver.take();
  driver.ask().add(5).update(false);
  t.not(driver.call, undefined, 'loads wait');
  driver.advance(10_000);
  t.equal(successfulIn(driver.take()), 5);
  t.equal(driver.call, undefined, 'nothing waits any more');
  driver.update(true).setLive(false);
  t.equal(driver.call, undefined);
  driver.advance(60_000);
  t.equal(driver.call, undefined, 'not without the xDS stream');
  driver.setLive(true);
  t.not(driver.call, undefined);
  t.end();
});

t.test('after UNIMPLEMENTED the source is not asked again until its xDS stream reconnects', (t) => {
  const driver = new Driver().update(true);
  driver.take();
  driver.add(1).end(UNIMPLEMENTED).add(1).update(true).advance(3_600_000);
  t.equal(driver.kinds.filter((kind) => kind === 'open').length, 1);
  t.equal(driver.loads.sums.isEmpty, true, 'its loads cost nothing');
  t.equal(driver.loads.nextDeadlineMs(), undefined);
  driver.setLive(false).setLive(true);
  t.not(driver.call, undefined);
  t.end();
});

t.test('other ends are retried with backoff, which a short stream does not reset', (t) => {
  const driver = new Driver().update(true);
  const delaysMs: number[] = [];
  for (let n = 0; n < 12; n++) {
    driver.take();
    const endedMs = driver.ask().end().nowMs;
    const dueMs = driver.loads.nextDeadlineMs() ?? 0;
    delaysMs.push(dueMs - endedMs);
    driver.advance(dueMs - endedMs);
  }
  t.equal(delaysMs[0], 1_000);
  t.ok((delaysMs[5] ?? 0) > (delaysMs[1] ?? 0));
  t.equal(delaysMs.at(-1), 15_500, 'at most 30 s, and half a second');
  driver.take();
  driver.ask().advance(10_000).end();
  t.equal((driver.loads.nextDeadlineMs() ?? 0) - driver.nowMs, 1_000);
  t.end();
});

t.test('reports that the transport did not take are sent on the next stream', (t) => {
  const driver = new Driver().update(true);
  driver.take();
  driver.ask().add(1).advance(10_000).add(2);
  t.equal(driver.sent.length, 1);
  driver.advance(60_000);
  t.equal(driver.sent.length, 1, 'a second report waits for the first');
  driver.end().advance(1_000);
  driver.take();
  driver.ask().advance(10_000);
  t.match(driver.take(), [{ intervalMs: 81_000, localities: [{ requests: { successful: 3 } }] }]);
  t.end();
});

t.test('what the source asked for outlives its stream', (t) => {
  const driver = new Driver().update(true);
  t.equal(driver.loads.awaitedUntilMs, driver.nowMs + 2_000, 'clients wait for the first response');
  driver.take();
  driver.ask({ clusters: ['c'] }).end();
  t.match(driver.loads.ask, { response: { clusters: ['c'] } });
  driver.add(1, 'other').add(1, 'c').advance(1_000);
  t.equal(driver.loads.awaitedUntilMs, undefined, 'clients know what it asks for');
  driver.take();
  driver.ask({ clusters: ['c', 'other'] }).advance(10_000);
  t.strictSame(
    driver.take().map(({ clusterName }) => clusterName),
    ['c'],
  );
  t.end();
});

t.test('a response that cannot be read ends the stream; the source is asked again later', (t) => {
  const driver = new Driver().update(true);
  driver.loads.handleMessage(driver.call ?? -1, Uint8Array.of(0xff), driver.nowMs);
  driver.pump();
  t.strictSame(driver.kinds.slice(-2), ['end', 'ended']);
  driver.advance(1_000);
  t.not(driver.call, undefined);
  t.end();
});

t.test('a source asks for loads from its first response to the end of the stream', (t) => {
  const driver = new Driver().update(true);
  t.equal(driver.loads.isAsking, false);
  driver.ask();
  t.equal(driver.loads.isAsking, true);
  driver.end();
  t.equal(driver.loads.isAsking, false, 'what it asked for stays known');
  t.match(driver.loads.ask, { response: ASK });
  t.end();
});

t.test('entries of clients above the bound are counted for telemetry', (t) => {
  const driver = new Driver();
  const loads = new SourceLoads(
    { source: driver.source, maxEntries: 2, random: () => 0 },
    driver.nowMs,
  );
  const zones = ['a', 'b', 'c'].map((zone) => ({ zone, successful: 1 }));
  loads.add(clusterLoad('c', zones), new ClientGauges());
  t.strictSame(loads.takeEffects(), [{ kind: 'refused', entries: 2 }]);
  t.end();
});

t.test(
  'when the gateway stops, a source gets the remaining loads at once, and its stream ends',
  (t) => {
    const driver = new Driver().update(true);
    driver.take();
    driver.ask().add(3).advance(5_000);
    driver.loads.finish(driver.nowMs);
    const effects = driver.loads.takeEffects();
    t.strictSame(
      effects.map(({ kind }) => kind),
      ['send', 'reported', 'end'],
    );
    const [sent] = effects.flatMap((effect) => (effect.kind === 'send' ? [effect.bytes] : []));
    const decoded = decodeLoadStatsRequest(sent ?? new Uint8Array(), 10);
    t.match(decoded, { ok: true, message: { clusters: [{ intervalMs: 5_000 }] } });
    t.equal(successfulIn(decoded.ok ? decoded.message.clusters : []), 3);
    driver.loads.finish(driver.nowMs);
    t.strictSame(driver.loads.takeEffects(), [], 'once');
    t.end();
  },
);

t.test('late events of a call that has ended change nothing', (t) => {
  const driver = new Driver().update(true);
  const call = driver.call ?? -1;
  driver.end();
  const { loads, nowMs } = driver;
  const retryAtMs = loads.nextDeadlineMs();
  loads.handleMessage(call, encodeLoadStatsResponse(ASK), nowMs);
  loads.handleWritten(call, nowMs);
  loads.handleEnded(call, UNIMPLEMENTED, nowMs);
  t.strictSame(loads.takeEffects(), []);
  t.equal(loads.nextDeadlineMs(), retryAtMs);
  t.end();
});

t.test('at the stop of the gateway a stream without a response ends without a report', (t) => {
  const driver = new Driver().update(true);
  driver.take();
  driver.add(1);
  driver.loads.finish(driver.nowMs);
  t.strictSame(driver.loads.takeEffects(), [{ kind: 'end', call: driver.call }]);
  t.end();
});

t.test('a large report is split into messages that a gRPC server accepts', (t) => {
  const driver = new Driver().update(true);
  driver.take();
  driver.ask();
  const name = 'c'.repeat(900);
  const loads = new SourceLoads(
    { source: driver.source, maxEntries: 100_000, random: () => 0 },
    driver.nowMs,
  );
  loads.update(true, driver.nowMs);
  loads.handleWritten(1, driver.nowMs);
  loads.handleMessage(1, encodeLoadStatsResponse(ASK), driver.nowMs);
  for (let n = 0; n < 5_000; n++) {
    loads.add(clusterLoad(`${name}${n}`, [{ successful: 1 }]), new ClientGauges());
  }
  loads.takeEffects();
  loads.handleTimer(driver.nowMs + 10_000);
  const sizes = loads
    .takeEffects()
    .flatMap((effect) => (effect.kind === 'send' ? [effect.bytes.length] : []));
  t.ok(sizes.length > 4);
  t.ok(sizes.every((size) => size <= 1_024 * 1_024));
  t.end();
});

t.test(
  'whatever breaks: each count that a client reported has reached the source or waits, and ' +
    'none counts twice',
  (t) => {
    const step = fc.oneof(
      {
        weight: 5,
        arbitrary: fc.record({ kind: fc.constant('add'), n: fc.integer({ min: 1, max: 9 }) }),
      },
      {
        weight: 4,
        arbitrary: fc.record({
          kind: fc.constant('advance'),
          n: fc.integer({ min: 1, max: 20_000 }),
        }),
      },
      { weight: 3, arbitrary: fc.constantFrom({ kind: 'take' }, { kind: 'ask' }) },
      { weight: 1, arbitrary: fc.constantFrom({ kind: 'end' }, { kind: 'down' }, { kind: 'up' }) },
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const driver = new Driver().update(true);
        let reported = 0;
        let received = 0;
        for (const { kind, ...rest } of steps as { kind: string; n?: number }[]) {
          const n = rest.n ?? 0;
          if (kind === 'add') {
            driver.add(n);
            reported += n;
          } else if (kind === 'advance') driver.advance(n);
          else if (kind === 'take') received += successfulIn(driver.take());
          else if (kind === 'ask') driver.ask();
          else if (kind === 'end') driver.end();
          else driver.setLive(kind === 'up');
        }
        // A quiet time at the end: everything arrives.
        driver.setLive(true);
        driver.take();
        driver.ask().advance(10_000);
        received += successfulIn(driver.take());
        return received === reported;
      }),
      { numRuns: 500 },
    );
    t.end();
  },
);

/**
 * Goal: no order of HTTP/2 frames ends the process, makes it loop, or costs another client anything
 * (docs/SECURITY.md, "Attacks").
 * Method: connections of random frames. Most of them are legal, since a connection ends at the first one that is not.
 * The output names the seed; `FRAMES_SEED=…` repeats its frames.
 */
import t from 'tap';
import fc from 'fast-check';
import { encodeRequest } from '../support/discovery-messages.js';
import {
  ADS_HEADERS,
  FLAG,
  frame,
  FRAME,
  headersFrame,
  HostileHttp2,
  resetFrame,
} from '../support/hostile-http2.js';
import { TYPE_URLS } from '../support/mesh.js';
import { pause } from '../support/until.js';
import { ATTACKED, noLongTurn, startArena, underAttack } from './arena.js';
import { grpcFrameOf } from './hostile-streams.js';

t.setTimeout(120_000);

const CONNECTIONS = 400;
const AT_A_TIME = 4;
/** For the server to answer between two writes. */
const MOST_PAUSE_MS = 15;
const PRIORITY = 2;

/** The streams of one connection. */
class Streams {
  #next = 1;
  #open: number[] = [];

  open(): number {
    this.#open.unshift(this.#next);
    this.#next += 2;
    return this.#next - 2;
  }

  /** @returns an open stream, or else a new one, whose frame breaks the rules */
  at(nth: number): number {
    return this.#open[nth % Math.max(1, this.#open.length)] ?? this.#next;
  }

  close(nth: number): number {
    const id = this.at(nth);
    this.#open = this.#open.filter((one) => one !== id);
    return id;
  }
}

type MakeFrame = (streams: Streams) => Buffer;

const PATHS = [
  '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources',
  '/envoy.service.cluster.v3.ClusterDiscoveryService/DeltaClusters',
  '/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats',
  '/grpc.health.v1.Health/Watch',
  '/grpc.health.v1.Health/Check',
  '/v3/discovery:clusters',
  '/unknown.Service/Method',
];
const pathOfAll = ADS_HEADERS.find(([name]) => name === ':path')?.[1] ?? '';
const headersFor = (path: string) =>
  ADS_HEADERS.map(([name, value]) => [name, name === ':path' ? path : value] as const);

const nth = fc.nat(12);
const path = fc.oneof({ weight: 3, arbitrary: fc.constant(pathOfAll) }, fc.constantFrom(...PATHS));
const opening = path.map(
  (of): MakeFrame =>
    (streams) =>
      headersFrame(streams.open(), headersFor(of)),
);
const message = fc.oneof(
  {
    weight: 6,
    arbitrary: fc
      .record({
        type_url: fc.constantFrom(TYPE_URLS.cluster, TYPE_URLS.listener, ''),
        resource_names_subscribe: fc.subarray(['*', 'web', `xdstp://${ATTACKED}/a/b`]),
        resource_names_unsubscribe: fc.subarray(['*', 'web']),
        response_nonce: fc.constantFrom('', '1', '2'),
      })
      .map((fields) => grpcFrameOf(encodeRequest({ node: { id: 'n' }, ...fields }))),
  },
  fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
);
const flags = fc.oneof({ weight: 20, arbitrary: fc.constant(0) }, fc.constant(FLAG.endStream));
const requesting = fc.tuple(nth, message, flags).map(
  ([at, bytes, flag]): MakeFrame =>
    (streams) =>
      frame(FRAME.data, flag, streams.at(at), bytes),
);
const resetting = nth.map(
  (at): MakeFrame =>
    (streams) =>
      resetFrame(streams.close(at)),
);
const uint32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};
const widening = fc.tuple(fc.boolean(), nth, fc.constantFrom(1, 100, 65_535)).map(
  ([ofAll, at, bytes]): MakeFrame =>
    (streams) =>
      frame(FRAME.windowUpdate, 0, ofAll ? 0 : streams.at(at), uint32(bytes)),
);
const controls: readonly MakeFrame[] = [
  () => frame(FRAME.settings, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0])),
  () => frame(FRAME.settings, 0, 0, Buffer.from([0, 4, 0, 0, 255, 255])),
  () => frame(FRAME.ping, 0, 0, Buffer.alloc(8)),
  (streams) => frame(PRIORITY, 0, streams.at(0), Buffer.from([0, 0, 0, 0, 16])),
];
const lastWords: readonly MakeFrame[] = [
  () => frame(FRAME.goAway, 0, 0, Buffer.alloc(8)),
  () => frame(FRAME.ping, FLAG.ack, 0, Buffer.alloc(8)),
  () => frame(FRAME.ping, 0, 0, Buffer.alloc(7)),
  () => frame(FRAME.windowUpdate, 0, 0, uint32(0)),
  (streams) => frame(FRAME.headers, FLAG.endHeaders, streams.at(0), Buffer.alloc(0)),
];
const aFrame: fc.Arbitrary<MakeFrame> = fc.oneof(
  { weight: 25, arbitrary: opening },
  { weight: 35, arbitrary: requesting },
  { weight: 25, arbitrary: resetting },
  { weight: 7, arbitrary: widening },
  { weight: 5, arbitrary: fc.constantFrom(...controls) },
  { weight: 1, arbitrary: fc.constantFrom(...lastWords) },
);
/** What comes last is read in one turn with what breaks the rules. */
const ending = fc.array(fc.oneof(fc.constantFrom(...lastWords), opening, requesting, resetting), {
  minLength: 4,
  maxLength: 16,
});
const connection = fc.record({
  windowBytes: fc.constantFrom(65_535, 65_535, 0, 1, 100),
  writes: fc.array(
    fc.record({
      frames: fc.array(aFrame, { minLength: 1, maxLength: 60 }),
      thenMs: fc.nat(MOST_PAUSE_MS),
    }),
    { minLength: 1, maxLength: 10 },
  ),
  ending,
});

t.test('400 connections of random frames end no more than themselves', async (t) => {
  const seed = Number(process.env['FRAMES_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
  const scripts = fc.sample(connection, { numRuns: CONNECTIONS, seed });
  const arena = await startArena(t);
  const play = async (): Promise<void> => {
    for (let script = scripts.pop(); script; script = scripts.pop()) {
      const hostile = await HostileHttp2.connect(arena.gateway.port);
      const streams = new Streams();
      hostile.greet(script.windowBytes);
      for (const { frames, thenMs } of script.writes) {
        hostile.send(...frames.map((make) => make(streams)));
        await pause(thenMs);
      }
      hostile.send(...script.ending.map((make) => make(streams)));
      await pause(MOST_PAUSE_MS);
      hostile.destroy();
    }
  };
  const figures = await underAttack(
    t,
    arena,
    `seed ${seed}: ${CONNECTIONS} connections of random frames`,
    () => Promise.all(Array.from({ length: AT_A_TIME }, play)),
  );
  noLongTurn(t, figures);
  t.ok(figures.peakRssMiB - figures.calmRssMiB <= 64, 'no more than 64 MiB for all of them');
});

/**
 * Goal: reports of loads keep no other client waiting, however long they are (docs/SECURITY.md, "Attacks").
 */
import t from 'tap';
import protobuf from 'protobufjs/minimal.js';
import { LOAD_STATS_PATH } from '../../protos/load-stats.js';
import { until } from '../support/until.js';
import { noLongTurn, startArena, underAttack } from './arena.js';
import { openStreams } from './hostile-streams.js';

t.setTimeout(90_000);

const REPORTS = 20;
const { Writer } = protobuf;

/** A `LoadStatsRequest` with loads of this many clusters, each in one locality. */
function reportOf(stream: number, clusters: number): Uint8Array {
  const writer = Writer.create();
  for (let at = 0; at < clusters; at++) {
    writer.uint32(0x12).fork();
    writer
      .uint32(0x0a)
      .string(`xdstp://none.example.com/envoy.config.cluster.v3.Cluster/${stream}/${at}`);
    writer.uint32(0x12).fork();
    writer.uint32(0x0a).fork().uint32(0x0a).string('region').ldelim();
    writer.uint32(0x10).uint64(5).ldelim();
    writer.ldelim();
  }
  return writer.finish();
}

t.test('20 reports with the loads of 9,900 clusters each, and 20 with too many', async (t) => {
  const arena = await startArena(t);
  const { gateway } = arena;
  const open = (count: number) => openStreams(t, gateway.port, count, '127.0.0.1', LOAD_STATS_PATH);
  const [streams, tooLong] = [await open(REPORTS), await open(REPORTS)];
  const figures = await underAttack(t, arena, '20 reports of 9,900 clusters', async () => {
    // A cluster and its locality are two of the 20,000 entries that a report may have.
    for (const [at, stream] of streams.entries()) void stream.write(reportOf(at, 9_900));
    for (const stream of tooLong) void stream.write(reportOf(0, 12_000));
    await until('all are read', async () => {
      return (await gateway.metric('tributary_load_reports_total')) >= REPORTS;
    });
    await until('the others are refused', () => tooLong.every(({ status }) => status === '8'));
  });
  noLongTurn(t, figures);
  t.ok(streams.every(({ status }) => status === undefined));
});

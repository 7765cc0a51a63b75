/**
 * Goal: large headers and streams that are reset at once cost the attacker its connection and no other
 * client anything (CVE-2023-44487; docs/SECURITY.md, "Attacks").
 */
import t from 'tap';
import {
  ADS_HEADERS,
  FLAG,
  frame,
  FRAME,
  headerBlock,
  headersFrame,
  HostileHttp2,
  resetFrame,
} from '../support/hostile-http2.js';
import { pause, until } from '../support/until.js';
import { noLongTurn, startArena, underAttack } from './arena.js';

t.setTimeout(60_000);

const MAX_FRAME_BYTES = 16_384;
const STREAMS_PER_CONNECTION = 100;
const CONNECTIONS = 32;

/** One stream's headers of 55 KB, as HEADERS and CONTINUATION frames. */
function bigHeaders(streamId: number): Buffer {
  const fields = Array.from({ length: 14 }, (_, at) => [`x${at}`, 'y'.repeat(4_000)] as const);
  const block = headerBlock([...ADS_HEADERS, ...fields]);
  const frames: Buffer[] = [];
  for (let at = 0; at < block.length; at += MAX_FRAME_BYTES) {
    const isLast = at + MAX_FRAME_BYTES >= block.length;
    const type = at === 0 ? FRAME.headers : FRAME.continuation;
    const part = block.subarray(at, at + MAX_FRAME_BYTES);
    frames.push(frame(type, isLast ? FLAG.endHeaders : 0, streamId, part));
  }
  return Buffer.concat(frames);
}

t.test(
  'headers of 55 KB × 3,200 streams are refused before they cost memory (RFC 9113, 10.5.1)',
  async (t) => {
    const arena = await startArena(t);
    const size = `${CONNECTIONS} connections × ${STREAMS_PER_CONNECTION} streams × 55 KB of headers`;
    const figures = await underAttack(t, arena, size, async () => {
      for (let at = 0; at < CONNECTIONS; at++) {
        const hostile = await HostileHttp2.connect(arena.gateway.port);
        t.teardown(() => {
          hostile.destroy();
        });
        hostile.greet();
        for (let stream = 0; stream < STREAMS_PER_CONNECTION; stream++) {
          hostile.send(bigHeaders(1 + 2 * stream));
        }
        const lastId = 2 * STREAMS_PER_CONNECTION - 1;
        await until(
          'the last stream is refused',
          () =>
            hostile.isClosed || hostile.of(lastId).some(({ type }) => type === FRAME.resetStream),
        );
      }
    });
    noLongTurn(t, figures);
    t.ok(figures.peakRssMiB - figures.calmRssMiB <= 64, 'no more than 64 MiB for all of them');
  },
);

t.test('rapid reset on 20 connections closes each of them (CVE-2023-44487)', async (t) => {
  const arena = await startArena(t);
  let isCutOff = false;
  const figures = await underAttack(t, arena, '20 connections × up to 20,000 resets', async () => {
    const attackers = await Promise.all(
      Array.from({ length: 20 }, () => HostileHttp2.connect(arena.gateway.port)),
    );
    for (const hostile of attackers) {
      t.teardown(() => {
        hostile.destroy();
      });
      hostile.greet();
    }
    for (let round = 0; round < 1_000 && attackers.some(({ isClosed }) => !isClosed); round++) {
      for (const hostile of attackers) {
        if (hostile.isClosed) continue;
        const ids = Array.from({ length: 20 }, (_, at) => 1 + 2 * (round * 20 + at));
        hostile.send(...ids.flatMap((id) => [headersFrame(id), resetFrame(id)]));
      }
      await pause(1);
    }
    isCutOff = attackers.every(({ isClosed }) => isClosed);
  });
  noLongTurn(t, figures);
  t.ok(isCutOff, 'all connections are closed');
});

/**
 * Goal: clients in sync, whose requests go before most other work, shut out nobody: neither a client that connects
 * meanwhile nor the connections that end (docs/SECURITY.md, "Storms").
 * Method: streams of one address that subscribe to names and unsubscribe from them without end, far below the request rate
 * of their peer, and newcomers from another address.
 */
import t from 'tap';
import { encodeDeltaRequest } from '../../protos/delta-codec.js';
import { assignmentBody } from '../interop/peers/siege.js';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import { until } from '../support/until.js';
import { ATTACKED, noLongTurn, startArena, underAttack } from './arena.js';
import { grpcFrameOf, openStreams, subscription } from './hostile-streams.js';

t.setTimeout(120_000);

const TYPE = TYPE_URLS.assignment;
const STREAMS = 120;
const NAMES = 90;
const NEWCOMERS = 5;
/** Before clients in sync left room to others, a newcomer waited for more than 20 s. */
const SERVED_WITHIN_MS = 5_000;
/** Another peer than the attackers. */
const ELSEWHERE = '127.0.0.2';
const WAIT = { timeoutMs: 30_000, everyMs: 50 };

t.test('clients in sync that request without end shut out no newcomer', async (t) => {
  const arena = await startArena(t);
  const { gateway, source } = arena;
  const one = xdstpName(ATTACKED, 'assignment', 'edge/one');
  source.putQuietly(TYPE, one, assignmentBody(one, 1));
  const first = grpcFrameOf(subscription(TYPE, [one]));
  // Each on a connection of its own: those that wait would use up the window of a common one.
  const opened = Array.from({ length: STREAMS }, () => openStreams(t, gateway.port, 1));
  const streams = (await Promise.all(opened)).flat();
  for (const stream of streams) stream.writeBytes(first);
  const areInSync = (): boolean => streams.every(({ receivedBytes }) => receivedBytes > 0);
  await until('they are in sync', areInSync, { timeoutMs: 20_000 });
  const names = Array.from({ length: NAMES }, (_, at) =>
    xdstpName(ATTACKED, 'assignment', `n/${at}`),
  );
  const both = encodeDeltaRequest({
    node: undefined,
    typeUrl: TYPE,
    subscribe: names,
    unsubscribe: names,
    initialVersions: new Map(),
    responseNonce: '',
    errorDetail: undefined,
  });
  let isOver = false;
  const request = async (stream: (typeof streams)[number]): Promise<void> => {
    while (!isOver && !stream.isClosed) await stream.write(both);
  };
  const waitsMs: number[] = [];
  const size = `${STREAMS} streams in sync × ${NAMES} names, again and again`;
  const figures = await underAttack(t, arena, size, async () => {
    const requests = streams.map(request);
    const count = async (): Promise<number> => gateway.metric('tributary_client_requests_total');
    const enough = (await count()) + 10 * STREAMS;
    await until('the attack is under way', async () => (await count()) > enough, WAIT);
    for (let newcomers = 0; newcomers < NEWCOMERS; newcomers++) {
      const beganMs = performance.now();
      const [newcomer] = await openStreams(t, gateway.port, 1, ELSEWHERE);
      newcomer?.writeBytes(first);
      const isServed = (): boolean => (newcomer?.receivedBytes ?? 0) > 0;
      await until('the newcomer is served', isServed, { timeoutMs: WAIT.timeoutMs });
      waitsMs.push(performance.now() - beganMs);
    }
    isOver = true;
    await Promise.all(requests);
  });
  t.comment(`newcomers waited ${waitsMs.map((ms) => ms.toFixed(0)).join(', ')} ms`);
  t.ok(Math.max(...waitsMs) <= SERVED_WITHIN_MS, 'every newcomer is served soon');
  noLongTurn(t, figures);
});

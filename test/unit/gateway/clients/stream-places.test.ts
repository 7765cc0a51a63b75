/** Goal: what a client opens beyond its limit in one read is refused, also if it resets each stream at once. */
import { createServer, type ServerHttp2Session } from 'node:http2';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { destroyAfterTurn } from '../../../../gateway/clients/session-end.js';
import {
  frame,
  FRAME,
  headersFrame,
  HostileHttp2,
  resetFrame,
} from '../../../support/hostile-http2.js';
import { until } from '../../../support/until.js';

const LIMIT = 10;

t.test('a stream that is destroyed after the turn keeps its place for the turn', async (t) => {
  const server = createServer({ settings: { maxConcurrentStreams: LIMIT } });
  t.teardown(() => server.close());
  server.on('sessionError', () => undefined);
  let isSettled = false;
  server.on('session', (session: ServerHttp2Session) => {
    session.on('error', () => undefined);
    session.on('localSettings', () => {
      isSettled = true;
    });
  });
  let opened = 0;
  server.on('stream', (stream) => {
    stream.on('error', () => undefined);
    opened++;
    destroyAfterTurn(stream);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = await HostileHttp2.connect((server.address() as AddressInfo).port);
  client.greet();
  await until('the limit is acknowledged', () => isSettled);
  const ids = Array.from({ length: 5 * LIMIT }, (_, at) => 1 + 2 * at);
  client.send(...ids.flatMap((id) => [headersFrame(id), resetFrame(id)]));
  client.send(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
  await until('all is read', () => client.frames.some(({ type }) => type === FRAME.ping));
  t.equal(opened, LIMIT, 'Node refuses the others');
  client.destroy();
});

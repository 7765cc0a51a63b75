/** Goal: the gateway learns of each stream while Node handles what it has read, and an idle session keeps no closed streams among V8's old objects. */
import {
  connect,
  createServer,
  type Http2Server,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { destroyAfterTurn, type Http2End } from '../../../../gateway/clients/session-end.js';
import { watchOpened } from '../../../../gateway/clients/session-streams.js';
import {
  frame,
  FRAME,
  headersFrame,
  HostileHttp2,
  resetFrame,
} from '../../../support/hostile-http2.js';
import { until } from '../../../support/until.js';

const LIMIT = 10;

async function listen(t: Test): Promise<{ server: Http2Server; port: number }> {
  const server = createServer({ settings: { maxConcurrentStreams: LIMIT } });
  t.teardown(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, port: (server.address() as AddressInfo).port };
}

t.test('each stream of a session is told, and ends with it', async (t) => {
  const { server, port } = await listen(t);
  const opened: Http2End[] = [];
  server.on('session', (session) => {
    t.ok(
      watchOpened(session, (stream) => opened.push(stream)),
      'this version of Node keeps the streams where the gateway looks',
    );
  });
  const client = connect(`http://127.0.0.1:${port}`);
  const request = async (): Promise<ServerHttp2Stream> => {
    const requested = client.request();
    requested.on('error', () => undefined);
    return ((await once(server, 'stream')) as [ServerHttp2Stream])[0];
  };
  const first = await request();
  const second = await request();
  t.same(opened, [first, second]);
  const firstClosed = once(first, 'close');
  first.close();
  await firstClosed;
  const secondClosed = once(second, 'close');
  second.session?.destroy();
  await secondClosed;
  client.destroy();
});

t.test('a stream that is destroyed after the turn keeps its place for the turn', async (t) => {
  const { server, port } = await listen(t);
  let opened = 0;
  const settled = new Promise<void>((resolve) => {
    server.on('session', (session) =>
      session.on('localSettings', () => {
        resolve();
      }),
    );
  });
  server.on('session', (session: ServerHttp2Session) => {
    session.on('error', () => undefined);
    watchOpened(session, (stream) => {
      opened++;
      destroyAfterTurn(stream);
    });
  });
  server.on('sessionError', () => undefined);
  server.on('stream', (stream) => stream.on('error', () => undefined));
  const client = await HostileHttp2.connect(port);
  client.greet();
  await settled;
  const ids = Array.from({ length: 5 * LIMIT }, (_, at) => 1 + 2 * at);
  client.send(...ids.flatMap((id) => [headersFrame(id), resetFrame(id)]));
  client.send(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
  await until('all is read', () => client.frames.some(({ type }) => type === FRAME.ping));
  t.equal(opened, LIMIT, 'Node refuses the others');
  client.destroy();
});

t.test('an object that keeps its streams elsewhere stays as it is', (t) => {
  t.notOk(watchOpened({}, () => undefined));
  t.end();
});

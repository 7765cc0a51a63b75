/** Goal: a session that was idle keeps no closed streams among the old objects of V8. */
import { connect, createServer, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { renewStreams } from '../../../../gateway/clients/session-streams.js';

t.test('a session of this Node gets a new Map, and its streams still end with it', async (t) => {
  const server = createServer();
  t.teardown(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = connect(`http://127.0.0.1:${port}`);
  const request = client.request();
  request.on('error', () => undefined);
  const [session] = (await once(server, 'session')) as [ServerHttp2Session];
  const [stream] = (await once(session, 'stream')) as [ServerHttp2Stream];
  t.ok(renewStreams(session), 'this version of Node keeps the streams where the gateway looks');
  t.ok(renewStreams(session), 'again');
  const closed = once(stream, 'close');
  session.destroy();
  await closed;
  client.destroy();
});

t.test('an object that keeps its streams elsewhere stays as it is', (t) => {
  t.notOk(renewStreams({}));
  t.end();
});

/** Goal: Node's parser of HTTP/1.1 stops at what is not wanted, and loses nothing of what is. Method: real sockets. */
import { createServer } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { boundRequests } from '../../../../gateway/clients/request-parser.js';

const CHUNK = '1\r\nx\r\n';
const HEAD = 'POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n';

/** @returns what the server answered, and the parts of bodies that it looked at */
async function post(t: Test, request: string, mostParts: number) {
  const seen = { parts: 0, isPaused: false };
  const server = createServer((request, response) => {
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (seen.isPaused) return;
      // Backpressure in the middle of what was read.
      seen.isPaused = true;
      request.pause();
      setImmediate(() => request.resume());
    });
    request.on('end', () => response.end(String(bytes)));
  });
  server.on('connection', (socket) => {
    socket.on('error', () => undefined);
    boundRequests(socket, { mayTake: () => true, isDribble: () => ++seen.parts > mostParts });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const answers: string[] = [];
  socket.on('error', () => undefined);
  socket.on('data', (bytes) => answers.push(bytes.toString()));
  socket.write(request);
  await new Promise((resolve) => socket.once('close', resolve));
  return { answer: answers.join(''), ...seen };
}

t.test('bodies in chunks, and requests one after the other, arrive whole', async (t) => {
  const body = `${CHUNK.repeat(5_000)}0\r\n\r\n`;
  const last = `${HEAD}connection: close\r\n\r\n${body}`;
  const { answer, parts } = await post(t, `${HEAD}\r\n${body}${last}`, Infinity);
  t.equal(answer.split('\r\n\r\n5000').length, 3, 'two answers');
  t.equal(parts, 10_000);
});

t.test('the parser stops soon after the part that closes the connection', async (t) => {
  const { answer, parts } = await post(t, `${HEAD}\r\n${CHUNK.repeat(9_000)}`, 500);
  t.equal(answer, '');
  t.ok(parts < 700, `${parts} parts of 9,000`);
});

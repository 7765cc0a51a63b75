/**
 * Goal: `tributary demo` shows a failover and a return without a failed request, and leaves nothing behind.
 * Method: the built program as a user runs it, with shorter times. test/interop/demo.test.ts adds Envoy.
 */
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import t from 'tap';
import { holdPort } from '../../gateway/demo/demo-server.js';
import { showsRound, startDemo } from '../support/demo.js';
import { runCommand } from '../support/program.js';

t.setTimeout(90_000);

t.test(
  'README: the demo shows a kill, the failover and the return, and no request fails',
  async (t) => {
    t.match(
      await showsRound(t, startDemo(t, ['--rounds', '1'])),
      'no envoy on PATH: a small client',
    );
  },
);

t.test('README: Ctrl-C ends the demo while a control plane is down', async (t) => {
  const { child, lines, scratch } = startDemo(t, ['--no-envoy']);
  const exit = once(child, 'exit');
  let last = '';
  for await (const line of lines) {
    last = line;
    if (line.includes('KILL')) child.kill('SIGINT');
  }
  t.match(last, /end: 1 kills, [1-9]\d* requests, 0 failed/);
  t.same(await exit, [0, null]);
  t.same(readdirSync(scratch), [], 'no file is left');
});

t.test('no other server gets the port of the Envoy of the demo before Envoy starts', async (t) => {
  const listen = (port: number): Promise<Server> =>
    new Promise((resolve, reject) => {
      const server = createServer().once('error', reject);
      server.listen(port, '127.0.0.1', () => {
        resolve(server);
      });
    });
  const held = await holdPort();
  await t.rejects(listen(held.port), { code: 'EADDRINUSE' });
  await held.release();
  (await listen(held.port)).close();
});

t.test('a wrong time or count of the demo is refused with the allowed values', async (t) => {
  const told = async (...flags: readonly string[]): Promise<string> => {
    const { code, stderr } = await runCommand(['demo', ...flags]);
    t.equal(code, 2);
    return stderr;
  };
  t.match(await told('--kill-every', '4s'), '--kill-every "4s" is not a duration of 5s or more');
  t.match(await told('--rounds', '0'), '--rounds "0" is not a number of 1 or more');
});

/**
 * Goal: JSON of clients that poll by REST keeps no other client waiting, and what they do not read costs bounded
 * memory (docs/SECURITY.md, "Quotas").
 */
import { connect } from 'node:net';
import t, { type Test } from 'tap';
import { DeltaClient } from '../support/delta-client.js';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import { ScriptedRest } from '../support/scripted-rest.js';
import { until } from '../support/until.js';
import { ATTACKED, isAtMost, noLongTurn, startArena, underAttack, type Arena } from './arena.js';
import { assignmentBody, assignmentJson, MANY_ENDPOINTS } from './assignment-json.js';

t.setTimeout(90_000);

const TYPE = TYPE_URLS.assignment;
const POLLS = 100;
const REQUESTS = 30;

/** Sends one request over HTTP/1.1 on a connection of its own, and reads nothing but the head of the response. */
function poll(t: Test, port: number, json: unknown): { readonly head: string } {
  const result = { head: '' };
  const socket = connect(port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  socket.on('error', () => undefined);
  socket.on('data', (chunk: Buffer) => {
    result.head += chunk.toString('latin1', 0, 100);
    socket.pause();
  });
  const body = JSON.stringify(json);
  const head = ['POST /v3/discovery:endpoints HTTP/1.1', 'host: gateway'];
  head.push('content-type: application/json', `content-length: ${body.length}`);
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
  return result;
}

t.test('100 polls of 2,000 resources each, all of them different and unread', async (t) => {
  const arena = await startArena(t, { args: ['--max-buffered', '16MiB'] });
  const { gateway, source } = arena;
  const names = Array.from({ length: 2_000 }, (_, at) =>
    xdstpName(ATTACKED, 'assignment', `edge/${at}`),
  );
  const extra = Array.from({ length: POLLS }, (_, at) =>
    xdstpName(ATTACKED, 'assignment', `extra/${at}`),
  );
  for (const name of [...names, ...extra])
    source.putQuietly(TYPE, name, assignmentBody(name, 80, 32));
  const glob = xdstpName(ATTACKED, 'assignment', 'edge/*');
  const figures = await underAttack(t, arena, '100 polls of 5.6 MB of JSON, unread', async () => {
    const polls = extra.map((name, at) =>
      poll(t, gateway.port, { node: { id: `n${at}` }, resourceNames: [glob, name] }),
    );
    await until('all are answered', () => polls.every(({ head }) => head !== ''), {
      timeoutMs: 30_000,
    });
    const statuses = polls.map(({ head }) => head.slice(9, 12));
    t.ok(statuses.includes('200'), 'some got the content');
    t.ok(
      statuses.every((status) => status === '200' || status === '429'),
      `the others shall come again: ${statuses.join(' ')}`,
    );
  });
  noLongTurn(t, figures);
  // Most of it is garbage of the JSON that was written, which V8 collects late in some runs.
  isAtMost(t, figures, 192);
});

t.test('30 requests with a million values', async (t) => {
  const arena = await startArena(t);
  const { gateway } = arena;
  const metadata = { list: Array.from({ length: 500_000 }, () => 1) };
  const figures = await underAttack(t, arena, '30 JSON requests of 1 MB', async () => {
    const polls = Array.from({ length: REQUESTS }, () =>
      poll(t, gateway.port, { node: { metadata } }),
    );
    await until('all are refused', () => polls.every(({ head }) => head.includes(' 400 ')), {
      timeoutMs: 30_000,
    });
  });
  noLongTurn(t, figures);
});

/** @param rest the source of this authority, polled every 200 ms */
function startRestArena(t: Test, rest: ScriptedRest, authority: string): Promise<Arena> {
  const target = `127.0.0.1:${rest.port}`;
  const source = { target, insecure: true, api_type: 'REST', refresh_delay: '200ms' };
  return startArena(t, {
    sources: { rest: source },
    authorities: { [authority]: { sources: ['rest'] } },
  });
}

t.test('a REST source with 4,000 resources, which all change ten times', async (t) => {
  const rest = await ScriptedRest.start();
  t.teardown(() => rest.stop());
  const authority = 'rest.example.com';
  const names = Array.from({ length: 4_000 }, (_, at) =>
    xdstpName(authority, 'assignment', `edge/${at}`),
  );
  const publish = (version: number): void => {
    const resources = names.map((name) => assignmentJson(name, 8_000 + version, 32));
    rest.set('endpoints', String(version), resources);
  };
  publish(0);
  const arena = await startRestArena(t, rest, authority);
  const client = new DeltaClient({ port: arena.gateway.port });
  t.teardown(() => {
    client.close();
  });
  const figures = await underAttack(t, arena, '10 × 11 MB of JSON from a source', async () => {
    client.subscribe(TYPE, names);
    for (let version = 1; version <= 10; version++) {
      const before = new Map(client.held(TYPE));
      publish(version);
      await until(
        `change ${version} of all`,
        () => names.every((name) => client.held(TYPE).get(name) !== before.get(name)),
        { timeoutMs: 30_000, everyMs: 100 },
      );
    }
  });
  noLongTurn(t, figures);
});

t.test(
  'a REST source changes one resource of 2.8 MB of JSON, which clients poll by REST',
  async (t) => {
    const rest = await ScriptedRest.start();
    t.teardown(() => rest.stop());
    const authority = 'rest.example.com';
    const name = xdstpName(authority, 'assignment', 'edge/large');
    const publish = (version: number): void => {
      rest.set('endpoints', String(version), [
        assignmentJson(name, 8_000 + version, MANY_ENDPOINTS),
      ]);
    };
    publish(0);
    const arena = await startRestArena(t, rest, authority);
    const { gateway } = arena;
    const get = async (): Promise<string> => {
      const url = `http://127.0.0.1:${gateway.port}/v3/discovery:endpoints`;
      const body = JSON.stringify({ resourceNames: [name] });
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
      });
      t.equal(response.status, 200);
      return response.text();
    };
    const figures = await underAttack(t, arena, '5 changes of 2.8 MB of JSON', async () => {
      for (let version = 1; version <= 5; version++) {
        publish(version);
        const deadlineMs = performance.now() + 20_000;
        while (!(await get()).includes(`"portValue":${8_000 + version}`)) {
          if (performance.now() > deadlineMs) throw new Error(`change ${version} does not come`);
        }
      }
    });
    noLongTurn(t, figures);
  },
);

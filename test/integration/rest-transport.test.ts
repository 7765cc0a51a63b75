/**
 * Goal: a poll reaches only configured peers, is bounded in time and size, and each failure is told
 * apart (docs/SPEC.md, "Sources").
 * Method: real sockets on loopback, a scripted HTTP server, one attempt at a time.
 */
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { NO_IDENTITY } from '../../authorities/core/sources/client-identity.js';
import { sourceTransport } from '../../authorities/source-transport.js';
import type { StreamEnd } from '../../authorities/core/sources/source-health.js';
import type { Attempt } from '../../authorities/transport.js';
import { DEFAULT_PROTOCOL, DEFAULT_TIMERS } from '../../config/defaults.js';
import type { ClientTlsSpec, GrpcSourceSpec } from '../../config/model.js';
import { decodeSotwResponse, encodeSotwRequest } from '../../protos/sotw-codec.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { createCertificateAuthority, opensslMissing } from '../support/certificates.js';
import { watchTimers } from '../support/live-timers.js';
import { ScriptedRest } from '../support/scripted-rest.js';
import { until } from '../support/until.js';

const CDS = TYPE_URL.cluster;
const EDS = TYPE_URL.clusterLoadAssignment;
const REST = { refreshDelayMs: 20, requestTimeoutMs: 5_000 };
const cluster = (name: string) => ({ '@type': CDS, name });

interface Dialled {
  readonly attempt: Attempt;
  /** Versions and names of the responses, `alive`, and types that are not served. */
  readonly events: readonly string[];
  readonly end: Promise<StreamEnd>;
  readonly ask: (typeUrl: string, names: readonly string[], version?: string) => void;
}

function dial(t: Test, spec: GrpcSourceSpec): Dialled {
  const events: string[] = [];
  let settle: (end: StreamEnd) => void = () => undefined;
  const end = new Promise<StreamEnd>((resolve) => (settle = resolve));
  const attempt = sourceTransport.dial(spec, NO_IDENTITY, {
    onMessage: (bytes) => {
      const read = decodeSotwResponse(bytes, 100);
      if (!read.ok) throw new Error(read.reason);
      const { versionInfo, resources } = read.message;
      events.push([versionInfo, ...resources.map(({ name }) => name)].join(' '));
    },
    onBlocked: () => undefined,
    onWritable: () => undefined,
    onAlive: () => events.push('alive'),
    onTypeUnserved: (typeUrl) => events.push(`unserved ${typeUrl}`),
    onEnd: settle,
  });
  t.teardown(() => {
    attempt.cancel();
  });
  const ask = (typeUrl: string, names: readonly string[], versionInfo = ''): void => {
    const parts = { typeUrl, names, versionInfo, responseNonce: '', errorDetail: undefined };
    attempt.send({ typeUrl, bytes: encodeSotwRequest({ ...parts, node: undefined }) });
  };
  return { attempt, events, end, ask };
}

function sourceAt(target: number | string, change: Partial<GrpcSourceSpec> = {}): GrpcSourceSpec {
  return {
    kind: 'grpc',
    name: 'cloud',
    ...DEFAULT_PROTOCOL,
    apiType: 'REST',
    rest: REST,
    target: typeof target === 'number' ? `127.0.0.1:${target}` : target,
    tls: null,
    initialMetadata: [],
    channelArgs: {},
    maxReceiveBytes: 100_000,
    timers: DEFAULT_TIMERS,
    ...change,
  };
}

async function startRest(t: Test, ...args: Parameters<typeof ScriptedRest.start>) {
  const server = await ScriptedRest.start(...args);
  t.teardown(() => server.stop());
  return server;
}

t.test(
  'polls have the version in the request and in If-None-Match, and a 304 is life',
  async (t) => {
    const server = await startRest(t);
    server.set('clusters', '7', [cluster('a')]);
    const { events, ask } = dial(t, sourceAt(server.port));
    ask(CDS, []);
    await until('the first response', () => events[0]);
    ask(CDS, [], '7');
    const polled = await server.answered(({ status }) => status === 304);
    t.match(polled, {
      path: '/v3/discovery:clusters',
      headers: { 'if-none-match': '"7"', 'content-type': 'application/json' },
      json: { version_info: '7', type_url: CDS },
    });
    await until('the next event', () => events[1]);
    t.strictSame(events.slice(0, 2), ['7 a', 'alive']);
    server.set('clusters', '8', [cluster('b')]);
    await until('the change', () => events.includes('8 b'));
  },
);

t.test('a type that the server lacks does not end the polls of the others', async (t) => {
  const server = await startRest(t);
  server.set('clusters', '1', []);
  const { events, ask } = dial(t, sourceAt(server.port));
  ask(CDS, []);
  ask(EDS, ['a']);
  await until('both answers', () => events.length > 1);
  t.strictSame([...events].slice(0, 2).sort(), ['1', `unserved ${EDS}`]);
});

t.test('headers, the authority and secrets go with each poll', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'tributary-rest-'));
  t.teardown(() => rm(directory, { recursive: true }));
  const server = await startRest(t);
  server.set('clusters', '1', []);
  const valueFile = join(directory, 'token');
  const spec = sourceAt(server.port, {
    initialMetadata: [
      { key: 'authorization', valueFile },
      { key: 'x-team', value: 'edge' },
    ],
    channelArgs: { 'grpc.default_authority': 'cp.example.com' },
  });
  await writeFile(valueFile, 'one\n');
  dial(t, spec).ask(CDS, []);
  const { headers } = await server.answered(() => true);
  t.match(headers, { authorization: 'one', 'x-team': 'edge', host: 'cp.example.com' });
  await writeFile(valueFile, 'se\ncret');
  const { message } = await dial(t, spec).end;
  t.match(message, /"authorization"/);
  t.notMatch(message, /cret/, 'no error contains a secret (invariant 13)');
  await rm(valueFile);
  t.match(await dial(t, spec).end, { code: 14, message: /cannot be read: there is no such file/ });
});

t.test('each failure of a poll ends the attempt once, with its code', async (t) => {
  const server = await startRest(t);
  const failures: readonly [string, ScriptedRest['script'], Partial<StreamEnd>][] = [
    ['401', (_, to) => !!to.writeHead(401).end('who'), { code: 16, message: 'HTTP 401: who' }],
    ['403', (_, to) => !!to.writeHead(403).end(), { code: 7 }],
    ['404', (_, to) => !!to.writeHead(404).end(), { code: 12 }],
    ['503', (_, to) => !!to.writeHead(503).end(), { code: 14, detectedBy: 'stream' }],
    ['not JSON', (_, to) => !!to.end('<html>'), { code: 13, detectedBy: 'stream' }],
    ['oversize', (_, to) => !!to.end(' '.repeat(100_001)), { code: 8, detectedBy: 'oversize' }],
    ['silence', () => true, { code: 4, detectedBy: 'probe' }],
    ['half a body', (_, to) => to.writeHead(200).write('{'), { code: 4, detectedBy: 'probe' }],
    ['a cut', (_, to) => to.destroy().destroyed, { code: 14, detectedBy: 'stream' }],
  ];
  const rest = { ...REST, requestTimeoutMs: 300 };
  for (const [title, script, end] of failures) {
    server.script = script;
    const { ask, end: ended } = dial(t, sourceAt(server.port, { rest }));
    ask(CDS, []);
    t.match(await ended, end, title);
  }
  await server.stop();
  const { ask, end } = dial(t, sourceAt(server.port));
  ask(CDS, []);
  t.match(await end, { code: 14, message: /ECONNREFUSED/, detectedBy: 'stream' });
  t.match(await dial(t, sourceAt('xds:///x')).end, { code: 14, message: /no address/ });
});

t.test('a server that has closed an idle connection gets the poll on a new one', async (t) => {
  const bodies: string[] = [];
  const response = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}';
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    let count = 0;
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      if (!chunk.includes('{')) return;
      bodies.push(chunk.toString());
      // The second poll on a connection meets its end.
      if (++count === 1) socket.write(response);
      else socket.resetAndDestroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { events, ask } = dial(t, sourceAt((server.address() as AddressInfo).port));
  ask(CDS, []);
  await until('three polls', () => events.length >= 3);
  t.ok(connections >= 3, 'each poll after the first began on a connection that ended');
});

t.test('the addresses of a target are tried in order', async (t) => {
  const closed = await ScriptedRest.start();
  await closed.stop();
  const server = await startRest(t);
  server.set('clusters', '1', []);
  server.set('endpoints', '1', []);
  const target = `ipv4:127.0.0.1:${closed.port},127.0.0.1:${server.port}`;
  const { events, ask } = dial(t, sourceAt(target));
  ask(CDS, []);
  ask(EDS, ['a']);
  await until('both responses', () => events.length >= 2);
  t.equal(events[0], '1');
});

t.test('a target may be a socket in the file system', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'tributary-rest-'));
  t.teardown(() => rm(directory, { recursive: true }));
  const path = join(directory, 'xds.sock');
  const server = await startRest(t, path);
  server.set('clusters', '1', [cluster('a')]);
  const { events, ask } = dial(t, sourceAt(`unix://${path}`));
  ask(CDS, []);
  t.equal(await until('the response', () => events[0]), '1 a');
});

t.test('a cancelled attempt leaves no timer and calls no handler', async (t) => {
  const server = await startRest(t);
  server.set('clusters', '1', []);
  server.script = ({ path }) => path.endsWith('endpoints');
  const running = watchTimers();
  const rest = { ...REST, refreshDelayMs: 600_000 };
  const { attempt, events, ask } = dial(t, sourceAt(server.port, { rest }));
  ask(CDS, []);
  await until('the answer', () => events[0]);
  ask(EDS, ['a']);
  await until('a poll without an answer', () => server.of('endpoints')[0]);
  attempt.cancel();
  await until('no timer', () => ![...running.byPlace().keys()].some((at) => /rest-/.test(at)));
  running.stop();
  ask(CDS, ['x']);
  t.strictSame(events, ['1']);
});

t.test('TLS', { skip: await opensslMissing() }, async (t) => {
  const ca = await createCertificateAuthority();
  const stranger = await createCertificateAuthority('another CA');
  t.teardown(() => Promise.all([ca.remove(), stranger.remove()]));
  const pair = await ca.issue({
    ...{ name: 'server', ipAddresses: ['127.0.0.1'] },
    ...{ uris: ['spiffe://example.com/xds'], dnsNames: ['xds.example.com'] },
  });
  const client = await ca.issue({ name: 'client', uris: ['spiffe://example.com/gateway'] });
  const server = await startRest(t, undefined, {
    ca: await readFile(ca.ca),
    key: await readFile(pair.key),
    cert: await readFile(pair.cert),
    requestCert: true,
    rejectUnauthorized: true,
  });
  server.set('clusters', '1', [cluster('a')]);
  const good: ClientTlsSpec = {
    rootCertsFile: ca.ca,
    certChainFile: client.cert,
    privateKeyFile: client.key,
    requiredSans: [],
  };
  const cases: readonly [string, ClientTlsSpec | null, boolean][] = [
    ['the CA and a client certificate', good, true],
    ['a required URI SAN', { ...good, requiredSans: ['spiffe://example.com/xds'] }, true],
    ['a name to verify', { ...good, serverName: 'xds.example.com' }, true],
    ['an address to verify', { ...good, serverName: '127.0.0.1' }, true],
    ['a required SAN that the server lacks', { ...good, requiredSans: ['spiffe://other'] }, false],
    ['a wrong name to verify', { ...good, serverName: 'other.example.com' }, false],
    ['a wrong address to verify', { ...good, serverName: '127.0.0.2' }, false],
    ['a CA that did not sign the server', { ...good, rootCertsFile: stranger.ca }, false],
    ['no client certificate', { rootCertsFile: ca.ca, requiredSans: [] }, false],
    ['plaintext to a TLS port', null, false],
  ];
  for (const [title, tls, accepted] of cases) {
    const { attempt, events, end, ask } = dial(t, sourceAt(server.port, { tls }));
    ask(CDS, []);
    const came = await Promise.race([end, until('a response', () => events[0])]);
    if (accepted) t.equal(came, '1 a', `${title}: served`);
    else t.match(came, { code: 14 }, `${title}: no byte of configuration is accepted`);
    attempt.cancel();
  }
});

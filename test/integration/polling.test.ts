/**
 * Goal: clients that poll (Fetch over gRPC, REST over HTTP/1.1 and HTTP/2, with and without TLS) get
 * what streams get, cost a bounded amount, and cannot harm others.
 * Method: a gateway in this process with a directory as its source, and real sockets.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { Agent, request as startRequest, type IncomingMessage } from 'node:http';
import { connect as connectHttp2, type ClientHttp2Session } from 'node:http2';
import { request as startTlsRequest } from 'node:https';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import * as grpc from '@grpc/grpc-js';
import t, { type Test } from 'tap';
import { encodeNode } from '../../protos/node-codec.js';
import { STATUS_CODE } from '../../protos/discovery.js';
import { DISCOVERY_SERVICES } from '../../protos/discovery-services.js';
import { createCertificateAuthority, opensslMissing } from '../support/certificates.js';
import {
  decodeSotwResponse,
  encodeSotwRequest,
  type SotwResponse,
} from '../support/discovery-messages.js';
import { startDirectoryGateway, type DirectoryGateway } from '../support/directory-gateway.js';
import { httpJson, httpRequest } from '../support/http.js';
import { CDS, EDS, cds, eds } from '../support/mesh-names.js';
import { SotwClient } from '../support/sotw-client.js';
import { until } from '../support/until.js';

t.setTimeout(120_000);

const authority = 'cloud.test';
const cluster = (id: string): string => cds(id, authority);
const NODE = { id: 'n', cluster: 'c' };
const PATH = '/v3/discovery:clusters';

interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string;
}

interface Response {
  readonly versionInfo: string;
  readonly resources?: readonly { readonly name: string }[];
}

/** Posts JSON to a REST path. */
type Post = (path: string, json: unknown, headers?: Record<string, string>) => Promise<Reply>;

function collect(response: IncomingMessage): Promise<Reply> {
  return new Promise((resolve, reject) => {
    let body = '';
    response.on('data', (chunk: Buffer) => (body += chunk.toString()));
    response.on('error', reject);
    response.on('end', () => {
      resolve({ status: response.statusCode ?? 0, headers: response.headers, body });
    });
  });
}

const textOf = (json: unknown): string => (typeof json === 'string' ? json : JSON.stringify(json));

const overHttp1 =
  (port: number, agent: Agent | false = false, method = 'POST'): Post =>
  (path, json, headers = {}) =>
    new Promise((resolve, reject) => {
      const type = { 'content-type': 'application/json' };
      const options = { port, path, method, agent, headers: { ...type, ...headers } };
      const request = startRequest({ host: '127.0.0.1', ...options }, (response) => {
        collect(response).then(resolve, reject);
      });
      request.on('error', reject);
      request.end(textOf(json));
    });

const overHttp2 =
  (session: ClientHttp2Session, method = 'POST'): Post =>
  (path, json, headers = {}) =>
    new Promise((resolve, reject) => {
      const type = { 'content-type': 'application/json' };
      const stream = session.request({ ':method': method, ':path': path, ...type, ...headers });
      let got: Readonly<Record<string, unknown>> = {};
      let body = '';
      stream.on('response', (response) => (got = response));
      stream.on('data', (chunk: Buffer) => (body += chunk.toString()));
      stream.on('error', reject);
      stream.on('end', () => {
        resolve({ status: Number(got[':status']), headers: got, body });
      });
      stream.end(method === 'POST' ? textOf(json) : undefined);
    });

function http2To(t: Test, port: number): ClientHttp2Session {
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  t.teardown(() => {
    session.destroy();
  });
  return session;
}

const read = ({ body }: Reply): Response => JSON.parse(body) as Response;
const namesIn = (reply: Reply): readonly string[] =>
  (read(reply).resources ?? []).map(({ name }) => name).sort();

const putCluster = ({ put }: Pick<DirectoryGateway, 'put'>, id: string, seconds = 1): void => {
  put(id, { '@type': CDS, name: cluster(id), connect_timeout: `${seconds}s` });
};

/** A gateway with the clusters `a` and `b`. */
const startGateway = (t: Test, ...argv: readonly string[]): Promise<DirectoryGateway> =>
  startDirectoryGateway(t, {
    argv,
    fill: (gateway) => {
      for (const id of ['a', 'b']) putCluster(gateway, id);
    },
  });

/** Polls until the reply is as wanted; a poll is not a wait, since it is answered at once. */
const pollUntil = (what: string, poll: () => Promise<Reply>, isIt: (reply: Reply) => boolean) =>
  until(what, async () => {
    const reply = await poll();
    return isIt(reply) && reply;
  });

for (const [name, posting] of [
  ['HTTP/1.1', (_t: Test, port: number) => overHttp1(port)],
  ['HTTP/2', (t: Test, port: number) => overHttp2(http2To(t, port))],
] as const) {
  t.test(
    `REST over ${name}: content, 304 without a change, a change and a deletion (xDS protocol, "REST-JSON polling subscriptions")`,
    async (t) => {
      const gateway = await startGateway(t);
      const post = posting(t, gateway.port);
      const resourceNames = [cluster('a'), cluster('b')];
      const poll = (versionInfo: string): Promise<Reply> =>
        post(PATH, { node: NODE, resourceNames, versionInfo });

      const first = await poll('');
      t.match(first, { status: 200, headers: { 'content-type': 'application/json' } });
      t.strictSame(namesIn(first), resourceNames);
      const { versionInfo } = read(first);
      t.match(await poll(versionInfo), { status: 304, body: '' });

      putCluster(gateway, 'a', 7);
      const changed = await pollUntil('a changed', () => poll(versionInfo), isContent);
      t.match(changed.body, '"connectTimeout":"7s"');
      t.strictSame(namesIn(changed), resourceNames, 'clusters come with the whole set');

      gateway.remove('b');
      const version = read(changed).versionInfo;
      const removed = await pollUntil('b is gone', () => poll(version), isContent);
      t.strictSame(namesIn(removed), [cluster('a')]);
      t.strictSame(namesIn(await poll('')), [cluster('a')], 'a client that starts anew');
    },
  );
}

const isContent = ({ status }: Reply): boolean => status === 200;

t.test('every type has its REST path, and the wildcard of clusters works by REST', async (t) => {
  const { port } = await startDirectoryGateway(t, {
    fill: ({ put }) => {
      put('old', { '@type': CDS, name: 'old', connect_timeout: '1s' });
    },
  });
  const post = overHttp1(port);
  t.strictSame(namesIn(await post(PATH, { node: NODE })), ['old']);
  for (const { restPath, typeUrl, shortName } of DISCOVERY_SERVICES) {
    if (restPath === undefined || shortName === 'CDS') continue;
    const reply = await post(restPath, { node: NODE, resourceNames: ['none'] });
    t.match(reply, { status: 200, body: `"typeUrl":"${typeUrl ?? ''}"` }, shortName);
  }
});

t.test(
  'a type of another service is 400 over REST, and INVALID_ARGUMENT over gRPC; an empty one is that of the method',
  async (t) => {
    const { port } = await startGateway(t);
    const post = overHttp1(port);
    const wrong = await post(PATH, { node: NODE, typeUrl: EDS, resourceNames: [eds('x')] });
    t.match(wrong, { status: 400, body: `this method serves ${CDS}, not ${EDS}` });
    t.match(await post(PATH, { typeUrl: CDS, resourceNames: [cluster('a')] }), { status: 200 });
    const fetch = fetcher(t, port);
    t.match(await fetch({ type_url: EDS, resource_names: [eds('x')] }), {
      code: STATUS_CODE.invalidArgument,
    });
  },
);

/** A `FetchClusters` client: the response, or the status. */
function fetcher(t: Test, port: number) {
  const asBuffer = (bytes: Buffer): Buffer => bytes;
  const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
  t.teardown(() => {
    client.close();
  });
  const path = '/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters';
  return (fields: Readonly<Record<string, unknown>>, deadlineMs = 20_000) =>
    new Promise<SotwResponse | grpc.ServiceError>((resolve) => {
      const bytes = Buffer.from(encodeSotwRequest(fields));
      const deadline = Date.now() + deadlineMs;
      client.makeUnaryRequest(
        path,
        asBuffer,
        asBuffer,
        bytes,
        { deadline },
        (error, response?: Buffer) => {
          resolve(error ?? decodeSotwResponse(response ?? Buffer.alloc(0)));
        },
      );
    });
}

t.test(
  'Fetch over gRPC answers one request; FAILED_PRECONDITION says that nothing changed',
  async (t) => {
    const gateway = await startGateway(t);
    const fetch = fetcher(t, gateway.port);
    const resource_names = [cluster('a'), cluster('b')];
    const first = (await fetch({ resource_names })) as SotwResponse;
    t.match(first, { typeUrl: CDS, resources: [{ typeUrl: CDS }, { typeUrl: CDS }] });
    const held = { resource_names, version_info: first.versionInfo };
    t.match(await fetch(held), { code: STATUS_CODE.failedPrecondition });
    t.match(await fetch({ resource_names }), { resources: { length: 2 } }, 'without a version');
    putCluster(gateway, 'a', 7);
    await until('the change comes', async () => 'resources' in (await fetch(held)));
  },
);

t.test('a client that moves from a stream to REST gives its version and gets 304', async (t) => {
  const { port } = await startGateway(t);
  const resourceNames = [cluster('a')];
  const node = encodeNode({ ...NODE, userAgentName: 't', userAgentVersion: '1' });
  const stream = new SotwClient({ port, node });
  t.teardown(() => {
    stream.close();
  });
  stream.subscribe(CDS, resourceNames);
  const { versionInfo } = await until('it is answered', () => stream.responses[0]);
  t.match(await overHttp1(port)(PATH, { node: NODE, resourceNames, versionInfo }), { status: 304 });
});

t.test(
  'unknown content is 503 to a client without a version, and 304 to one with a version, in bounded time (invariant 19)',
  async (t) => {
    const { port } = await startDirectoryGateway(t, {
      argv: ['--poll-wait', '200ms'],
      // Nothing listens there.
      sources: { files: { target: '127.0.0.1:1', insecure: true } },
    });
    const post = overHttp1(port);
    const resourceNames = [cluster('a')];
    const cold = await post(PATH, { node: NODE, resourceNames });
    t.match(cold, { status: 503, headers: { 'retry-after': '1' }, body: 'does not know' });
    const held = await post(PATH, { node: NODE, resourceNames, versionInfo: 'x.7' });
    t.equal(held.status, 304);
    t.match(await fetcher(t, port)({ resource_names: resourceNames }), {
      code: STATUS_CODE.unavailable,
    });
  },
);

interface ClientRow {
  readonly protocol: string;
  readonly names: number;
  readonly node: { readonly id: string };
}

const clientsOf = async ({ admin }: DirectoryGateway): Promise<readonly ClientRow[]> =>
  ((await httpJson(`http://${admin}/clients`)) as { readonly clients: readonly ClientRow[] })
    .clients;

t.test('between polls the names stay subscribed, until the lease ends', async (t) => {
  const argv = ['--poll-lease', '1s', '--unsubscribed-linger', '0s'];
  const gateway = await startGateway(t, ...argv);
  const post = overHttp1(gateway.port);
  const resourceNames = [cluster('a')];
  for (let poll = 0; poll < 3; poll++) await post(PATH, { node: NODE, resourceNames });
  t.match(await clientsOf(gateway), [{ protocol: 'poll', names: 1, node: { id: 'n' } }]);
  t.equal((await clientsOf(gateway)).length, 1, 'one client, however often it polls');
  t.equal(gateway.gateway.cache.nameCount, 1);
  const metrics = async () => (await httpRequest(`http://${gateway.admin}/metrics`)).body;
  t.match(await metrics(), /^tributary_polling_clients 1$/m);
  t.match(await metrics(), /^tributary_clients 0$/m, 'it is not a stream');
  await until('the lease ends', async () => (await clientsOf(gateway)).length === 0);
  await until('and the name is unsubscribed', () => gateway.gateway.cache.nameCount === 0);
  t.match(await metrics(), /^tributary_polling_clients 0$/m);
});

t.test(
  'clients that poll count as clients, idle ones give way, and a client keeps as many names as a stream may have',
  async (t) => {
    const gateway = await startGateway(t, '--max-clients', '3', '--max-names-per-client', '3');
    const post = overHttp1(gateway.port);
    const names = (...ids: readonly string[]) => ids.map(cluster);
    for (const id of ['one', 'two', 'three', 'four']) {
      const node = { id, cluster: 'c' };
      t.match(await post(PATH, { node, resourceNames: names('a') }), { status: 200 });
    }
    t.strictSame(
      (await clientsOf(gateway)).map(({ node }) => node.id),
      ['two', 'three', 'four'],
      'the one that was idle for the longest time gave way',
    );
    await post(PATH, { node: { id: 'four', cluster: 'c' }, resourceNames: names('a', 'b') });
    await post(PATH, { node: { id: 'four', cluster: 'c' }, resourceNames: names('b', 'a') });
    const four = (await clientsOf(gateway)).filter(({ node }) => node.id === 'four');
    t.ok(four.reduce((sum, one) => sum + one.names, 0) <= 3, 'at most 3 names');
    const many = await post(PATH, { node: NODE, resourceNames: names('a', 'b', 'c', 'd') });
    t.match(many, { status: 429, body: 'more than 3 names' });

    const streams = ['x', 'y', 'z'].map(() => {
      const stream = new SotwClient({ port: gateway.port });
      t.teardown(() => {
        stream.close();
      });
      stream.subscribe(CDS, names('a'));
      return stream;
    });
    await until('streams push out idle clients', () => {
      return streams.every(({ responses }) => responses.length === 1);
    });
    const refused = await post(PATH, { node: NODE, resourceNames: names('a') });
    t.match(refused, { status: 429, body: /all streams are taken/ });
  },
);

t.test(
  'polls beyond the rate of their peer are refused, and say when to come again (docs/SECURITY.md, "Quotas")',
  async (t) => {
    const { port } = await startGateway(t, '--peer-requests-per-second', '1');
    const post = overHttp1(port);
    const poll = (): Promise<Reply> => post(PATH, { node: NODE, resourceNames: [cluster('a')] });
    const refused = await pollUntil('REST is refused', poll, ({ status }) => status !== 200);
    t.match(refused, { status: 429, body: 'peer_requests_per_second' });
    t.match(refused.headers['retry-after'], /^[12]$/);
    const fetched = await fetcher(t, port)({ resource_names: [cluster('a')] });
    t.match(fetched, { code: STATUS_CODE.resourceExhausted });
    const { metadata } = fetched as grpc.ServiceError;
    const [details] = metadata.get('grpc-status-details-bin');
    t.match(String(details), 'google.rpc.RetryInfo');
    await pollUntil('its time comes', poll, isContent);
  },
);

t.test(
  'clients with the same id but another Node are apart: old-style names of one do not reach the other (invariant 21)',
  async (t) => {
    const gateway = await startDirectoryGateway(t, {
      fill: ({ put }) => {
        put('old', { '@type': CDS, name: 'old', connect_timeout: '1s' });
      },
    });
    const post = overHttp1(gateway.port);
    for (const zone of ['x', 'y']) {
      const node = { id: 'n', cluster: zone };
      t.strictSame(namesIn(await post(PATH, { node, resourceNames: ['old'] })), ['old']);
    }
    const groups = ((await clientsOf(gateway)) as readonly { nodeGroup?: string }[]).map(
      ({ nodeGroup }) => nodeGroup,
    );
    t.equal(new Set(groups).size, 2, 'each has its own node group');
  },
);

for (const [name, posting] of [
  ['HTTP/1.1', (_t: Test, port: number, method?: string) => overHttp1(port, false, method)],
  ['HTTP/2', (t: Test, port: number, method?: string) => overHttp2(http2To(t, port), method)],
] as const) {
  t.test(`${name}: a request that is not REST is refused, and the gateway goes on`, async (t) => {
    const { port } = await startGateway(t, '--max-request', '1KiB');
    const post = posting(t, port);
    t.match(await post(PATH, '{'), { status: 400, body: 'not a DiscoveryRequest' });
    t.match(await post(PATH, '[]'), { status: 400 });
    t.match(await post(PATH, ''), { status: 400 });
    t.match(await post(PATH, { node: { id: 7 } }), { status: 400 });
    t.match(await post(PATH, {}, { 'content-type': 'text/plain' }), { status: 415 });
    t.match(await post(PATH, JSON.stringify('x'.repeat(2_000))), { status: 413 });
    t.match(await posting(t, port, 'GET')(PATH, ''), { status: 405, headers: { allow: 'POST' } });
    t.match(await post(PATH, { resourceNames: [cluster('a')] }), { status: 200 });
  });
}

t.test('another path is 404 over HTTP/1.1', async (t) => {
  const { port } = await startGateway(t);
  t.match(await overHttp1(port)('/v2/discovery:clusters', {}), { status: 404 });
});

/** A plain socket, and everything that it received. */
function openSocket(t: Test, port: number) {
  const socket: Socket = connect(port, '127.0.0.1');
  let text = '';
  let isClosed = false;
  socket.on('data', (chunk: Buffer) => (text += chunk.toString()));
  socket.on('error', () => undefined);
  socket.on('close', () => (isClosed = true));
  t.teardown(() => {
    socket.destroy();
  });
  return {
    socket,
    get text() {
      return text;
    },
    get isClosed() {
      return isClosed;
    },
  };
}

const head = (length: number | string, more = ''): string =>
  `POST ${PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${more}` +
  (typeof length === 'number' ? `Content-Length: ${length}\r\n\r\n` : `${length}\r\n\r\n`);

t.test('a body that is announced as too large is refused before it is read', async (t) => {
  const { port } = await startGateway(t);
  const client = openSocket(t, port);
  client.socket.write(head(1_000_000_000));
  await until('it is refused and closed', () => client.isClosed);
  t.match(client.text, /^HTTP\/1\.1 413 /);
});

t.test('a chunked body that grows too large is refused', async (t) => {
  const { port } = await startGateway(t, '--max-request', '1KiB');
  const client = openSocket(t, port);
  client.socket.write(head('Transfer-Encoding: chunked'));
  client.socket.write(`800\r\n${'x'.repeat(0x800)}\r\n`);
  await until('it is refused', () => client.text.startsWith('HTTP/1.1 413 '));
  await until('and closed', () => client.isClosed);
});

t.test(
  'a connection that is silent, or slow to send a head, a body or the HTTP/2 preface, is closed after 10 s (docs/SECURITY.md)',
  async (t) => {
    const { port } = await startGateway(t);
    const began = performance.now();
    const parts = ['', `POST ${PATH} HTTP/1.1\r\nHost:`, `${head(100)}{`, 'PR'];
    const clients = parts.map((part) => {
      const client = openSocket(t, port);
      client.socket.write(part);
      return client;
    });
    for (const client of clients) {
      await until('it is closed', () => client.isClosed);
      t.ok(performance.now() - began > 9_000, 'not before');
      t.equal(client.text, '');
    }
  },
);

t.test('a client that pipelines many requests loses its connection, others do not', async (t) => {
  const { port, gateway } = await startGateway(t);
  const client = openSocket(t, port);
  const body = JSON.stringify({ node: NODE, resourceNames: [cluster('a')] });
  client.socket.write(`${head(body.length)}${body}`.repeat(1_000));
  await until('it is closed', () => client.isClosed);
  t.ok(gateway.server.polling.length <= 2, 'without a session for each');
  t.match(await overHttp1(port)(PATH, { resourceNames: [cluster('a')] }), { status: 200 });
});

for (const [what, method] of [
  ['a pipelined request', 'POST'],
  ['a request after the last response', 'GET'],
] as const) {
  t.test(`the parser stops at ${what}: Node keeps some KB for each that it has read`, async (t) => {
    let parsed = 0;
    const count = (): void => {
      parsed++;
    };
    subscribe('http.server.request.start', count);
    t.teardown(() => unsubscribe('http.server.request.start', count));
    const { port } = await startGateway(t);
    const client = openSocket(t, port);
    const body = JSON.stringify({ node: NODE, resourceNames: [cluster('a')] });
    const request = `${head(body.length)}${body}`.replace('POST', method);
    client.socket.write(request.repeat(1_000));
    await until('it is closed', () => client.isClosed);
    t.equal(parsed, 1);
  });
}

t.test('one kept HTTP/1.1 connection serves many polls', async (t) => {
  const { port } = await startGateway(t);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.teardown(() => {
    agent.destroy();
  });
  const post = overHttp1(port, agent);
  for (let poll = 0; poll < 20; poll++) {
    t.match(await post(PATH, { node: NODE, resourceNames: [cluster('a')] }), { status: 200 });
  }
  t.equal(Object.values(agent.freeSockets).flat().length, 1);
});

t.test(
  'a client that leaves before its response costs nothing, and gets it next time',
  async (t) => {
    const gateway = await startDirectoryGateway(t, { argv: ['--poll-wait', '60s'] });
    const body = JSON.stringify({ node: NODE, resourceNames: ['later'] });
    const client = openSocket(t, gateway.port);
    client.socket.write(`${head(body.length)}${body}`);
    await until('the poll waits', () => gateway.gateway.server.polling.length === 1);
    client.socket.destroy();
    gateway.put('later', { '@type': CDS, name: 'later', connect_timeout: '1s' });
    const post = overHttp1(gateway.port);
    const reply = await pollUntil(
      'it is there',
      () => post(PATH, { node: NODE, resourceNames: ['later'] }),
      (one) => one.status === 200 && namesIn(one).length === 1,
    );
    t.strictSame(namesIn(reply), ['later']);
    t.equal(gateway.gateway.server.polling.length, 1);
  },
);

t.test(
  'a gateway that stops ends waiting polls with 503 and idle connections at once',
  async (t) => {
    const gateway = await startDirectoryGateway(t, {
      argv: ['--poll-wait', '60s', '--drain-grace', '20s'],
      sources: { files: { target: '127.0.0.1:1', insecure: true } },
    });
    const agent = new Agent({ keepAlive: true });
    t.teardown(() => {
      agent.destroy();
    });
    const idle = openSocket(t, gateway.port);
    idle.socket.write(`${head(1)}{`);
    await until('it was answered', () => idle.text.startsWith('HTTP/1.1 400 '));
    const waiting = overHttp1(gateway.port, agent)(PATH, { resourceNames: [cluster('a')] });
    await until('the poll waits', () => gateway.gateway.server.polling.length === 1);
    const began = performance.now();
    const stopping = gateway.gateway.stop();
    t.match(await waiting, {
      status: 503,
      headers: { connection: 'close' },
      body: 'shutting down',
    });
    await stopping;
    t.ok(performance.now() - began < 10_000, 'it did not wait for the grace time');
    await until('the idle connection is closed', () => idle.isClosed);
  },
);

const skip = await opensslMissing();

t.test(
  'TLS works with either ALPN protocol, and both protocols work without ALPN',
  { skip },
  async (t) => {
    const ca = await createCertificateAuthority();
    t.teardown(() => ca.remove());
    const server = await ca.issue({ name: 'server', ipAddresses: ['127.0.0.1'] });
    const tls = ['--client-tls-cert', server.cert, '--client-tls-key', server.key];
    const { port } = await startGateway(t, ...tls);
    const trusted = readFileSync(ca.ca);
    const body = JSON.stringify({ resourceNames: [cluster('a')] });
    const overTls1 = (ALPNProtocols: string[] | undefined): Promise<Reply> =>
      new Promise((resolve, reject) => {
        const options = { host: '127.0.0.1', port, path: PATH, method: 'POST', ca: trusted };
        const headers = { 'content-type': 'application/json' };
        const request = startTlsRequest(
          { ...options, headers, agent: false, ...(ALPNProtocols && { ALPNProtocols }) },
          (response) => {
            collect(response).then(resolve, reject);
          },
        );
        request.on('error', reject);
        request.end(body);
      });
    t.match(await overTls1(['http/1.1']), { status: 200 });
    t.match(await overTls1(undefined), { status: 200 });
    const session = connectHttp2(`https://127.0.0.1:${port}`, { ca: trusted });
    t.teardown(() => {
      session.destroy();
    });
    t.match(await overHttp2(session)(PATH, body), { status: 200 });
    const withoutAlpn = connectHttp2(`https://127.0.0.1:${port}`, {
      createConnection: () => connectTls({ host: '127.0.0.1', port, ca: trusted }),
    });
    t.teardown(() => {
      withoutAlpn.destroy();
    });
    t.match(await overHttp2(withoutAlpn)(PATH, body), { status: 200 });
  },
);

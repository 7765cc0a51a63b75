/**
 * Goal: the transport to management servers accepts only configured peers, distinguishes each kind
 * of stream end, and detects a dead peer by the probe.
 * Method: real sockets on loopback, certificates made for the test, one attempt at a time.
 */
import { readFile, writeFile, mkdtemp, rm } from 'node:fs/promises';
import { once } from 'node:events';
import { constants, createSecureServer, type ServerHttp2Stream } from 'node:http2';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { setImmediate as turn } from 'node:timers/promises';
import * as grpc from '@grpc/grpc-js';
import t, { type Test } from 'tap';
import { grpcTransport } from '../../authorities/grpc-transport.js';
import type { StreamEnd } from '../../authorities/core/sources/source-health.js';
import type { Attempt } from '../../authorities/transport.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { DEFAULT_PROTOCOL, DEFAULT_TIMERS } from '../../config/defaults.js';
import type { ClientTlsSpec, GrpcSourceSpec } from '../../config/model.js';
import { createCertificateAuthority, opensslMissing } from '../support/certificates.js';
import { grpcFrame, startHttp2Source } from '../support/dialled-source.js';
import { startFaultProxy } from '../interop/peers/fault-proxy.js';
import { watchTimers } from '../support/live-timers.js';
import { startRawServer } from '../support/raw-server.js';
import { pause, until } from '../support/until.js';
import { NO_IDENTITY } from '../../authorities/core/sources/client-identity.js';

interface Outcome {
  readonly attempt: Attempt;
  /** The first message, or the end of the stream. */
  readonly first: Promise<Buffer | StreamEnd>;
  readonly end: Promise<StreamEnd>;
  /** The first type that the server does not serve. */
  readonly unserved: Promise<string>;
}

/** @param request sent once the source is connected */
function dial(t: Test, spec: GrpcSourceSpec, request?: Uint8Array): Outcome {
  let settleFirst: (value: Buffer | StreamEnd) => void = () => undefined;
  let settleEnd: (value: StreamEnd) => void = () => undefined;
  const first = new Promise<Buffer | StreamEnd>((resolve) => (settleFirst = resolve));
  const end = new Promise<StreamEnd>((resolve) => (settleEnd = resolve));
  let settleUnserved: (typeUrl: string) => void = () => undefined;
  const unserved = new Promise<string>((resolve) => (settleUnserved = resolve));
  const attempt = grpcTransport.dial(spec, NO_IDENTITY, {
    onMessage: (bytes) => {
      settleFirst(Buffer.from(bytes));
    },
    onBlocked: () => undefined,
    onWritable: () => {
      if (request) attempt.send({ typeUrl: '', bytes: request });
    },
    onAlive: () => undefined,
    onTypeUnserved: (typeUrl) => {
      settleUnserved(typeUrl);
    },
    onEnd: (reason) => {
      settleFirst(reason);
      settleEnd(reason);
    },
  });
  t.teardown(() => {
    attempt.cancel();
  });
  return { attempt, first, end, unserved };
}

function sourceAt(port: number, change: Partial<GrpcSourceSpec> = {}): GrpcSourceSpec {
  return {
    kind: 'grpc',
    name: 'cloud',
    ...DEFAULT_PROTOCOL,
    target: `127.0.0.1:${port}`,
    tls: null,
    initialMetadata: [],
    channelArgs: {},
    maxReceiveBytes: 1_024,
    timers: DEFAULT_TIMERS,
    ...change,
  };
}

/** A source that opens each stream and sends nothing. */
async function silentSource(
  t: Test,
): Promise<{ readonly source: GrpcSourceSpec; readonly streams: readonly ServerHttp2Stream[] }> {
  const streams: ServerHttp2Stream[] = [];
  const port = await startHttp2Source(t, (stream) => {
    stream.resume();
    streams.push(stream);
  });
  return { source: sourceAt(port), streams };
}

t.test('bytes pass unchanged both ways, and a clean end is reported once', async (t) => {
  const server = await startRawServer(grpc.ServerCredentials.createInsecure(), (call, request) => {
    call.write(Buffer.concat([Buffer.from('>'), request]));
    call.end();
  });
  t.teardown(server.stop);
  const { first, end } = dial(t, sourceAt(server.port), Buffer.from([0, 1, 255]));
  t.same(await first, Buffer.from([62, 0, 1, 255]));
  t.match(await end, { code: 0, detectedBy: 'stream' });
});

t.test('an HTTP proxy of the environment leads to the source (docs/DEPLOY.md)', async (t) => {
  const server = await startRawServer(grpc.ServerCredentials.createInsecure(), (call) => {
    call.write(Buffer.from('source'));
  });
  t.teardown(server.stop);
  const proxy = await startConnectProxy(t);
  process.env['https_proxy'] = `http://127.0.0.1:${proxy.port}`;
  t.teardown(() => {
    delete process.env['https_proxy'];
    delete process.env['no_proxy'];
  });
  const source = sourceAt(server.port);
  t.same(await dial(t, source, Buffer.from('x')).first, Buffer.from('source'));
  t.strictSame(proxy.targets, [source.target]);
  process.env['no_proxy'] = 'example.com,127.0.0.0/8';
  const exempt = { ...source, name: 'exempt' };
  t.same(await dial(t, exempt, Buffer.from('x')).first, Buffer.from('source'));
  t.equal(proxy.targets.length, 1);
});

/** An HTTP proxy that connects to whatever its clients name. */
async function startConnectProxy(t: Test) {
  const targets: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    socket.once('data', (head: Buffer) => {
      const [, host = '', port = ''] = /^CONNECT (.*):(\d+) /.exec(head.toString()) ?? [];
      targets.push(`${host}:${port}`);
      const onward = connect(Number(port), host, () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        socket.pipe(onward).pipe(socket);
      });
      for (const one of [socket, onward]) {
        sockets.add(one);
        one.on('error', () => undefined);
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, targets };
}

t.test(
  'a refused connection and a status of the server are failed attempts with their code',
  async (t) => {
    const server = await startRawServer(grpc.ServerCredentials.createInsecure(), (call) => {
      call.emit('error', { code: grpc.status.UNAUTHENTICATED, details: 'who are you' });
    });
    const { end } = dial(t, sourceAt(server.port), Buffer.from('x'));
    t.match(await end, { code: 16, message: 'who are you', detectedBy: 'stream' });
    server.stop();
    t.match(await dial(t, sourceAt(server.port)).end, { code: 14, detectedBy: 'stream' });
  },
);

t.test(
  'a message over the limit of the source is reported as oversize, not as a failure of the server',
  async (t) => {
    const server = await startRawServer(grpc.ServerCredentials.createInsecure(), (call) => {
      call.write(Buffer.alloc(2_000));
    });
    t.teardown(server.stop);
    const { end } = dial(t, sourceAt(server.port), Buffer.from('x'));
    t.match(await end, { code: 8, detectedBy: 'oversize' });
  },
);

t.test(
  'UNIMPLEMENTED ends the stream of one type if it sent nothing, and else the whole attempt',
  async (t) => {
    const server = await startRawServer(
      grpc.ServerCredentials.createInsecure(),
      (call, request) => {
        if (String(request) === 'answer') call.write(request);
        else call.emit('error', { code: grpc.status.UNIMPLEMENTED, details: 'no more' });
      },
      [
        '/envoy.service.cluster.v3.ClusterDiscoveryService/DeltaClusters',
        '/envoy.service.endpoint.v3.EndpointDiscoveryService/DeltaEndpoints',
      ],
    );
    t.teardown(server.stop);
    const { attempt, first, end, unserved } = dial(
      t,
      sourceAt(server.port, { apiType: 'DELTA_GRPC' }),
    );
    attempt.send({ typeUrl: TYPE_URL.cluster, bytes: Buffer.from('answer') });
    await first;
    attempt.send({ typeUrl: TYPE_URL.clusterLoadAssignment, bytes: Buffer.from('fail') });
    t.equal(await unserved, TYPE_URL.clusterLoadAssignment);
    attempt.send({ typeUrl: TYPE_URL.clusterLoadAssignment, bytes: Buffer.from('ignored') });
    const other = dial(t, sourceAt(server.port, { apiType: 'DELTA_GRPC' }));
    other.attempt.send({ typeUrl: TYPE_URL.clusterLoadAssignment, bytes: Buffer.from('answer') });
    await other.first;
    other.attempt.send({ typeUrl: TYPE_URL.cluster, bytes: Buffer.from('answer') });
    other.attempt.send({ typeUrl: TYPE_URL.clusterLoadAssignment, bytes: Buffer.from('fail') });
    t.match(await other.end, { code: 12, message: 'no more', detectedBy: 'stream' });
    attempt.send({ typeUrl: TYPE_URL.cluster, bytes: Buffer.from('fail') });
    t.match(await end, { code: 12 }, 'no type is served any more');
  },
);

t.test('secrets of initial metadata are read from their file at each connect', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'tributary-metadata-'));
  t.teardown(() => rm(directory, { recursive: true }));
  const file = join(directory, 'token');
  const server = await startRawServer(grpc.ServerCredentials.createInsecure(), (call) => {
    call.write(Buffer.from(String(call.metadata.get('authorization')[0])));
  });
  t.teardown(server.stop);
  const spec = sourceAt(server.port, {
    initialMetadata: [{ key: 'authorization', valueFile: file }],
  });
  for (const token of ['one', 'two']) {
    await writeFile(file, `${token}\n`);
    const { first } = dial(t, spec, Buffer.from('x'));
    t.same(await first, Buffer.from(token));
  }
  await writeFile(file, 'se\ncret');
  const { message } = await dial(t, spec).end;
  t.match(message, /"authorization"/);
  t.notMatch(message, /cret/, 'no error contains a secret (invariant 13)');
  await rm(file);
  t.match(
    await dial(t, spec).end,
    { code: 14, message: /cannot be read: there is no such file/ },
    'unreadable: a failed attempt',
  );
});

t.test('an attempt that is cancelled at once leaves nothing behind', async (t) => {
  const server = await startRawServer(grpc.ServerCredentials.createInsecure(), (call) => {
    call.write(Buffer.from('up'));
  });
  t.teardown(server.stop);
  const proxy = await startFaultProxy(server.port);
  t.teardown(() => proxy.stop());
  const running = watchTimers();
  const timers = { ...DEFAULT_TIMERS, backoffBaseMs: 50 };
  dial(t, sourceAt(proxy.port, { timers })).attempt.cancel();
  // Only now would the channel get its address.
  await turn();
  await turn();
  await until('it no longer tries', () => running.byPlace().size === 0, {
    timeoutMs: 2_000,
  }).finally(() => {
    running.stop();
  });
  t.equal(proxy.connections(), 0);
});

t.test(
  'an attempt that was refused does not connect later, when it is no longer wanted',
  async (t) => {
    const server = await startRawServer(grpc.ServerCredentials.createInsecure());
    t.teardown(server.stop);
    const proxy = await startFaultProxy(server.port);
    t.teardown(() => proxy.stop());
    await proxy.setMode('refuse');
    const backoffBaseMs = 50;
    const timers = { ...DEFAULT_TIMERS, backoffBaseMs };
    t.match(await dial(t, sourceAt(proxy.port, { timers })).end, { code: 14 });
    await proxy.setMode('pass');
    await pause(4 * backoffBaseMs);
    t.equal(proxy.connections(), 0);
  },
);

t.test('an unimplemented health service counts as alive; a dead connection does not', async (t) => {
  const server = await startRawServer(grpc.ServerCredentials.createInsecure(), (call) => {
    call.write(Buffer.from('up'));
  });
  t.teardown(server.stop);
  // A pipe that swallows everything once `dead` is set.
  let dead = false;
  const sockets = new Set<Socket>();
  const pipe = createServer((client) => {
    const upstream = connect(server.port, '127.0.0.1');
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from);
      from.on('error', () => undefined);
      from.on('data', (bytes) => {
        if (!dead) to.write(bytes);
      });
    }
  });
  await new Promise<void>((resolve) => pipe.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    pipe.close();
    for (const socket of sockets) socket.destroy();
  });
  const source = sourceAt((pipe.address() as AddressInfo).port);
  const { attempt, first } = dial(t, source, Buffer.from('x'));
  await first;
  t.equal(await attempt.probe(2_000), true);
  dead = true;
  t.equal(await attempt.probe(200), false);
});

t.test(
  'a connection is closed when its last user moves to another one before it starts',
  async (t) => {
    const { source, streams } = await silentSource(t);
    dial(t, source);
    const first = await until('the first stream is open', () => streams[0]);
    const { session } = first;
    // A stream without a message makes the connection doubtful. The second user has joined it and waits two turns.
    first.close(constants.NGHTTP2_CANCEL);
    await turn();
    dial(t, source);
    const second = await until('the second stream is open', () => streams[1]);
    t.not(second.session, session, 'on another connection');
    await until('the first connection is closed', () => session?.destroyed);
  },
);

t.test(
  'the end of one stream may cancel another of its connection while requests of both are unsent (no endless loop of node:http2)',
  async (t) => {
    const { source, streams } = await silentSource(t);
    const one = dial(t, source);
    const other = dial(t, source);
    const [first, second] = await until(
      'both streams are open',
      () => streams.length === 2 && streams,
    );
    t.equal(first?.session, second?.session, 'on one connection');
    void one.end.then(() => {
      other.attempt.cancel();
    });

    first?.close(constants.NGHTTP2_CANCEL);
    // After this turn the reset is in the socket: the client reads it before it sends what is written now.
    await turn();
    for (const { attempt } of [one, other]) {
      attempt.send({ typeUrl: '', bytes: Buffer.from('unsent') });
    }
    t.match(await one.end, { code: grpc.status.CANCELLED });
    await until('the other stream is closed', () => second?.closed);
    t.equal(second?.rstCode, constants.NGHTTP2_CANCEL);
  },
);

t.test('TLS', { skip: await opensslMissing() }, async (t) => {
  const ca = await createCertificateAuthority();
  const stranger = await createCertificateAuthority('another CA');
  t.teardown(() => Promise.all([ca.remove(), stranger.remove()]));
  const pair = await ca.issue({
    name: 'server',
    ipAddresses: ['127.0.0.1'],
    uris: ['spiffe://example.com/xds'],
    dnsNames: ['xds.example.com'],
  });
  const client = await ca.issue({ name: 'client', uris: ['spiffe://example.com/gateway'] });
  const strangers = await stranger.issue({ name: 'client' });
  const credentials = grpc.ServerCredentials.createSsl(
    await readFile(ca.ca),
    [{ private_key: await readFile(pair.key), cert_chain: await readFile(pair.cert) }],
    true,
  );
  const server = await startRawServer(credentials, (call) => {
    call.write(Buffer.from('config'));
  });
  t.teardown(server.stop);
  const good: ClientTlsSpec = {
    rootCertsFile: ca.ca,
    certChainFile: client.cert,
    privateKeyFile: client.key,
    requiredSans: [],
  };
  const cases: readonly [string, ClientTlsSpec | null, boolean][] = [
    ['the CA and a client certificate', good, true],
    ['a required URI SAN', { ...good, requiredSans: ['spiffe://example.com/xds'] }, true],
    ['a required DNS SAN', { ...good, requiredSans: ['xds.example.com'] }, true],
    ['a name to verify', { ...good, serverName: 'xds.example.com' }, true],
    ['a required SAN that the server lacks', { ...good, requiredSans: ['spiffe://other'] }, false],
    ['a wrong name to verify', { ...good, serverName: 'other.example.com' }, false],
    ['a CA that did not sign the server', { ...good, rootCertsFile: stranger.ca }, false],
    [
      'a client certificate of another CA',
      { ...good, certChainFile: strangers.cert, privateKeyFile: strangers.key },
      false,
    ],
    ['no client certificate', { rootCertsFile: ca.ca, requiredSans: [] }, false],
    ['plaintext to a TLS port', null, false],
  ];
  for (const [title, tls, accepted] of cases) {
    const { attempt, first } = dial(t, sourceAt(server.port, { tls }), Buffer.from('x'));
    const came = await first;
    if (accepted) t.same(came, Buffer.from('config'), `${title}: served`);
    else t.match(came, { code: 14 }, `${title}: no byte of configuration is accepted`);
    attempt.cancel();
  }
});

t.test(
  'an address is compared with the certificate, and is no server name (RFC 6066, 3)',
  { skip: await opensslMissing() },
  async (t) => {
    const ca = await createCertificateAuthority();
    t.teardown(() => ca.remove());
    for (const [address, accepted] of [
      ['127.0.0.1', true],
      ['127.0.0.2', false],
    ] as const) {
      const pair = await ca.issue({ name: `of-${address}`, ipAddresses: [address] });
      const [cert, key] = [await readFile(pair.cert), await readFile(pair.key)];
      const server = createSecureServer({ cert, key });
      t.teardown(() => server.close());
      const names: unknown[] = [];
      server.on('secureConnection', (socket: TLSSocket & { readonly servername?: unknown }) => {
        names.push(socket.servername);
      });
      server.on('stream', (stream) => {
        stream.on('error', () => undefined);
        stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
        stream.write(grpcFrame(Buffer.from('config')));
      });
      await once(server.listen(0, '127.0.0.1'), 'listening');
      const tls: ClientTlsSpec = { rootCertsFile: ca.ca, requiredSans: [] };
      const { port } = server.address() as AddressInfo;
      const { attempt, first } = dial(t, sourceAt(port, { tls }), Buffer.from('x'));
      const came = await first;
      if (accepted) t.same(came, Buffer.from('config'));
      else t.match(came, { code: 14, message: /127\.0\.0\.1/ });
      // The gateway may leave before the server has seen the end of the handshake.
      const sent = names.filter((name) => name !== false);
      t.strictSame(sent, [], 'no name was sent');
      attempt.cancel();
    }
  },
);

t.test('a paused stream takes one more message; after the pause all come', async (t) => {
  const count = 40;
  const messageBytes = 100_000;
  let taken = 0;
  const port = await startHttp2Source(t, (stream) => {
    stream.resume();
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
    const sendOne = (): void => {
      if (taken === count) return;
      stream.write(grpcFrame(Buffer.alloc(messageBytes)), () => {
        taken++;
        sendOne();
      });
    };
    sendOne();
  });
  let received = 0;
  const attempt = grpcTransport.dial(
    sourceAt(port, { maxReceiveBytes: messageBytes }),
    NO_IDENTITY,
    {
      onMessage: () => {
        if (++received === 1) attempt.pause?.();
      },
      onBlocked: () => undefined,
      onWritable: () => {
        attempt.send({ typeUrl: '', bytes: Buffer.from('request') });
      },
      onAlive: () => undefined,
      onTypeUnserved: () => undefined,
      onEnd: () => undefined,
    },
  );
  t.teardown(() => {
    attempt.cancel();
  });
  await until('the first one has come', () => received === 1);
  let takenBefore: number;
  do {
    takenBefore = taken;
    await pause(200);
  } while (taken > takenBefore);
  t.ok(taken <= 2, `${taken} messages were taken, the first one before the pause`);
  attempt.resume?.();
  await until('all have come', () => received === count);
});

t.test('with 64 requests that wait, a source takes no more until a later turn', async (t) => {
  const port = await startHttp2Source(t, (stream) => {
    stream.resume();
  });
  const events: string[] = [];
  const sendMany = (): void => {
    for (let sent = 1; sent <= 65; sent++) {
      t.notOk(events.includes('blocked'), `request ${sent} may wait`);
      attempt.send({ typeUrl: '', bytes: Buffer.from('request') });
    }
    t.strictSame(events, ['writable', 'blocked']);
  };
  const attempt = grpcTransport.dial(sourceAt(port), NO_IDENTITY, {
    onMessage: () => undefined,
    onBlocked: () => events.push('blocked'),
    onWritable: () => {
      events.push('writable');
      if (events.length === 1) sendMany();
    },
    onAlive: () => undefined,
    onTypeUnserved: () => undefined,
    onEnd: () => undefined,
  });
  t.teardown(() => {
    attempt.cancel();
  });
  await until('the source has read them', () => events.length === 3);
  t.strictSame(events, ['writable', 'blocked', 'writable']);
});

/**
 * Goal: the shell writes at the pace of its client and passes on the decisions of the session.
 * Method: a transport of arrays, a manual clock, real requests as bytes.
 */
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import {
  ClientStream,
  type ClientStreamEvent,
  type ClientStreamOptions,
  type StreamContext,
} from '../../../../gateway/clients/client-stream.js';
import { DeltaSession, type SessionOptions } from '../../../../gateway/core/delta/delta-session.js';
import { GroupStays } from '../../../../gateway/core/session/group-stays.js';
import { ResourceCache } from '../../../../gateway/core/cache/resource-cache.js';
import type { SessionEvent } from '../../../../gateway/core/session/stream-session.js';
import { QUOTAS, type Quota } from '../../../../gateway/core/quotas/limits.js';
import { Quotas } from '../../../../gateway/core/quotas/quotas.js';
import { FanOut } from '../../../../gateway/clients/fan-out.js';
import { LongRequests } from '../../../../gateway/clients/long-requests.js';
import { wholeOf } from '../../../../protos/discovery-fields.js';
import { decodeDeltaRequest, encodeDeltaRequest } from '../../../../protos/delta-codec.js';
import { STATUS_CODE, type DeltaRequest, type RpcStatus } from '../../../../protos/discovery.js';
import {
  ADS,
  DISCOVERY_SERVICES,
  type DiscoveryService,
} from '../../../../protos/discovery-services.js';
import { encodeNode } from '../../../../protos/node-codec.js';
import { FakeDirectory } from '../../../support/fake-directory.js';
import { CDS, LDS, SDS, cds, lds, sds } from '../../../support/mesh-names.js';
import { ModelClient, request } from '../../../support/model-client.js';

function setUp(
  options: Partial<SessionOptions> = {},
  service: DiscoveryService = ADS,
  ofAll: Partial<StreamContext> = {},
  own: Partial<ClientStreamOptions> = {},
) {
  const wentAway = { times: 0 };
  const reading: string[] = [];
  const directory = new FakeDirectory();
  const cache = new ResourceCache(directory, {
    tombstonesPerCollection: 100,
    tombstoneMaxAgeMs: 1_000,
    unsubscribedLingerMs: 1_000,
    maxUnsubscribedNames: 1_000,
  });
  const written: Buffer[] = [];
  const ended: (RpcStatus | undefined)[] = [];
  const events: ClientStreamEvent[] = [];
  const errors: unknown[] = [];
  const transport = { takes: true };
  const now = { ms: 0 };
  const sessionOptions = {
    cache,
    maxNames: 100,
    chunkBytes: 1_000_000,
    ackDeadlineMs: 20,
    silentAbsentRoutes: false,
    ...options,
  };
  const context: StreamContext = {
    fanOut: new FanOut(),
    longRequests: new LongRequests('in_turns'),
    maxMessage: 'auto',
    clock: () => now.ms,
    maxNamesPerRequest: 10,
    holdIdentity: () => () => undefined,
    groupStays: new GroupStays(() => undefined),
    oldStyle: () => undefined,
    onEvent: (_stream, event) => events.push(event),
    onError: (error) => errors.push(error),
    ...ofAll,
  };
  const stream = new ClientStream<DeltaRequest>(context, {
    id: 7,
    service,
    port: {
      peer: '127.0.0.1:1',
      userAgent: 'grpc-go/1.85.0',
      headerValues: () => [],
      certificate: undefined,
      write: (message) => {
        written.push(wholeOf(message));
        return transport.takes;
      },
      end: (status) => ended.push(status),
      goAway: () => wentAway.times++,
      pauseReading: () => reading.push('paused'),
      readOn: () => reading.push('on'),
    },
    protocol: {
      flavour: 'delta',
      decode: decodeDeltaRequest,
      open: ({ onReady, scopeOf, maxMessageBytes }) =>
        new DeltaSession({ ...sessionOptions, onReady, scopeOf, maxMessageBytes }),
    },
    nodeGroupRoom: { maxNodeGroups: 10, scopeCount: 0, hasScope: () => false },
    ...(own as Partial<ClientStreamOptions<DeltaRequest>>),
  });
  const model = new ModelClient();
  const subscribe = (typeUrl: string, ...names: readonly string[]): void => {
    stream.handleMessage(encodeDeltaRequest(model.change(typeUrl, names)));
  };
  const kinds = (): readonly string[] => events.map(({ kind }) => kind);
  return {
    directory,
    written,
    ended,
    errors,
    events,
    kinds,
    transport,
    now,
    stream,
    model,
    subscribe,
    wentAway,
    reading,
  };
}

/** Two names to a portion, and turns that the test runs. */
function setUpPortions() {
  const turns: (() => void)[] = [];
  const longRequests = new LongRequests('in_turns', (work) => turns.push(work));
  const world = setUp({ namesPerPortion: 1 }, ADS, { longRequests });
  return { ...world, turns };
}

/** The client subscribes to one name, and receives its resource. */
async function receiveFirst(world: ReturnType<typeof setUp>): Promise<void> {
  world.directory.put(SDS, sds('a'), 'v1');
  world.subscribe(SDS, sds('a'));
  world.directory.answer();
  await turn();
  world.model.receive(world.written[0]!);
}

const IDS = ['a', 'b', 'c', 'd', 'e'];

t.test('an ACK is recognized by its bytes, once, and any other request is not', async (t) => {
  const world = setUp();
  const { kinds, errors, ended, stream, model } = world;
  await receiveFirst(world);
  const ack = encodeDeltaRequest(model.ack()!);
  t.equal(stream.handleAck(encodeDeltaRequest(model.change(SDS, [sds('b')]))), false);
  t.equal(stream.handleAck(ack), true);
  t.strictSame(kinds(), ['opened', 'answer', 'ack']);
  t.equal(stream.handleAck(ack), false, 'nothing is left to acknowledge');
  t.strictSame([errors, ended], [[], []]);
  stream.end(undefined);
  t.equal(stream.handleAck(ack), false, 'the stream has ended');
});

t.test('an exception while an ACK is handled ends the stream, not the process', async (t) => {
  const thrown = new Error('telemetry');
  const onEvent = (_stream: unknown, { kind }: ClientStreamEvent): void => {
    if (kind === 'ack') throw thrown;
  };
  const world = setUp({}, ADS, { onEvent });
  const { errors, ended, stream, model } = world;
  await receiveFirst(world);
  t.equal(stream.handleAck(encodeDeltaRequest(model.ack()!)), true);
  t.strictSame(errors, [thrown]);
  t.match(ended, [{ code: STATUS_CODE.internal }]);
});

t.test('an ACK behind a long request waits for its turn', async (t) => {
  const world = setUpPortions();
  const { kinds, stream, model, subscribe, turns } = world;
  await receiveFirst(world);
  const ack = encodeDeltaRequest(model.ack()!);
  subscribe(SDS, ...IDS.map((id) => sds(id)));
  t.equal(stream.handleAck(ack), false);
  stream.handleMessage(ack);
  while (turns.length > 0) turns.shift()!();
  t.strictSame(
    kinds().filter((kind) => kind === 'ack'),
    ['ack'],
  );
});

t.test('a request is answered on the next turn, and every step emits an event', async (t) => {
  const { directory, written, kinds, stream, model, subscribe } = setUp();
  directory.put(SDS, sds('a'), 'v1');
  subscribe(SDS, sds('a'));
  directory.answer();
  t.strictSame(written, [], 'not from within the call');
  await turn();
  t.equal(written.length, 1);
  model.receive(written[0]!);
  stream.handleMessage(encodeDeltaRequest(model.ack()!));
  t.strictSame(kinds(), ['opened', 'answer', 'ack']);
  t.strictSame([stream.id, stream.peer, stream.openedAtMs], [7, '127.0.0.1:1', 0]);
});

t.test('a NACK stays visible, with its time, and the next ACK of the type dates it', async (t) => {
  const { directory, written, now, stream, model, subscribe } = setUp();
  directory.put(SDS, sds('a'), 'v1');
  subscribe(SDS, sds('a'));
  directory.answer();
  await turn();
  t.strictSame(stream.rejections, []);
  model.receive(written[0]!);
  now.ms = 5;
  stream.handleMessage(encodeDeltaRequest(model.nack()!));
  const [refused] = stream.rejections;
  t.match(refused, { typeUrl: SDS, atMs: 5, detail: { message: 'refused by the test' } });
  t.equal(refused?.acceptedAtMs, undefined);
  directory.put(SDS, sds('a'), 'v2');
  await turn();
  model.receive(written[1]!);
  now.ms = 9;
  stream.handleMessage(encodeDeltaRequest(model.ack()!));
  t.match(stream.rejections, [{ atMs: 5, acceptedAtMs: 9 }]);
  t.equal(stream.rejections.length, 1);
});

t.test(
  'the refusal of a state-of-the-world client is of its type, whichever authorities it has',
  (t) => {
    const detail = { code: 3, message: 'no' };
    for (const flavour of ['delta', 'sotw'] as const) {
      const { stream, now } = setUp();
      Object.defineProperty(stream, 'flavour', { value: flavour });
      let events: readonly SessionEvent[] = [];
      stream.session.takeEvents = () => events;
      const take = (event: SessionEvent): void => {
        events = [event];
        now.ms++;
        stream.pump();
      };
      take({ kind: 'nack', typeUrl: CDS, authority: 'a', detail });
      const ofBoth = { typeUrl: CDS, authority: '(several)' };
      const shown = flavour === 'sotw' ? { authority: 'a', atMs: 1, detail } : undefined;
      t.match(stream.rejectionOf(ofBoth), shown, flavour);
      t.match(stream.rejectionOf({ typeUrl: CDS, authority: 'a' }), { atMs: 1 });
      t.equal(stream.rejectionOf({ typeUrl: LDS, authority: 'a' }), undefined);
      take({ kind: 'ack', ...ofBoth, sinceMs: 1 });
      const accepted = flavour === 'sotw' ? 2 : undefined;
      t.equal(stream.rejections[0]?.acceptedAtMs, accepted, `${flavour}: the ACK`);
    }
    t.end();
  },
);

t.test('over 100 refusals, those of what the client has left are forgotten', (t) => {
  const { stream, subscribe } = setUp();
  subscribe(CDS, cds('kept', 'a100'));
  let events: readonly SessionEvent[] = [];
  stream.session.takeEvents = () => events;
  for (let at = 0; at <= 100; at++) {
    const detail = { code: 3, message: String(at) };
    events = [{ kind: 'nack', typeUrl: CDS, authority: `a${at}`, detail }];
    stream.pump();
    if (at === 99) t.equal(stream.rejections.length, 100);
  }
  t.match(stream.rejections, [{ authority: 'a100', detail: { message: '100' } }]);
  t.equal(stream.rejections.length, 1);
  t.end();
});

t.test('the node is that of the first request that carries one', (t) => {
  const { stream } = setUp();
  t.equal(stream.node, undefined);
  for (const id of ['first', 'second']) {
    const node = encodeNode({ id, cluster: 'edge', userAgentName: 'test', userAgentVersion: '1' });
    stream.handleMessage(
      encodeDeltaRequest(request({ typeUrl: SDS, subscribe: [sds('a')], node })),
    );
  }
  t.match(stream.node, { id: 'first', cluster: 'edge' });
  t.end();
});

t.test('the largest message depends on the client that the first request names', (t) => {
  const limitOf = (userAgentName: string | undefined): number => {
    const { stream } = setUp();
    t.equal(stream.session.limit.maxBytes, Infinity, 'the client is still unknown');
    const fields = { id: 'n', cluster: 'c', userAgentVersion: '1' };
    const node = userAgentName === undefined ? undefined : encodeNode({ ...fields, userAgentName });
    const asked = request({ typeUrl: SDS, subscribe: [sds('a')], node });
    stream.handleMessage(encodeDeltaRequest(asked));
    return stream.session.limit.maxBytes;
  };
  t.equal(limitOf('gRPC Go'), 4_194_304);
  t.equal(limitOf('envoy'), Infinity);
  t.equal(limitOf(undefined), 4_194_304, 'by its user-agent header');
  t.end();
});

t.test(
  'a client that does not read pauses the stream, and then gets the latest content',
  async (t) => {
    const { directory, written, transport, stream, model, subscribe } = setUp();
    directory.put(SDS, sds('a'), 'v1');
    directory.put(CDS, cds('c'), 'v1');
    subscribe(SDS, sds('a'));
    subscribe(CDS, cds('c'));
    directory.answer();
    transport.takes = false;
    await turn();
    t.equal(written.length, 1);
    t.ok(stream.isPaused);
    for (const content of ['v2', 'v3']) directory.put(SDS, sds('a'), content);
    await turn();
    t.equal(written.length, 1);
    transport.takes = true;
    stream.handleDrain();
    t.notOk(stream.isPaused);
    await turn();
    t.equal(written.length, 2);
    const bodies = written.map((bytes) => model.receive(bytes).resources[0]?.body?.toString());
    t.strictSame(bodies, ['v1', 'v3']);
  },
);

t.test('a deadline of the session polls it again', async (t) => {
  const { directory, written, now, model, subscribe, stream } = setUp();
  directory.put(CDS, cds('c'), 'v1');
  directory.put(LDS, lds('l'), 'v1');
  subscribe(CDS, cds('c'));
  subscribe(LDS, lds('l'));
  directory.answer();
  await turn();
  t.equal(written.length, 1, 'listeners wait for the ACK of new clusters');
  now.ms = 20;
  const written2 = new Promise<void>((resolve) => {
    const push = written.push.bind(written);
    written.push = (...items) => {
      resolve();
      return push(...items);
    };
  });
  // The timer of the stream does not keep the process alive.
  const keep = setTimeout(() => undefined, 5_000);
  await written2;
  clearTimeout(keep);
  t.strictSame(
    written.map((bytes) => model.receive(bytes).typeUrl),
    [CDS, LDS],
  );
  stream.handleClosed('test over');
});

t.test('an unreadable request ends the stream with INVALID_ARGUMENT', (t) => {
  const { stream, ended, events } = setUp();
  stream.handleMessage(Buffer.from([0xff]));
  t.match(ended, [{ code: STATUS_CODE.invalidArgument, message: 'the request cannot be read' }]);
  t.match(events, [{ kind: 'opened' }, { kind: 'malformed' }, { kind: 'closed' }]);
  t.end();
});

t.test('more names in one request than allowed are RESOURCE_EXHAUSTED, unread', (t) => {
  const { directory, ended, subscribe } = setUp();
  subscribe(SDS, ...Array.from({ length: 11 }, (_, id) => sds(String(id))));
  t.match(ended, [{ code: STATUS_CODE.resourceExhausted }]);
  t.strictSame(directory.watched, []);
  t.end();
});

t.test('a refusal of the session ends the stream with its status', (t) => {
  const { ended, kinds, subscribe } = setUp({ maxNames: 1 });
  subscribe(SDS, sds('a'), sds('b'));
  t.match(ended, [{ code: STATUS_CODE.resourceExhausted }]);
  t.strictSame(kinds(), ['opened', 'closed']);
  t.end();
});

t.test('a closed stream is closed once, and neither reads nor writes', async (t) => {
  const { directory, written, ended, events, stream, subscribe } = setUp();
  subscribe(SDS, sds('a'));
  stream.end(undefined);
  stream.end({ code: STATUS_CODE.internal, message: 'again' });
  stream.handleClosed('again');
  directory.answer();
  subscribe(SDS, sds('b'));
  stream.handleDrain();
  await turn();
  t.strictSame([written, ended], [[], [undefined]]);
  t.strictSame(events, [{ kind: 'opened' }, { kind: 'closed', reason: 'ended by the client' }]);
});

t.test(
  'messages that come during a long request wait for its end, and the client is not read',
  (t) => {
    const { stream, turns, model, reading, directory } = setUpPortions();
    const bytes = Buffer.from(
      encodeDeltaRequest(
        model.change(
          SDS,
          IDS.map((id) => sds(id)),
        ),
      ),
    );
    stream.handleMessage(bytes);
    t.strictSame(reading, ['paused']);
    const next = Buffer.from(encodeDeltaRequest(model.change(SDS, [], [sds('a')])));
    stream.handleMessage(next);
    // The reader of the connection uses its buffers again.
    next.fill(0);
    const more = Array.from({ length: 4 }, (_, at) => sds(`more${at}`));
    stream.handleMessage(encodeDeltaRequest(model.change(SDS, more)));
    while (turns.length > 0) {
      t.strictSame(reading, ['paused']);
      turns.shift()?.();
    }
    t.strictSame(reading, ['paused', 'on']);
    t.equal(stream.session.nameCount, 8, 'each in its order');
    t.equal(directory.watched.length, 9);
    stream.handleMessage(encodeDeltaRequest(model.change(SDS, [], [sds('b')])));
    t.equal(stream.session.nameCount, 7, 'a short request is handled at once');
    t.strictSame(reading, ['paused', 'on']);
    t.end();
  },
);

t.test('a stream that ends during a long request handles no more of it', (t) => {
  for (const how of ['closed', 'refused', 'thrown'] as const) {
    const { stream, turns, model, ended, errors, directory } = setUpPortions();
    stream.handleMessage(
      encodeDeltaRequest(
        model.change(
          SDS,
          IDS.map((id) => sds(id)),
        ),
      ),
    );
    stream.handleMessage(encodeDeltaRequest(model.change(SDS, [sds('f'), sds('g')])));
    const status = { code: STATUS_CODE.resourceExhausted, message: 'too many' };
    let laterPortions = 0;
    if (how === 'closed') {
      stream.continueRequest = () => laterPortions++;
      stream.handleClosed('gone');
    } else {
      stream.session.continueRequest = () => {
        if (how === 'refused') return status;
        throw new Error('a bug');
      };
    }
    while (turns.length > 0) turns.shift()?.();
    t.equal(laterPortions, 0, 'it does not wait for a turn');
    ClientStream.prototype.continueRequest.call(stream);
    t.equal(directory.watchCalls, 2, how);
    t.equal(errors.length, how === 'thrown' ? 1 : 0);
    t.match(ended, how === 'closed' ? [] : [how === 'refused' ? status : { code: 13 }]);
  }
  t.end();
});

t.test('an end with a status gives its message as the reason', (t) => {
  const { events, stream } = setUp();
  const code = STATUS_CODE.unavailable;
  stream.end({ code, message: 'draining' });
  t.strictSame(events.at(-1), { kind: 'closed', reason: 'draining', code });
  t.end();
});

t.test(
  'an exception while handling a request or building a response ends this stream and nothing else',
  (t) => {
    const bug = new Error('a bug');
    for (const broken of ['handleRequest', 'takeResponse'] as const) {
      const { stream, subscribe, ended, errors, kinds } = setUp();
      stream.session[broken] = () => {
        throw bug;
      };
      subscribe(CDS, cds('c'));
      stream.pump();
      t.strictSame(errors, [bug]);
      t.strictSame(ended, [{ code: STATUS_CODE.internal, message: 'internal error' }]);
      t.equal(kinds().at(-1), 'closed');
      subscribe(CDS, cds('d'));
      stream.pump();
      t.equal(errors.length, 1, 'the stream has ended');
    }
    t.end();
  },
);

t.test('a stream ends when its session has an end status, and not before', (t) => {
  const { stream, ended } = setUp();
  stream.endIfDue();
  t.strictSame(ended, []);
  const status = { code: STATUS_CODE.resourceExhausted, message: 'too far behind' };
  stream.session.endStatus = () => status;
  stream.endIfDue();
  stream.endIfDue();
  t.strictSame(ended, [status], 'once');
  t.end();
});

/** The service of one type, and a stream of it. */
const ofType = (typeUrl: string): DiscoveryService =>
  DISCOVERY_SERVICES.find((service) => service.typeUrl === typeUrl)!;

t.test(
  'on a per-type method an empty type_url means the type of the method, in each request (xDS protocol, "The xDS API flow")',
  async (t) => {
    const { directory, written, ended, kinds, stream } = setUp({}, ofType(SDS));
    directory.put(SDS, sds('a'), 'v1');
    stream.handleMessage(encodeDeltaRequest(request({ typeUrl: '', subscribe: [sds('a')] })));
    directory.answer();
    await turn();
    const model = new ModelClient();
    const { typeUrl, nonce } = model.receive(written[0]!);
    t.equal(typeUrl, SDS);
    stream.handleMessage(encodeDeltaRequest(request({ typeUrl: '', responseNonce: nonce })));
    t.strictSame(kinds(), ['opened', 'answer', 'ack']);
    t.strictSame([ended, stream.service], [[], 'SDS']);
  },
);

t.test('on a per-type method another type is INVALID_ARGUMENT, and names both types', (t) => {
  const { ended, kinds, subscribe, directory } = setUp({}, ofType(SDS));
  subscribe(CDS, cds('c'));
  t.match(ended, [
    { code: STATUS_CODE.invalidArgument, message: `this method serves ${SDS}, not ${CDS}` },
  ]);
  t.strictSame(kinds(), ['opened', 'malformed', 'closed']);
  t.strictSame(directory.watched, []);
  t.end();
});

t.test('a stream ends at its maximum age, and its client is asked to connect anew', (t) => {
  const { ended, now, stream, wentAway } = setUp({}, ADS, {}, { maxAgeMs: 1_000 });
  now.ms = 999;
  stream.endIfDue();
  t.equal(ended.length, 0);
  now.ms = 1_000;
  stream.endIfDue();
  t.match(ended, [{ code: STATUS_CODE.unavailable, message: /maximum age/ }]);
  t.equal(wentAway.times, 1);
  t.end();
});

t.test(
  'the next look ends a stream whose credentials a source goes on refusing, but not a young one',
  (t) => {
    const { ended, now, stream } = setUp();
    now.ms = 59_999;
    stream.handleCredentialsRefused();
    stream.endIfDue();
    t.equal(ended.length, 0, 'it is young');
    now.ms = 60_000;
    stream.handleCredentialsRefused();
    t.equal(ended.length, 0, 'many streams may share a token: they do not end in one turn');
    stream.endIfDue();
    stream.endIfDue();
    t.match(ended, [{ code: STATUS_CODE.unavailable, message: /credentials/ }]);
    t.end();
  },
);

function quotasOf(each: number): Quotas {
  const counts = Object.fromEntries(QUOTAS.map((quota) => [quota, each])) as Record<Quota, number>;
  return new Quotas({ global: counts, peerShare: 1, peer: { counts, requestsPerSecond: each } });
}

/** A client that was sent `a` and does not read it; its peer may leave 9 bytes unread. */
async function setUpUnread() {
  const account = quotasOf(9).account('peer');
  const world = setUp({}, ADS, {}, { account });
  world.directory.put(SDS, sds('a'), 'v1');
  world.subscribe(SDS, sds('a'));
  world.directory.answer();
  world.transport.takes = false;
  await turn();
  t.equal(world.written.length, 1);
  const readIt = (): void => {
    world.transport.takes = true;
    world.stream.handleDrain();
    world.model.receive(world.written[0]!);
    world.stream.handleMessage(encodeDeltaRequest(world.model.ack()!));
  };
  return { ...world, account, readIt };
}

t.test('a client that does not read counts for its peer until it reads or leaves', async (t) => {
  const { account, stream, written, transport, directory, readIt } = await setUpUnread();
  t.equal(account.held('buffered'), written[0]!.length);
  readIt();
  t.equal(account.held('buffered'), 0);
  transport.takes = false;
  directory.put(SDS, sds('a'), 'v2');
  await turn();
  t.equal(account.held('buffered'), written[1]!.length);
  stream.handleClosed('gone');
  t.equal(account.held('buffered'), 0);
});

t.test(
  'a client that has not read for 10 s is ended only when its peer has too much unread',
  async (t) => {
    const { account, stream, now, ended } = await setUpUnread();
    account.change('buffered', -account.held('buffered'));
    now.ms = 60_000;
    stream.endIfDue();
    t.strictSame(ended, [], 'there is room');
    account.holdUnread([Buffer.alloc(10)]);
    const fresh = await setUpUnread();
    fresh.now.ms = 9_999;
    for (const each of [stream, fresh.stream]) each.endIfDue();
    t.match(ended, [
      { code: STATUS_CODE.resourceExhausted, message: /buffered bytes.*limits\.max_buffered/ },
    ]);
    t.strictSame(fresh.ended, []);
    fresh.now.ms = 10_000;
    fresh.stream.endIfDue();
    t.equal(fresh.ended.length, 1);
    t.equal(fresh.account.held('buffered'), 0, 'the memory is free');
  },
);

t.test(
  'the first sync of a stream begins with its first request and ends with the first ACK',
  async (t) => {
    const quotas = quotasOf(9);
    const { directory, written, stream, model, subscribe } = setUp(
      {},
      ADS,
      {},
      {
        account: quotas.account('peer'),
      },
    );
    t.equal(stream.firstSync, undefined);
    directory.put(SDS, sds('a'), 'v1');
    subscribe(SDS, sds('a'));
    t.match(stream.firstSync, { isResuming: false });
    directory.answer();
    await turn();
    t.equal(quotas.used('first_syncs'), 1);
    t.ok(stream.hasWritten);
    model.receive(written[0]!);
    stream.handleMessage(encodeDeltaRequest(model.ack()!));
    t.equal(stream.firstSync?.state, 'over');
    t.equal(quotas.used('first_syncs'), 0);
  },
);

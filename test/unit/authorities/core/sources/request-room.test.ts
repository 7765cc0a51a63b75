/**
 * Goal: no request to a delta source is larger than gRPC servers accept, and a resume that does not fit into one
 * request still finds what the source deleted meanwhile (docs/SPEC.md, "What each variant of a source does").
 * Method: the machines of pending names and of the delta stream alone.
 */
import t, { type Test } from 'tap';
import { DeltaStream } from '../../../../../authorities/core/sources/delta-stream.js';
import {
  MAX_NAMES_PER_REQUEST,
  PendingNames,
} from '../../../../../authorities/core/sources/pending-names.js';
import {
  MAX_REQUEST_BYTES,
  SMALL_REQUEST_BYTES,
} from '../../../../../authorities/core/sources/request-room.js';
import type { ManagementServer } from '../../../../../authorities/core/sources/management-server.js';
import type { StreamEnd } from '../../../../../authorities/core/sources/source-health.js';
import { SourceContents } from '../../../../../authorities/core/sources/source-contents.js';
import { decodeDeltaRequest } from '../../../../../protos/delta-codec.js';
import type { DeltaRequest } from '../../../../../protos/discovery.js';
import { encodeResponse } from '../../../../support/discovery-messages.js';
import { nameOf, thing, THING } from '../../../../support/federation-driver.js';
import { managementServerOf } from '../../../../support/management-server.js';
import { STREAM_OPTIONS } from '../../../../support/stream-options.js';
import { at } from '../../../../support/stream-times.js';

const GRPC_DEFAULT_BYTES = 4 * 1_024 * 1_024;
/** Long names reach the limit with few of them. */
const PAD = 'n'.repeat(1_000);
const path = (id: string): string => `g/${id}-${PAD}`;
const QUIET_MS = 500;

function start(memberIds: readonly string[], singles: readonly string[] = []) {
  const contents = new SourceContents();
  const stream = new DeltaStream(contents, {
    ...STREAM_OPTIONS,
    maxNamesPerRequest: MAX_NAMES_PER_REQUEST,
  });
  if (memberIds.length > 0) contents.subscribe(THING, nameOf(thing('cloud', 'g/*')), {});
  for (const single of singles) contents.subscribe(THING, nameOf(thing('cloud', single)), {});
  const send = (paths: readonly string[], nowMs: number): void => {
    const resources = paths.map((id) => {
      const name = thing('cloud', id);
      return { name, version: '1', typeUrl: THING, body: new Uint8Array([1]), ttlMs: undefined };
    });
    const rest = { typeUrl: THING, nonce: '1', systemVersion: '', errors: [], removed: [] };
    stream.handleResponse({ ...rest, resources }, 100, at(nowMs));
    stream.pollRequest(nowMs); // the ACK
  };
  const poll = (): { readonly request: DeltaRequest; readonly bytes: number } | undefined => {
    const polled = stream.pollRequest(0);
    const decoded = polled && decodeDeltaRequest(polled.bytes, Infinity);
    return decoded?.ok === true
      ? { request: decoded.message, bytes: polled?.bytes.length ?? 0 }
      : undefined;
  };
  const pollAll = () => {
    const all = [];
    for (let one = poll(); one; one = poll()) all.push(one);
    return all;
  };
  const held = (): number => [...contents.entries(THING)].length;
  stream.handleOpened();
  pollAll();
  send([...memberIds.map(path), ...singles], 0);
  stream.handleEnded();
  contents.takeChanges();
  return { contents, stream, send, pollAll, held };
}

const ids = (count: number): readonly string[] => Array.from({ length: count }, (_, at) => `${at}`);

t.test('versions that fit into one request are sent', (t) => {
  const { stream, pollAll } = start(ids(2_000));
  stream.handleOpened();
  const [first] = pollAll();
  t.equal(first?.request.initialVersions.size, 2_000);
  t.ok((first?.bytes ?? 0) > 2_000_000);
  t.end();
});

/** 500 ms after the answer of 1,000 ms, names are compared with it. */
function compare(stream: DeltaStream, t: Test): void {
  const dueMs = 1_000 + QUIET_MS;
  t.notOk(stream.isComparing);
  t.equal(stream.nextDeadlineMs(), dueMs);
  let turns = 0;
  do {
    stream.handleTimer(dueMs);
    turns++;
  } while (stream.isComparing);
  t.ok(turns >= 4, `in ${turns} turns of the event loop`);
}

t.test('versions that do not fit are all left out, and what the source lacks is removed', (t) => {
  const { contents, stream, send, pollAll, held } = start(ids(4_000));
  stream.handleOpened();
  const [first] = pollAll();
  t.equal(first?.request.initialVersions.size, 0);
  t.strictSame(first?.request.subscribe, [thing('cloud', 'g/*')]);
  send(ids(3_999).map(path), 1_000);
  t.equal(held(), 4_000, 'another part may follow');
  compare(stream, t);
  t.equal(held(), 3_999);
  const removed = contents.takeChanges().filter(({ kind }) => kind === 'removed');
  t.match(removed, [{ name: nameOf(thing('cloud', path('3999'))), isDoubtful: true }]);
  t.end();
});

t.test('what comes while names are compared stays, and an answer is compared once', (t) => {
  const { stream, send, pollAll, held } = start(ids(4_000));
  stream.handleOpened();
  pollAll();
  send(['g/new'], 1_000);
  stream.handleTimer(1_500);
  t.equal(held(), 3_001, 'the first thousand was compared');
  send(ids(4_000).map(path), 1_500);
  t.equal(stream.nextDeadlineMs(), 1_500, 'the next turn goes on');
  while (stream.isComparing) stream.handleTimer(1_500);
  t.equal(held(), 4_001);
  stream.handleTimer(9_000);
  t.equal(held(), 4_001, 'later answers are not compared');
  stream.handleEnded();
  stream.handleOpened();
  pollAll();
  send(['g/new'], 10_000);
  stream.handleTimer(10_500);
  t.ok(stream.isComparing);
  stream.handleEnded();
  t.notOk(stream.isComparing, 'the next stream has another answer');
  t.end();
});

t.test(
  'names that do not fit follow in further requests, and their absence proves nothing',
  (t) => {
    const singles = ids(6_000).map((id) => `single/${id}-${PAD}`);
    const { stream, send, pollAll, held } = start(['member'], singles);
    stream.handleOpened();
    const requests = pollAll();
    const asked = requests.flatMap(({ request }) => request.subscribe);
    t.strictSame(new Set(asked), new Set([...singles, 'g/*'].map((id) => thing('cloud', id))));
    t.equal(asked.length, singles.length + 1, 'each once');
    t.equal(
      asked[0],
      thing('cloud', 'g/*'),
      'globs first: only the first request finds what is gone',
    );
    const largest = Math.max(...requests.map(({ bytes }) => bytes));
    t.ok(largest <= MAX_REQUEST_BYTES && largest < GRPC_DEFAULT_BYTES, `${largest} bytes`);
    const inFirst = (requests[0]?.request.subscribe ?? []).length - 1;
    send([singles[0] ?? ''], 1_000);
    compare(stream, t);
    t.equal(held(), singles.length - inFirst + 1, 'those of later requests stay');
    t.end();
  },
);

t.test('new names beyond those of one request follow in further requests, in their order', (t) => {
  const contents = new SourceContents();
  const stream = new DeltaStream(contents, { ...STREAM_OPTIONS, maxNamesPerRequest: 2 });
  const subscribe = (...ids: readonly string[]): void => {
    for (const id of ids) contents.subscribe(THING, nameOf(thing('cloud', id)), {});
  };
  const pollNames = (): readonly string[] => {
    const all = [];
    for (let one = stream.pollRequest(0); one; one = stream.pollRequest(0)) {
      const decoded = decodeDeltaRequest(one.bytes, Infinity);
      if (!decoded.ok) continue;
      const { subscribe, initialVersions } = decoded.message;
      const ids = subscribe.map((text) => text.slice(-1)).join('');
      all.push(`${ids} ${initialVersions.size}`);
    }
    return all;
  };
  subscribe('a', 'b', 'c', 'd', 'e');
  stream.handleOpened();
  t.strictSame(pollNames(), ['ab 0', 'cd 0', 'e 0'], 'a server answers each request by itself');
  const resources = ['c', 'd', 'e'].map((id) => {
    const name = thing('cloud', id);
    return { name, version: '1', typeUrl: THING, body: new Uint8Array([1]), ttlMs: undefined };
  });
  const rest = { typeUrl: THING, nonce: '1', systemVersion: '', errors: [], removed: [] };
  stream.handleResponse({ ...rest, resources }, 100, at(0));
  stream.handleEnded();
  subscribe('f');
  stream.handleOpened();
  // All but one of the held names, so that the server owes a response.
  t.strictSame(pollNames(), ['cdeab 2', 'f 0'], 'held names are resumed at once');
  t.end();
});

t.test('after a source refused a request as too large, requests are small', (t) => {
  const { stream, pollAll } = start(
    [],
    ids(600).map((id) => `single/${id}-${PAD}`),
  );
  stream.handleOpened();
  t.equal(pollAll().length, 1);
  stream.handleExhausted();
  stream.handleOpened();
  const requests = pollAll();
  t.ok(requests.length >= 3, `${requests.length} requests`);
  for (const { bytes } of requests) t.ok(bytes <= SMALL_REQUEST_BYTES);
  t.equal(requests.flatMap(({ request }) => request.subscribe).length, 600);
  t.end();
});

const EXHAUSTED: StreamEnd = {
  code: 8,
  message: 'received message larger than max',
  detectedBy: 'stream',
};

function subscribe(server: ManagementServer, count: number, nowMs: number): void {
  for (const id of ids(count)) {
    server.subscribe(THING, nameOf(thing('c', `x/${id}-${PAD}`)), {}, nowMs);
  }
}

const sizesOf = (server: ManagementServer, nowMs: number): readonly number[] =>
  server.takeEffects(nowMs).flatMap((effect) => {
    return effect.kind === 'send' ? [effect.bytes.length] : [];
  });

/** Ends the stream with RESOURCE_EXHAUSTED, and opens the next one. @returns when */
function exhaust(server: ManagementServer): number {
  server.handleAttemptEvent(server.health.epoch, { kind: 'ended', end: EXHAUSTED }, 0);
  const retryMs = server.nextDeadlineMs() ?? NaN;
  server.handleTimer(retryMs);
  return retryMs;
}

t.test('RESOURCE_EXHAUSTED ends a delta stream without a response: requests become small', (t) => {
  const server = managementServerOf();
  subscribe(server, MAX_NAMES_PER_REQUEST, 0);
  t.equal(sizesOf(server, 0).length, 1);
  const sizes = sizesOf(server, exhaust(server));
  t.ok(Math.max(...sizes) <= SMALL_REQUEST_BYTES && sizes.length >= 2);
  t.end();
});

t.test('a request of the state of the world has all names, also after RESOURCE_EXHAUSTED', (t) => {
  const server = managementServerOf({ apiType: 'AGGREGATED_GRPC' });
  subscribe(server, 600, 0);
  const before = sizesOf(server, 0);
  t.equal(before.length, 1);
  t.strictSame(sizesOf(server, exhaust(server)), before);
  t.end();
});

t.test('RESOURCE_EXHAUSTED of a source that is only busy makes no request smaller', (t) => {
  const live = managementServerOf();
  subscribe(live, MAX_NAMES_PER_REQUEST, 0);
  t.equal(sizesOf(live, 0).length, 1);
  live.handleMessage(live.health.epoch, encodeResponse({ typeUrl: THING, nonce: '1' }), 0);
  sizesOf(live, 0); // the ACK
  t.equal(sizesOf(live, exhaust(live)).length, 1, 'it had responded');
  const few = managementServerOf();
  subscribe(few, 100, 0);
  t.equal(sizesOf(few, 0).length, 1);
  const retryMs = exhaust(few);
  subscribe(few, MAX_NAMES_PER_REQUEST, retryMs);
  t.equal(sizesOf(few, retryMs).length, 1, 'no request had been large');
  t.end();
});

function pendingOf(texts: readonly string[]) {
  const contents = new SourceContents();
  const pending = new PendingNames(Infinity);
  const subscriptions = texts.map((text) => contents.subscribe(THING, nameOf(text), {})!);
  return { pending, subscriptions };
}

/** All requests of one name each. */
function takeAll(t: Test, pending: PendingNames) {
  const all = [];
  for (let one = pending.take(60); one; one = pending.take(60)) all.push(one);
  t.ok(pending.isEmpty);
  return all;
}

const TEXTS = ['a', 'b', 'c'].map((id) => thing('cloud', id));

t.test('unsubscribed names, new names and names to request again are bounded alike', (t) => {
  for (const way of ['unsubscribe', 'subscribe', 'askAgain'] as const) {
    const { pending, subscriptions } = pendingOf(TEXTS);
    for (const one of subscriptions) pending[way](one, false);
    const requests = takeAll(t, pending);
    t.equal(requests.length, 3, way);
    t.strictSame(
      requests.flatMap(({ asked, left }) => [...asked, ...left]),
      TEXTS,
    );
  }
  t.end();
});

t.test('a name longer than a request is sent nevertheless, alone', (t) => {
  const { pending, subscriptions } = pendingOf([thing('cloud', PAD), ...TEXTS.slice(0, 1)]);
  for (const one of subscriptions) pending.subscribe(one);
  t.strictSame(
    takeAll(t, pending).map(({ asked }) => asked.length),
    [1, 1],
  );
  t.end();
});

t.test('no name is subscribed before its unsubscribe was sent', (t) => {
  const { pending, subscriptions } = pendingOf(TEXTS);
  for (const one of subscriptions) pending.unsubscribe(one);
  for (const one of subscriptions) pending.subscribe(one);
  const requests = takeAll(t, pending);
  const order = requests.flatMap(({ asked, left }) => [
    ...left.map((text) => `- ${text}`),
    ...asked.map((text) => `+ ${text}`),
  ]);
  t.strictSame(order, [...TEXTS.map((one) => `- ${one}`), ...TEXTS.map((one) => `+ ${one}`)]);
  t.end();
});

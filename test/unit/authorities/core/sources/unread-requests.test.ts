/**
 * Goal: a source that does not read makes the gateway keep at most 1 MiB of ACKs, and its nonces are
 * short (docs/SECURITY.md, "Quotas").
 * Method: the state machine of one management server, delta and state of the world.
 */
import t from 'tap';
import { AckQueue } from '../../../../../authorities/core/sources/ack-queue.js';
import { type ServerEffect } from '../../../../../authorities/core/sources/management-server.js';
import {
  MAX_NONCE_BYTES,
  refusalOfNonce,
} from '../../../../../authorities/core/sources/source-stream.js';
import type { ApiType } from '../../../../../config/model.js';
import { encodeResponse } from '../../../../support/discovery-messages.js';
import {
  mapOf,
  FederationDriver,
  nameOf,
  THING,
  thing,
} from '../../../../support/federation-driver.js';
import { managementServerOf } from '../../../../support/management-server.js';

const LISTENER = {};

function start(apiType: ApiType) {
  const server = managementServerOf({ apiType });
  const effects: ServerEffect[] = [];
  const pump = (): void => {
    effects.push(...server.takeEffects(0));
  };
  const respond = (nonce: string): void => {
    // Both variants have the same numbers for these fields.
    const bytes = encodeResponse({ typeUrl: THING, nonce });
    server.handleMessage(server.health.epoch, bytes, 0);
    pump();
  };
  const ask = (id: string): void => {
    server.subscribe(THING, nameOf(thing('c', id)), LISTENER, 0);
    pump();
  };
  const kinds = (): readonly string[] => effects.map(({ kind }) => kind);
  const count = (kind: string): number => kinds().filter((one) => one === kind).length;
  ask('a');
  return { server, effects, pump, respond, ask, count };
}

for (const apiType of ['AGGREGATED_DELTA_GRPC', 'AGGREGATED_GRPC'] as const) {
  t.test(`${apiType}: while the transport is blocked, names merge and ACKs wait`, (t) => {
    const { server, pump, respond, ask, count } = start(apiType);
    t.equal(count('send'), 1);
    server.handleAttemptEvent(server.health.epoch + 1, { kind: 'blocked' }, 0);
    server.handleAttemptEvent(server.health.epoch + 1, { kind: 'writable' }, 0);
    server.handleAttemptEvent(server.health.epoch, { kind: 'blocked' }, 0);
    respond('1');
    ask('b');
    ask('c');
    t.equal(count('send'), 1, 'nothing is written');
    t.equal(count('unread'), 0);
    server.handleAttemptEvent(server.health.epoch, { kind: 'writable' }, 0);
    pump();
    t.ok(count('send') <= 3, 'the ACK, and at most one request for both names');
    t.ok(count('send') >= 2);
    t.end();
  });

  t.test(
    `${apiType}: 32 requests are taken together, so the transport can stop the others`,
    (t) => {
      const { server, pump, respond, count } = start(apiType);
      server.handleAttemptEvent(server.health.epoch, { kind: 'blocked' }, 0);
      for (let at = 0; at < 40; at++) respond(String(at));
      server.handleAttemptEvent(server.health.epoch, { kind: 'writable' }, 0);
      pump();
      t.equal(count('send'), 1 + 32);
      t.ok(server.hasMore);
      server.handleAttemptEvent(server.health.epoch, { kind: 'blocked' }, 0);
      pump();
      t.equal(count('send'), 1 + 32);
      server.handleAttemptEvent(server.health.epoch, { kind: 'writable' }, 0);
      pump();
      t.equal(count('send'), 1 + 40);
      t.notOk(server.hasMore);
      t.end();
    },
  );

  t.test(`${apiType}: more than 1 MiB of waiting ACKs ends the stream`, (t) => {
    const { server, effects, respond, count } = start(apiType);
    server.handleAttemptEvent(server.health.epoch, { kind: 'blocked' }, 0);
    const nonce = 'n'.repeat(1_000);
    for (let at = 0; at < 900; at++) respond(nonce);
    t.equal(count('unread'), 0);
    for (let at = 0; at < 200; at++) respond(nonce);
    t.ok(count('unread') > 0);
    t.match(
      effects.find(({ kind }) => kind === 'unread'),
      { reason: /1048576 bytes of ACKs/ },
    );
    const end = { code: 8, message: '', detectedBy: 'stream' } as const;
    server.handleAttemptEvent(server.health.epoch, { kind: 'ended', end }, 0);
    t.equal(server.contents.subscriptionCount, 1);
    t.end();
  });

  t.test(`${apiType}: a nonce of more than 1 KiB makes the response unreadable`, (t) => {
    const { effects, respond, count } = start(apiType);
    respond('n'.repeat(MAX_NONCE_BYTES));
    t.equal(count('malformed'), 0);
    respond('n'.repeat(MAX_NONCE_BYTES + 1));
    t.match(effects.at(-1), { kind: 'malformed', reason: /its nonce has 1025 bytes/ });
    t.end();
  });
}

t.test('a nonce counts in bytes, not in characters', (t) => {
  t.equal(refusalOfNonce(''), undefined);
  t.equal(refusalOfNonce('é'.repeat(512)), undefined);
  t.match(refusalOfNonce('é'.repeat(513)), /1026 bytes/);
  t.end();
});

t.test('a queue of ACKs knows its size, with the texts of NACKs', (t) => {
  const queue = new AckQueue();
  t.equal(queue.shift(0), undefined);
  const ack = { typeUrl: THING, responseNonce: 'abc', errorDetail: undefined };
  queue.push(ack, 0);
  const ofAck = queue.bytes;
  queue.push({ ...ack, errorDetail: { code: 3, message: 'wrong' } }, 0);
  t.equal(queue.bytes, 2 * ofAck + 5);
  t.equal(queue.size, 2);
  t.equal(queue.shift(0), ack);
  t.equal(queue.bytes, ofAck + 5);
  queue.clear();
  t.equal(queue.bytes, 0);
  t.equal(queue.size, 0);
  t.equal(queue.shift(0), undefined);
  t.end();
});

t.test(
  'a NACK with the reason of the last one comes a second after it, one of another type or reason at once',
  (t) => {
    const queue = new AckQueue();
    const nack = (typeUrl: string, message: string, nonce: string) => ({
      typeUrl,
      responseNonce: nonce,
      errorDetail: { code: 3, message },
    });
    const taken = (nowMs: number): string | undefined => queue.shift(nowMs)?.responseNonce;
    queue.push(nack('T', 'wrong', '1'), 100);
    t.equal(taken(100), '1');
    queue.push(nack('T', 'wrong', '2'), 200);
    const bytes = queue.bytes;
    queue.push(nack('T', 'wrong', '3'), 300);
    t.equal(queue.bytes, 2 * bytes, 'each response has its answer (invariant 5)');
    queue.push(nack('U', 'wrong', 'other'), 300);
    t.equal(taken(300), 'other');
    t.equal(queue.nextMs, 1_100);
    t.equal(queue.size, 0);
    t.equal(taken(1_099), undefined);
    t.equal(taken(1_100), '2');
    t.equal(taken(1_100), '3');
    t.equal(queue.nextMs, Infinity);
    queue.push(nack('T', 'wrong', '4'), 1_200);
    t.equal(queue.nextMs, 2_100, 'since the last one that was sent');
    queue.push(nack('T', 'otherwise', '5'), 1_300);
    t.equal(taken(1_300), '4');
    t.equal(taken(1_300), '5');
    queue.push(nack('T', 'otherwise', '6'), 1_400);
    queue.push({ ...nack('T', '', '7'), errorDetail: undefined }, 1_500);
    t.equal(taken(1_500), '6');
    t.equal(taken(1_500), '7', 'an ACK');
    queue.push(nack('T', 'otherwise', '8'), 1_600);
    t.equal(taken(1_600), '8', 'the source has sent something else meanwhile');
    queue.push(nack('T', 'otherwise', '9'), 2_600);
    t.equal(taken(2_600), '9');
    queue.clear();
    t.equal(queue.bytes, 0);
    t.end();
  },
);

/**
 * A source that answers each request with a resource that the gateway refuses, for 10 s.
 *
 * @param pushes responses that it sends without a request, all of them after half a second
 */
function refusedAgain(apiType: ApiType, pushes = 0): { readonly nacks: number } {
  const server = managementServerOf({ apiType });
  const resources = [{ name: 'not an xdstp name of this source', version: '1', body: Buffer.of() }];
  server.subscribe(THING, nameOf(thing('c', 'a')), LISTENER, 0);
  let requests = 0;
  for (let nowMs = 0; nowMs < 10_000; nowMs += 10) {
    server.handleTimer(nowMs);
    for (let at = 0; nowMs === 500 && at < pushes; at++) {
      const bytes = encodeResponse({ typeUrl: THING, nonce: `pushed ${at}`, resources });
      server.handleMessage(server.health.epoch, bytes, nowMs);
    }
    for (let sent = 1; sent > 0 && requests < 1_000;) {
      const effects = server.takeEffects(nowMs);
      sent = effects.filter(({ kind }) => kind === 'send').length;
      requests += sent;
      for (let at = 0; at < sent; at++) {
        const bytes = encodeResponse({ typeUrl: THING, nonce: `n${requests}`, resources });
        server.handleMessage(server.health.epoch, bytes, nowMs);
      }
    }
  }
  return { nacks: requests - 1 };
}

for (const [apiType, variant] of [
  ['AGGREGATED_DELTA_GRPC', 'delta'],
  ['AGGREGATED_GRPC', 'state of the world'],
] as const) {
  t.test(`a source that repeats what was refused gets one NACK a second (${variant})`, (t) => {
    const loop = refusedAgain(apiType);
    t.ok(loop.nacks <= 12, `${loop.nacks} NACKs in 10 s`);
    t.ok(loop.nacks >= 9);
    t.end();
  });

  t.test(`and no more for each response that it pushes meanwhile (${variant})`, (t) => {
    const { nacks } = refusedAgain(apiType, 2);
    t.ok(nacks <= 36, `${nacks} NACKs in 10 s`);
    t.end();
  });
}

t.test('a federation holds back requests of a blocked source only', (t) => {
  const driver = new FederationDriver(mapOf({ authorities: { c: { sources: ['s'] } } }));
  const { federation } = driver;
  driver.watch(thing('c', 'a'));
  const server = federation.servers[0]!;
  const { epoch } = server.health;
  federation.handleAttemptEvent('nobody', epoch, { kind: 'blocked' }, driver.nowMs);
  federation.handleAttemptEvent('s', epoch, { kind: 'blocked' }, driver.nowMs);
  driver.watch(thing('c', 'b'));
  const isOpen = (): boolean =>
    federation
      .flush(driver.nowMs)
      .some((effect) => effect.kind === 'server' && effect.effect.kind === 'send');
  t.notOk(isOpen());
  federation.handleAttemptEvent('nobody', epoch, { kind: 'writable' }, driver.nowMs);
  federation.handleAttemptEvent('s', epoch, { kind: 'writable' }, driver.nowMs);
  t.ok(isOpen(), 'the request follows');
  t.end();
});

t.test('attempts that do not connect make no request; names merge until one does', (t) => {
  const driver = new FederationDriver(mapOf({ authorities: { c: { sources: ['s'] } } }));
  const requests = (): number =>
    driver
      .takeEffects()
      .filter((effect) => effect.kind === 'server' && effect.effect.kind === 'send').length;
  driver.kill('s');
  driver.watch(thing('c', 'a'));
  driver.advance(60_000);
  driver.watch(thing('c', 'b'));
  t.ok(driver.dials.length > 2, `${driver.dials.length} attempts`);
  t.equal(requests(), 0);
  driver.revive('s');
  driver.advance(60_000);
  t.equal(requests(), 2, 'one for both names, and its ACK');
  t.end();
});

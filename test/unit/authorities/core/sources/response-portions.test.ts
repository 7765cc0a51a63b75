/**
 * Goal: a large response of a source is taken in portions, and means what it would mean in one
 * (docs/adr/0021-portions.md).
 * Method: one management server, with portions of one resource each.
 */
import t from 'tap';
import { type ServerEffect } from '../../../../../authorities/core/sources/management-server.js';
import {
  PORTION_BYTES,
  Portions,
} from '../../../../../authorities/core/sources/response-portions.js';
import type { ApiType } from '../../../../../config/model.js';
import { wholeOf } from '../../../../../protos/discovery-fields.js';
import { encodeDeltaResponse } from '../../../../../protos/delta-codec.js';
import { encodeSotwResponse } from '../../../../../protos/sotw-codec.js';
import {
  encodeResponse,
  decodeRequest,
  type SentResource,
} from '../../../../support/discovery-messages.js';
import { nameOf, THING, thing } from '../../../../support/federation-driver.js';
import { managementServerOf } from '../../../../support/management-server.js';
import { bare } from '../../../../support/sotw-stream-rig.js';

const ONE_RESOURCE_BYTES = 1_100;
const LISTENER = {};
const CDS = 'type.googleapis.com/envoy.config.cluster.v3.Cluster';
const END = { code: 14, message: 'gone', detectedBy: 'stream' } as const;

const cluster = (id: string): string => `xdstp://c/envoy.config.cluster.v3.Cluster/${id}`;
const resource = (id: string, ttlMs = 0): SentResource => ({
  name: thing('c', id),
  version: '1',
  body: Buffer.from([1]),
  ...(ttlMs > 0 && { ttl: { seconds: 0, nanos: ttlMs * 1_000_000 } }),
});

function start(apiType: ApiType = 'AGGREGATED_DELTA_GRPC') {
  const rights = { isBroken: false };
  const mayServe = (): boolean => {
    if (rights.isBroken) throw new Error('broken');
    return true;
  };
  const server = managementServerOf(
    { apiType },
    { mayServe, portionBytes: ONE_RESOURCE_BYTES, maxResourcesPerResponse: 10_000 },
  );
  const effects: ServerEffect[] = [];
  const pump = (nowMs = 0): void => {
    effects.push(...server.takeEffects(nowMs));
  };
  const ask = (id: string): void => {
    server.subscribe(THING, nameOf(thing('c', id)), LISTENER, 0);
    pump();
  };
  let nonce = 0;
  const send = (
    resources: readonly SentResource[],
    removed: readonly string[] = [],
    nowMs = 0,
  ): void => {
    const names = removed.map((id) => thing('c', id));
    const response = { typeUrl: THING, nonce: `n${++nonce}`, resources, removed: names };
    server.handleMessage(server.health.epoch, encodeResponse(response), nowMs);
    pump(nowMs);
  };
  const goOn = (nowMs = 0): void => {
    server.continueResponse(nowMs);
    pump(nowMs);
  };
  const finish = (nowMs = 0): number => {
    let portions = 0;
    for (; server.isMidResponse; portions++) goOn(nowMs);
    return portions;
  };
  const held = (typeUrl = THING): readonly string[] =>
    [...server.contents.entries(typeUrl)].map(({ projection }) => projection.name.id).sort();
  /** The effects since the last call, without requests that carry names. */
  const told = (): readonly string[] =>
    effects.splice(0).flatMap((effect) => {
      if (effect.kind !== 'send') return [effect.kind];
      const { nonce: acknowledged, error } = decodeRequest(effect.bytes);
      return acknowledged === '' ? [] : [`${error ? 'nack' : 'ack'} ${acknowledged}`];
    });
  return { server, rights, ask, send, goOn, finish, held, told, pump };
}

t.test('a small response is taken at once, a large one in portions of bounded size', (t) => {
  t.equal(new Portions(PORTION_BYTES, 1_000, 10).areSeveral, false);
  const portions = new Portions(PORTION_BYTES, 2 * PORTION_BYTES, 1_000);
  t.ok(portions.areSeveral);
  const full = Array.from({ length: 1_000 }, () => portions.isFull(1_024)).filter(Boolean);
  t.equal(full.length, Math.ceil((1_000 * 2_048) / PORTION_BYTES) - 1);
  t.end();
});

t.test(
  'members come portion by portion; the ACK, and the answer of the glob, with the last one',
  (t) => {
    const { server, ask, send, goOn, held, told } = start();
    ask('g/*');
    told();
    send(['a', 'b', 'c'].map((id) => resource(`g/${id}`)));
    const glob = () => server.contents.subscription(THING, nameOf(thing('c', 'g/*')))?.status;
    t.strictSame(told(), ['pause', 'up'], 'the first portion is to decode it');
    goOn();
    t.strictSame(held(), [], 'the second one is to compare the names');
    goOn();
    t.strictSame(held(), ['g/a']);
    t.equal(glob(), 'requested', 'a member that is not taken yet is not absent');
    goOn();
    goOn();
    t.strictSame(held(), ['g/a', 'g/b', 'g/c']);
    t.equal(glob(), 'present');
    t.strictSame(told(), ['received', 'resume', 'ack n1']);
    t.notOk(server.isMidResponse);
    t.end();
  },
);

t.test('removals and errors are portions too, and a duplicate refuses all of it', (t) => {
  const { ask, send, finish, held, told } = start();
  ask('g/*');
  send(['a', 'b', 'c'].map((id) => resource(`g/${id}`)));
  finish();
  told();
  send([], ['g/a', 'g/b']);
  t.equal(finish(), 3);
  t.strictSame(held(), ['g/c']);
  t.strictSame(told(), ['pause', 'received', 'resume', 'ack n2']);
  send([resource('g/d'), resource('g/e'), resource('g/d')]);
  t.equal(finish(), 1);
  t.strictSame(held(), ['g/c']);
  t.strictSame(told(), ['pause', 'received', 'resume', 'nack n3']);
  t.end();
});

for (const apiType of ['AGGREGATED_DELTA_GRPC', 'AGGREGATED_GRPC'] as const) {
  t.test(`${apiType}: errors of resources are portions like resources`, (t) => {
    const { server, finish, pump } = start(apiType);
    for (const id of ['a', 'b', 'c']) server.subscribe(CDS, nameOf(cluster(id)), LISTENER, 0);
    pump();
    const status = { code: 5, message: 'gone' };
    const errors = ['a', 'b', 'c'].map((id) => ({ name: cluster(id), status }));
    const parts = { typeUrl: CDS, versionInfo: '1', nonce: 's', resources: [], errors };
    const response =
      apiType === 'AGGREGATED_GRPC'
        ? encodeSotwResponse(parts)
        : encodeDeltaResponse({ ...parts, removed: [] });
    server.handleMessage(server.health.epoch, wholeOf(response), 0);
    t.equal(finish(), 4);
    const statuses = [...server.contents.subscriptions(CDS)].map((one) => one.status);
    t.strictSame(statuses, ['absent', 'absent', 'absent']);
    t.end();
  });
}

t.test('bytes that are no response are found in a large message too', (t) => {
  for (const apiType of ['AGGREGATED_DELTA_GRPC', 'AGGREGATED_GRPC'] as const) {
    const { server, finish, told, pump } = start(apiType);
    server.subscribe(CDS, nameOf(cluster('a')), LISTENER, 0);
    pump();
    told();
    // An unknown field of half a MiB, and one that is cut off.
    const head = Buffer.from([0xfa, 0x7f, 0x80, 0x80, 0x20]);
    const bytes = Buffer.concat([head, Buffer.alloc(512 * 1_024), Buffer.from([0x0a, 0x7f])]);
    server.handleMessage(server.health.epoch, bytes, 0);
    pump();
    finish();
    t.strictSame(told(), ['malformed'], apiType);
  }
  t.end();
});

t.test(
  'what comes behind a response waits for it, in order, and so does the end of the stream',
  (t) => {
    const { server, ask, send, goOn, finish, held, told } = start();
    ask('g/*');
    send([resource('g/a'), resource('g/b')]);
    send([], ['g/a']);
    ask('other');
    server.handleAttemptEvent(server.health.epoch, { kind: 'ended', end: END }, 0);
    told();
    goOn();
    goOn();
    goOn();
    t.strictSame(held(), ['g/a', 'g/b'], 'the removal is behind both');
    t.strictSame(told(), ['received'], 'a stream that is over gets no ACK, and no names');
    goOn();
    t.strictSame(held(), ['g/b']);
    t.equal(server.health.kind, 'live');
    finish();
    t.equal(server.health.kind, 'waiting');
    t.strictSame(told(), ['received', 'lost', 'resume']);
    t.end();
  },
);

t.test('a stream that the gateway ends drops the rest', (t) => {
  for (const apiType of ['AGGREGATED_DELTA_GRPC', 'AGGREGATED_GRPC'] as const) {
    const { server, ask, send, finish, held } = start(apiType);
    ask('g/*');
    send([resource('g/a'), resource('g/b')]);
    server.unsubscribe(THING, nameOf(thing('c', 'g/*')), LISTENER, 0);
    server.handleTimer(server.nextDeadlineMs() ?? NaN);
    t.equal(finish(), 0, apiType);
    t.strictSame(held(), []);
    const { health } = server;
    server.handleAttemptEvent(health.epoch, { kind: 'ended', end: END }, 0);
    t.equal(server.health, health, 'its end comes later, and is no failure');
  }
  t.end();
});

t.test('TTLs run from when a response came, also if it waited behind another one', (t) => {
  const { server, ask, send, finish } = start();
  ask('g/*');
  send([resource('g/a'), resource('g/b', 500)], [], 1_000);
  send([resource('g/c', 300)], [], 1_100);
  finish(2_000);
  const ends = [...server.contents.entries(THING)].map(({ expiresAtMs }) => expiresAtMs);
  t.strictSame(ends, [undefined, 1_500, 1_400]);
  t.end();
});

t.test('no resource ends by its TTL while a heartbeat may wait behind a response', (t) => {
  const { server, ask, send, goOn, finish, held } = start();
  ask('g/*');
  send([resource('g/a', 500)]);
  finish();
  send([resource('g/b'), resource('g/c')], [], 400);
  send([resource('g/a', 500)], [], 450);
  server.handleTimer(600);
  t.strictSame(held(), ['g/a']);
  goOn(700);
  finish(800);
  t.strictSame(held(), ['g/a', 'g/b', 'g/c']);
  server.handleTimer(900);
  t.strictSame(held(), ['g/a', 'g/b', 'g/c']);
  server.handleTimer(950);
  t.strictSame(held(), ['g/b', 'g/c']);
  t.end();
});

t.test(
  'after a malformed message of the source, the gateway makes no request on its stream',
  (t) => {
    const { server, ask, told, pump } = start();
    ask('a');
    told();
    server.handleMessage(server.health.epoch, Buffer.from([0x0a, 0x7f]), 0);
    server.subscribe(THING, nameOf(thing('c', 'b')), LISTENER, 0);
    const effects = server.takeEffects(0).map(({ kind }) => kind);
    t.strictSame(effects, ['malformed']);
    pump();
    t.end();
  },
);

t.test('timers of the stream wait: silence between portions is not silence of the source', (t) => {
  const { server, ask, send, goOn } = start();
  ask('g/*');
  ask('single');
  send([resource('g/a'), resource('g/b')]);
  goOn();
  server.handleTimer(60_000);
  t.equal(server.contents.subscription(THING, nameOf(thing('c', 'single')))?.status, 'requested');
  t.end();
});

t.test('no name times out while its answer waits behind a response (seed 21026)', (t) => {
  const { server, ask, send, goOn, finish, told } = start();
  ask('g/*');
  ask('single');
  send([resource('g/a'), resource('g/b')]);
  send([resource('single')], [], 100);
  told();
  while (!told().includes('received')) goOn(200);
  t.ok(server.isMidResponse, 'the answer still waits');
  server.handleTimer(60_000);
  const status = () => server.contents.subscription(THING, nameOf(thing('c', 'single')))?.status;
  t.equal(status(), 'requested');
  finish(60_000);
  t.equal(status(), 'present');
  t.end();
});

t.test('an error of the gateway in a later portion ends the stream', (t) => {
  const { rights, server, ask, send, goOn, told, pump } = start();
  ask('g/*');
  send([resource('g/a'), resource('g/b')]);
  told();
  goOn();
  rights.isBroken = true;
  t.throws(() => {
    goOn();
  }, /broken/);
  pump();
  t.strictSame(told(), ['malformed']);
  t.notOk(server.isMidResponse);
  t.end();
});

t.test('a set of the state of the world deletes in portions what it lacks', (t) => {
  const { server, finish, held, goOn, pump } = start('AGGREGATED_GRPC');
  for (const id of ['a', 'b', 'c', 'd']) server.subscribe(CDS, nameOf(cluster(id)), LISTENER, 0);
  pump();
  const respond = (...ids: readonly string[]): void => {
    const resources = ids.map((id) => bare(CDS, cluster(id)));
    const parts = { typeUrl: CDS, versionInfo: `${ids.length}`, nonce: 's', resources, errors: [] };
    server.handleMessage(server.health.epoch, wholeOf(encodeSotwResponse(parts)), 0);
    pump();
  };
  respond('a', 'b', 'c', 'd');
  t.equal(finish(), 5);
  t.strictSame(held(CDS), ['a', 'b', 'c', 'd']);
  respond('a');
  goOn();
  goOn();
  t.strictSame(held(CDS), ['a', 'c', 'd']);
  server.unsubscribe(CDS, nameOf(cluster('d')), LISTENER, 0);
  finish();
  t.strictSame(held(CDS), ['a']);
  t.end();
});

/** 3,000 names and one of them again. */
const TWICE = [...Array.from({ length: 3_000 }, (_, at) => String(at)), '0'];

t.test('the names of a large response are compared in portions', (t) => {
  const { ask, send, finish, held, told } = start();
  ask('g/*');
  told();
  send(TWICE.map((id) => resource(`g/${id}`)));
  t.ok(finish() >= 3);
  t.strictSame(held(), []);
  t.strictSame(told(), ['pause', 'up', 'received', 'resume', 'nack n1']);
  t.end();
});

t.test('the names of a large set of the state of the world, too', (t) => {
  const { server, finish, held, pump } = start('AGGREGATED_GRPC');
  server.subscribe(CDS, nameOf(cluster('0')), LISTENER, 0);
  pump();
  const resources = TWICE.map((id) => bare(CDS, cluster(id)));
  const parts = { typeUrl: CDS, versionInfo: '1', nonce: 's', resources, errors: [] };
  server.handleMessage(server.health.epoch, wholeOf(encodeSotwResponse(parts)), 0);
  t.ok(finish() >= 3);
  t.strictSame(held(CDS), [], 'a duplicate refuses all of it');
  t.end();
});

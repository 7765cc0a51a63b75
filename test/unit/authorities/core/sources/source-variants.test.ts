/**
 * Goal: what a management server is told besides messages: that it is alive, that it lacks a type,
 * and that its stream must be replaced (docs/SPEC.md, "What each variant of a source does").
 * Method: the federation with scripted servers, and the machine of one server alone.
 */
import t from 'tap';
import type { ManagementServer } from '../../../../../authorities/core/sources/management-server.js';
import { wholeOf } from '../../../../../protos/discovery-fields.js';
import { oldStyleName } from '../../../../../protos/resource-name.js';
import { encodeSotwResponse } from '../../../../../protos/sotw-codec.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import { encodeResponse } from '../../../../support/discovery-messages.js';
import { bodyOf, wrapped } from '../../../../support/sotw-stream-rig.js';
import {
  FederationDriver,
  mapOf,
  nameOf,
  thing,
  THING,
} from '../../../../support/federation-driver.js';
import type { GrpcSourceSpec } from '../../../../../config/model.js';
import { managementServerOf } from '../../../../support/management-server.js';

const CDS = TYPE_URL.cluster;
const LISTENER = {};

const serverOf = (spec: Partial<GrpcSourceSpec> = {}): ManagementServer =>
  managementServerOf(spec, { oldStyle: { scope: '', mayServe: () => true } });

t.test('a polled source that has nothing new is up; late IO of an old attempt is ignored', (t) => {
  const server = serverOf();
  server.subscribe(THING, nameOf(thing('c', 'a')), LISTENER, 0);
  server.takeEffects(0);
  server.handleAttemptEvent(server.health.epoch - 1, { kind: 'alive' }, 1);
  t.equal(server.health.kind, 'connecting');
  server.handleAttemptEvent(server.health.epoch, { kind: 'alive' }, 2);
  t.equal(server.health.kind, 'live');
  t.equal(server.contents.subscription(THING, nameOf(thing('c', 'a')))?.status, 'requested');
  t.end();
});

t.test('a type that a source does not serve is UNAVAILABLE at once, and the rest goes on', (t) => {
  const server = serverOf({ apiType: 'DELTA_GRPC' });
  server.subscribe(THING, nameOf(thing('c', 'a')), LISTENER, 0);
  server.takeEffects(0);
  const unserved = { typeUrl: THING, reason: 'no such service' };
  server.handleAttemptEvent(server.health.epoch - 1, { kind: 'type_unserved', ...unserved }, 2);
  const subscription = server.contents.subscription(THING, nameOf(thing('c', 'a')));
  t.equal(subscription?.status, 'requested', 'an old attempt says nothing');
  server.handleAttemptEvent(server.health.epoch, { kind: 'type_unserved', ...unserved }, 2);
  t.match(subscription, { status: 'timed_out', absence: { code: 12 } });
  t.match(server.takeEffects(0), [{ kind: 'type_unserved', ...unserved }]);
  t.equal(server.health.kind, 'connecting');
  t.end();
});

t.test(
  'the federation hands both kinds of news to the source, and ignores a source that is gone',
  (t) => {
    const driver = new FederationDriver(mapOf({ authorities: { c: { sources: ['s'] } } }));
    driver.server('s').reachability = 'black_hole';
    const watcher = driver.watching(thing('c', 'a'));
    const { federation } = driver;
    const [server] = federation.servers;
    const epoch = server?.health.epoch ?? 0;
    federation.handleAttemptEvent('gone', epoch, { kind: 'alive' }, driver.nowMs);
    federation.handleAttemptEvent(
      'gone',
      epoch,
      { kind: 'type_unserved', typeUrl: THING, reason: '' },
      driver.nowMs,
    );
    t.equal(server?.health.kind, 'connecting');
    federation.handleAttemptEvent('s', epoch, { kind: 'alive' }, driver.nowMs);
    t.equal(server?.health.kind, 'live');
    federation.handleAttemptEvent(
      's',
      epoch,
      { kind: 'type_unserved', typeUrl: THING, reason: 'x' },
      driver.nowMs,
    );
    driver.pump();
    t.strictSame(watcher.take(), [`error 12 ${nameOf(thing('c', 'a')).key}`]);
    t.end();
  },
);

t.test('a delta wildcard with members that is left and subscribed again gets a new stream', (t) => {
  const wildcard = oldStyleName('', '*');
  for (const members of [0, 1]) {
    const server = serverOf({ apiType: 'AGGREGATED_DELTA_GRPC' });
    server.subscribe(CDS, wildcard, LISTENER, 0);
    server.subscribe(TYPE_URL.secret, oldStyleName('', 'a'), LISTENER, 0);
    server.takeEffects(0);
    const resources = [{ name: 'one', version: '1', body: new Uint8Array() }].slice(0, members);
    server.handleMessage(
      server.health.epoch,
      encodeResponse({ typeUrl: CDS, nonce: 'n', resources, removed: [] }),
      1,
    );
    server.takeEffects(1);
    server.unsubscribe(CDS, wildcard, LISTENER, 2);
    server.subscribe(CDS, wildcard, LISTENER, 60_000);
    const kinds = server.takeEffects(60_000).map(({ kind }) => kind);
    t.equal(kinds.includes('hang_up'), members > 0, 'go-control-plane would not send them again');
  }
  t.end();
});

t.test('a wildcard that is left and subscribed again gets a new stream (seed 68)', (t) => {
  const server = serverOf({ apiType: 'AGGREGATED_GRPC' });
  const wildcard = oldStyleName('', '*');
  const other = oldStyleName('', 'a');
  server.subscribe(CDS, wildcard, LISTENER, 0);
  server.subscribe(TYPE_URL.secret, other, LISTENER, 0);
  server.takeEffects(0);
  const parts = { typeUrl: CDS, versionInfo: '1', nonce: 'n', resources: [], errors: [] };
  server.handleMessage(server.health.epoch, wholeOf(encodeSotwResponse(parts)), 1);
  server.takeEffects(1);
  const before = server.health.epoch;
  server.unsubscribe(CDS, wildcard, LISTENER, 2);
  server.subscribe(CDS, wildcard, LISTENER, 3);
  t.notOk(
    server.takeEffects(3).some(({ kind }) => kind === 'hang_up'),
    'a client that toggles it does not decide how often',
  );
  t.equal(server.nextDeadlineMs(), 10_001);
  server.handleTimer(10_001);
  t.match(
    server.takeEffects(10_001).find(({ kind }) => kind === 'hang_up'),
    { reason: /only a new stream/ },
  );
  t.equal(server.health.epoch, before + 1);
  t.end();
});

t.test(
  'a source that never answers trips, although a client comes and goes with its wildcard',
  (t) => {
    const server = serverOf({ apiType: 'AGGREGATED_GRPC' });
    const wildcard = oldStyleName('', '*');
    server.subscribe(TYPE_URL.secret, oldStyleName('', 'a'), LISTENER, 0);
    server.subscribe(CDS, wildcard, LISTENER, 0);
    server.takeEffects(0);
    for (let nowMs = 3_000; nowMs <= 15_000; nowMs += 3_000) {
      server.unsubscribe(CDS, wildcard, LISTENER, nowMs);
      server.subscribe(CDS, wildcard, LISTENER, nowMs);
      server.handleTimer(nowMs);
      server.takeEffects(nowMs);
    }
    t.equal(server.health.tripped, 'silent');
    t.end();
  },
);

t.test('a heartbeat of a member that expired here gets a new stream at once (seed 5003)', (t) => {
  const server = serverOf({ apiType: 'AGGREGATED_GRPC' });
  server.subscribe(CDS, oldStyleName('', '*'), LISTENER, 0);
  server.takeEffects(0);
  const respond = (resource: Buffer, nowMs: number): void => {
    const parts = { typeUrl: CDS, versionInfo: '1', nonce: 'n', resources: [resource], errors: [] };
    server.handleMessage(server.health.epoch, wholeOf(encodeSotwResponse(parts)), nowMs);
    server.takeEffects(nowMs);
  };
  respond(wrapped('a', '7', 5, bodyOf('a', 1)), 1);
  server.handleTimer(5_001);
  server.takeEffects(5_001);
  respond(wrapped('a', '7', 5), 40_000);
  t.equal(server.health.kind, 'waiting');
  t.equal(server.health.tripped, null, 'a stream that lived long enough is not a failure');
  t.end();
});

/**
 * Goal: waits and intervals follow their settings.
 * Method: the parts of the gateway as `compose.ts` wires them, with non-default settings.
 */
import { connect } from 'node:net';
import { pino } from 'pino';
import t from 'tap';
import { DEFAULT_LIMITS, type Limits } from '../../../config/limits.js';
import { parseSettings, type Settings } from '../../../config/settings.js';
import { createGateway } from '../../../gateway/compose.js';
import { clock } from '../../../gateway/clock.js';
import { streamProtocols } from '../../../gateway/clients/stream-protocols.js';
import { GRANTED } from '../../../gateway/core/rights/rights.js';
import { Telemetry } from '../../../gateway/telemetry/telemetry.js';
import { STATUS_CODE } from '../../../protos/discovery.js';
import { nameOf } from '../../support/fake-directory.js';
import { mapOf } from '../../support/federation-driver.js';
import { CDS, SDS, cds, sds } from '../../support/mesh-names.js';
import { startStreamServer } from '../../support/served-streams.js';
import { Instance } from '../../support/session-driver.js';
import { WRAPPING_NODE } from '../../support/sotw-driver.js';

/** A state-of-the-world session whose client subscribed `names` at 0 ms. */
function sotwSession(limits: Partial<Limits>, typeUrl: string, ...names: string[]) {
  return sotwSessionOn(false, limits, typeUrl, ...names);
}

/** @param isOfOneType on a stream of this type instead of ADS */
function sotwSessionOn(
  isOfOneType: boolean,
  limits: Partial<Limits>,
  typeUrl: string,
  ...names: string[]
) {
  const instance = new Instance();
  const settings: Parameters<typeof streamProtocols>[0] = {
    limits: { ...DEFAULT_LIMITS, ...limits },
    absentRouteAnswer: 'removed',
    missingClusterAnswer: 'placeholder',
    unanswerableStream: 'end',
  };
  const { sotw } = streamProtocols(settings, instance.cache);
  const session = sotw.open({
    onReady: () => undefined,
    scopeOf: () => ({ kind: 'not_served' }),
    maxMessageBytes: () => Infinity,
    isOfOneType,
    nameQuota: undefined,
    isBufferFull: () => false,
    judge: () => GRANTED,
  });
  const rest = { versionInfo: '', responseNonce: '', errorDetail: undefined };
  const request = { ...rest, typeUrl, names, node: WRAPPING_NODE };
  session.handleRequest(request, 0);
  return { instance, session, request };
}

t.test('`limits.missing_cluster_wait` sets when the placeholder is sent (GRPC 8)', (t) => {
  const names = [cds('a'), cds('b', 'down')];
  const { instance, session, request } = sotwSession(
    { missingClusterWaitMs: 7_000 },
    CDS,
    ...names,
  );
  instance.directory.put(CDS, cds('a'), 'v1');
  instance.directory.answer(({ authority }) => authority !== 'down');
  t.ok(session.takeResponse(4_000), 'existing content');
  const ack = { ...request, responseNonce: '1' };
  session.handleRequest(ack, 4_000);
  t.equal(session.takeResponse(6_999), undefined);
  t.ok(session.takeResponse(7_000));
  t.end();
});

t.test(
  'on a stream of clusters alone there is no placeholder, whose endpoints would come from ADS',
  (t) => {
    const limits = { missingClusterWaitMs: 5_000 };
    const { instance, session } = sotwSessionOn(true, limits, CDS, cds('a'), cds('b', 'down'));
    instance.directory.put(CDS, cds('a'), 'v1');
    instance.directory.answer(({ authority }) => authority !== 'down');
    const first = session.takeResponse(4_000);
    t.ok(first, 'existing content');
    t.equal(session.nextDeadlineMs, undefined);
    t.equal(session.takeResponse(60_000), undefined);
    t.end();
  },
);

t.test('`limits.unanswerable_wait` sets when the stream ends (GRPC 8)', (t) => {
  const { session } = sotwSession({ unanswerableWaitMs: 4_000 }, SDS, sds('a'));
  t.equal(session.endStatus(3_999), undefined);
  t.match(session.endStatus(4_000), { code: STATUS_CODE.unavailable });
  t.end();
});

function settingsOf(...argv: readonly string[]): Settings {
  const read = parseSettings({ argv: ['--authority-map', 'map.yaml', ...argv], env: {} });
  if (!read.ok) throw new Error(JSON.stringify(read.problems));
  return read.settings;
}

t.test('`limits.unsubscribed_linger` sets how long an unsubscribed name is kept', (t) => {
  const gateway = createGateway({
    settings: settingsOf('--unsubscribed-linger', '7s'),
    map: mapOf({ authorities: { cloud: { sources: ['c'] } } }),
    telemetry: new Telemetry(pino({ level: 'silent' })),
    transport: {
      dial: () => ({
        send: () => undefined,
        probe: () => Promise.resolve(true),
        cancel: () => undefined,
      }),
    },
  });
  t.teardown(() => gateway.stop());
  const { cache } = gateway;
  const client = { handleNameChanged: () => undefined, handleGlobChanged: () => undefined };
  const nowMs = clock();
  cache.unsubscribeName(
    cache.subscribeName(CDS, nameOf(cds('a')), client),
    client,
    'disconnected',
    nowMs,
  );
  t.equal(cache.nextDeadlineMs(), nowMs + 7_000);
  t.end();
});

t.test('a client that does not answer a keepalive PING is disconnected', async (t) => {
  const { client } = settingsOf(
    '--client-keepalive-time',
    '20ms',
    '--client-keepalive-timeout',
    '20ms',
  );
  const server = await startStreamServer(client.keepalive);
  t.teardown(() => server.stop());
  const socket = connect(server.port, '127.0.0.1');
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  // This client sends only the preface and an empty SETTINGS frame.
  const emptySettings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), emptySettings]));
  await new Promise((resolve) => socket.on('close', resolve));
  const ping = 6;
  t.ok(frameTypes(Buffer.concat(chunks)).includes(ping));
});

/**
 * The types of consecutive HTTP/2 frames (RFC 9113, section 4.1): 24 bits of length, then the type.
 */
function frameTypes(bytes: Buffer): readonly number[] {
  const types: number[] = [];
  for (let at = 0; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3)) {
    types.push(bytes.readUInt8(at + 3));
  }
  return types;
}

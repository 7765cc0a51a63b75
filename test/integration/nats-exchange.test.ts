/**
 * Goal: whatever a NATS server does, the exchange continues when it can, and stops on close
 * (docs/INSTANCES.md).
 * Method: a scripted server on loopback.
 */
import t, { type Test } from 'tap';
import { NatsPeerExchange } from '../../gateway/peers/nats-exchange.js';
import { ScriptedNats } from '../support/scripted-nats.js';
import { until, within } from '../support/until.js';

const PAYLOAD = Buffer.alloc(1_000, 'x');
const MANY = 1_200;

interface Told {
  connected: number;
  sent: number;
  dropped: number;
  refused: string[];
  errors: unknown[];
}

async function serverOf(t: Test): Promise<ScriptedNats> {
  const server = await ScriptedNats.start();
  t.teardown(() => server.stop());
  return server;
}

function exchangeWith(t: Test, server: ScriptedNats, resubscribeMs?: number) {
  const told: Told = { connected: 0, sent: 0, dropped: 0, refused: [], errors: [] };
  const settings = {
    servers: [`nats://${server.address}`],
    ...{ cluster: 'test', subjectPrefix: 'tributary', tls: null, graceMs: 1 },
  };
  const handlers = {
    onConnected: () => {
      told.connected++;
    },
    onDisconnected: () => undefined,
    onMessage: () => undefined,
    onSent: () => {
      told.sent++;
    },
    onDropped: () => {
      told.dropped++;
    },
    onRefused: (reason: string) => void told.refused.push(reason),
    onError: (error: unknown) => void told.errors.push(error),
  };
  const exchange = new NatsPeerExchange(settings, 'me', handlers, resubscribeMs);
  t.teardown(() => exchange.close());
  exchange.start();
  return { exchange, told };
}

const subscriptions = (server: ScriptedNats): number =>
  server.connections.flat().filter((line) => line.startsWith('SUB ')).length;

t.test('messages queued for a slow server are bounded, and are sent when it is back', async (t) => {
  const server = await serverOf(t);
  const { exchange, told } = exchangeWith(t, server);
  await until('it is connected', () => told.connected === 1);
  server.answers = false;
  exchange.publish(Buffer.from('first'));
  for (let at = 0; at < MANY; at++) exchange.publish(PAYLOAD);
  t.ok(told.sent < 1_060, `${told.sent} messages wait`);
  t.equal(told.sent + told.dropped, MANY + 1);
  server.answer();
  await until('more is accepted', () => {
    const before = told.sent;
    exchange.publish(Buffer.from('more'));
    return told.sent > before;
  });
  await until('it arrived', () => server.connections[0]?.includes('more'));
  t.equal(server.connections.length, 1, 'on the same connection');
});

t.test('a permission to subscribe that is granted later is used', async (t) => {
  const server = await serverOf(t);
  server.refusal = 'Permissions Violation for Subscription to "tributary.test.hint"';
  const { told } = exchangeWith(t, server, 20);
  await until('the refusal is reported', () => told.refused.length >= 2);
  await until('it is tried again', () => subscriptions(server) >= 3);
  server.refusal = undefined;
  const asked = subscriptions(server);
  await until('once more', () => subscriptions(server) > asked);
  server.hangUp();
  await until('it is connected again', () => told.connected === 2);
  await until('it subscribes there', () =>
    server.connections.at(-1)?.some((line) => line.startsWith('SUB tributary.test.hint ')),
  );
  t.strictSame(told.errors, []);
});

t.test('a refused subscription is requested on the next connection', async (t) => {
  const server = await serverOf(t);
  server.refusal = 'Permissions Violation for Subscription to "tributary.test.hint"';
  const { told } = exchangeWith(t, server);
  await until('the refusal is reported', () => told.refused.length >= 2);
  server.refusal = undefined;
  server.hangUp();
  await until('it subscribes there', () => subscriptions(server) === 2);
  t.equal(told.connected, 2);
});

t.test('close waits at most one second for a server that accepts nothing more', async (t) => {
  const server = await serverOf(t);
  const { exchange, told } = exchangeWith(t, server);
  await until('it is connected', () => told.connected === 1);
  server.stopReading();
  for (let at = 0; at < MANY; at++) exchange.publish(PAYLOAD);
  const startedMs = performance.now();
  await within('it is closed', 5_000, exchange.close());
  t.ok(performance.now() - startedMs < 3_000);
});

t.test('without TLS the exchange connects only to servers that the settings name', async (t) => {
  const [server, other] = [await serverOf(t), await serverOf(t)];
  server.info = { connect_urls: [other.address] };
  const { told } = exchangeWith(t, server);
  for (let times = 1; times <= 3; times++) {
    await until('it is connected', () => told.connected === times);
    server.hangUp();
  }
  await until('it is connected', () => told.connected === 4);
  t.equal(other.connections.length, 0);
});

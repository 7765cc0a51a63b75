/**
 * Goal: the breaker of a source ends an attempt whose response is overdue, and no other.
 * Method: the shell of a source on a transport without a network, with opossum's timers under a fake clock.
 */
import { mock } from 'node:test';
import t, { type Test } from 'tap';
import { NO_IDENTITY } from '../../../authorities/core/sources/client-identity.js';
import type { AttemptEvent } from '../../../authorities/core/sources/management-server.js';
import { SourceConnection } from '../../../authorities/source-connection.js';
import type { Attempt } from '../../../authorities/transport.js';
import type { GrpcSourceSpec } from '../../../config/model.js';
import { mapOf, THING } from '../../support/federation-driver.js';

const MAP = mapOf({ authorities: { cloud: { sources: ['c'] } }, timers: { probeIntervalMs: 0 } });
const spec = MAP.sources.get('c') as GrpcSourceSpec;
/** The backstop comes a second after the machine's own deadline. */
const BACKSTOP_MS = spec.timers.firstResponseTimeoutMs + 1_000;

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function setUp(t: Test) {
  mock.timers.enable({ apis: ['setTimeout'] });
  const events: AttemptEvent[] = [];
  const attempt = { send: () => undefined, cancel: () => undefined } as unknown as Attempt;
  const shell = new SourceConnection(
    spec,
    NO_IDENTITY,
    { dial: () => attempt },
    {
      onMessage: () => undefined,
      onEvent: (_epoch, event) => events.push(event),
      onCredentialsChanged: () => undefined,
    },
  );
  t.teardown(() => {
    shell.close();
    mock.timers.reset();
  });
  const wait = async (ms: number): Promise<void> => {
    mock.timers.tick(ms);
    await settled();
  };
  return { events, shell, wait };
}

const DIAL = { kind: 'dial', epoch: 1, timeoutMs: 15_000 } as const;
const END = { code: 14, message: 'refused', detectedBy: 'stream' } as const;
const SEND = { kind: 'send', typeUrl: THING, bytes: new Uint8Array() } as const;

t.test('a stream without a request owes no response, however long it waits', async (t) => {
  const { events, shell, wait } = setUp(t);
  shell.perform(DIAL);
  await wait(10 * BACKSTOP_MS);
  t.strictSame(events, []);
  shell.perform(SEND);
  await wait(BACKSTOP_MS - 1);
  t.strictSame(events, []);
  await wait(1);
  t.match(events, [{ kind: 'ended', end: { detectedBy: 'deadline' } }]);
});

t.test(
  'a response to no request closes the breaker too, and the next request has no deadline',
  async (t) => {
    const { events, shell, wait } = setUp(t);
    shell.perform({ kind: 'tripped', reason: 'unreachable', end: END });
    shell.perform(DIAL);
    await wait(2);
    shell.perform({ kind: 'up' });
    await settled();
    t.equal(shell.breakerState, 'closed');
    shell.perform(SEND);
    await wait(10 * BACKSTOP_MS);
    t.strictSame(events, []);
  },
);

/**
 * Goal: a bug in the gateway costs the affected source a reconnect, and never the process.
 * Method: the shell over a transport of arrays, with a state machine that is made to throw.
 */
import t, { type Test } from 'tap';
import type { Federation } from '../../../authorities/core/federation.js';
import { FederatedClient } from '../../../authorities/federated-client.js';
import type { AttemptHandlers } from '../../../authorities/transport.js';
import { DEFAULT_RESOLUTION } from '../../../config/limits.js';
import type { SourceTimers } from '../../../config/model.js';
import { mapOf, nameOf, RecordingWatcher, thing, THING } from '../../support/federation-driver.js';

interface Dialled {
  readonly source: string;
  readonly target: string;
  readonly handlers: AttemptHandlers;
  cancelled: boolean;
}

function start(t: Test, timers: Partial<SourceTimers> = {}) {
  const dials: Dialled[] = [];
  const errors: unknown[] = [];
  const fileProblems: (readonly string[])[] = [];
  let told: () => void = () => undefined;
  const client = new FederatedClient({
    map: mapOf({ authorities: { cloud: { sources: ['c'] }, other: { sources: ['o'] } }, timers }),
    nodeFor: () => new Uint8Array(),
    maxResourcesPerResponse: 100,
    bounds: DEFAULT_RESOLUTION,
    transport: {
      dial: ({ name, target }, _identity, handlers) => {
        const dialled: Dialled = { source: name, target, handlers, cancelled: false };
        dials.push(dialled);
        told();
        return {
          send: () => undefined,
          probe: () => Promise.resolve(true),
          cancel: () => (dialled.cancelled = true),
        };
      },
    },
    onEffect: () => undefined,
    onFileProblems: (source, problems) => fileProblems.push([source, ...problems]),
    onError: (error) => errors.push(error),
    clock: () => performance.now(),
  });
  t.teardown(() => {
    client.close();
  });
  client.start();
  const dial = async (number: number): Promise<Dialled> => {
    while (dials.length < number) await new Promise<void>((resolve) => (told = resolve));
    return dials[number - 1]!;
  };
  return { client, dials, errors, fileProblems, dial };
}

t.test(
  'a source whose message makes the gateway throw is reconnected; other sources are unaffected',
  async (t) => {
    const { client, dials, errors, dial } = start(t, { backoffBaseMs: 1, backoffMaxMs: 1 });
    const watcher = new RecordingWatcher();
    client.watch(THING, nameOf(thing('cloud', 'a')), watcher);
    client.watch(THING, nameOf(thing('other', 'a')), watcher);
    await dial(2);
    const bug = new Error('a bug');
    const federation = client.view as Federation;
    const takeIn = federation.handleMessage.bind(federation);
    federation.handleMessage = () => {
      throw bug;
    };
    const first = dials.find(({ source }) => source === 'c')!;
    first.handlers.onMessage(new Uint8Array([1]));
    t.strictSame(errors, [bug]);
    t.equal(first.cancelled, true);
    federation.handleMessage = takeIn;
    t.equal((await dial(3)).source, 'c');
    t.equal(dials.find(({ source }) => source === 'o')?.cancelled, false);
  },
);

t.test('a watcher that throws is reported as an error, and the rest continues', async (t) => {
  const { client, errors, dial } = start(t);
  const bug = new Error('a bug');
  const watcher = new RecordingWatcher();
  watcher.onResourceError = () => {
    throw bug;
  };
  client.watch(THING, nameOf(thing('unknown', 'a')), watcher);
  await Promise.resolve();
  t.strictSame(errors, [bug]);
  client.watch(THING, nameOf(thing('cloud', 'a')), new RecordingWatcher());
  t.equal((await dial(1)).source, 'c');
});

t.test('the problems of a directory end when another one replaces it', (t) => {
  const { client, fileProblems } = start(t);
  const directory = t.testdir({ bad: { 'a.yaml': '{' }, good: { 'a.yaml': '[]' } });
  const reload = (path: string): void => {
    const map = mapOf({ authorities: { cloud: { sources: ['f'] } }, paths: ['f'] });
    const spec = { kind: 'path', name: 'f', path: `${directory}/${path}` } as const;
    client.reload({ ...map, sources: new Map([['f', spec]]) });
  };
  reload('bad');
  t.match(fileProblems, [['f', /a.yaml/]]);
  reload('good');
  t.strictSame(fileProblems.slice(1), [['f']]);
  reload('bad');
  client.close();
  t.equal(fileProblems.length, 3, 'a shutdown tells nothing');
  t.end();
});

t.test('a reload connects the new target of a source, and a new source, at once', async (t) => {
  const { client, dials, dial } = start(t);
  client.watch(THING, nameOf(thing('cloud', 'a')), new RecordingWatcher());
  await dial(1);
  client.watch(THING, nameOf(thing('new', 'a')), new RecordingWatcher());
  client.reload(
    mapOf({
      authorities: { cloud: { sources: ['c'] }, new: { sources: ['n'] } },
      targets: { c: 'elsewhere:1', n: 'new:1' },
    }),
  );
  await dial(3);
  t.equal(dials[0]?.cancelled, true);
  t.strictSame(
    dials
      .slice(1)
      .map(({ target }) => target)
      .sort(),
    ['elsewhere:1', 'new:1'],
  );
  t.ok(dials.slice(1).every(({ cancelled }) => !cancelled));
});

/**
 * Goal: a trace has the clients to which a change went, and when each answered, and no other; what is traced is bounded.
 */
import t from 'tap';
import type { FederationEffect } from '../../../../../authorities/index.js';
import type { ClientStreamEvent } from '../../../../../gateway/clients/client-stream.js';
import type { HeldChange } from '../../../../../gateway/core/cache/resource-cache.js';
import {
  ChangeTraces,
  type TracedStream,
} from '../../../../../gateway/telemetry/traces/change-traces.js';
import { parseResourceName } from '../../../../../protos/resource-name.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';

const CDS: string = TYPE_URL.cluster;
const wireName = (id: string): string => `xdstp://cloud/envoy.config.cluster.v3.Cluster/${id}`;

function held(id: string, after: string | undefined, cause: HeldChange['cause'] = 'said') {
  const parsed = parseResourceName(wireName(id));
  if (!parsed.ok) throw new Error(id);
  return { typeUrl: CDS, name: parsed.value, before: 'old', after, cause };
}

const received = (typeUrl = CDS): FederationEffect =>
  ({ kind: 'server', source: 'one', effect: { kind: 'received', typeUrl } }) as FederationEffect;
/** A chunk for each text. */
const response = (...texts: readonly string[]): Buffer[] => texts.map((text) => Buffer.from(text));
const client = (id: number, flavour: TracedStream['flavour'] = 'delta'): TracedStream => ({
  id,
  flavour,
  node: { id: `node-${id}` },
});
const ack = (sinceMs: number, typeUrl: string = CDS): ClientStreamEvent => ({
  kind: 'ack',
  typeUrl,
  authority: 'cloud',
  sinceMs,
});

function rig() {
  const now = { ms: 1_000 };
  const traces = new ChangeTraces(() => now.ms);
  return { now, traces };
}

t.test('a change is traced from the source to the ACK of each client that got it', (t) => {
  const { now, traces } = rig();
  traces.handleHeld(held('a', 'version-a'));
  traces.handleFederation(received());
  now.ms = 1_010;
  traces.handleWritten(client(1), response(CDS, 'version-a'), 1_009);
  traces.handleWritten(client(2), response(CDS, 'version-b'), 1_009);
  traces.handleWritten(client(3), response(TYPE_URL.listener, 'version-a'), 1_009);
  traces.handleWritten(client(4, 'poll'), response(CDS, wireName('a')), 1_009);
  traces.handleWritten(
    { ...client(5, 'sotw'), node: undefined },
    response(CDS, wireName('a')),
    1_009,
  );
  traces.handleWritten(client(6, 'sotw'), response(CDS, wireName('b')), 1_009);
  now.ms = 1_020;
  traces.handleClient(client(1), ack(500));
  traces.handleClient(client(1), ack(11, TYPE_URL.listener));
  traces.handleClient(client(1), { kind: 'opened' });
  now.ms = 1_030;
  traces.handleClient(client(1), ack(21));
  traces.handleClient(client(5, 'sotw'), {
    kind: 'nack',
    typeUrl: CDS,
    authority: 'cloud',
    detail: { code: 3, message: 'no' },
  });
  now.ms = 1_040;
  traces.handleClient(client(1), ack(0));
  traces.handleClient(client(2), ack(0));
  t.strictSame(traces.takeFinished(10_999), [], 'followed for 10 s');
  t.strictSame(traces.takeFinished(11_000), [
    {
      startMs: 1_000,
      source: 'one',
      typeUrl: CDS,
      resources: 1,
      names: [wireName('a')],
      clients: [
        {
          client: 1,
          nodeId: 'node-1',
          protocol: 'delta',
          sentMs: 1_009,
          answeredMs: 1_030,
          refusal: undefined,
        },
        {
          client: 5,
          nodeId: '',
          protocol: 'sotw',
          sentMs: 1_009,
          answeredMs: 1_030,
          refusal: 'no',
        },
      ],
      moreClients: 0,
    },
  ]);
  t.strictSame(traces.takeAll(), []);
  t.end();
});

t.test('a removal is in the removed names (delta) or in a set without the name (sotw)', (t) => {
  const { traces } = rig();
  traces.handleHeld(held('a', undefined));
  traces.handleWritten(client(1), response(CDS, wireName('a')), 1_001);
  traces.handleWritten(client(2, 'sotw'), response(CDS, wireName('b')), 1_001);
  traces.handleWritten(client(3, 'sotw'), response(CDS, wireName('a')), 1_001);
  const [trace] = traces.takeAll();
  t.strictSame(
    trace?.clients.map((one) => one.client),
    [1, 2],
  );
  t.equal(trace?.source, undefined, 'no response of a stream led to it');
  t.end();
});

t.test('first responses and dropped names are not changes', (t) => {
  const { traces } = rig();
  traces.handleHeld(held('a', 'v', 'first'));
  traces.handleHeld(held('a', undefined, 'dropped'));
  traces.handleFederation({ kind: 'closed', source: 'one' });
  traces.handleFederation(received());
  t.strictSame(traces.takeAll(), []);
  t.end();
});

t.test('events of one turn belong together, those of the next turn do not', async (t) => {
  const { now, traces } = rig();
  traces.handleFederation(received());
  traces.handleHeld(held('a', 'v1'));
  traces.handleHeld(held('b', 'v2'));
  await Promise.resolve();
  now.ms = 2_000;
  traces.handleHeld(held('a', 'v3'));
  await Promise.resolve();
  const shown = traces
    .takeAll()
    .map(({ source, resources, startMs }) => [source, resources, startMs]);
  t.strictSame(shown, [
    ['one', 2, 1_000],
    [undefined, 1, 2_000],
  ]);
});

t.test('changes, names and clients are bounded, and counted beyond', async (t) => {
  const { traces } = rig();
  for (let id = 0; id < 20; id++) traces.handleHeld(held(`n${id}`, `v${id}`));
  for (let id = 0; id < 300; id++) traces.handleWritten(client(id), response(CDS, 'v0'), 1_001);
  for (let round = 0; round < 60; round++) {
    traces.handleHeld(held('a', `w${round}`));
    await Promise.resolve();
  }
  const all = traces.takeAll();
  t.equal(all.length, 50);
  t.equal(traces.dropped, 11);
  t.match(all[0], { resources: 20, moreClients: 100 });
  t.equal(all[0]?.names.length, 8);
  t.equal(all[0]?.clients.length, 200);
});

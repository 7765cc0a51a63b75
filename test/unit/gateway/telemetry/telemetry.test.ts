/**
 * Goal: logs and metrics report each fact once, under published names, and peers cannot make them
 * grow.
 */
import { pino } from 'pino';
import t from 'tap';
import type { FederationEffect, FailoverGroup } from '../../../../authorities/index.js';
import type { AuthorityMap } from '../../../../config/model.js';
import type { ClientStream } from '../../../../gateway/clients/client-stream.js';
import type { GatewayView } from '../../../../gateway/gateway-view.js';
import { prettyLine } from '../../../../gateway/telemetry/log.js';
import { Repeats } from '../../../../gateway/telemetry/repeats.js';
import { Telemetry } from '../../../../gateway/telemetry/telemetry.js';
import { TYPE_URL } from '../../../../protos/type-urls.js';
import { joined } from '../../../support/metrics-text.js';

type Line = Record<string, unknown> & { readonly event: string };

function rig(level = 'debug') {
  const lines: Line[] = [];
  const log = pino({ level }, { write: (text: string) => lines.push(JSON.parse(text) as Line) });
  const now = { ms: 1_000 };
  const telemetry = new Telemetry(log, { repeatIntervalMs: 60_000, clock: () => now.ms });
  const named = (event: string): readonly Line[] => lines.filter((line) => line.event === event);
  return { lines, named, now, telemetry };
}

const streamOf = (nodeGroup?: string) =>
  ({
    id: 1,
    peer: '127.0.0.1:1',
    node: { id: 'n', cluster: 'c' },
    nodeGroup,
  }) as unknown as ClientStream;
const stream = streamOf();
const nack = (message: string, typeUrl: string = TYPE_URL.cluster, authority = 'a') =>
  ({ kind: 'nack', typeUrl, authority, detail: { code: 3, message } }) as const;

const group = {
  id: 'cloud/*',
  spec: { name: 'cloud' },
  candidates: [{ source: { name: 'one' } }, { source: { name: 'two' } }],
  failover: { cause: 'start' },
} as unknown as FailoverGroup;
const server = (effect: unknown): FederationEffect =>
  ({ kind: 'server', source: 'one', effect }) as FederationEffect;
const ofGroup = (event: unknown): FederationEffect =>
  ({ kind: 'group', group, event }) as FederationEffect;

t.test('a stream that the gateway ends for a reason of its own needs no attention', (t) => {
  const { lines, telemetry } = rig();
  for (const detectedBy of ['gateway', 'stream']) {
    const end = { code: 0, message: '', detectedBy };
    telemetry.onFederation(server({ kind: 'lost', end, livedMs: 90_000 }));
  }
  t.match(lines, [
    { event: 'source_lost', level: 30 },
    { event: 'source_lost', level: 40 },
  ]);
  t.end();
});

t.test('a source that invents status codes makes one series', async (t) => {
  const { telemetry } = rig();
  for (const code of [987_654, NaN, -1])
    telemetry.onFederation(
      server({ kind: 'lost', end: { code, message: '', detectedBy: 'stream' }, livedMs: null }),
    );
  t.match(
    await joined(telemetry.metricsPieces()),
    'tributary_source_stream_ends_total{source="one",reason="stream",code="other"} 3',
  );
});

t.test('a refused resource is logged by its name, without the key of its parameters (TP2)', (t) => {
  const { named, telemetry } = rig();
  const text = 'xdstp://cloud/envoy.config.cluster.v3.Cluster/c';
  const name = { key: `\tenv=prod\t${text}` };
  telemetry.onFederation(ofGroup({ kind: 'refused', name, reason: 'cannot be read' }));
  // `match` would find the text in the key, too.
  const logged = named('resource_refused').map((line) => line['name']);
  t.strictSame(logged, [text]);
  t.end();
});

t.test('the events of a switch give cause, detection, effect and duration', async (t) => {
  const { lines, named, now, telemetry } = rig();
  const end = { code: 4, message: 'the liveness probe was not answered', detectedBy: 'probe' };
  telemetry.onFederation(server({ kind: 'lost', end, livedMs: 90_000 }));
  now.ms += 1_500;
  const refused = { code: 14, message: 'refused', detectedBy: 'stream' };
  telemetry.onFederation(server({ kind: 'lost', end: refused, livedMs: null }));
  telemetry.onFederation(server({ kind: 'tripped', reason: 'unreachable', end: refused }));
  const state = (kind: string, cause: string, active: number, target: number | null) => ({
    kind,
    cause,
    active,
    target,
  });
  const from = state('failing_over', 'primary_tripped', 0, 1);
  const to = state('alt', 'primary_tripped', 1, null);
  telemetry.onFederation(ofGroup({ kind: 'state', from, to }));
  now.ms += 500;
  telemetry.onFederation(
    ofGroup({ kind: 'switched', from: 0, to: 1, atMs: 0, changed: 7, kept: 2 }),
  );
  t.strictSame(
    lines.map(({ event }) => event),
    ['source_lost', 'source_lost', 'source_tripped', 'failover_state', 'authority_switched'],
  );
  t.match(named('authority_switched')[0], {
    authority: 'cloud',
    group: 'cloud/*',
    direction: 'failover',
    reason: 'primary_tripped',
    from: 'one',
    to: 'two',
    changed: 7,
    kept: 2,
    sinceLossMs: 2_000,
    trip: 'unreachable',
  });
  now.ms += 30_000;
  telemetry.onFederation(server({ kind: 'up' }));
  t.match(named('source_up')[0], { source: 'one', lostForMs: 32_000 });
  telemetry.onFederation(
    ofGroup({ kind: 'switched', from: 1, to: 0, atMs: 0, changed: 7, kept: 0 }),
  );
  t.match(named('authority_switched')[1], { direction: 'failback', awayMs: 30_000 });
  const text = await joined(telemetry.metricsPieces());
  t.match(
    text,
    /^tributary_switches_total\{authority="cloud",direction="failover",reason="primary_tripped"\} 1$/m,
  );
  t.match(text, /^tributary_source_trips_total\{source="one",reason="unreachable"\} 1$/m);
});

t.test(
  'the same rejection is logged once a minute, with the number of repetitions, and always counted',
  async (t) => {
    const { named, now, telemetry } = rig();
    telemetry.observe({ upstream: { view: fakeFederation } } as unknown as GatewayView);
    t.teardown(() => {
      telemetry.close();
    });
    telemetry.metrics.collect = () => [].values();
    for (let count = 0; count < 50; count++) telemetry.onClient(stream, nack('bad cluster'));
    t.equal(named('client_nack').length, 1);
    telemetry.onClient(stream, nack('another reason'));
    t.equal(named('client_nack').length, 2, 'another error is another line');
    now.ms += 60_000;
    telemetry.onClient(stream, nack('bad cluster'));
    t.match(named('client_nack')[2], { repeated: 49, code: 3, reason: 'bad cluster', node: 'n' });
    const text = await joined(telemetry.metricsPieces());
    t.match(text, /^tributary_client_nacks_total\{authority="a",type="Cluster"\} 52$/m);
    t.match(text, /^tributary_log_lines_withheld_total 49$/m);
  },
);

const fakeFederation = {
  map: {
    authorities: new Map([['a', { name: 'a' }]]),
    sources: new Map([['one', { name: 'one', kind: 'grpc' }]]),
    oldStyle: { differBy: ['id'], servedBy: [] },
  },
};

t.test(
  'counters with known labels start at 0, so that increase() sees the first event',
  async (t) => {
    const { telemetry } = rig();
    telemetry.observe({ upstream: { view: fakeFederation } } as unknown as GatewayView);
    t.teardown(() => {
      telemetry.close();
    });
    telemetry.metrics.collect = () => [].values();
    const before = await joined(telemetry.metricsPieces());
    for (const series of [
      'tributary_source_trips_total{source="one",reason="unreachable"}',
      'tributary_source_stream_ends_total{source="one",reason="stream",code="14"}',
      'tributary_source_nacks_total{source="one",type="Cluster"}',
      'tributary_client_nacks_total{authority="a",type="Listener"}',
      'tributary_client_nacks_total{authority="other",type="Cluster"}',
      'tributary_client_nacks_total{authority="old-style",type="Cluster"}',
      'tributary_switches_total{authority="a",direction="failover",reason="primary_tripped"}',
      'tributary_map_reloads_total{reason="refused"}',
      'tributary_client_withheld_total{type="Cluster"}',
    ]) {
      t.ok(before.includes(`\n${series} 0\n`), series);
    }
    const afterMapOf = (authorities: number): Promise<string> => {
      const wide = Array.from({ length: authorities }, (_, at) => `of${authorities}n${at}`);
      const specs = new Map(wide.map((name) => [name, { name }]));
      const map = { ...fakeFederation.map, authorities: specs } as unknown as AuthorityMap;
      telemetry.onMapReload('applied', map);
      return joined(telemetry.metricsPieces());
    };
    const after = await afterMapOf(101);
    t.match(after, 'switches_total{authority="of101n7"', 'a new map adds its series');
    t.notMatch(
      after,
      'client_nacks_total{authority="of101n7"',
      'but not those of clients in large maps',
    );
    t.notMatch(
      await afterMapOf(501),
      'switches_total{authority="of501n7"',
      'those of switches neither in very large maps: a scrape would take a long turn',
    );
  },
);

t.test('a group without any source is a warning (state cached), others are not', async (t) => {
  const { named, telemetry } = rig();
  const state = (kind: string) => ({ kind, cause: 'all_sources_down', active: 0, target: null });
  const move = (from: string, to: string): void => {
    telemetry.onFederation(ofGroup({ kind: 'state', from: state(from), to: state(to) }));
  };
  move('reconnecting', 'cached');
  move('cached', 'primary');
  const [cached, primary] = named('failover_state');
  t.match(cached, { level: 40, msg: /no source of the group is in use/ });
  t.match(primary, { level: 30 });
  t.match(
    await joined(telemetry.metricsPieces()),
    /guarded_removals_total\{authority="cloud",group="cloud\/\*"\} 0/,
  );
});

t.test('the detail of a loss is in its line once, and not in the text of the switch', (t) => {
  const { named, telemetry } = rig();
  const end = { code: 14, message: 'connect ECONNREFUSED', detectedBy: 'stream' };
  telemetry.onFederation(server({ kind: 'lost', end, livedMs: 5 }));
  telemetry.onFederation(
    ofGroup({ kind: 'switched', from: 0, to: 1, atMs: 0, changed: 1, kept: 0 }),
  );
  const line = JSON.stringify(named('authority_switched')[0]);
  t.equal(line.split('ECONNREFUSED').length, 2);
  t.end();
});

t.test(
  'a rejection of old-style names is logged once for all node groups, with the first of them',
  async (t) => {
    const { named, telemetry } = rig();
    for (const nodeGroup of ['one', 'two'])
      telemetry.onClient(streamOf(nodeGroup), nack('bad', undefined, nodeGroup));
    const lines = named('client_nack');
    t.match(lines, [{ nodeGroup: 'one', reason: 'bad' }]);
    t.equal(lines.length, 1);
    t.notOk('authority' in lines[0]!, 'a node group is no authority');
    const text = await joined(telemetry.metricsPieces());
    t.match(text, /^tributary_client_nacks_total\{authority="old-style",type="Cluster"\} 2$/m);
  },
);

t.test('a text of megabytes is clipped in the log and not kept', (t) => {
  const { named, telemetry } = rig();
  telemetry.onClient(stream, nack('x'.repeat(4_000_000)));
  t.ok(String(named('client_nack')[0]?.['reason']).length < 1_100);
  t.end();
});

t.test('invented authorities and types of clients share one series', async (t) => {
  const { telemetry } = rig();
  telemetry.observe({ upstream: { view: fakeFederation } } as unknown as GatewayView);
  t.teardown(() => {
    telemetry.close();
  });
  telemetry.metrics.collect = () => [].values();
  for (let count = 0; count < 100; count++) {
    telemetry.onClient(stream, nack('x', `made.up.Type${count}`, `authority-${count}`));
  }
  const series = (await joined(telemetry.metricsPieces()))
    .split('\n')
    .filter((line) => line.startsWith('tributary_client_nacks_total') && !line.endsWith(' 0'));
  t.strictSame(series, ['tributary_client_nacks_total{authority="other",type="other"} 100']);
});

t.test('the memory for repetitions is bounded', (t) => {
  const repeats = new Repeats(1_000);
  for (let count = 0; count < 5_000; count++) repeats.tell(`problem ${count}`, 0);
  t.equal(repeats.tell('problem 4999', 1), undefined, 'the latest is remembered');
  t.equal(repeats.tell('problem 0', 1), 0, 'the oldest counts as new');
  t.end();
});

t.test(
  'resource errors of a source are counted by code, and logged once for each name and code',
  async (t) => {
    const { named, now, telemetry } = rig();
    const say = (...codes: readonly number[]): void => {
      const errors = codes.map((code) => ({ name: 'x', status: { code, message: 'why' } }));
      const outcome = { accepted: 0, refused: [] };
      const typeUrl = TYPE_URL.cluster;
      telemetry.onFederation(server({ kind: 'received', typeUrl, outcome, errors }));
    };
    say();
    t.equal(named('source_resource_errors').length, 0);
    for (let count = 0; count < 3; count++) say(13, 13, 4_711);
    t.match(named('source_resource_errors'), [
      { source: 'one', errors: 3, first: [{ name: 'x', code: 13, reason: 'why' }, {}, {}] },
    ]);
    now.ms += 60_000;
    say(13);
    t.match(named('source_resource_errors').at(-1), { repeated: 2 });
    const text = await joined(telemetry.metrics.pieces());
    t.match(text, /source_resource_errors_total\{source="one",type="\w+",code="13"\} 7/);
    t.match(text, /source_resource_errors_total\{source="one",type="\w+",code="other"\} 3/);
  },
);

t.test(
  'a response that is too large for clients is counted, and logged once (GRPC 12)',
  async (t) => {
    const { named, telemetry } = rig();
    const typeUrl = TYPE_URL.cluster;
    for (let count = 0; count < 3; count++) {
      telemetry.onClient(stream, { kind: 'oversize', typeUrl, resources: 9, bytes: 5_000_000 });
    }
    t.match(named('client_oversize'), [{ type: 'Cluster', resources: 9, bytes: 5_000_000 }]);
    t.equal(named('client_oversize').length, 1);
    const text = await joined(telemetry.metricsPieces());
    t.match(text, /^tributary_client_oversize_responses_total\{type="Cluster"\} 3$/m);
  },
);

t.test('a resource withheld from a client is counted, and logged once (GRPC 12)', async (t) => {
  const { named, telemetry } = rig();
  const large = { typeUrl: TYPE_URL.cluster, bytes: 5_000_000, maxBytes: 4_194_304 };
  for (const name of ['a', 'a', 'b', undefined, undefined]) {
    telemetry.onClient(stream, { kind: 'withheld', name, ...large });
  }
  t.match(named('client_withheld'), [
    { type: 'Cluster', name: 'a', bytes: 5_000_000, maxBytes: 4_194_304 },
    { name: 'b' },
    { set: true },
  ]);
  const text = await joined(telemetry.metricsPieces());
  t.match(text, /^tributary_client_withheld_total\{type="Cluster"\} 5$/m);
});

t.test('human-readable lines show time, level, event, message and fields', (t) => {
  const line = JSON.stringify({
    level: 'info',
    time: '1970-01-01T00:00:00.000Z',
    pid: 1,
    hostname: 'h',
    event: 'source_up',
    source: 'one two',
    n: 3,
    msg: 'a source answered',
  });
  t.equal(
    prettyLine(line),
    '1970-01-01T00:00:00.000Z INFO  source_up: a source answered source="one two" n=3\n',
  );
  t.equal(
    prettyLine(line, true),
    '\u001b[2m1970-01-01T00:00:00.000Z\u001b[0m \u001b[32mINFO \u001b[0m source_up: a source answered' +
      '\u001b[2m source="one two" n=3\u001b[0m\n',
    'on a terminal: the level in its colour, time and fields dim',
  );
  t.end();
});

t.test('a state file that cannot be used is a trouble until it is written', (t) => {
  const { named, telemetry } = rig();
  const file = '/state/names.json';
  t.equal(telemetry.stateTrouble, undefined);
  telemetry.onCollectionMemory({ kind: 'write_failed', file, reason: 'full' });
  telemetry.onCollectionMemory({ kind: 'write_failed', file, reason: 'gone' });
  t.match(named('state_write_failed'), [{ file, reason: 'full' }], 'said once');
  t.equal(named('state_write_failed').length, 1);
  t.equal(telemetry.stateTrouble, `${file}: cannot be written: gone`);
  telemetry.onCollectionMemory({ kind: 'written' });
  t.equal(telemetry.stateTrouble, undefined);
  const refused = { kind: 'refused', file, reason: 'is not a state file' } as const;
  telemetry.onCollectionMemory({ ...refused, setAside: `${file}.refused` });
  t.equal(telemetry.stateTrouble, undefined, 'a new one takes its place');
  telemetry.onCollectionMemory({ ...refused, setAside: undefined });
  t.equal(telemetry.stateTrouble, `${file}: is not a state file`);
  t.end();
});

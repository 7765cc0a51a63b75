/**
 * Goal: loads that clients report over real sockets reach the sources, once and under the sources' names,
 * and neither a broken nor a hostile peer harms anything else (SPEC.md, "Load reports").
 * Method: a gateway in this process between scripted sources and scripted clients.
 */
import { pino } from 'pino';
import t, { type Test } from 'tap';
import type { Limits } from '../../config/limits.js';
import { parseSettings } from '../../config/settings.js';
import { createGateway } from '../../gateway/compose.js';
import { Telemetry } from '../../gateway/telemetry/telemetry.js';
import type { LoadStatsResponse } from '../../protos/load-stats.js';
import { DeltaClient } from '../support/delta-client.js';
import { mapOf } from '../support/federation-driver.js';
import { httpRequest } from '../support/http.js';
import { LoadClient, LoadService } from '../support/load-streams.js';
import { clusterLoad, successfulIn } from '../support/loads.js';
import { CDS, cds } from '../support/mesh-names.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { stoppedWith } from '../support/stopped-with.js';
import { until } from '../support/until.js';
import { encode } from '../unit/protos/envoy-messages.js';

const ALL: LoadStatsResponse = { clusters: 'all', intervalMs: 1_000, byEndpoint: false };

/** A gateway between the cluster `a` of authority cloud, and a client that holds it. */
async function start(t: Test, limits: Partial<Limits> = {}) {
  const upstream = await stoppedWith(t, ScriptedUpstream.start());
  upstream.put(CDS, cds('a'), encode('envoy.config.cluster.v3.Cluster', { name: cds('a') }));
  const settings = parseSettings({
    argv: [
      '--authority-map',
      'x',
      '--client-port',
      '0',
      '--admin-port',
      '0',
      '--drain-grace',
      '100ms',
    ],
    env: {},
  });
  if (!settings.ok) throw new Error('settings');
  const lines: Record<string, unknown>[] = [];
  const log = pino(
    { level: 'trace' },
    { write: (line: string) => lines.push(JSON.parse(line) as Record<string, unknown>) },
  );
  const sketch = { c: `127.0.0.1:${upstream.port}` };
  const gateway = createGateway({
    settings: {
      ...settings.settings,
      limits: { ...settings.settings.limits, ...limits },
    },
    map: mapOf({ authorities: { cloud: { sources: ['c'] } }, targets: sketch }),
    telemetry: new Telemetry(log),
  });
  const port = await gateway.start();
  let stopped: Promise<void> | undefined;
  const stop = (): Promise<void> => (stopped ??= gateway.stop());
  t.teardown(stop);
  const holder = new DeltaClient({ port });
  t.teardown(() => {
    holder.close();
  });
  holder.subscribe(CDS, [cds('a')]);
  await until('the client holds the cluster', () => holder.held(CDS).has(cds('a')));
  const client = (options?: ConstructorParameters<typeof LoadClient>[1]): LoadClient => {
    const made = new LoadClient(port, options);
    t.teardown(() => {
      made.close();
    });
    return made;
  };
  const metric = async (line: string): Promise<boolean> =>
    (await httpRequest(`http://${gateway.admin.address}/metrics`)).body.includes(`${line}\n`);
  const events = (event: string): readonly Record<string, unknown>[] =>
    lines.filter((line) => line['event'] === event);
  return { upstream, client, stop, metric, events, holder };
}

t.test('reports of clients reach the source as one sum', async (t) => {
  const { upstream, client, metric, events } = await start(t);
  const service = new LoadService(upstream, ALL);
  const clients = [client(), client()];
  for (const each of clients) {
    await until('the client is asked', () => each.responses.length > 0);
    t.strictSame(each.responses, [ALL]);
    each.report(clusterLoad(cds('a'), [{ successful: 3, issued: 4, inProgress: 1 }]));
    each.report(clusterLoad(cds('a'), [{ successful: 2, inProgress: 5 }]));
  }
  clients[0]?.report(clusterLoad(cds('nobody'), [{ successful: 9 }]));
  await until('all is reported', () => successfulIn(service.received) === 10);
  t.equal(service.openCount, 1, 'one stream for all clients');
  t.ok(service.received.every(({ clusterName }) => clusterName === cds('a')));
  t.ok(service.received.every(({ intervalMs }) => intervalMs >= 900));
  await until('an unknown cluster is counted', () =>
    metric('tributary_load_dropped_total{reason="unknown"} 1'),
  );
  t.ok(await metric('tributary_load_clients 2'));
  t.ok(await metric('tributary_load_reports_total 5'));
  t.ok(await metric('tributary_source_load_asked{source="c"} 1'));
  t.match(events('source_load_stream'), [{ source: 'c', state: 'asked', clusters: 'all' }]);
  t.match(events('client_load_unknown'), [{ first: cds('nobody') }]);
});

t.test(
  'loads survive a source that ends its streams; its xDS stream is not affected',
  async (t) => {
    const { upstream, client, events } = await start(t);
    const service = new LoadService(upstream, ALL);
    const one = client();
    await until('the client is asked', () => one.responses.length > 0);
    service.endStreams();
    one.report(clusterLoad(cds('a'), [{ successful: 7 }]));
    await until('the loads arrive on the next stream', () => successfulIn(service.received) === 7);
    t.equal(upstream.opened, 1, 'one xDS stream all along');
    t.strictSame(one.responses, [ALL], 'the client continues with what it was asked for');
    service.sendBytes(Uint8Array.of(0xff));
    await until('an unreadable response ends the stream', () =>
      events('source_load_stream').some(({ code }) => code === 13),
    );
    t.equal(upstream.opened, 1);
  },
);

t.test('a source without load reports is asked once; clients report nothing', async (t) => {
  const { upstream, client, events } = await start(t);
  const one = client();
  await until('the client is answered', () => one.responses.length > 0);
  t.strictSame(one.responses, [{ clusters: [], intervalMs: 60_000, byEndpoint: false }]);
  const two = client();
  await until('so is the next one', () => two.responses.length > 0);
  t.match(events('source_load_stream'), [{ source: 'c', state: 'unimplemented' }]);
  t.equal(events('source_load_stream').length, 1);
  t.equal(one.status, undefined, 'its stream stays open');
  t.equal(upstream.opened, 1);
});

t.test(
  'gRPC clients are not asked for endpoints; a later change reaches open streams',
  async (t) => {
    const { upstream, client } = await start(t);
    const service = new LoadService(upstream, { ...ALL, byEndpoint: true });
    const [other, grpc] = [client(), client({ userAgentName: 'gRPC Go' })];
    await until('both are asked', () => other.responses.length > 0 && grpc.responses.length > 0);
    t.equal(other.responses[0]?.byEndpoint, true);
    t.equal(grpc.responses[0]?.byEndpoint, false);
    const named = { clusters: [cds('a')], intervalMs: 5_000, byEndpoint: false };
    service.ask(named);
    await until('both follow', () => other.responses.length > 1 && grpc.responses.length > 1);
    t.strictSame(other.responses.at(-1), named);
  },
);

t.test('a source that does not answer keeps clients waiting for two seconds only', async (t) => {
  const { upstream, client } = await start(t);
  new LoadService(upstream);
  const one = client();
  await until('the client is answered', () => one.responses.length > 0);
  t.match(one.responses, [{ clusters: [], intervalMs: 60_000 }]);
});

t.test(
  'a report above a bound, or bytes that are not a report, end their stream alone',
  async (t) => {
    const limits = { maxLoadEntriesPerReport: 3, maxClients: 4 };
    const { upstream, client, metric, holder } = await start(t, limits);
    new LoadService(upstream, ALL);
    const [many, noise, fine] = [client(), client(), client()];
    await until('all are asked', () =>
      [many, noise, fine].every((each) => each.responses.length > 0),
    );
    const surplus = client();
    await until('streams count towards the limit of clients', () => surplus.status);
    t.match(surplus.status, { code: 8, details: /all streams are taken/ });
    many.report(...['a', 'b', 'c', 'd'].map((id) => clusterLoad(cds(id), [])));
    await until('too many entries', () => many.status);
    t.match(many.status, { code: 8 });
    noise.sendBytes(Uint8Array.of(0x12, 0x7f));
    await until('an unreadable report', () => noise.status);
    t.match(noise.status, { code: 3 });
    t.equal(fine.status, undefined);
    t.equal(holder.held(CDS).size, 1);
    t.ok(await metric('tributary_client_malformed_total 2'));
    t.ok(await metric('tributary_handler_errors_total 0'));
  },
);

t.test('the sums for a source are bounded by `limits.max_load_entries_per_source`', async (t) => {
  const { upstream, client, metric } = await start(t, { maxLoadEntriesPerSource: 2 });
  const service = new LoadService(upstream, ALL);
  const one = client();
  await until('the client is asked', () => one.responses.length > 0);
  const zones = ['a', 'b', 'c'].map((zone) => ({ zone, successful: 1 }));
  one.report(clusterLoad(cds('a'), zones));
  await until('the first locality is reported', () => successfulIn(service.received) === 1);
  t.ok(await metric('tributary_load_dropped_total{reason="limit"} 2'));
});

t.test('at shutdown the source gets the last loads', async (t) => {
  const { upstream, client, stop, events } = await start(t);
  const service = new LoadService(upstream, { ...ALL, intervalMs: 600_000 });
  const one = client();
  await until('the client is asked', () => one.responses.length > 0);
  one.report(clusterLoad(cds('a'), [{ successful: 5 }]));
  await until('the gateway has them', () => events('client_load_report').length > 0);
  await stop();
  t.equal(successfulIn(service.received), 5);
  t.match(one.status, { code: 14 });
});

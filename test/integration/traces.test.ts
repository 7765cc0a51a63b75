/**
 * Goal: a change comes to an OpenTelemetry collector as one trace, and a collector that fails costs traces only.
 * Method: the whole gateway between a scripted source and clients; the collector is an HTTP server on loopback.
 */
import { createServer, type IncomingMessage } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { resourceFromJson } from '../../protos/json-resources.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { DeltaClient } from '../support/delta-client.js';
import { startDirectoryGateway } from '../support/directory-gateway.js';
import { metricsText, seriesOf } from '../support/metrics-text.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { until } from '../support/until.js';

const CDS = TYPE_URL.cluster;
const NAME = 'xdstp://cloud.test/envoy.config.cluster.v3.Cluster/a';

interface Attribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}
interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly Attribute[];
}
interface ExportRequest {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly Span[] }[];
  }[];
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

/** @param status of every response */
async function startCollector(t: Test, status: number) {
  const requests: { readonly path: string; readonly type: string; readonly body: ExportRequest }[] =
    [];
  const server = createServer((request, response) => {
    void textOf(request).then((text) => {
      const type = request.headers['content-type'] ?? '';
      requests.push({ path: request.url ?? '', type, body: JSON.parse(text) as ExportRequest });
      response.writeHead(status, { connection: 'close' }).end('{}');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`;
  return { requests, endpoint };
}

function clusterNamed(statName: string): Uint8Array {
  const read = resourceFromJson({ '@type': CDS, name: NAME, alt_stat_name: statName });
  if (!read.ok) throw new Error(JSON.stringify(read));
  return read.body;
}

async function startGateway(t: Test, ...argv: readonly string[]) {
  const source = await ScriptedUpstream.start();
  t.teardown(() => source.stop());
  source.put(CDS, NAME, clusterNamed('first'));
  const sources = { files: { target: `127.0.0.1:${source.port}`, insecure: true } };
  const rig = await startDirectoryGateway(t, { argv, sources });
  const client = new DeltaClient({ port: rig.port });
  t.teardown(() => {
    client.close();
  });
  client.subscribe(CDS, [NAME]);
  await until('the client holds it', () => client.held(CDS).size === 1);
  const acked = async (): Promise<number> =>
    seriesOf(await metricsText(rig.admin), 'tributary_client_acks_total').reduce(
      (sum, { value }) => sum + value,
      0,
    );
  await until('its ACK', async () => (await acked()) === 1);
  const change = async (statName: string): Promise<void> => {
    const before = await acked();
    source.put(CDS, NAME, clusterNamed(statName));
    await until('the ACK of the change', async () => (await acked()) > before);
  };
  return { ...rig, change };
}

const valueOf = ({ attributes }: Span, key: string): unknown =>
  Object.values(attributes.find((one) => one.key === key)?.value ?? {})[0];

t.test('a change is one trace: the source, and a span for each client until its ACK', async (t) => {
  const { requests, endpoint } = await startCollector(t, 200);
  const { gateway, change } = await startGateway(t, '--traces-endpoint', endpoint);
  const startedMs = Date.now();
  await change('second');
  // The rest is sent at the end.
  await gateway.stop();
  t.equal(requests.length, 1);
  const [request] = requests;
  t.match(request, { path: '/v1/traces', type: 'application/json' });
  const [{ resource, scopeSpans } = { resource: { attributes: [] }, scopeSpans: [] }] =
    request?.body.resourceSpans ?? [];
  t.match(resource.attributes[0], { key: 'service.name', value: { stringValue: 'tributary' } });
  const [root, one, ...more] = scopeSpans[0]?.spans ?? [];
  if (!root || !one) throw new Error('not two spans');
  t.strictSame(more, [], 'the first response of the source is not a change');
  t.match([root.traceId, root.spanId], [/^[0-9a-f]{32}$/, /^[0-9a-f]{16}$/]);
  t.match(one, { traceId: root.traceId, parentSpanId: root.spanId, name: 'client response' });
  t.equal(valueOf(root, 'tributary.source'), 'files');
  t.equal(valueOf(root, 'tributary.type_url'), CDS);
  t.match(valueOf(root, 'tributary.names'), { values: [{ stringValue: NAME }] });
  t.equal(valueOf(root, 'tributary.clients.acknowledged'), '1');
  t.equal(valueOf(one, 'tributary.client.answered'), true);
  const times = [
    root.startTimeUnixNano,
    one.startTimeUnixNano,
    one.endTimeUnixNano,
    root.endTimeUnixNano,
  ].map((text) => Number(BigInt(text) / 1_000n));
  t.strictSame(
    times,
    [...times].sort((a, b) => a - b),
    'source, sent, ACK, end',
  );
  t.ok((times[0] ?? 0) / 1_000 >= startedMs - 5 && (times[3] ?? 0) / 1_000 <= Date.now() + 5);
});

t.test('a collector that refuses, or is away, is logged and counted', async (t) => {
  const { requests, endpoint } = await startCollector(t, 503);
  const { gateway, change, log } = await startGateway(t, '--traces-endpoint', endpoint);
  await change('second');
  await gateway.stop();
  t.equal(requests.length, 1);
  const failed = log.filter(({ event }) => event === 'traces_failed');
  t.match(failed, [{ traces: 1, reason: 'the collector answered 503' }]);
  const away = await startGateway(t, '--traces-endpoint', 'http://127.0.0.1:1/v1/traces');
  await away.change('second');
  await away.gateway.stop();
  t.match(
    away.log.filter(({ event }) => event === 'traces_failed'),
    [{ traces: 1, reason: /./ }],
  );
});

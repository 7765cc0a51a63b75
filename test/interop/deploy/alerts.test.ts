/**
 * Goal: each alert in deploy/ fires when its cause is there, for metrics that the gateway really has, and the dashboard
 * shows only such metrics.
 * Method: promtool evaluates the rules over written series, and over what a running gateway shows.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { parse, stringify } from 'yaml';
import { METRICS, type MetricName } from '../../../gateway/telemetry/metric-names.js';
import { resourceFromJson } from '../../../protos/json-resources.js';
import { TYPE_URL } from '../../../protos/type-urls.js';
import { DeltaClient } from '../../support/delta-client.js';
import { metricsText, seriesOf } from '../../support/metrics-text.js';
import { serveExample } from '../../support/program.js';
import { ScriptedUpstream } from '../../support/scripted-upstream.js';
import { until } from '../../support/until.js';
import { peerPath, projectRoot, skipWithout } from '../peers/provisioned.js';

// Each gateway that a test starts takes seconds on a busy machine.
t.setTimeout(120_000);

const execute = promisify(execFile);
const inDeploy = (path: string): string => join(projectRoot, 'deploy', path);
const rulesFile = inDeploy('prometheus/tributary.rules.yaml');
const testsFile = inDeploy('prometheus/tributary.rules.test.yaml');
const noPromtool = skipWithout('promtool');

interface Rule {
  readonly alert: string;
  readonly expr: string;
}

const { groups } = parse(readFileSync(rulesFile, 'utf8')) as {
  readonly groups: readonly { readonly rules: readonly Rule[] }[];
};
const rules = groups.flatMap((group) => group.rules);

/** Metrics that Prometheus itself makes. */
const ITS_OWN: ReadonlySet<string> = new Set(['up']);

/** The names of metrics in an expression that the gateway does not have. */
function unknownMetrics(expr: string): readonly string[] {
  const withoutLabels = expr.replace(/\{[^}]*\}/g, '').replace(/\b(by|without) \([^)]*\)/g, '');
  const names = withoutLabels.match(/\b(tributary|process|up)\w*/g) ?? [];
  return names.filter((name) => {
    const base = name.replace(/_(bucket|sum|count)$/, '');
    const isHistogram = base in METRICS && METRICS[base as MetricName].kind === 'histogram';
    return !(name in METRICS) && !(isHistogram && base !== name) && !ITS_OWN.has(name);
  });
}

/** Series of the machine that runs the test, which may be busy. */
const isOfMachine = (name: MetricName): boolean => name.startsWith('tributary_event_loop');

/**
 * The alerts that fire, and how often, when the gauges of a scrape keep their values for 20 minutes, and its counters
 * grow from 0 in the last 5 of them.
 */
async function firing(scrape: string): Promise<Readonly<Record<string, number>>> {
  const names = (Object.keys(METRICS) as MetricName[]).filter(
    (name) => METRICS[name].kind !== 'histogram' && !isOfMachine(name),
  );
  const series = names.flatMap((name) =>
    seriesOf(scrape, name).map(({ labels, value }) => {
      const all = Object.entries({ ...labels, job: 'tributary', instance: 'a' });
      const text = all.map(([key, of]) => `${key}=${JSON.stringify(of)}`).join(',');
      const isCounter = METRICS[name].kind === 'counter';
      return { series: `${name}{${text}}`, values: isCounter ? `0x15 ${value}x5` : `${value}x20` };
    }),
  );
  const expr = 'sum by (alertname) (ALERTS{alertstate="firing"})';
  // promtool only compares, so it must expect something wrong to say what it got.
  const wrong = { labels: 'nothing', value: 1 };
  const asked = { expr, eval_time: '20m', exp_samples: [wrong] };
  const test = {
    rule_files: [rulesFile],
    evaluation_interval: '1m',
    tests: [{ interval: '1m', input_series: series, promql_expr_test: [asked] }],
  };
  const folder = mkdtempSync(join(tmpdir(), 'tributary-alerts-'));
  const file = join(folder, 'scrape.test.yaml');
  writeFileSync(file, stringify(test));
  try {
    await execute(peerPath('promtool'), ['test', 'rules', file]);
  } catch (error) {
    const { stderr, stdout } = error as { readonly stderr: string; readonly stdout: string };
    const [, got] = /got:(.*)$/s.exec(stderr + stdout) ?? [];
    if (got === undefined) throw error;
    const found = got.matchAll(/\{alertname="(\w+)"\} ([\d.E+]+)/g);
    return Object.fromEntries(
      [...found].map(([, alert = '', count]) => [alert, Number(count)] as const),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
  throw new Error('promtool found what no rule gives');
}

t.test('promtool finds no mistake in the rules', { skip: noPromtool }, async () => {
  await execute(peerPath('promtool'), ['check', 'rules', '--lint=all', '--lint-fatal', rulesFile]);
});

t.test(
  'each alert fires for its cause, and not before its time',
  { skip: noPromtool },
  async (t) => {
    const { stdout } = await execute(peerPath('promtool'), ['test', 'rules', testsFile]);
    t.match(stdout, 'SUCCESS');
    const text = readFileSync(testsFile, 'utf8');
    for (const { alert } of rules)
      t.ok(text.includes(`alertname="${alert}"`), `${alert} has a test`);
  },
);

t.test('alerts and dashboard use only metrics that the gateway has', (t) => {
  t.strictSame(unknownMetrics('rate(tributary_gone_total{a="b"}[5m])'), ['tributary_gone_total']);
  for (const { alert, expr } of rules) t.strictSame(unknownMetrics(expr), [], alert);
  const dashboard = readFileSync(inDeploy('grafana/tributary.json'), 'utf8');
  const exprs = [...dashboard.matchAll(/"expr": ("(?:[^"\\]|\\.)*")/g)];
  t.ok(exprs.length >= 20, `${exprs.length} queries`);
  for (const [, quoted = '""'] of exprs) {
    const expr = JSON.parse(quoted) as string;
    t.strictSame(unknownMetrics(expr), [], expr);
  }
  t.end();
});

const CLUSTER = TYPE_URL.cluster;
const NAME = 'xdstp://cloud/envoy.config.cluster.v3.Cluster/a';

async function startSource(t: Test): Promise<ScriptedUpstream> {
  const source = await ScriptedUpstream.start();
  t.teardown(() => source.stop());
  const cluster = resourceFromJson({ '@type': CLUSTER, name: NAME });
  if (!cluster.ok) throw new Error(JSON.stringify(cluster));
  source.put(CLUSTER, NAME, cluster.body);
  return source;
}

t.test(
  'a running gateway whose sources are killed fires the alerts of an outage, and none before',
  { skip: noPromtool },
  async (t) => {
    const primary = await startSource(t);
    const second = await startSource(t);
    const folder = mkdtempSync(join(tmpdir(), 'tributary-outage-'));
    t.teardown(() => {
      rmSync(folder, { recursive: true });
    });
    const timers = { backoff_base: '20ms', backoff_max: '50ms', min_stable: '0s' };
    const source = ({ port }: ScriptedUpstream): unknown => ({
      ...{ target: `127.0.0.1:${port}`, insecure: true, timers },
    });
    const map = {
      sources: { primary: source(primary), second: source(second) },
      authorities: { cloud: { sources: ['primary', 'second'], failover: { hold: '5m' } } },
    };
    const file = join(folder, 'map.json');
    writeFileSync(file, JSON.stringify(map));
    const { admin, listen, stop } = await serveExample(file);
    t.teardown(stop);
    const client = new DeltaClient({ port: Number(listen.split(':').at(-1)) });
    t.teardown(() => {
      client.close();
    });
    client.subscribe(CLUSTER, [NAME]);
    const served = async (state: string, by: string): Promise<string> =>
      until(`${by} serves in state ${state}`, async () => {
        const text = await metricsText(admin);
        const active = seriesOf(text, 'tributary_active_source').filter(({ value }) => value === 1);
        const states = seriesOf(text, 'tributary_failover_state').filter(
          ({ value }) => value === 1,
        );
        const isSo = active[0]?.labels['source'] === by && states[0]?.labels['state'] === state;
        return isSo && active.length === 1 ? text : undefined;
      });
    t.strictSame(await firing(await served('primary', 'primary')), {});
    await primary.stop();
    t.strictSame(await firing(await served('alt', 'second')), {
      TributaryServesAlternative: 1,
      TributarySourceLost: 1,
    });
    await second.stop();
    t.strictSame(await firing(await served('cached', 'second')), {
      TributaryNoSourceAvailable: 1,
      TributarySourceLost: 2,
    });
  },
);

t.test(
  'a running gateway whose quotas are reached fires the alerts of quotas, memory and content',
  { skip: noPromtool },
  async (t) => {
    const source = await startSource(t);
    const cluster = resourceFromJson({ '@type': CLUSTER, name: `${NAME}2` });
    if (!cluster.ok) throw new Error(JSON.stringify(cluster));
    source.put(CLUSTER, `${NAME}2`, cluster.body);
    const folder = mkdtempSync(join(tmpdir(), 'tributary-quotas-'));
    t.teardown(() => {
      rmSync(folder, { recursive: true });
    });
    const file = join(folder, 'map.json');
    const map = {
      sources: { s: { target: `127.0.0.1:${source.port}`, insecure: true } },
      authorities: { cloud: { sources: ['s'] } },
    };
    writeFileSync(file, JSON.stringify(map));
    const started = async (...flags: readonly string[]) => {
      const { admin, listen, stop } = await serveExample(file, ...flags);
      t.teardown(stop);
      const clientOf = (...names: readonly string[]): DeltaClient => {
        const client = new DeltaClient({ port: Number(listen.split(':').at(-1)) });
        t.teardown(() => {
          client.close();
        });
        client.subscribe(CLUSTER, names);
        return client;
      };
      return { admin, clientOf };
    };
    /** Adds clients until one is refused, then tells what fires. */
    const crowded = async (first: DeltaClient, admin: string, clientOf: () => DeltaClient) => {
      await until('the first client is served', () => first.responses.length > 0);
      const others = [clientOf(), clientOf()];
      await until('a client is refused', () => others.some(({ status }) => status !== undefined));
      return firing(await metricsText(admin));
    };

    const small = await started('--max-clients', '2', '--max-peer-percent', '100');
    t.strictSame(
      await crowded(small.clientOf(NAME), small.admin, () => small.clientOf(NAME)),
      { TributaryQuotaNearlyFull: 1, TributaryQuotaReached: 1 },
      'all streams are taken',
    );
    const shared = await started('--max-clients', '10', '--max-peer-percent', '20');
    t.strictSame(
      await crowded(shared.clientOf(NAME), shared.admin, () => shared.clientOf(NAME)),
      { TributaryPeerQuotaReached: 1 },
      'one peer has used up its share',
    );
    const options = process.env['NODE_OPTIONS'] ?? '';
    process.env['NODE_OPTIONS'] = `${options} --max-old-space-size=256`;
    const short = await started('--max-heap-percent', '1');
    process.env['NODE_OPTIONS'] = options;
    await until('memory is short', async () => {
      const states = seriesOf(await metricsText(short.admin), 'tributary_memory_state');
      return states.some(({ labels, value }) => labels['state'] !== 'enough' && value === 1);
    });
    t.strictSame(await firing(await metricsText(short.admin)), { TributaryMemoryShort: 1 });
    const full = await started('--max-resources-per-source', '1');
    full.clientOf(NAME, `${NAME}2`);
    await until('the source is refused', () => source.nacks.length > 0);
    t.strictSame(await firing(await metricsText(full.admin)), {
      TributarySourceContentFull: 1,
      TributarySourceRefused: 1,
    });
  },
);

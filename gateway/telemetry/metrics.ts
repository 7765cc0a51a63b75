/**
 * What `/metrics` shows. Counters are plain numbers that a scrape copies into prom-client. Its own `inc` builds a string
 * for each call, which is too slow for the path of every response.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { METRICS, type MetricName, type MetricSpec } from './metric-names.js';

type NameOf<K extends 'counter' | 'gauge' | 'histogram'> = {
  [N in MetricName]: (typeof METRICS)[N]['kind'] extends K ? N : never;
}[MetricName];
export type CounterName = NameOf<'counter'>;
export type GaugeName = NameOf<'gauge'>;
export type HistogramName = NameOf<'histogram'>;

/** One series of a counter. Look it up once, then increment `count`. */
export interface Tally {
  count: number;
}

/** Sets the current value of one series; label values in the order of `METRICS`. */
export type PutGauge = (name: GaugeName, labels: readonly string[], value: number) => void;

const SECONDS_BUCKETS: Readonly<Record<HistogramName, readonly number[]>> = {
  tributary_source_stream_life_seconds: [1, 10, 30, 60, 300, 1_800, 3_600, 21_600, 86_400],
  tributary_client_ack_seconds: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 5, 15, 30],
};

/** The value of one series, for a scrape. */
interface Row {
  readonly labels: readonly string[];
  readonly value: number;
}

/** Series in one piece, which takes some milliseconds. A count. */
const SERIES_PER_PIECE = 200;

interface Series {
  readonly labels: readonly string[];
  readonly tally: Tally;
}

export class Metrics {
  /** Of the histograms. */
  readonly registry = new Registry();
  readonly #series = new Map<CounterName, Map<string, Series>>();
  readonly #histograms = new Map<HistogramName, Histogram>();
  /** Sets the gauges, some with each step; called for each scrape. */
  collect: (put: PutGauge) => Iterator<void> = () => [].values();

  constructor() {
    for (const [name, spec] of Object.entries(METRICS) as [MetricName, MetricSpec][]) {
      const { kind, labels, meaning } = spec;
      if (kind === 'counter' && labels.length === 0) this.tally(name as CounterName);
      if (kind !== 'histogram') continue;
      const buckets = [...SECONDS_BUCKETS[name as HistogramName]];
      const common = { name, help: meaning, labelNames: [...labels], registers: [this.registry] };
      this.#histograms.set(name as HistogramName, new Histogram({ ...common, buckets }));
    }
  }

  /** The series with these label values, in the order of `METRICS`. */
  tally(name: CounterName, ...labels: readonly string[]): Tally {
    let series = this.#series.get(name);
    if (!series) this.#series.set(name, (series = new Map<string, Series>()));
    const key = labels.join('\0');
    let one = series.get(key);
    if (!one) series.set(key, (one = { labels, tally: { count: 0 } }));
    return one.tally;
  }

  observe(name: HistogramName, labels: readonly string[], value: number): void {
    const histogram = this.#histograms.get(name);
    if (labels.length === 0) histogram?.observe(value);
    else histogram?.labels(...labels).observe(value);
  }

  /** The metrics in the Prometheus text format. With thousands of authorities they are 100,000 series. */
  async *pieces(): AsyncGenerator<string> {
    const gauges = new Map<MetricName, Row[]>();
    const gathering = this.collect((name, labels, value) => {
      const rows = gauges.get(name);
      if (rows) rows.push({ labels, value });
      else gauges.set(name, [{ labels, value }]);
    });
    while (gathering.next().done !== true) yield '';
    for (const [name, { kind }] of Object.entries(METRICS) as [MetricName, MetricSpec][]) {
      if (kind === 'gauge') yield* written(name, gauges.get(name) ?? []);
      else if (kind === 'counter') yield* written(name, this.#counts(name as CounterName));
      else yield `${await this.registry.getSingleMetricAsString(name)}\n`;
    }
  }

  *#counts(name: CounterName): IterableIterator<Row> {
    for (const { labels, tally } of this.#series.get(name)?.values() ?? [])
      yield { labels, value: tally.count };
  }
}

/** @returns some series at a time: prom-client writes all of a metric at once, so each piece is a metric of its own */
async function* written(name: MetricName, rows: Iterable<Row>): AsyncGenerator<string> {
  let piece: Row[] = [];
  let isFirst = true;
  for (const row of rows) {
    piece.push(row);
    if (piece.length < SERIES_PER_PIECE) continue;
    yield await textOf(name, piece, isFirst);
    piece = [];
    isFirst = false;
  }
  if (isFirst || piece.length > 0) yield await textOf(name, piece, isFirst);
}

async function textOf(name: MetricName, rows: readonly Row[], hasHead: boolean): Promise<string> {
  const { kind, labels: labelNames, meaning } = METRICS[name];
  const registry = new Registry();
  const options = { name, help: meaning, labelNames: [...labelNames], registers: [registry] };
  const metric = kind === 'counter' ? new Counter(options) : new Gauge(options);
  // Without labels, a new gauge is 0, also for an unknown value.
  if (labelNames.length === 0) metric.remove();
  for (const { labels, value } of rows) {
    if (labels.length === 0) metric.inc(value);
    else metric.labels(...labels).inc(value);
  }
  const text = await registry.getSingleMetricAsString(name);
  const [help = '', type = ''] = text.split('\n', 2);
  return `${hasHead ? text : text.slice(help.length + type.length + 2)}\n`;
}

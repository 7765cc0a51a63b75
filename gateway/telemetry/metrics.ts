/**
 * The registry behind `/metrics`. Counters are plain numbers that a scrape copies into prom-client. Its
 * own `inc` builds a string for each call, which is too slow for the path of every response.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { METRICS, type MetricName } from './metric-names.js';

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

interface Series {
  readonly labels: readonly string[];
  readonly tally: Tally;
}

export class Metrics {
  readonly registry = new Registry();
  readonly #series = new Map<CounterName, Map<string, Series>>();
  readonly #counters = new Map<CounterName, Counter>();
  readonly #gauges = new Map<GaugeName, Gauge>();
  readonly #histograms = new Map<HistogramName, Histogram>();
  /** Sets the gauges; called for each scrape. */
  collect: (put: PutGauge) => void = () => undefined;

  constructor() {
    const registers = [this.registry];
    for (const name of Object.keys(METRICS) as MetricName[]) {
      const { kind, labels, meaning } = METRICS[name];
      const common = { name, help: meaning, labelNames: [...labels], registers };
      if (kind === 'counter') this.#counters.set(name as CounterName, new Counter(common));
      else if (kind === 'gauge') this.#gauges.set(name as GaugeName, new Gauge(common));
      else {
        const buckets = [...SECONDS_BUCKETS[name as HistogramName]];
        this.#histograms.set(name as HistogramName, new Histogram({ ...common, buckets }));
      }
    }
    for (const [name, { labels }] of Object.entries(METRICS)) {
      if (labels.length === 0 && this.#counters.has(name as CounterName))
        this.tally(name as CounterName);
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

  /** The metrics in the Prometheus text format. */
  async text(): Promise<string> {
    for (const [name, counter] of this.#counters) {
      counter.reset();
      for (const { labels, tally } of this.#series.get(name)?.values() ?? []) {
        if (labels.length === 0) counter.inc(tally.count);
        else counter.labels(...labels).inc(tally.count);
      }
    }
    for (const [name, gauge] of this.#gauges) {
      gauge.reset();
      // Without labels, `reset` leaves a 0, also for an unknown value.
      if (METRICS[name].labels.length === 0) gauge.remove();
    }
    this.collect((name, labels, value) => {
      const gauge = this.#gauges.get(name);
      if (labels.length === 0) gauge?.set(value);
      else gauge?.labels(...labels).set(value);
    });
    return this.registry.metrics();
  }
}

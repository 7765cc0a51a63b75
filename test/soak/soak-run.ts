/**
 * A gateway under load for a long time: clients come and go, sources die and return, maps change. What
 * its process holds is looked at all along, and again when everybody has left.
 */
import { until } from '../support/until.js';
import { Churn } from './churn.js';
import { askHeld, type Held } from './gateway-meter.js';
import { SoakScene, type Pace } from './soak-scene.js';

export interface SoakOptions {
  readonly durationMs: number;
  /** Samples before this time do not count for the slope. */
  readonly warmUpMs: number;
  readonly sampleEveryMs: number;
  readonly connectsPerSecond: number;
  readonly pace: Pace;
  readonly withNats: boolean;
  readonly onSample?: (sample: Sample) => void;
}

export interface Sample extends Held {
  readonly atMs: number;
  readonly aliveMiB: number;
  readonly visits: number;
  readonly present: number;
}

export interface SoakOutcome {
  readonly samples: readonly Sample[];
  /** Of what is alive in the heap and in buffers, by least squares, after the warm-up. */
  readonly slopeMiBPerMinute: number;
  readonly before: Held;
  readonly after: Held;
  /** What there is more of after everybody left than before anybody came: name, before, after. */
  readonly leftOver: readonly (readonly [what: string, before: number, after: number])[];
  readonly visits: ReadonlyMap<string, number>;
  /** Streams that the gateway ended while their clients were there, by status. */
  readonly ended: ReadonlyMap<string, number>;
  readonly unheard: number;
  readonly handlerErrors: number;
  readonly counts: SoakScene['counts'];
}

/** Longer than the gateway keeps anything for clients that may return. */
const REST_WITHIN_MS = 120_000;

export async function soak(options: SoakOptions): Promise<SoakOutcome> {
  const scene = await SoakScene.start(options.withNats);
  const { gateway } = scene;
  try {
    const before = await atRest(gateway, undefined);
    const churn = new Churn({ ...options, port: gateway.port, slow: scene.slow });
    scene.begin(options.pace);
    churn.start();
    const samples = await sampled(scene, churn, options);
    churn.stop();
    await scene.settle();
    scene.leave();
    const after = await atRest(gateway, before);
    return {
      samples,
      slopeMiBPerMinute: slopePerMinute(samples.filter(({ atMs }) => atMs >= options.warmUpMs)),
      before,
      after,
      leftOver: leftOver(before, after),
      visits: churn.counts,
      ended: churn.ended,
      unheard: churn.unheard,
      handlerErrors: await gateway.metric('tributary_handler_errors_total'),
      counts: scene.counts,
    };
  } catch (error) {
    if (error instanceof Error) error.message += `\n${gateway.logs()}`;
    throw error;
  } finally {
    await scene.stop();
  }
}

async function sampled(
  { gateway }: SoakScene,
  churn: Churn,
  { durationMs, sampleEveryMs, onSample }: SoakOptions,
): Promise<readonly Sample[]> {
  const samples: Sample[] = [];
  const startedMs = performance.now();
  for (;;) {
    const dueMs = startedMs + sampleEveryMs * (samples.length + 1);
    await new Promise((resolve) => setTimeout(resolve, dueMs - performance.now()));
    const held = await askHeld(gateway);
    const sample = {
      ...held,
      atMs: performance.now() - startedMs,
      aliveMiB: (held.heapUsedBytes + held.externalBytes) / 1_048_576,
      visits: [...churn.counts.values()].reduce((sum, count) => sum + count, 0),
      present: churn.present,
    };
    samples.push(sample);
    onSample?.(sample);
    if (sample.atMs >= durationMs) return samples;
  }
}

/** Waits until the process holds no more than `before`, for a bounded time. @returns what it holds */
async function atRest(gateway: SoakScene['gateway'], before: Held | undefined): Promise<Held> {
  let held = await askHeld(gateway);
  if (!before) return held;
  const look = async (): Promise<boolean> => {
    held = await askHeld(gateway);
    return leftOver(before, held).length === 0;
  };
  await until('nothing is left over', look, { timeoutMs: REST_WITHIN_MS, everyMs: 1_000 }).catch(
    () => undefined,
  );
  return held;
}

function leftOver(before: Held, after: Held): SoakOutcome['leftOver'] {
  const counts = ({ timers, listeners, fileWatches, openFiles, resources }: Held) =>
    new Map(Object.entries({ timers, listeners, fileWatches, openFiles, ...resources }));
  const known = counts(before);
  const more = [...counts(after)].filter(([what, count]) => count > (known.get(what) ?? 0));
  // The lines of code that started them.
  const places = more.some(([what]) => what === 'timers')
    ? Object.entries(after.timersByPlace)
    : [];
  return [
    ...more.map(([what, count]) => [what, known.get(what) ?? 0, count] as const),
    ...places.map(([place, count]) => [place, before.timersByPlace[place] ?? 0, count] as const),
  ];
}

/** Least squares. */
export function slopePerMinute(samples: readonly Pick<Sample, 'atMs' | 'aliveMiB'>[]): number {
  const mean = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  const minutes = samples.map(({ atMs }) => atMs / 60_000);
  const [meanX, meanY] = [mean(minutes), mean(samples.map(({ aliveMiB }) => aliveMiB))];
  let [above, below] = [0, 0];
  samples.forEach(({ aliveMiB }, at) => {
    const x = (minutes[at] ?? 0) - meanX;
    above += x * (aliveMiB - meanY);
    below += x * x;
  });
  return above / below;
}

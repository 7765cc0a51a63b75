import type { LoadGenerator } from '../harness/load-generator.js';
import type { Server } from '../harness/server.js';
import { memoryMiB } from '../harness/process-meter.js';
import {
  asked,
  COMMON,
  count,
  down,
  onServer,
  TIMEOUT_MS,
  type Demand,
  type Scale,
  type Variant,
  type Workload,
  VARIANTS,
} from './workload.js';

interface Watch {
  readonly clients: (scale: Scale) => number;
  readonly connections?: (scale: Scale) => number;
  readonly catalogue: (scale: Scale) => number;
  /** Another client subscribes all resources: a gateway holds only what a client subscribes. */
  readonly held?: boolean;
  readonly demand: (scale: Scale) => Demand;
  /** The number of resources that change, one after the other, from the start of the catalogue. */
  readonly span: number;
  readonly changes: (scale: Scale) => number;
  readonly budgetMs: (scale: Scale) => number;
  readonly variant?: Variant;
}

/** Pause before each change: a busy loop would hide the cost of waking up. */
const GAP_MS = 10;

/** One change after another, each after the previous one has reached every client. */
function watch(id: string, title: (scale: Scale) => string, shape: Watch): Workload {
  return {
    id,
    title,
    run: (name, scale) =>
      onServer(name, { resources: shape.catalogue(scale), ...shape.variant }, async (bench) => {
        const { server, load, another, measured } = bench;
        const connections = shape.connections?.(scale);
        if (shape.held === true && server.upstream !== undefined) {
          await hold(another(), server, shape.catalogue(scale), shape.variant);
        }
        await load.run({
          op: 'connect',
          target: server.target,
          clients: shape.clients(scale),
          ...(connections === undefined ? {} : { connections }),
          ...COMMON,
          ...shape.variant,
          ...asked(shape.demand(scale), server),
        });
        const change = {
          op: 'changes',
          control: server.control,
          origin: 'A',
          span: shape.span,
          timeoutMs: TIMEOUT_MS,
          budgetMs: shape.budgetMs(scale),
          gapMs: GAP_MS,
        } as const;
        await load.run({ ...change, count: 3 });
        const changes = shape.changes(scale);
        const run = await measured(() => load.run({ ...change, count: changes }));
        return new Map([
          ['CPU µs/delivery', (1_000 * run.cpuMs) / run.answer.deliveries],
          ['p50 ms', run.answer.delivery!.p50Ms],
          ['p99 ms', run.answer.delivery!.p99Ms],
          ['peak RSS MiB', memoryMiB(server.pid).peak],
        ]);
      }),
  };
}

async function hold(
  holder: LoadGenerator,
  server: Server,
  resources: number,
  variant: Variant = {},
): Promise<void> {
  await holder.run({
    op: 'connect',
    target: server.target,
    clients: 1,
    ...COMMON,
    ...(variant.oldStyle === true ? { oldStyle: true } : {}),
    ...asked({ wildcardOf: resources }, server),
  });
}

const manyWatchers = {
  clients: (scale: Scale) => down(1_000, scale),
  catalogue: (scale: Scale) => down(100_000, scale),
  held: true,
  demand: () => ({ shared: 100, own: 0 }),
  span: 100,
  changes: (scale: Scale) => down(100, scale),
  budgetMs: (scale: Scale) => down(30_000, scale),
} satisfies Watch;

function manyWatchersTitle(scale: Scale): string {
  const clients = count(down(1_000, scale));
  return `1 change of ${count(manyWatchers.catalogue(scale))}, ${clients} watchers of 100 names`;
}

/** W2 and W3: the cost of one change, with many watchers and with large collections. */
export const WATCHES: readonly Workload[] = [
  ...VARIANTS.map(({ suffix, text, variant }) =>
    watch(`W2${suffix}`, (scale) => `${manyWatchersTitle(scale)}${text}`, {
      ...manyWatchers,
      variant,
    }),
  ),
  watch('W2m', (scale) => `${manyWatchersTitle(scale)}, 20 connections`, {
    ...manyWatchers,
    connections: (scale) => down(20, scale),
  }),
  watch('W3-100', (scale) => `wildcards, catalogue 100, ${count(down(1_000, scale))} clients`, {
    clients: (scale) => down(1_000, scale),
    catalogue: () => 100,
    demand: () => ({ wildcardOf: 100 }),
    span: 100,
    changes: (scale) => down(100, scale),
    budgetMs: (scale) => down(20_000, scale),
  }),
  watch('W3-100-20', () => 'wildcards, catalogue 100, 20 clients', {
    clients: () => 20,
    catalogue: () => 100,
    demand: () => ({ wildcardOf: 100 }),
    span: 100,
    changes: (scale) => down(1_000, scale),
    budgetMs: (scale) => down(15_000, scale),
  }),
  watch('W3-100k', (scale) => `wildcards, catalogue ${count(down(100_000, scale))}, 20 clients`, {
    clients: () => 20,
    catalogue: (scale) => down(100_000, scale),
    demand: (scale) => ({ wildcardOf: down(100_000, scale) }),
    span: 100,
    changes: (scale) => down(1_000, scale),
    budgetMs: (scale) => down(15_000, scale),
  }),
];

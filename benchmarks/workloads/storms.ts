import { memoryMiB } from '../harness/process-meter.js';
import {
  asked,
  COMMON,
  count,
  down,
  onServer,
  type Demand,
  type Scale,
  type Variant,
  type Workload,
  VARIANTS,
} from './workload.js';

const NAMES_EACH = 100;
const HUNDRED_NAMES: Demand = { shared: NAMES_EACH, own: 0 };

/** All clients connect at once; an earlier client has made the gateway fetch the content. */
function storm(
  id: string,
  clients: number,
  demand: (scale: Scale) => Demand,
  text: string,
  variant: Variant = {},
): Workload {
  return {
    id,
    title: (scale) => `storm, ${count(down(clients, scale))} clients × ${text}`,
    run: (name, scale) =>
      onServer(
        name,
        { resources: 1_000, ...variant },
        async ({ server, load, another, measured }) => {
          const demanded = { ...variant, ...asked(demand(scale), server) };
          const connect = { op: 'connect', target: server.target, ...COMMON, ...demanded } as const;
          await another().run({ ...connect, clients: 1 });
          const clientCount = down(clients, scale);
          const run = await measured(() => load.run({ ...connect, clients: clientCount }));
          return new Map([
            ['CPU ms/client', run.cpuMs / clientCount],
            ['all exact, ms', run.answer.elapsedMs],
            ['peak RSS MiB', memoryMiB(server.pid).peak],
          ]);
        },
      ),
  };
}

/**
 * No client has requested these names before, so the gateway requests each from its source. The
 * other servers hold them anyway.
 */
const cold: Workload = {
  id: 'W1d',
  title: (scale) =>
    `cold storm, ${count(down(1_000, scale))} clients × 100 names of their own, just started`,
  run: (name, scale) => {
    const clients = down(1_000, scale);
    const names = clients * NAMES_EACH;
    return onServer(name, { resources: names }, async ({ server, load, measured }) => {
      const demanded = asked({ shared: 0, own: NAMES_EACH }, server);
      const connect = { op: 'connect', target: server.target, ...COMMON, ...demanded } as const;
      const run = await measured(() => load.run({ ...connect, clients }));
      return new Map([
        ['CPU µs/name', (1_000 * run.cpuMs) / names],
        ['all exact, ms', run.answer.elapsedMs],
        ['peak RSS MiB', memoryMiB(server.pid).peak],
      ]);
    });
  },
};

/** W1: clients that connect at once. */
export const STORMS: readonly Workload[] = [
  ...VARIANTS.map(({ suffix, text, variant }) =>
    storm(`W1a${suffix}`, 1_000, () => HUNDRED_NAMES, `100 names${text}`, variant),
  ),
  storm('W1b', 1_000, () => ({ wildcardOf: 1_000 }), 'wildcard of 1,000'),
  storm('W1c', 3_000, () => ({ shared: 10, own: 0 }), '10 names'),
  cold,
];

import { memoryMiB } from '../harness/process-meter.js';
import {
  asked,
  COMMON,
  count,
  down,
  onServer,
  type Demand,
  type Scale,
  type Workload,
} from './workload.js';

/** All clients connect at once; an earlier client has made the gateway fetch the content. */
function storm(
  id: string,
  clients: number,
  demand: (scale: Scale) => Demand,
  text: string,
): Workload {
  return {
    id,
    title: (scale) => `storm, ${count(down(clients, scale))} clients × ${text}`,
    run: (name, scale) =>
      onServer(name, { resources: 1_000 }, async ({ server, load, another, measured }) => {
        const demanded = asked(demand(scale), server);
        const connect = { op: 'connect', target: server.target, ...COMMON, ...demanded } as const;
        await another().run({ ...connect, clients: 1 });
        const clientCount = down(clients, scale);
        const run = await measured(() => load.run({ ...connect, clients: clientCount }));
        return new Map([
          ['CPU ms/client', run.cpuMs / clientCount],
          ['all exact, ms', run.answer.elapsedMs],
          ['peak RSS MiB', memoryMiB(server.pid).peak],
        ]);
      }),
  };
}

/** W1: clients that connect at once. */
export const STORMS: readonly Workload[] = [
  storm('W1a', 1_000, () => ({ shared: 100, own: 0 }), '100 names'),
  storm('W1b', 1_000, () => ({ wildcardOf: 1_000 }), 'wildcard of 1,000'),
  storm('W1c', 3_000, () => ({ shared: 10, own: 0 }), '10 names'),
];

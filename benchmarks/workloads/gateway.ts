import { asked, COMMON, count, down, onServer, TIMEOUT_MS, type Workload } from './workload.js';

/**
 * Not comparable with a server without an upstream: one client, at the gateway and at its source.
 */
export const throughGateway: Workload = {
  id: 'B',
  title: () => 'upstream change → client ACK, 1 client, through the gateway and direct',
  servers: ['tributary'],
  run: (name, scale) =>
    onServer(name, { resources: 1_000 }, async ({ server, load, another }) => {
      const figures = new Map<string, number>();
      for (const [way, generator, target] of [
        ['gateway', load, server.target],
        ['direct', another(), server.upstream!.target],
      ] as const) {
        await generator.run({
          op: 'connect',
          target,
          clients: 1,
          ...COMMON,
          ...asked({ wildcardOf: 1_000 }, server),
        });
        const run = await generator.run({
          op: 'changes',
          control: server.control,
          origin: 'A',
          count: down(2_000, scale),
          span: 1,
          budgetMs: 20_000,
          timeoutMs: TIMEOUT_MS,
        });
        figures.set(`${way}, p50 ms`, run.ack!.p50Ms);
        figures.set(`${way}, p99 ms`, run.ack!.p99Ms);
        await generator.run({ op: 'disconnect' });
      }
      return figures;
    }),
};

export const cut: Workload = {
  id: 'A',
  title: (scale) =>
    `control plane killed → alternative held, ${count(down(1_000, scale))} clients × ${count(down(1_000, scale))} resources`,
  servers: ['tributary'],
  run: (name, scale) => {
    const resources = down(1_000, scale);
    return onServer(name, { resources, withAlternative: true }, async ({ server, load }) => {
      await load.run({
        op: 'connect',
        target: server.target,
        clients: down(1_000, scale),
        ...COMMON,
        ...asked({ wildcardOf: resources }, server),
      });
      const run = await load.run({
        op: 'cut',
        pid: server.upstream!.pid,
        origin: 'B',
        timeoutMs: TIMEOUT_MS,
      });
      return new Map([
        ['p50 ms', run.delivery!.p50Ms],
        ['p99 ms', run.delivery!.p99Ms],
        ['max ms', run.delivery!.maxMs],
        ['removals sent', run.removed],
      ]);
    });
  },
};

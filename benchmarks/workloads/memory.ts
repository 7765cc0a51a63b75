import type { Server } from '../harness/server.js';
import { memoryMiB } from '../harness/process-meter.js';
import {
  asked,
  COMMON,
  down,
  onServer,
  sleep,
  type Demand,
  type Scale,
  type Workload,
} from './workload.js';

/** Long enough for V8's idle garbage collection: the remaining memory is in use. */
const SETTLE_MS = 10_000;

async function settledMiB(server: Server, scale: Scale): Promise<number> {
  await sleep(down(SETTLE_MS, scale));
  return memoryMiB(server.pid).now;
}

export const memory: Workload = {
  id: 'M',
  title: () => 'memory, settled RSS (rough)',
  run: async (name, scale) => {
    const held = async (resources: number, clients: number, demand: Demand): Promise<number> => {
      let mib = 0;
      await onServer(name, { resources }, async ({ server, load }) => {
        const what = asked(demand, server);
        const connect = { op: 'connect', target: server.target, ...COMMON, ...what } as const;
        await load.run({ ...connect, clients, oneByOne: true });
        mib = await settledMiB(server, scale);
        return new Map();
      });
      return mib;
    };
    const large = down(50_000, scale);
    const middle = down(10_000, scale);
    const clients = down(200, scale);
    const [empty, full] = [
      await held(10, 1, { wildcardOf: 10 }),
      await held(large, 1, { wildcardOf: large }),
    ];
    const [one, few, many] = [
      await held(middle, 1, { wildcardOf: middle }),
      await held(10, clients + 1, { wildcardOf: 10 }),
      await held(middle, clients + 1, { wildcardOf: middle }),
    ];
    const named = await held(1_000, clients + 1, { shared: 100, own: 0 });
    const bare = await held(1_000, 1, { shared: 100, own: 0 });
    const perWildcard = many - one - (few - empty);
    return new Map([
      ['KiB/resource', ((full - empty) * 1_024) / (large - 10)],
      ['bytes/(wildcard × resource)', (perWildcard * 1_048_576) / (clients * (middle - 10))],
      ['KiB/client with 100 names', ((named - bare) * 1_024) / clients],
    ]);
  },
};

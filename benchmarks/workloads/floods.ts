import { memoryMiB } from '../harness/process-meter.js';
import { asked, COMMON, count, down, onServer, type Workload } from './workload.js';

/** A server that does not merge changes is half a minute behind when they end. */
const BEHIND_MS = 120_000;

export const flood: Workload = {
  id: 'W5',
  title: (scale) =>
    `flood, 1,000 changes/s of 1,000, ${count(down(200, scale))} wildcards, ${count(down(10_000, scale))} changes`,
  run: (name, scale) =>
    onServer(name, { resources: 1_000 }, async ({ server, load, measured }) => {
      const clients = down(200, scale);
      const changes = down(10_000, scale);
      await load.run({
        op: 'connect',
        target: server.target,
        clients,
        ...COMMON,
        ...asked({ wildcardOf: 1_000 }, server),
      });
      const run = await measured(() =>
        load.run({
          op: 'flood',
          control: server.control,
          origin: 'A',
          count: changes,
          span: 1_000,
          perSecond: 1_000,
          timeoutMs: BEHIND_MS,
        }),
      );
      return new Map([
        ['changes/s taken', run.answer.takenPerSecond],
        ['messages/client', run.answer.messages / clients],
        ['CPU µs/(change × client)', (1_000 * run.cpuMs) / (changes * clients)],
        ['all exact after the last, ms', run.answer.convergedMs],
      ]);
    }),
};

export const paused: Workload = {
  id: 'W6',
  title: (scale) =>
    `${count(down(100, scale))} of ${count(down(200, scale))} wildcards paused through ${count(down(10_000, scale))} changes (250/s, of 100)`,
  run: (name, scale) =>
    onServer(name, { resources: 100 }, async ({ server, load }) => {
      const slow = down(100, scale);
      await load.run({
        op: 'connect',
        target: server.target,
        clients: down(200, scale),
        fixedWindow: true,
        ...COMMON,
        ...asked({ wildcardOf: 100 }, server),
      });
      const flooding = {
        op: 'flood',
        control: server.control,
        origin: 'A',
        span: 100,
        perSecond: 250,
        timeoutMs: BEHIND_MS,
      } as const;
      await load.run({ ...flooding, count: down(2_500, scale) });
      const before = memoryMiB(server.pid).now;
      await load.run({ op: 'pause', count: slow });
      const run = await load.run({ ...flooding, count: down(10_000, scale) });
      const growth = memoryMiB(server.pid).now - before;
      const resumed = await load.run({ op: 'unpause', timeoutMs: BEHIND_MS });
      return new Map([
        ['RSS growth MiB', growth],
        ['messages/client on resume', resumed.messages / slow],
        ['exact after resume, ms', resumed.convergedMs],
        ['p99 of the others, ms', run.delivery!.p99Ms],
      ]);
    }),
};

import { COMMON, count, down, onServer, sleep, TIMEOUT_MS, type Workload } from './workload.js';

export const resume: Workload = {
  id: 'W4',
  title: (scale) => `resume, ${count(down(1_000, scale))} clients × 100 unchanged names`,
  run: (name, scale) =>
    onServer(name, { resources: 1_000 }, async ({ server, load, measured }) => {
      const clients = down(1_000, scale);
      const connect = {
        op: 'connect',
        target: server.target,
        clients,
        shared: 100,
        own: 0,
        keepVersions: true,
        ...COMMON,
      } as const;
      await load.run(connect);
      await load.run({ op: 'disconnect' });
      await sleep(1_000);
      const run = await measured(() => load.run({ ...connect, resume: true }));
      // The server was quiet, not dead: a change still reaches every client.
      await load.run({
        op: 'changes',
        control: server.control,
        origin: 'A',
        count: 1,
        span: 1,
        budgetMs: TIMEOUT_MS,
        timeoutMs: TIMEOUT_MS,
      });
      return new Map([
        ['resent/client', run.answer.resources / clients],
        ['CPU ms/client', run.cpuMs / clients],
      ]);
    }),
};

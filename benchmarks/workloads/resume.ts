import {
  asked,
  COMMON,
  count,
  down,
  onServer,
  sleep,
  TIMEOUT_MS,
  VARIANTS,
  type Demand,
  type Scale,
  type Variant,
  type Workload,
} from './workload.js';

interface Resume {
  readonly id: string;
  readonly what: (scale: Scale) => string;
  readonly demand: (scale: Scale) => Demand;
  readonly resources: (scale: Scale) => number;
  /** The number of resources that change while no client is connected. */
  readonly changed?: number;
  readonly variant?: Variant;
}

/** How long a change needs to reach the gateway at most. */
const ARRIVAL_MS = 1_000;

/**
 * All clients connect, leave, and come back with what they hold (`initial_resource_versions`, or
 * `version_info`).
 */
function resume({ id, what, demand, resources, changed = 0, variant }: Resume): Workload {
  return {
    id,
    title: (scale) => `resume, ${count(down(1_000, scale))} clients × ${what(scale)}`,
    run: (name, scale) => {
      const options = { resources: resources(scale), ...variant };
      return onServer(name, options, async ({ server, load, another, measured }) => {
        const clients = down(1_000, scale);
        const connect = {
          op: 'connect',
          target: server.target,
          clients,
          keepVersions: true,
          ...COMMON,
          ...variant,
          ...asked(demand(scale), server),
        } as const;
        const change = { control: server.control, origin: 'A', span: 1 } as const;
        // Without this client, the gateway would not learn of the change before the others are back.
        if (changed > 0) await another().run({ ...connect, clients: 1 });
        await load.run(connect);
        await load.run({ op: 'disconnect' });
        if (changed > 0) await load.run({ op: 'edit', ...change, count: changed, span: changed });
        await sleep(ARRIVAL_MS);
        const run = await measured(() => load.run({ ...connect, resume: true }));
        const { exact } = run.answer;
        if (exact < clients) throw new Error(`${exact} of ${clients} clients hold what is current`);
        // The server was quiet, not dead: a change still reaches every client.
        const limits = { budgetMs: TIMEOUT_MS, timeoutMs: TIMEOUT_MS };
        await load.run({ op: 'changes', ...change, count: 1, ...limits });
        return new Map([
          ['resent/client', run.answer.resources / clients],
          ['CPU ms/client', run.cpuMs / clients],
        ]);
      });
    },
  };
}

const names = {
  demand: () => ({ shared: 100, own: 0 }),
  resources: () => 1_000,
} satisfies Partial<Resume>;

const members = (scale: Scale): number => down(1_000, scale);

/** W4: clients that come back. */
export const RESUMES: readonly Workload[] = [
  ...VARIANTS.map(({ suffix, text, variant }) =>
    resume({ id: `W4${suffix}`, what: () => `100 unchanged names${text}`, variant, ...names }),
  ),
  resume({ id: 'W4c', what: () => '100 names, 1 of them changed', changed: 1, ...names }),
  resume({
    id: 'W4w',
    what: (scale) => `wildcard of ${count(members(scale))}, unchanged`,
    demand: (scale) => ({ wildcardOf: members(scale) }),
    resources: members,
  }),
];

/**
 * Goal: every variant of a source serves every variant of a client (docs/SPEC.md, "What each variant of a source
 * does"): the client is served cold, changes arrive, the source is killed and an alternative of another variant
 * serves, the source returns, and nothing is removed but what the source deletes.
 * Method: a go-control-plane on each side for all variants over the network, with content for each cell of the table;
 * directories; one gateway; four Envoys, one for each variant of a client, with a listener, traffic and old-style
 * names for each source; four scripted clients with xdstp names. All cells take each step at the same time.
 */
import t, { type Test } from 'tap';

import { freePort } from '../support/free-port.js';
import {
  assignment,
  edsCluster,
  inOldStyle,
  mesh,
  TYPE_URLS,
  xdstpName,
  type MeshResource,
} from '../support/mesh.js';
import { stoppedWith } from '../support/stopped-with.js';
import { until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import { readConfigDump } from './peers/envoy-config.js';
import { Envoy, overSource, sourceWithoutAds } from './peers/envoy.js';
import { Gateway, skipWithoutGateway } from './peers/gateway.js';
import { startHttpBackend } from './peers/http-backend.js';
import { startNamesClient, type NamesClient } from './peers/matrix-clients.js';
import { nextVariant, Site, sourceVariants, type SourceVariant } from './peers/matrix-sources.js';
import { skipWithout } from './peers/provisioned.js';
import { startTraffic, type Traffic } from './peers/traffic.js';
import { grpcVariants, type Variant } from './peers/variants.js';

t.setTimeout(150_000);

const skip = skipWithout('envoy', 'control-plane') || skipWithoutGateway();

type ClientVariant = 'delta ADS' | 'ADS' | 'delta per type' | 'per type';
const clientVariants: Readonly<Record<ClientVariant, Variant>> = {
  'delta ADS': grpcVariants[0]!,
  ADS: grpcVariants[1]!,
  'delta per type': grpcVariants[2]!,
  'per type': grpcVariants[3]!,
};

/**
 * What happens when the source is gone. A directory that was read once keeps its content, which the gateway prefers to
 * an alternative; there an operator moves the group (`force`) and moves it back (`release`).
 */
type Cell = 'switches' | 'keeps, switches by force' | { readonly cannot: string };

const all = <C extends Cell>(cell: C): Readonly<Record<ClientVariant, C>> => ({
  'delta ADS': cell,
  ADS: cell,
  'delta per type': cell,
  'per type': cell,
});

/** Every source serves every client; a cell that cannot work has its reason here. */
const table: Readonly<Record<SourceVariant, Readonly<Record<ClientVariant, Cell>>>> = {
  AGGREGATED_DELTA_GRPC: all('switches'),
  AGGREGATED_GRPC: all('switches'),
  DELTA_GRPC: all('switches'),
  GRPC: all('switches'),
  REST: all('switches'),
  path: all('keeps, switches by force'),
  path_config_source: all('keeps, switches by force'),
};

/** What the sources of both sites serve, one after the other. */
const contents = ['first', 'changed', 'alternative'] as const;
type Content = (typeof contents)[number];

/** One client of one source. */
interface Subject {
  readonly title: string;
  readonly source: SourceVariant;
  /** Of its content; see {@link Served}. */
  readonly id: string;
  /** Of the authority map. */
  readonly authority: string;
  readonly cell: Cell;
  /** Resolves when the client has this content and no other. */
  shows(content: Content): Promise<void>;
  /** What a client should never see: lost requests and removed resources. */
  losses(): Promise<readonly string[]>;
  /** Whether the client still has the resource that the source deletes at last. */
  hasSpare(): Promise<boolean>;
  /** Names of the steps that failed. */
  readonly failed: string[];
}

const at = (where: 'primary' | 'alternative', source: SourceVariant, id: string) => ({
  variant: where === 'primary' ? source : nextVariant(source),
  id: `${where}.${source}.${id}`,
});

/** A source of the map, with what it serves. */
interface Served {
  readonly source: SourceVariant;
  /** Of the client variant, or `xdstp`. */
  readonly id: string;
  readonly resources: (content: Content, withSpare: boolean) => readonly MeshResource[];
}

const idOf = (client: ClientVariant): string => client.replaceAll(' ', '-');
const authorityOf = (source: SourceVariant): string =>
  `${source.toLowerCase().replaceAll('_', '-')}.example.com`;

function envoyContent(
  source: SourceVariant,
  client: ClientVariant,
  listenerPort: number,
  ports: Readonly<Record<Content, number>>,
): Served {
  const { envoy } = clientVariants[client];
  return {
    source,
    id: idOf(client),
    resources(content, withSpare) {
      const spec = { authority: content, pathPrefix: `${source}/`, listenerPort };
      const made = mesh({
        ...spec,
        backendPort: ports[content],
        totalResources: withSpare ? 6 : 4,
      });
      const named = inOldStyle(made);
      return envoy.over === 'per-type' ? overSource(named, sourceWithoutAds(envoy)) : named;
    },
  };
}

/** The ports and the timeouts of these resources tell the contents apart; no client connects to them. */
const portOf = (content: Content): number => 20_000 + contents.indexOf(content);
const secondsOf = (content: Content): number => 1 + contents.indexOf(content);

function namedContent(source: SourceVariant): Served {
  const authority = authorityOf(source);
  return {
    source,
    id: 'xdstp',
    resources: (content, withSpare) =>
      ['web', ...(withSpare ? ['spare'] : [])].flatMap((path) => [
        edsCluster(authority, path, `${secondsOf(content)}s`),
        assignment(authority, path, portOf(content)),
      ]),
  };
}

/** The sources, authorities and entries of all cells. */
function authorityMapOf(
  served: readonly Served[],
  primary: Site,
  alternative: Site,
): Readonly<Record<string, unknown>> {
  const sources = served.flatMap(({ source, id }) =>
    (
      [
        [primary, at('primary', source, id)],
        [alternative, at('alternative', source, id)],
      ] as const
    ).map(([site, one]) => [one.id, site.source(one.variant, one.id)] as const),
  );
  const groupOf = ({ source, id }: Served) => ({
    sources: [at('primary', source, id).id, at('alternative', source, id).id],
    failover: { hold: '2s' },
  });
  const named = served.filter(({ id }) => id === 'xdstp');
  const oldStyle = served.filter(({ id }) => id !== 'xdstp');
  return {
    sources: Object.fromEntries(sources),
    authorities: Object.fromEntries(
      named.map((one) => [authorityOf(one.source), groupOf(one)] as const),
    ),
    old_style_names: {
      differ_by: ['id'],
      served_by: oldStyle.map((one) => ({ ...groupOf(one), for: { id: one.id } })),
    },
  };
}

function envoySubject(
  source: SourceVariant,
  client: ClientVariant,
  authority: string,
  { envoy, traffic }: { readonly envoy: Envoy; readonly traffic: Traffic },
): Subject {
  return {
    title: `${source} → Envoy, ${client}, old-style names`,
    ...{ source, id: idOf(client), authority, cell: table[source][client], failed: [] },
    async shows(content) {
      await traffic.untilOnly(content, { count: 4 });
    },
    async losses() {
      const { failures } = await traffic.stop();
      return failures.map(({ text }) => text);
    },
    async hasSpare() {
      const { clusters } = readConfigDump(await envoy.configDump());
      return clusters.has(`${source}/filler-0000`);
    },
  };
}

function namesSubject(source: SourceVariant, client: ClientVariant, names: NamesClient): Subject {
  const authority = authorityOf(source);
  const body = (type: 'cluster' | 'assignment', path: string): Buffer | undefined =>
    names.body(TYPE_URLS[type], xdstpName(authority, type, path));
  return {
    title: `${source} → scripted client, ${client}, xdstp names`,
    ...{ source, id: 'xdstp', authority, cell: table[source][client], failed: [] },
    async shows(content) {
      const port = Buffer.from([0x18, ...varint(portOf(content))]);
      // Field 4 of a Cluster is the timeout, whose field 1 are the seconds.
      const timeout = Buffer.from([0x22, 2, 0x08, secondsOf(content)]);
      await until(`${authority} has the content "${content}"`, () =>
        ['web', 'spare'].every(
          (path) =>
            body('assignment', path)?.includes(port) === true &&
            body('cluster', path)?.includes(timeout) === true,
        ),
      );
    },
    losses: () => {
      const lost = [...names.removed].filter((name) => name.includes(`//${authority}/`));
      return Promise.resolve(lost.filter((name) => !name.endsWith('/spare')));
    },
    hasSpare: () => Promise.resolve(!names.removed.has(xdstpName(authority, 'cluster', 'spare'))),
  };
}

/** @param value below 2^21 */
const varint = (value: number): readonly number[] =>
  value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(value >>> 7)];

async function startRig(t: Test) {
  const [primary, alternative] = [
    await Site.start(t, 'primary'),
    await Site.start(t, 'alternative'),
  ];
  const ports = { first: 0, changed: 0, alternative: 0 };
  for (const content of contents)
    ports[content] = (await stoppedWith(t, startHttpBackend(content))).port;
  const clients = Object.keys(clientVariants) as readonly ClientVariant[];
  const cells = clients.flatMap((client) => sourceVariants.map((source) => ({ client, source })));
  const listenerPorts = await Promise.all(cells.map(() => freePort()));
  const served = [
    ...cells.map(({ client, source }, index) =>
      envoyContent(source, client, listenerPorts[index]!, ports),
    ),
    ...sourceVariants.map(namedContent),
  ];
  const publish = async (content: Content, withSpare = true): Promise<void> => {
    for (const { source, id, resources } of served) {
      const one = at('primary', source, id);
      await primary.publish(one.variant, one.id, resources(content, withSpare));
    }
  };
  await publish('first');
  for (const { source, id, resources } of served) {
    const one = at('alternative', source, id);
    await alternative.publish(one.variant, one.id, resources('alternative', true));
  }
  const gateway = await stoppedWith(
    t,
    Gateway.start({ authorityMap: authorityMapOf(served, primary, alternative) }),
  );
  const envoys = await Promise.all(clients.map((client) => startEnvoy(t, client, gateway.port)));
  const subjects = clients.flatMap((client, clientAt) => {
    const names = startNamesClient(t, gateway.port, clientVariants[client].envoy, xdstpNames);
    return sourceVariants.flatMap((source) => {
      const index = cells.findIndex((cell) => cell.client === client && cell.source === source);
      const traffic = startTraffic(`http://127.0.0.1:${listenerPorts[index]}/`, 150);
      t.teardown(() => traffic.stop());
      const envoy = { envoy: envoys[clientAt]!, traffic };
      return [
        envoySubject(source, client, `old-style/${index}`, envoy),
        namesSubject(source, client, names),
      ];
    });
  });
  return { primary, alternative, gateway, envoys, subjects, publish };
}

async function startEnvoy(t: Test, client: ClientVariant, xdsPort: number): Promise<Envoy> {
  const identity = { nodeId: idOf(client), collections: 'wildcard' } as const;
  const options = { ...identity, xdsPort, ...clientVariants[client].envoy };
  const envoy = await stoppedWith(t, Envoy.start(options));
  await envoy.ready({ timeoutMs: 30_000 });
  return envoy;
}

/** Of all sources, by type. */
const xdstpNames = Object.fromEntries(
  (['cluster', 'assignment'] as const).map((type) => [
    TYPE_URLS[type],
    sourceVariants.flatMap((source) =>
      ['web', 'spare'].map((path) => xdstpName(authorityOf(source), type, path)),
    ),
  ]),
);

/** All subjects take the step at the same time; each keeps what failed. */
async function step(
  t: Test,
  title: string,
  subjects: readonly Subject[],
  takes: (subject: Subject) => Promise<void>,
): Promise<void> {
  const beganMs = performance.now();
  await Promise.all(
    subjects.map(async (subject) => {
      try {
        await takes(subject);
      } catch (error) {
        subject.failed.push(`${title}: ${String(error)}`);
      }
    }),
  );
  t.comment(`${title} after ${Math.round(performance.now() - beganMs)} ms`);
}

/** The stream methods or REST paths that a source of this variant is asked by. */
const asked: Readonly<Record<SourceVariant, RegExp | undefined>> = {
  AGGREGATED_DELTA_GRPC: grpcVariants[0]!.method,
  AGGREGATED_GRPC: grpcVariants[1]!.method,
  DELTA_GRPC: grpcVariants[2]!.method,
  GRPC: grpcVariants[3]!.method,
  REST: /^\/v3\/discovery:/,
  path: undefined,
  path_config_source: undefined,
};

t.test('every variant of a source serves every variant of a client', { skip }, async (t) => {
  const { primary, alternative, gateway, envoys, subjects: every, publish } = await startRig(t);
  const subjects = every.filter(({ cell }) => typeof cell === 'string');
  const stay = subjects.filter(({ cell }) => cell === 'keeps, switches by force');
  const order = async (verb: string): Promise<void> => {
    for (const { authority } of stay) {
      await gateway.order(`/authorities/${encodeURIComponent(authority)}/${verb}`);
    }
  };
  await tellingLogs([gateway, primary, alternative], async () => {
    await step(t, 'served cold', subjects, (one) => one.shows('first'));
    await publish('changed');
    await step(t, 'a change arrives', subjects, (one) => one.shows('changed'));

    await primary.kill();
    const switching = subjects.filter((one) => !stay.includes(one));
    await step(t, 'the alternative serves', switching, (one) => one.shows('alternative'));
    await step(t, 'a directory keeps its content', stay, (one) => one.shows('changed'));
    for (const { authority, source, id } of stay) {
      const target = at('alternative', source, id).id;
      const path = `/authorities/${encodeURIComponent(authority)}/force`;
      await gateway.order(`${path}?${new URLSearchParams({ source: target }).toString()}`);
    }
    await step(t, 'the alternative serves by force', stay, (one) => one.shows('alternative'));

    await primary.restart();
    await order('release');
    await step(t, 'the primary is back', subjects, (one) => one.shows('changed'));
    await publish('changed', false);
    await step(t, 'a deletion arrives', subjects, (one) =>
      until('the deleted cluster is gone', async () => !(await one.hasSpare())).then(
        () => undefined,
      ),
    );
  });

  for (const subject of every) {
    const { title, cell, failed } = subject;
    if (typeof cell !== 'string') {
      t.comment(`${title}: ${cell.cannot}`);
      continue;
    }
    const lost = await subject.losses();
    t.strictSame(
      [...failed, ...lost],
      [],
      `${title}: ${cell}, and nothing is lost (invariants 3, 8, 17)`,
    );
  }
  for (const envoy of envoys) {
    const stats = await envoy.stats('');
    const refused = [...stats].filter(
      ([name, count]) => name.endsWith('.update_rejected') && count > 0,
    );
    t.strictSame(refused, [], 'Envoy refused nothing');
    t.equal(stats.get('listener_manager.listener_removed'), 0, 'no listener was removed');
    t.equal(
      stats.get('cluster_manager.cluster_removed'),
      sourceVariants.length,
      'only the deleted clusters were removed',
    );
  }
  for (const site of [primary, alternative]) {
    for (const [id, methods] of await site.requested()) {
      const [where, source] = id.split('.') as ['primary' | 'alternative', SourceVariant];
      const expected = asked[at(where, source, '').variant];
      const others = [...methods].filter((method) => expected?.test(method) !== true);
      t.strictSame(others, [], `${id} is asked as its variant says`);
    }
  }
});

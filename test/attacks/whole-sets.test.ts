/**
 * Goal: a set of clusters, which a state-of-the-world client is sent whole with each change, keeps the event loop for
 * no turn over 50 ms, however large it is (docs/SECURITY.md, "Attacks").
 */
import t, { type Test } from 'tap';
import { encodeSotwRequest } from '../../protos/sotw-codec.js';
import { DeltaClient } from '../support/delta-client.js';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import { until } from '../support/until.js';
import { ATTACKED, noLongTurn, startArena, underAttack, type Arena } from './arena.js';
import { clusterBody } from './cluster-body.js';
import { openStreams, type HostileStream } from './hostile-streams.js';

t.setTimeout(120_000);

const CDS = TYPE_URLS.cluster;
const CLUSTERS = 50_000;
const CLIENTS = 20;
const GLOB = xdstpName(ATTACKED, 'cluster', 'edge/*');
const SOTW = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources';
const WAIT = { timeoutMs: 60_000 };

const nameOf = (at: number): string => xdstpName(ATTACKED, 'cluster', `edge/member-${at}`);

/** The gateway holds all clusters, for a client of the delta protocol. */
async function fill(t: Test, { gateway, source }: Arena): Promise<void> {
  for (let at = 0; at < CLUSTERS; at++)
    source.putQuietly(CDS, nameOf(at), clusterBody(nameOf(at), 1));
  const holder = new DeltaClient({ port: gateway.port });
  t.teardown(() => {
    holder.close();
  });
  holder.subscribe(CDS, [GLOB]);
  await until('the gateway holds all', () => holder.held(CDS).size === CLUSTERS, WAIT);
}

/** The clients acknowledge nothing. */
async function subscribeAll(t: Test, { gateway }: Arena, names: readonly string[]) {
  const streams = await openStreams(t, gateway.port, CLIENTS, '127.0.0.1', SOTW);
  const node = undefined;
  const rest = { node, versionInfo: '', responseNonce: '', errorDetail: undefined };
  const request = encodeSotwRequest({ typeUrl: CDS, names, ...rest });
  for (const stream of streams) await stream.write(request);
  return streams;
}

const haveSets = (streams: readonly HostileStream[], sets: number): Promise<true> => {
  const bytes = sets * CLUSTERS * clusterBody(nameOf(0), 1).length;
  return until(
    `all have ${sets} sets`,
    () => streams.every(({ receivedBytes }) => receivedBytes > bytes),
    WAIT,
  );
};

t.test('20 clients of the state of the world get 50,000 clusters, which change', async (t) => {
  const arena = await startArena(t);
  const { source } = arena;
  await fill(t, arena);
  const size = `${CLIENTS} clients × a set of ${CLUSTERS} clusters`;
  let streams: readonly HostileStream[] = [];
  const came = await underAttack(t, arena, size, async () => {
    streams = await subscribeAll(t, arena, [GLOB]);
    await haveSets(streams, 1);
  });
  noLongTurn(t, came);
  const changed = await underAttack(t, arena, `${size}; one cluster changes`, async () => {
    source.put(CDS, nameOf(0), clusterBody(nameOf(0), 2));
    await haveSets(streams, 2);
  });
  noLongTurn(t, changed);
});

t.test('20 clients name a cluster beside the collection of 50,000', async (t) => {
  const arena = await startArena(t);
  await fill(t, arena);
  const size = `${CLIENTS} clients × a set of ${CLUSTERS} clusters, one by name`;
  const figures = await underAttack(t, arena, size, async () => {
    await haveSets(await subscribeAll(t, arena, [GLOB, nameOf(1)]), 1);
  });
  noLongTurn(t, figures);
});

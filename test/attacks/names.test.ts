/**
 * Goal: a client that subscribes to a million names gets its share, and an error for the rest; the
 * process lives and serves the others (docs/SECURITY.md, "Quotas").
 */
import t from 'tap';
import { encodeSotwRequest } from '../../protos/sotw-codec.js';
import { DeltaClient } from '../support/delta-client.js';
import { TYPE_URLS, xdstpName } from '../support/mesh.js';
import { until } from '../support/until.js';
import { ATTACKED, isAtMost, noLongTurn, startArena, underAttack } from './arena.js';
import { openStreams, subscription } from './hostile-streams.js';

t.setTimeout(90_000);

const TYPE = TYPE_URLS.assignment;
const STREAMS = 100;
const NAMES = 10_000;

t.test(
  '100 streams × 10,000 names under a heap of 512 MB get RESOURCE_EXHAUSTED beyond their share',
  async (t) => {
    const arena = await startArena(t, { heapLimitMiB: 512 });
    const { gateway } = arena;
    const size = `${STREAMS} streams × ${NAMES} names`;
    const refused = (): Promise<number> => gateway.metric('tributary_quota_refusals_total');
    const figures = await underAttack(t, arena, size, async () => {
      let made = 0;
      for (let at = 0; at < STREAMS; at++) {
        // One on each connection, since all streams of a connection share its window.
        const [stream] = await openStreams(t, gateway.port, 1);
        const names = Array.from({ length: NAMES }, () =>
          xdstpName(ATTACKED, 'assignment', `edge/name-${made++}`),
        );
        await stream!.write(subscription(TYPE, names));
      }
      await until('all requests are handled', async () => (await refused()) > 800_000, {
        timeoutMs: 25_000,
      });
    });
    noLongTurn(t, figures);
    const upstream = await gateway.metric('tributary_cache_names');
    t.ok(upstream <= 110_000, `${upstream} names at sources`);
    t.ok(figures.peakHeapMiB < 512, 'the heap');
    const ratio = await gateway.metric('tributary_quota_used_ratio', {
      quota: 'upstream_names',
      scope: 'global',
    });
    t.ok(ratio > 0.5 && ratio < 0.95, `${ratio} of the global quota is used`);
    t.match(gateway.logs(), /quota_reached/);

    // The rest is for another peer: the innocent client's address is loopback too, so this one has another.
    const [other] = await openStreams(t, gateway.port, 1, '127.0.0.2');
    void other!.write(
      subscription(TYPE, [xdstpName(ATTACKED, 'assignment', 'edge/of-another-peer')]),
    );
    await until('another peer is answered', () => other!.receivedBytes > 0);
    t.equal(await gateway.metric('tributary_cache_names'), upstream + 1, 'and subscribes');
    t.equal(other!.status, undefined);
  },
);

t.test('a client whose names were refused may subscribe once there is room again', async (t) => {
  const arena = await startArena(t, { args: ['--max-upstream-names', '10'] });
  const [greedy] = await openStreams(t, arena.gateway.port, 1, '127.0.0.3');
  const names = (prefix: string) =>
    Array.from({ length: 20 }, (_, at) => xdstpName(ATTACKED, 'assignment', `edge/${prefix}${at}`));
  void greedy!.write(subscription(TYPE, names('greedy')));
  await until('it is answered', () => greedy!.receivedBytes > 0);
  const client = new DeltaClient({ port: arena.gateway.port });
  t.teardown(() => {
    client.close();
  });
  client.subscribe(TYPE, names('late'));
  await until('names are refused', async () => {
    return (await arena.gateway.metric('tributary_quota_refusals_total')) > 20;
  });
  t.equal(client.status, undefined, 'its stream goes on');
});

const SOTW_STREAMS = 100;
const TYPES = 10;
const NAMES_OF_A_TYPE = 900;
const SOTW_ADS = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources';
const EMPTY = { versionInfo: '', responseNonce: '', errorDetail: undefined, node: undefined };

t.test(
  '100 state-of-the-world streams × 9,000 names of 200 bytes without room cost at most 64 MiB',
  async (t) => {
    const args = ['--max-upstream-names', '10', '--max-buffered', '32MiB'];
    const arena = await startArena(t, { heapLimitMiB: 512, args });
    const { gateway } = arena;
    const refused = (): Promise<number> => gateway.metric('tributary_quota_refusals_total');
    const [greedy] = await openStreams(t, gateway.port, 1);
    const share = Array.from({ length: 20 }, (_, at) => xdstpName(ATTACKED, 'assignment', `${at}`));
    await greedy!.write(subscription(TYPE, share));
    await until('the share is used up', async () => (await refused()) > 0);
    const size = `${SOTW_STREAMS} streams × ${TYPES} types × ${NAMES_OF_A_TYPE} names`;
    const figures = await underAttack(t, arena, size, async () => {
      for (let stream = 0; stream < SOTW_STREAMS; stream++) {
        const [one] = await openStreams(t, gateway.port, 1, '127.0.0.1', SOTW_ADS);
        for (let at = 0; at < TYPES; at++) {
          const type = `attack.v1.Type${at}`;
          const path = `xdstp://${ATTACKED}/${type}/${'x'.repeat(120)}/${stream}`;
          const names = Array.from({ length: NAMES_OF_A_TYPE }, (_, id) => `${path}/${id}`);
          const typeUrl = `type.googleapis.com/${type}`;
          await one!.write(encodeSotwRequest({ ...EMPTY, typeUrl, names }));
        }
      }
      await until('all requests are handled', async () => (await refused()) > 890_000, {
        timeoutMs: 25_000,
      });
    });
    noLongTurn(t, figures);
    isAtMost(t, figures, 64);
  },
);

/**
 * Goal: without NATS, clients are served as with it, for a minute and more (docs/INSTANCES.md).
 * Method: two gateways, changes at both, and a real nats-server that is killed. A file of its own, since it mostly waits.
 */
import t from 'tap';
import { tellingLogs } from './peers/child.js';
import {
  agreeing,
  agreeLimitMs,
  churn,
  connected,
  ids,
  median,
  quantile,
  readiness,
  serving,
  skipWithoutPair as skip,
  startPair,
  summary,
} from './peers/nats-pair.js';

t.setTimeout(120_000);

/** The full outage in CI; a shorter one elsewhere, unless `TRIBUTARY_TEST_OUTAGE_MS` says otherwise. */
const defaultOutageMs = process.env['CI'] === 'true' ? 60_000 : 10_000;
const outageMs = Number(process.env['TRIBUTARY_TEST_OUTAGE_MS'] ?? defaultOutageMs);

t.test(
  'NATS is down at the start, starts, is killed during traffic, and returns',
  { skip },
  async (t) => {
    const pair = await startPair(t, { natsDown: true });
    const { nats, a, b } = pair;
    await tellingLogs([a, b], async () => {
      const clients = await serving(t, pair);
      for (const each of [a, b]) {
        t.match(await each.admin('/ready'), { ready: true, degraded: [/not connected/] });
      }
      await nats.restart();
      await connected(pair);
      const wellMs = Math.min(20_000, Math.max(2_000, outageMs - 10_000));
      const well = await churn(pair, clients, ids, performance.now() + wellMs);
      await nats.kill();
      const without = await churn(pair, clients, ids, performance.now() + outageMs);
      t.comment(`changes at both: ${summary(well)} with NATS, ${summary(without)} without`);
      t.ok(median(without) < Math.max(3 * median(well), 50), 'no slower without NATS');
      const [wellP99, withoutP99] = [quantile(well, 0.99), quantile(without, 0.99)];
      t.ok(withoutP99 < Math.max(3 * wellP99, 150), 'nor are the slowest changes');
      for (const each of [a, b]) {
        t.equal(await readiness(each), true, 'and ready all along');
        t.ok(
          (await each.metric('tributary_peer_names_not_told_total')) > 0,
          'lost hints are counted',
        );
      }
      await nats.restart();
      await connected(pair);
      await agreeing(pair, agreeLimitMs);
      for (const each of [a, b]) t.equal(await each.metric('tributary_handler_errors_total'), 0);
    });
  },
);

/** Goal: `/metrics` of a running gateway has what the dashboard and the alerts in deploy/ need. */
import t from 'tap';
import { VERSION } from '../../gateway/version.js';
import { metricsText, seriesOf } from '../support/metrics-text.js';
import { serveExample } from '../support/program.js';

t.test('a scrape shows the build, the process, and the map', async (t) => {
  const { admin, stop } = await serveExample('examples/quickstart/authority-map.yaml');
  t.teardown(stop);
  const text = await metricsText(admin);
  const one = (name: string): number | undefined => seriesOf(text, name)[0]?.value;
  t.strictSame(seriesOf(text, 'tributary_build_info'), [
    { labels: { version: VERSION, node_version: process.versions.node }, value: 1 },
  ]);
  t.equal(one('tributary_map_last_reload_successful'), 1);
  const read = one('tributary_map_last_reload_success_timestamp_seconds') ?? 0;
  t.ok(read >= Math.floor(one('process_start_time_seconds') ?? Infinity), 'read at the start');
  t.ok(Number(one('process_open_fds')) > 0);
  const states = seriesOf(text, 'tributary_memory_state');
  t.strictSame(
    states.map(({ labels, value }) => [labels['state'], value]),
    [
      ['enough', 1],
      ['short', 0],
      ['critical', 0],
    ],
  );
  // `increase()` would miss the first refusal of a series that begins with it.
  const refusals = seriesOf(text, 'tributary_quota_refusals_total');
  for (const quota of ['streams', 'names']) {
    for (const scope of ['global', 'peer', 'memory']) {
      const same = refusals.filter(
        ({ labels }) => labels['quota'] === quota && labels['scope'] === scope,
      );
      t.match(same, [{ value: 0 }], `${quota} ${scope}`);
    }
  }
});

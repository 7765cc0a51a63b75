/**
 * Goal: an operator finds in docs/OPERATIONS.md each name that the gateway writes and no other, and metric names
 * follow the rules of Prometheus.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { EVENTS } from '../../../../gateway/telemetry/event-names.js';
import { METRIC_LABELS, METRICS } from '../../../../gateway/telemetry/metric-names.js';
import {
  endpointsTable,
  eventsTable,
  metricsTable,
  statesTable,
} from '../../../../gateway/telemetry/reference.js';

let root = dirname(fileURLToPath(import.meta.url));
while (!existsSync(join(root, 'package.json'))) root = dirname(root);

t.test(
  'metric names carry the prefix or are standard, have base units and _total; labels are from the short list',
  (t) => {
    for (const [name, { kind, labels }] of Object.entries(METRICS)) {
      t.match(name, /^(tributary|process)_[a-z0-9_]+$/);
      t.equal(name.endsWith('_total'), kind === 'counter', name);
      t.notMatch(name, /_(ms|millis|minutes|kb|mb)(_|$)/);
      for (const label of labels) t.ok(METRIC_LABELS.includes(label));
    }
    t.end();
  },
);

t.test(
  'docs/OPERATIONS.md has the current tables of states, endpoints, events and metrics',
  (t) => {
    const page = readFileSync(join(root, 'docs/OPERATIONS.md'), 'utf8');
    for (const [what, text] of Object.entries({
      states: statesTable(),
      endpoints: endpointsTable(),
      events: eventsTable(),
      metrics: metricsTable(),
    })) {
      t.ok(page.includes(`${text}\n`), `the table of ${what} equals that of the code:\n${text}`);
    }
    const rows = page.match(/^\| `((?:tributary|process)_\w+)` \|/gm) ?? [];
    t.equal(rows.length, Object.keys(METRICS).length, 'and no removed metric');
    t.end();
  },
);

t.test('every published event and metric is used in the code', (t) => {
  const sources = readdirSync(join(root, 'gateway'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !/telemetry\/(event|metric)-names\.ts$/.test(file))
    .map((file) => readFileSync(join(root, 'gateway', file), 'utf8'))
    .join('\n');
  for (const name of [...Object.keys(EVENTS), ...Object.keys(METRICS)]) {
    t.ok(sources.includes(`'${name}'`), name);
  }
  t.end();
});

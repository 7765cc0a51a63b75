/** The tables of docs/OPERATIONS.md, generated from the tables that the code uses. */
import { FAILOVER_STATES, type FailoverKind } from '../../authorities/index.js';
import { ROUTES } from '../admin/routes.js';
import { EVENTS, type EventSpec } from './event-names.js';
import { METRICS } from './metric-names.js';

/** The meaning of each failover state for an operator. */
const STATE_MEANINGS: Readonly<Record<FailoverKind, string>> = {
  idle: 'No client subscribes to its names.',
  connecting:
    'The gateway connects to the primary source for the first time; it holds no content yet.',
  primary: 'Served from the primary source.',
  reconnecting:
    'The primary source is lost but does not count as down yet; the gateway serves its content from the cache.',
  failing_over:
    'The gateway requests the names from another source, and serves the previous content until that source is ready.',
  alt: 'Served from another source than the primary.',
  failing_back:
    'A better source has been well for the hold time; the group moves back once that source has answered every name that the switch could lose.',
  cached:
    'The gateway serves the cache: no source can be used (`all_sources_down`), or the policy prefers the cache (`cached_is_enough`).',
  forced:
    'An operator chose a source: the gateway serves it once it is ready, and the previous content until then.',
};

export function statesTable(): string {
  return table(
    ['State', 'Meaning'],
    FAILOVER_STATES.map((state) => [code(state), STATE_MEANINGS[state]]),
  );
}

export function endpointsTable(): string {
  return table(
    ['Method', 'Path', 'Meaning'],
    ROUTES.map(({ method, path, meaning }) => [method, code(path), meaning]),
  );
}

export function eventsTable(): string {
  return table(
    ['Event', 'Level', 'Meaning'],
    Object.entries<EventSpec>(EVENTS).map(([name, { level, sometimes, meaning }]) => [
      code(name),
      sometimes === undefined ? level : `${level}, ${sometimes}`,
      meaning,
    ]),
  );
}

export function metricsTable(): string {
  return table(
    ['Metric', 'Kind', 'Labels', 'Meaning'],
    Object.entries(METRICS).map(([name, { kind, labels, meaning }]) => [
      code(name),
      kind,
      labels.map(code).join(' '),
      meaning,
    ]),
  );
}

const code = (text: string): string => `\`${text}\``;

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), `|${head.map(() => '---').join('|')}|`, ...rows.map(line)].join('\n');
}

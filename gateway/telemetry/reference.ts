/** The tables of docs/OPERATIONS.md, from the same tables that the code runs on. */
import { FAILOVER_STATES, type FailoverKind } from '../../authorities/index.js';
import { ROUTES } from '../admin/routes.js';
import { EVENTS, METRICS } from './names.js';

/** What each state means to an operator. */
export const STATE_MEANINGS: Readonly<Record<FailoverKind, string>> = {
  idle: 'Nothing is asked of it.',
  connecting: 'The primary is tried for the first time; nothing is held yet.',
  primary: 'Served from the first source.',
  reconnecting: 'The first source is lost and does not count as down yet; its content is kept.',
  failing_over: 'Another source is being asked; what is held is kept until it has answered.',
  alt: 'Served from another source.',
  failing_back: 'A better source has been well for the hold time and is being asked for all names.',
  cached: 'No source can be asked; what is held is kept.',
  forced: 'An operator chose the source.',
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
    Object.entries(EVENTS).map(([name, { level, meaning }]) => [code(name), level, meaning]),
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

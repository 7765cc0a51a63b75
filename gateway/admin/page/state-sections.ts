/** The sections of the page that show the state of the gateway, the same for every reader. */
import { wallTime } from '../../clock.js';
import type { Switch } from '../../telemetry/switches.js';
import { groupRows, type CandidateRow, type GroupRow } from '../authorities.js';
import { readiness } from '../health.js';
import type { AdminContext } from '../reply.js';
import { html, seconds, table, timeOf, type Html } from './html.js';

/** A part of the page that changes as a whole. `id` is the id of its element. */
export interface Section {
  readonly id: string;
  readonly title: string;
  readonly content: Html;
}

/** Node groups may make 5,000 groups; `/authorities` lists all. */
const MAX_GROUPS = 200;
const MAX_SWITCHES = 50;

/** Cost: at most `MAX_GROUPS` rows, however many groups and clients there are. */
export function stateSections(context: AdminContext): readonly Section[] {
  const all = groupRows(context);
  const rows = all.slice(0, MAX_GROUPS).map((row) => row());
  const switches = context.telemetry.switches.latest(MAX_SWITCHES);
  return [
    { id: 'health', title: 'Health', content: healthOf(context) },
    { id: 'authorities', title: 'Authorities', content: authoritiesOf(rows, all.length) },
    { id: 'switches', title: 'Switches', content: switchesOf(switches) },
    { id: 'sources', title: 'Sources', content: sourcesOf(rows) },
  ];
}

function healthOf(context: AdminContext): Html {
  const { reasons, degraded } = readiness(context);
  const lines = [
    ...reasons.map((reason) => html`<li><b class="bad">not ready</b> ${reason}</li>`),
    ...degraded.map((reason) => html`<li><b class="warn">degraded</b> ${reason}</li>`),
  ];
  if (lines.length > 0)
    return html`<ul>
      ${lines}
    </ul>`;
  return html`<p><b class="good">ready</b></p>`;
}

const WELL: ReadonlySet<string> = new Set(['primary']);
const IDLE: ReadonlySet<string> = new Set(['idle']);
const BAD: ReadonlySet<string> = new Set(['cached']);

function stateClass(state: string): string {
  if (WELL.has(state)) return 'good';
  if (BAD.has(state)) return 'bad';
  return IDLE.has(state) ? 'calm' : 'warn';
}

function authoritiesOf(rows: readonly GroupRow[], count: number): Html {
  const cells = rows.map((row) => [
    html`<code>${row.group}</code>`,
    html`<b class="${stateClass(row.state)}">${row.state}</b>`,
    row.active ?? 'none',
    timeOf(row.since),
    words(row.why),
    row.candidates.map((one) => html`<span class="candidate">${mark(one)} ${one.source}</span> `),
    html`${row.served} of ${row.wanted}`,
  ]);
  const columns = ['Group', 'State', 'Served from', 'Since', 'Why', 'Sources in order', 'Served'];
  const more = count - rows.length;
  return html`${table('Authorities', columns, cells)}${
    more > 0
      ? html`<p>${more} more groups: see <a href="/authorities">/authorities</a>.</p>`
      : undefined
  }`;
}

const mark = ({ live }: CandidateRow): Html =>
  live ? html`<b class="good">live</b>` : html`<b class="calm">not live</b>`;

function switchesOf(switches: readonly Switch[]): Html {
  if (switches.length === 0) return html`<p>No group has switched since this process started.</p>`;
  const items = switches.map((one) => {
    const lost =
      one.sinceLossMs === undefined
        ? undefined
        : html`, ${seconds(one.sinceLossMs)} after the loss (${one.detail})`;
    const away = one.awayMs === undefined ? undefined : html`, after ${seconds(one.awayMs)} away`;
    const look = one.direction === 'failover' ? 'warn' : 'good';
    return html`<li>
      ${timeOf(wallTime(one.atMs))} <b class="${look}">${one.direction}</b>
      <code>${one.group}</code> ${one.from} → ${one.to}: ${words(one.reason)}${lost}${away};
      ${one.changed} names changed, ${one.kept} kept
    </li>`;
  });
  return html`<ol class="timeline">
    ${items}
  </ol>`;
}

function sourcesOf(rows: readonly GroupRow[]): Html {
  const sources = new Map<string, CandidateRow[]>();
  for (const candidate of rows.flatMap(({ candidates }) => candidates)) {
    const same = sources.get(candidate.source);
    if (same) same.push(candidate);
    else sources.set(candidate.source, [candidate]);
  }
  const cells = [...sources].map(([name, candidates]) => {
    // Each node group has a stream of its own: show the one that needs attention.
    const told = candidates.find(({ lastError }) => lastError !== undefined) ?? candidates[0];
    const problems = told?.problems?.map((problem) => html`<div>${problem}</div>`);
    return [
      html`<code>${name}</code>`,
      told === undefined ? undefined : mark(told),
      timeOf(told?.liveSince ?? told?.lostSince),
      html`${told?.lastError}${problems}`,
      timeOf(told?.nextAttempt),
      told?.breaker,
    ];
  });
  const columns = ['Source', 'State', 'Since', 'Last error', 'Next attempt', 'Circuit breaker'];
  return table('Sources', columns, cells);
}

const words = (code: string): string => code.replaceAll('_', ' ');

/** The section that draws how a name resolves: hops, the failover group, its sources, what clients get. */
import type { Hop } from '../../../authorities/index.js';
import type { AdminContext } from '../reply.js';
import { explainName, nameFrom, type Explanation } from '../explain.js';
import { explainOldStyle, type OldStyleExplanation } from '../explain-old-style.js';
import { detailsOf } from '../source-details.js';
import { html, table, type Html } from './html.js';
import type { Section } from './state-sections.js';

/** @param query `name`, and for an old-style name its `type` */
export function resolutionSection(context: AdminContext, query: URLSearchParams): Section {
  const name = query.get('name') ?? '';
  const type = query.get('type') ?? '';
  const form = html`<form action="/#resolution" method="get" role="search">
    <label>Name <input name="name" value="${name}" placeholder="xdstp://…" size="70" /></label>
    <label
      >Type, for an old-style name
      <input name="type" value="${type}" placeholder="envoy.config.cluster.v3.Cluster" size="34"
    /></label>
    <button>Explain</button>
  </form>`;
  const found = name === '' ? undefined : resolutionOf(context, name, type);
  return { id: 'resolution', title: 'Resolve a name', content: html`${form}${found}` };
}

function resolutionOf(context: AdminContext, text: string, type: string): Html {
  const { upstream, cache } = context.gateway;
  const details = detailsOf(context);
  if (type !== '') {
    const explained = explainOldStyle(upstream.view, text, type, details);
    if (explained) return oldStyleOf(explained);
    return problem(`no source serves old-style names of type ${type}`);
  }
  const named = nameFrom(text);
  if (!named.ok) return problem(named.message);
  const { name, typeUrl } = named;
  const state = cache.stateOf(typeUrl, name);
  const held = state?.kind === 'present' ? state.projection : undefined;
  const explanation = explainName(upstream.view, name, details, held);
  if (explanation) return drawn(explanation);
  return problem(`no authority "${name.authority}" in the authority map`);
}

const problem = (text: string): Html => html`<p role="alert"><b class="bad">${text}</b></p>`;

function drawn(explanation: Explanation): Html {
  const { candidates, hops } = explanation;
  const rows = candidates.map(({ source, asks, active, live, answer, lastError }) => [
    html`<code>${source}</code>`,
    active ? html`<b class="good">in use</b>` : 'not in use',
    live ? 'live' : 'not live',
    html`<code>${asks}</code>`,
    answer,
    lastError,
  ]);
  const columns = ['Source', 'Use', 'State', 'The gateway requests', 'Answer', 'Last error'];
  return html`${pathOf(explanation)}
  ${
    hops.length > 0
      ? html`<ul>
          ${hops.map(hopItem)}
        </ul>`
      : undefined
  }
  ${table('Sources of the name', columns, rows)}`;
}

const hopItem = ({ kind, from, to, problem }: Hop): Html =>
  html`<li>
    ${kind}: <code>${from}</code> → <code>${to}</code>${
      problem === undefined ? undefined : html` <b class="warn">not taken: ${problem}</b>`
    }
  </li>`;

interface Step {
  readonly label: string;
  readonly text: string;
  readonly isOff?: boolean;
}

const STEP_PX = { height: 44, gap: 26, width: 760 };

/** The path from the name to its content, top down, as one picture with a text for screen readers. */
function pathOf(explanation: Explanation): Html {
  const steps = stepsOf(explanation);
  const { height, gap, width } = STEP_PX;
  const boxes = steps.map(({ label, text, isOff = false }, index) => {
    const top = 1 + index * (height + gap);
    const arrow =
      index === 0
        ? undefined
        : html`<path d="M${width / 2} ${top - gap + 2}V${top - 3}m-5 -6l5 6l5 -6" />`;
    return html`${arrow}<g class="${isOff ? 'off' : 'step'}"
        ><rect x="1" y="${top}" width="${width - 2}" height="${height}" rx="6" /><text
          x="12"
          y="${top + 17}"
          class="label"
          >${label}</text
        ><text x="12" y="${top + 35}">${short(text)}<title>${text}</title></text></g
      >`;
  });
  const total = steps.length * (height + gap) - gap + 2;
  const spoken = steps.map(({ label, text }) => `${label}: ${text}`).join('. ');
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Resolution path">
    <svg
      class="path"
      role="img"
      aria-label="${spoken}"
      width="${width}"
      height="${total}"
      viewBox="0 0 ${width} ${total}"
    >
      ${boxes}
    </svg>
  </div>`;
}

function stepsOf(explanation: Explanation): readonly Step[] {
  const { name, hops, group, state, why, candidates, served } = explanation;
  const active = candidates.find((one) => one.active);
  return [
    { label: 'name', text: name },
    ...hops.map(({ kind, to, problem }) => ({
      label: problem === undefined ? kind : `${kind}, not taken`,
      text: problem === undefined ? to : `${to}: ${problem}`,
      isOff: problem !== undefined,
    })),
    { label: `failover group, ${state}`, text: `${group} (${why.replaceAll('_', ' ')})` },
    active
      ? {
          label: `source ${active.source}, ${active.live ? 'live' : 'not live'}`,
          text: active.asks,
        }
      : { label: 'source', text: 'none in use', isOff: true },
    served
      ? { label: 'clients receive', text: `version ${served.version} from ${served.source}` }
      : {
          label: 'clients receive',
          text: 'nothing: no client subscribes, or no source has it',
          isOff: true,
        },
  ];
}

const MAX_CHARACTERS = 92;
/** Cut in the middle: names differ at both ends. */
function short(text: string): string {
  if (text.length <= MAX_CHARACTERS) return text;
  const half = MAX_CHARACTERS / 2 - 1;
  return `${text.slice(0, half)}…${text.slice(-half)}`;
}

/** Of 5,000 node groups these are enough to see a pattern; `/explain` lists all. */
const MAX_NODE_GROUPS = 50;

function oldStyleOf({ nodeGroups, entries }: OldStyleExplanation): Html {
  const shown = nodeGroups.slice(0, MAX_NODE_GROUPS);
  const rows = shown.map(({ nodeGroup, servedBy, version, shadowed }) => [
    html`<code>${nodeGroup}</code>`,
    servedBy ?? 'no entry',
    version,
    shadowed.join(', '),
  ]);
  const items = entries.map(
    ({ entry, sources }) => html`<li><code>${entry}</code>: ${sources.join(', then ')}</li>`,
  );
  return html`<ol>
      ${items}
    </ol>
    <p>
      ${nodeGroups.length} node
      groups${shown.length < nodeGroups.length ? `, the first ${shown.length} shown` : ''}.
    </p>
    ${table('Node groups', ['Node group', 'Served by', 'Version', 'Also in'], rows)}`;
}

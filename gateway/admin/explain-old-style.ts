/** Explains an old-style name: the entries that serve its type, and what each node group receives. */
import type { FederationView, NodeGroup } from '../../authorities/index.js';
import { formatDuration } from '../../config/durations.js';
import type { NodeCondition, OldStyleSpec } from '../../config/model.js';
import { oldStyleName } from '../../protos/resource-name.js';
import { rightsText, type RightsExplanation } from './explain-rights.js';
import { groupRow, type GroupRow } from './authorities.js';
import type { DetailsOf } from './source-details.js';
import { answerLines, healthWords, troubleLines } from './source-words.js';

export interface OldStyleExplanation {
  readonly name: string;
  readonly typeUrl: string;
  /** Node fields on which responses depend, or `all`. */
  readonly differBy: readonly string[] | 'all';
  /** Headers of clients on whose values responses depend. Absent: none. */
  readonly headers?: readonly string[];
  /** Responses depend on the client certificate: on its names, or on all of it. Absent: they do not. */
  readonly certificate?: 'names' | 'whole';
  /** The entries that serve the type, in order: of several with the same name the first one serves it. */
  readonly entries: readonly {
    readonly entry: string;
    readonly sources: readonly string[];
    /** The entry applies to clients whose Node meets all of these. Absent: to every client. */
    readonly for?: Readonly<Record<string, string | number | boolean>>;
  }[];
  readonly nodeGroups: readonly {
    readonly nodeGroup: string;
    /** Absent: no entry has the name. */
    readonly servedBy?: string;
    readonly version?: string;
    /** Further entries that have the name. */
    readonly shadowed: readonly string[];
    readonly entries: readonly GroupRow[];
  }[];
  /** Present if the question names a client. */
  readonly rights?: RightsExplanation;
}

/** @returns undefined when no entry of the map serves the type. */
export function explainOldStyle(
  view: FederationView,
  text: string,
  typeUrl: string,
  details: DetailsOf,
): OldStyleExplanation | undefined {
  const { oldStyle } = view.map;
  const entries = (oldStyle?.servedBy ?? []).filter(
    ({ types }) => types?.includes(typeUrl) ?? true,
  );
  if (!oldStyle || entries.length === 0) return undefined;
  return {
    name: text,
    typeUrl,
    differBy: oldStyle.differBy,
    ...identityPartsOf(oldStyle),
    entries: entries.map(({ name, sources, when }) => ({
      entry: name,
      sources,
      ...(when ? { for: conditionsOf(when) } : {}),
    })),
    nodeGroups: [...view.nodeGroups.all].map((nodeGroup) => ({
      nodeGroup: nodeGroup.scope,
      ...servedIn(nodeGroup, text, typeUrl),
      entries: nodeGroup.groupsFor(typeUrl).map((group) => {
        const name = oldStyleName(nodeGroup.scope, text);
        return groupRow(group, details, { typeUrl, name });
      }),
    })),
  };
}

function identityPartsOf({
  rule,
}: OldStyleSpec): Pick<OldStyleExplanation, 'headers' | 'certificate'> {
  const { headers = [], certificate = 'none' } = rule ?? {};
  return {
    ...(headers.length > 0 ? { headers } : {}),
    ...(certificate === 'none' ? {} : { certificate }),
  };
}

/** As the map has it. */
const conditionsOf = (
  when: readonly NodeCondition[],
): Readonly<Record<string, string | number | boolean>> =>
  Object.fromEntries(
    when.map(({ field, part, equals }) => [
      part === undefined ? field : `${field}.${part === 'subZone' ? 'sub_zone' : part}`,
      equals,
    ]),
  );

function servedIn(
  nodeGroup: NodeGroup,
  text: string,
  typeUrl: string,
): Pick<OldStyleExplanation['nodeGroups'][number], 'servedBy' | 'version' | 'shadowed'> {
  const name = oldStyleName(nodeGroup.scope, text);
  const served = nodeGroup.served(typeUrl, name);
  const having = nodeGroup
    .groupsFor(typeUrl)
    .filter((group) => group.served(typeUrl, name) !== undefined);
  return {
    ...(served
      ? { servedBy: served.group.spec.name, version: served.projection.version }
      : undefined),
    shadowed: having.slice(1).map(({ spec }) => spec.name),
  };
}

/** Human-readable form of an explanation. */
export function oldStyleText(explanation: OldStyleExplanation): string {
  const { name, typeUrl, entries, nodeGroups, rights } = explanation;
  const lines = [
    `${name} (${typeUrl})`,
    ...(rights ? [rightsText(rights)] : []),
    `  responses depend on ${dependence(explanation)}`,
    '  entries that serve the type, in order:',
    ...entries.map((one) => `    ${one.entry}: ${one.sources.join(', then ')}${audience(one)}`),
  ];
  for (const { nodeGroup, servedBy, version, shadowed, entries: rows } of nodeGroups) {
    const what = servedBy === undefined ? 'nothing' : `version ${version} from ${servedBy}`;
    const hidden = shadowed.length === 0 ? '' : `; ${shadowed.join(', ')} has it too`;
    lines.push(`  node group ${nodeGroup || '(all clients)'}`, `    served ${what}${hidden}`);
    lines.push(...rows.flatMap(entryLines));
  }
  return `${lines.join('\n')}\n`;
}

/** A source that has sent the name and serves without trouble, or that no client needs, has no line. */
function entryLines({
  group,
  state,
  since,
  active,
  candidates,
  holdMs = 0,
}: GroupRow): readonly string[] {
  const serving = candidates.findIndex(({ source }) => source === active);
  const when = since === undefined ? '' : ` since ${since}`;
  const head = `    ${group.split(' ', 1)[0]} ${state}${when}, from ${active ?? 'no source'}`;
  const sources = candidates.flatMap((candidate, index) => {
    const isAnswerShown = candidate.answer !== 'sent' && candidate.answer !== 'not requested';
    const troubles = [...(isAnswerShown ? answerLines(candidate) : []), ...troubleLines(candidate)];
    const isPreferred = state === 'alt' && index < serving;
    if (troubles.length === 0 && !isPreferred) return [];
    const until = `, names return to it ${formatDuration(holdMs)} after its connection`;
    const words = healthWords(candidate).join(', ');
    const back = isPreferred && candidate.live ? until : '';
    return [
      `      ${candidate.source}: ${words}${back}`,
      ...troubles.map((line) => `        ${line}`),
    ];
  });
  return [head, ...sources];
}

function dependence({ differBy, headers = [], certificate }: OldStyleExplanation): string {
  const fields = differBy === 'all' ? ['the whole Node'] : differBy;
  const parts = [
    ...(fields.length === 0 ? ['no Node field'] : fields),
    ...headers.map((key) => `the header ${key}`),
    ...(certificate === undefined ? [] : ['the client certificate']),
  ];
  return parts.join(', ');
}

function audience({ for: conditions }: OldStyleExplanation['entries'][number]): string {
  if (conditions === undefined) return '';
  const parts = Object.entries(conditions).map(([field, value]) => `${field}: ${String(value)}`);
  return `, for clients with ${parts.join(', ')}`;
}

/** `POST /authorities/<authority>/diff`: what would change for clients if another source were forced. */
import { formatDuration, parseDuration } from '../../config/durations.js';
import {
  DIFFERENCE_KINDS,
  type ComparisonEnd,
  type DifferenceKind,
  type Differences,
  type FailoverGroup,
} from '../../authorities/index.js';
import { wireText } from '../../protos/resource-name.js';
import { shortTypeOf } from '../../protos/type-urls.js';
import type { GatewayView } from '../gateway-view.js';
import { pairsFrom, SERVED, type ComparedPair } from './diff-question.js';
import { decodedAuthority, unknownAuthority } from './known-authority.js';
import { failure, json, type AdminContext, type AdminRequest, type Reply } from './reply.js';
import { detailsOf, troublesOf } from './source-details.js';

export const DIFF_PATH = /^\/authorities\/([^/]*)\/diff$/;

const DEFAULT_WAIT = '10s';
/** The admin server closes a connection that is silent for 30 s. */
const MAX_WAIT_MS = 20_000;
/** The content of another source may fill this part of the budget of all sources at most. */
const MAX_CONTENT_PART = 0.8;

/** Gateways that compare now: each comparison may double what they hold of an authority. */
const comparing = new WeakSet<GatewayView>();

/** One name that differs. `before` and `after` are versions: hashes of the content. */
export interface DifferenceRow {
  readonly kind: DifferenceKind;
  readonly type: string;
  readonly name: string;
  readonly before?: string;
  readonly after?: string;
}

export interface GroupDiff {
  readonly group: string;
  /** A source, or `SERVED`. */
  readonly from: string;
  readonly to: string;
  /** Number of names with the same content. */
  readonly same: number;
  readonly counts: Readonly<Record<DifferenceKind, number>>;
  /** By kind, type and name; at most 1,000 of each kind. */
  readonly names: readonly DifferenceRow[];
}

export interface Diff {
  readonly authority: string;
  /** Number of names that differ, in all groups. */
  readonly differences: number;
  readonly groups: readonly GroupDiff[];
}

/**
 * 200 with a `Diff`; 400 for parameters that do not fit the map, 404 for an unknown authority or group, 409 if no
 * client requests its names, 502 if the other source cannot be reached, 503 without room or while another diff runs.
 */
export async function diff(context: AdminContext, request: AdminRequest): Promise<Reply> {
  const authority = decodedAuthority(DIFF_PATH.exec(request.path)?.[1] ?? '');
  const unknown = unknownAuthority(context, authority);
  if (unknown) return unknown;
  const wait = parseDuration(request.query.get('wait') ?? DEFAULT_WAIT);
  if (!wait.ok) return failure(400, `wait: ${wait.message}`, { hint: wait.remedy });
  if (wait.value > MAX_WAIT_MS) {
    return failure(400, `wait: must be at most ${formatDuration(MAX_WAIT_MS)}`);
  }
  const pairs = pairsFrom(context.gateway.upstream.view, request.query, authority);
  if ('status' in pairs) return pairs;
  if (comparing.has(context.gateway)) {
    return failure(503, 'another diff is running', { hint: 'wait for its end' });
  }
  comparing.add(context.gateway);
  try {
    return await compareAll(context, authority, pairs, wait.value);
  } finally {
    comparing.delete(context.gateway);
  }
}

async function compareAll(
  context: AdminContext,
  authority: string,
  pairs: readonly ComparedPair[],
  waitMs: number,
): Promise<Reply> {
  const { upstream } = context.gateway;
  const endMs = context.clock() + waitMs;
  const groups: GroupDiff[] = [];
  for (const pair of pairs) {
    const leftMs = Math.max(0, endMs - context.clock());
    const end = await upstream.compare(pair.group.id, pair, leftMs, () => refusal(context));
    if (end.kind !== 'compared') return failed(context, end, pair);
    groups.push(groupDiff(pair, end));
  }
  const counts = groups.flatMap((one) => Object.values(one.counts));
  const differences = counts.reduce((sum, count) => sum + count, 0);
  return json(200, { authority, differences, groups } satisfies Diff);
}

/** Why the gateway may not hold the content of one more source now. */
function refusal({ gateway }: AdminContext): string | undefined {
  const { memoryWatch, contentTotal } = gateway;
  if (memoryWatch.level !== 'enough') return 'the gateway is short of memory';
  return contentTotal.bytes > MAX_CONTENT_PART * contentTotal.maxBytes
    ? 'the sources fill most of limits.max_content'
    : undefined;
}

function failed(
  context: AdminContext,
  end: Exclude<ComparisonEnd, { kind: 'compared' }>,
  { group }: ComparedPair,
): Reply {
  switch (end.kind) {
    case 'unreachable': {
      const { source } = end;
      const [trouble] = troublesOf([{ source }], detailsOf(context));
      const why = trouble ?? `source "${source.name}": no response in time`;
      return failure(502, `cannot compare ${group.id}: ${why}`, { source: source.name });
    }
    case 'no_room':
      return failure(503, `cannot compare ${group.id}: ${end.reason}`);
    case 'group_gone':
      return failure(409, `group ${group.id} changed during the comparison`, { hint: 'try again' });
  }
}

function groupDiff(
  { group, from, to }: ComparedPair,
  { differences, same }: { readonly differences: Differences; readonly same: number },
): GroupDiff {
  const counts = DIFFERENCE_KINDS.map((kind) => [kind, differences.count(kind)] as const);
  return {
    group: group.id,
    from: from === undefined ? SERVED : nameAt(group, from),
    to: nameAt(group, to),
    same,
    counts: Object.fromEntries(counts) as GroupDiff['counts'],
    names: differences.rows().map(({ kind, typeUrl, name, ...versions }) => ({
      kind,
      type: shortTypeOf(typeUrl),
      name: wireText(name.key),
      ...versions,
    })),
  };
}

const nameAt = ({ candidates }: FailoverGroup, index: number): string =>
  candidates[index]?.source.name ?? '';

/** `POST /authorities/<authority>/force` and `…/release`: an operator overrides failover. */
import { formatDuration, parseDuration } from '../../config/durations.js';
import { didYouMean } from '../../config/nearest.js';
import type { FailoverGroup } from '../../authorities/index.js';
import { wallTime } from '../clock.js';
import { groupRow } from './authorities.js';
import { decodedAuthority, unknownAuthority } from './known-authority.js';
import { failure, json, type AdminContext, type AdminRequest, type Reply } from './reply.js';
import { detailsOf } from './source-details.js';

/** A forgotten forced source would turn its next failure into an outage, so it always expires. */
const DEFAULT_FORCE = '10m';

/** A group exists while a name of it is subscribed. `tributary get` subscribes for a moment. */
const FIRST_CLIENT = 'start a client, or ask for a name with tributary get';

export const ORDER_PATH = /^\/authorities\/([^/]*)\/(force|release)$/;

export function order(context: AdminContext, request: AdminRequest): Reply {
  const [, encoded = '', verb] = ORDER_PATH.exec(request.path) ?? [];
  const authority = decodedAuthority(encoded);
  const unknown = unknownAuthority(context, authority);
  if (unknown) return unknown;
  const groupId = request.query.get('group');
  const all = context.gateway.upstream.view.groupsOf(authority);
  const isForAll = groupId === null;
  const groups = isForAll ? all : all.filter(({ id }) => id === groupId);
  const addressed = { authority, groups, isForAll };
  if (verb === 'release') {
    const endsOrder = isForAll && context.gateway.upstream.endForceOrder(authority);
    if (groups.length > 0 || endsOrder) return release(context, addressed);
  } else if (groups.length > 0) return force(context, request, addressed);
  const error = isForAll
    ? `no client subscribes to names of "${authority}" yet, so there is no group to move`
    : `authority "${authority}" has no group "${groupId}"`;
  const ids = all.map(({ id }) => id);
  const hint = isForAll ? FIRST_CLIENT : didYouMean(groupId, ids);
  return failure(isForAll ? 409 : 404, error, { hint, groups: ids });
}

/** What an operator's request names. */
interface Addressed {
  readonly authority: string;
  readonly groups: readonly FailoverGroup[];
  /** All groups of the authority, also those that begin later. */
  readonly isForAll: boolean;
}

function force(
  context: AdminContext,
  { query }: AdminRequest,
  { authority, groups, isForAll }: Addressed,
): Reply {
  const source = query.get('source');
  const known = [
    ...new Set(groups.flatMap(({ candidates }) => candidates.map((one) => one.source.name))),
  ];
  if (source === null) return failure(400, 'source is not set: ?source=NAME', { sources: known });
  const duration = parseDuration(query.get('for') ?? DEFAULT_FORCE);
  if (!duration.ok) return failure(400, `for: ${duration.message}`, { hint: duration.remedy });
  if (duration.value === 0) return failure(400, 'for: must be more than zero');
  const { upstream } = context.gateway;
  // Sources with equal settings share one source object; the operator may use any of their names.
  const named = upstream.view.source(source)?.name ?? source;
  const moving = groups.filter((group) => candidateIndex(group, named) !== -1);
  if (moving.length === 0) {
    return failure(400, `"${source}" is not a source of "${authority}" or its alternatives`, {
      hint: didYouMean(source, known),
      sources: known,
    });
  }
  for (const group of moving)
    upstream.force(group.id, candidateIndex(group, named), duration.value);
  if (isForAll) upstream.giveForceOrder(authority, named, duration.value);
  const until = wallTime(context.clock() + duration.value);
  const groupIds = moving.map(({ id }) => id);
  context.telemetry.say('failover_forced', {
    authority,
    groups: groupIds,
    source,
    for: formatDuration(duration.value),
    until,
  });
  return json(200, { forced: source, until, groups: rows(context, moving) });
}

function release(context: AdminContext, { authority, groups }: Addressed): Reply {
  const forced = groups.filter(({ failover }) => failover.kind === 'forced');
  for (const group of forced) context.gateway.upstream.release(group.id);
  context.telemetry.say('failover_released', { authority, groups: forced.map(({ id }) => id) });
  return json(200, { released: forced.length, groups: rows(context, groups) });
}

function rows(context: AdminContext, groups: readonly FailoverGroup[]): readonly unknown[] {
  const details = detailsOf(context);
  return groups.map((group) => groupRow(group, details));
}

function candidateIndex(group: FailoverGroup, source: string): number {
  return group.candidates.findIndex((candidate) => candidate.source.name === source);
}

/** `/live` and `/ready`. */
import type { FailoverKind, FailoverGroup } from '../../authorities/index.js';
import { json, type AdminContext, type Reply } from './reply.js';
import { detailsOf, troublesOf } from './source-details.js';

/** After a longer stall of the event loop the gateway is not ready. */
const MAX_STALL_MS = 1_000;

/** In these states a group has decided what it serves, even if it serves nothing. */
const SETTLED: ReadonlySet<FailoverKind> = new Set<FailoverKind>([
  'idle',
  'primary',
  'reconnecting',
  'alt',
  'failing_back',
  'cached',
  'forced',
]);

export function live(): Reply {
  return json(200, { live: true });
}

export function ready(context: AdminContext): Reply {
  const { reasons, degraded } = readiness(context);
  const isWell = reasons.length === 0;
  const said = degraded.length > 0 ? { degraded } : {};
  return json(isWell ? 200 : 503, { ready: isWell, reasons, ...said });
}

/** Why the gateway is not ready, and what an operator should mend while it serves clients. */
export function readiness(context: AdminContext): {
  readonly reasons: readonly string[];
  readonly degraded: readonly string[];
} {
  return { reasons: reasonsNotReady(context), degraded: degradations(context) };
}

type ReadinessContext = Pick<AdminContext, 'gateway' | 'telemetry'>;

export function isReady(context: ReadinessContext): boolean {
  return reasonsNotReady(context).length === 0;
}

function reasonsNotReady({ gateway, telemetry }: ReadinessContext): readonly string[] {
  const reasons: string[] = [];
  if (gateway.phase !== 'serving') reasons.push(`the gateway is ${gateway.phase}`);
  const { maxMs } = telemetry.lag.recent();
  if (maxMs > MAX_STALL_MS) reasons.push(`the event loop stalled for ${Math.round(maxMs)} ms`);
  const { groups } = gateway.upstream.view;
  // A client may subscribe to a group that no source answers: then the others are served all the same.
  const servesNothing = groups.every(({ servedCount }) => servedCount === 0);
  return servesNothing ? [...reasons, ...emptyGroups(groups)] : reasons;
}

/** The groups that clients subscribe to, and that have neither content nor decided what they serve. */
function emptyGroups(groups: readonly FailoverGroup[]): readonly string[] {
  return atMost(MAX_GROUPS, groups.filter(isEmpty), (group) => {
    const { spec, id, failover } = group;
    return `authority "${spec.name}" (group ${id}) is ${failover.kind} and has nothing to serve`;
  });
}

/** What an operator should mend. The gateway still serves clients, so it stays ready. */
function degradations(context: AdminContext): readonly string[] {
  const { gateway, telemetry } = context;
  const { view } = gateway.upstream;
  const details = detailsOf(context);
  const cached = atMost(MAX_GROUPS, view.groups.filter(isDegraded), (group) => {
    const troubles = troublesOf(group.candidates, details).map((trouble) => `; ${trouble}`);
    return `group ${group.id}: no source is in use, clients keep the cached content${troubles.join('')}`;
  });
  const files = [...view.map.sources.keys()].flatMap((name) => {
    const [first] = gateway.upstream.fileProblems(name);
    return first === undefined ? [] : [`source "${name}": ${first}`];
  });
  const state = telemetry.stateTrouble;
  const isAlone = gateway.exchange?.isConnected === false;
  return [
    ...cached,
    ...files,
    ...(state === undefined ? [] : [`state file ${state}`]),
    ...(isAlone ? ['not connected to NATS: no hints of peer instances'] : []),
  ];
}

/** Node groups make many groups. */
const MAX_GROUPS = 20;

/** Clients subscribe to the group, and no source of it is available. */
const isDegraded = ({ failover }: FailoverGroup): boolean => failover.kind === 'cached';

function isEmpty({ demandCount, servedCount, failover }: FailoverGroup): boolean {
  return demandCount > 0 && servedCount === 0 && !SETTLED.has(failover.kind);
}

function atMost(
  most: number,
  groups: readonly FailoverGroup[],
  textOf: (group: FailoverGroup) => string,
): readonly string[] {
  const more = groups.length - most;
  const texts = groups.slice(0, most).map(textOf);
  return more > 0 ? [...texts, `and ${more} more groups`] : texts;
}

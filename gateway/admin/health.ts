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
  for (const group of gateway.client.view.groups) {
    if (!isGroupReady(group)) {
      reasons.push(
        `authority "${group.spec.name}" (group ${group.id}) is ${group.failover.kind} and has nothing to serve`,
      );
    }
  }
  return reasons;
}

/** What an operator should mend. The gateway still serves clients, so it stays ready. */
function degradations(context: AdminContext): readonly string[] {
  const { gateway, telemetry } = context;
  const { view } = gateway.client;
  const details = detailsOf(context);
  const cached = view.groups
    .filter(isDegraded)
    .slice(0, MAX_GROUPS)
    .map((group) => {
      const troubles = troublesOf(group.candidates, details).map((trouble) => `; ${trouble}`);
      return `group ${group.id}: no source is in use, clients keep the cached content${troubles.join('')}`;
    });
  const more = view.groups.filter(isDegraded).length - cached.length;
  const files = [...view.map.sources.keys()].flatMap((name) => {
    const [first] = gateway.client.fileProblems(name);
    return first === undefined ? [] : [`source "${name}": ${first}`];
  });
  const state = telemetry.stateTrouble;
  const isAlone = gateway.exchange?.isConnected === false;
  return [
    ...cached,
    ...(more > 0 ? [`and ${more} more groups`] : []),
    ...files,
    ...(state === undefined ? [] : [`state file ${state}`]),
    ...(isAlone ? ['not connected to NATS: no hints of peer instances'] : []),
  ];
}

/** Node groups make many groups. */
const MAX_GROUPS = 20;

/** Clients subscribe to the group, and no source of it is available. */
const isDegraded = ({ failover }: FailoverGroup): boolean => failover.kind === 'cached';

function isGroupReady(group: FailoverGroup): boolean {
  return group.demandCount === 0 || group.servedCount > 0 || SETTLED.has(group.failover.kind);
}

/** `/live` and `/ready`. */
import type { FailoverKind, FailoverGroup } from '../../authorities/index.js';
import { json, type AdminContext, type Reply } from './reply.js';

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

export function ready({ gateway, telemetry }: AdminContext): Reply {
  const reasons: string[] = [];
  if (gateway.phase !== 'serving') reasons.push(`the gateway is ${gateway.phase}`);
  const { maxMs } = telemetry.lag.recent();
  if (maxMs > MAX_STALL_MS) reasons.push(`the event loop stalled for ${Math.round(maxMs)} ms`);
  for (const group of gateway.client.view.groups) {
    if (!isReady(group)) {
      reasons.push(
        `authority "${group.spec.name}" (group ${group.id}) is ${group.failover.kind} and has nothing to serve`,
      );
    }
  }
  const isWell = reasons.length === 0;
  // Without peers the gateway still serves clients, so it stays ready.
  const isAlone = gateway.exchange?.isConnected === false;
  const degraded = isAlone
    ? { degraded: ['not connected to NATS: no hints of peer instances'] }
    : {};
  return json(isWell ? 200 : 503, { ready: isWell, reasons, ...degraded });
}

function isReady(group: FailoverGroup): boolean {
  return group.demandCount === 0 || group.servedCount > 0 || SETTLED.has(group.failover.kind);
}

/** `/live` and `/ready`. */
import type { FailoverKind, FailoverGroup } from '../../authorities/index.js';
import { json, type AdminContext, type Reply } from './reply.js';

/** A loop that stalled for so long does not serve in time. */
const MAX_STALL_MS = 1_000;

/** In these a group has settled on what it serves, be it nothing. */
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
  for (const group of gateway.client.federation.groups) {
    if (!isReady(group)) {
      reasons.push(
        `authority "${group.spec.name}" (group ${group.id}) is ${group.failover.kind} and has nothing to serve`,
      );
    }
  }
  const isWell = reasons.length === 0;
  // Served all the same: other instances are no condition of anything.
  const isAlone = gateway.exchange?.isConnected === false;
  const degraded = isAlone ? { degraded: ['other instances are not heard'] } : {};
  return json(isWell ? 200 : 503, { ready: isWell, reasons, ...degraded });
}

function isReady(group: FailoverGroup): boolean {
  return group.demandCount === 0 || group.servedCount > 0 || SETTLED.has(group.failover.kind);
}

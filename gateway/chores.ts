/** Work that is due by time alone, once a second. */
import { PORTION_MS } from '../authorities/index.js';
import type { GatewayView } from './gateway-view.js';
import { clock } from './clock.js';
import type { NodeGroupRoom } from './core/session/client-scope.js';

const TICK_MS = 1_000;

/** A stream that may have reached its age, or whose client's token may have expired. */
export interface Endable {
  endIfDue(): void;
}

/**
 * Looks at each stream once, in as many turns of the event loop as that takes: 5,000 streams cost some 15 ms,
 * and the turn has other work.
 *
 * @param onOver called after the last stream
 */
export function endDue(streams: Iterator<Endable>, onOver: () => void): void {
  const untilMs = performance.now() + PORTION_MS;
  for (let next = streams.next(); next.done !== true; next = streams.next()) {
    next.value.endIfDue();
    if (performance.now() < untilMs) continue;
    setImmediate(endDue, streams, onOver);
    return;
  }
  onOver();
}

function runCacheTimer(cache: GatewayView['cache']): void {
  if (cache.handleTimer(clock())) setImmediate(runCacheTimer, cache);
}

/** @returns stops it */
export function startChores(
  { cache, server, quotas }: Pick<GatewayView, 'cache' | 'server' | 'quotas'>,
  room: NodeGroupRoom,
): () => void {
  let isLooking = false;
  const timer = setInterval(() => {
    runCacheTimer(cache);
    quotas.sweep(clock(), (scope) => room.hasScope(scope));
    server.health.handleTimer();
    // The last look goes on: the process is busy.
    if (isLooking) return;
    isLooking = true;
    endDue([...server.clients(), ...server.loadStreams].values(), () => {
      isLooking = false;
    });
  }, TICK_MS);
  return () => {
    clearInterval(timer);
  };
}

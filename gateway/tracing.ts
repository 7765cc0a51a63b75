/** Where traces of changes join the data path. Without `traces.endpoint`, nothing here is called for a change. */
import type { StreamContext } from './clients/client-stream.js';
import type { CacheOptions } from './core/cache/resource-cache.js';
import type { Settings } from '../config/settings.js';
import type { Peers } from './peers/peers.js';
import type { Telemetry } from './telemetry/telemetry.js';
import { Tracing } from './telemetry/traces/tracing.js';

/** @returns undefined: the settings want no traces */
export function createTracing(
  { settings, telemetry }: { readonly settings: Settings; readonly telemetry: Telemetry },
  clock: () => number,
): Tracing | undefined {
  const { traces, node } = settings;
  return traces ? new Tracing({ ...traces, instance: node.id, telemetry, clock }) : undefined;
}

/**
 * Reports cache changes to the peers and to the traces, if there are any: without a listener, the cache does not compare
 * versions.
 *
 * @param peers a function, since the peers are created after the cache
 */
export function toldTo(
  peers: (() => Peers) | undefined,
  tracing: Tracing | undefined,
): Pick<CacheOptions, 'onHeld' | 'onAsked'> {
  if (!peers) return tracing ? { onHeld: tracing.handleHeld } : {};
  return {
    onHeld: (change) => {
      peers().handleHeld(change);
      tracing?.handleHeld(change);
    },
    onAsked: (typeUrl, name, change) => {
      peers().handleAsked(typeUrl, name, change);
    },
  };
}

/** The listeners to the events of client streams. */
export function observersOf(
  telemetry: Telemetry,
  tracing: Tracing | undefined,
): Pick<StreamContext, 'onEvent' | 'onWritten'> {
  const onEvent = telemetry.onClient.bind(telemetry);
  if (!tracing) return { onEvent };
  return {
    onEvent: (stream, event) => {
      onEvent(stream, event);
      tracing.handleClient(stream, event);
    },
    onWritten: tracing.handleWritten,
  };
}

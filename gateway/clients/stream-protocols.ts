/** Both variants of ADS (delta, state of the world) on one cache, configured by the settings. */
import type { Settings } from '../../config/settings.js';
import { decodeDeltaRequest } from '../../protos/delta-codec.js';
import { decodeSotwRequest } from '../../protos/sotw-codec.js';
import type { Flavour, StreamProtocol } from './client-stream.js';
import { DeltaSession } from '../core/delta/delta-session.js';
import type { ResourceCache } from '../core/cache/resource-cache.js';
import { SotwSession } from '../core/sotw/sotw-session.js';

type StreamSettings = Pick<
  Settings,
  'limits' | 'absentRouteAnswer' | 'missingClusterAnswer' | 'unanswerableStream'
>;

export function streamProtocols(
  settings: StreamSettings,
  cache: ResourceCache,
): Readonly<Record<Flavour, StreamProtocol>> {
  const { limits, absentRouteAnswer, missingClusterAnswer, unanswerableStream } = settings;
  const shared = {
    cache,
    maxNames: limits.maxNamesPerClient,
    chunkBytes: limits.responseChunkBytes,
    ackDeadlineMs: limits.ackDeadlineMs,
  };
  const silentAbsentRoutes = absentRouteAnswer === 'silence';
  const placeholderAfterMs =
    missingClusterAnswer === 'placeholder' ? limits.missingClusterWaitMs : undefined;
  const unanswerableAfterMs = unanswerableStream === 'end' ? limits.unanswerableWaitMs : undefined;
  return {
    delta: {
      flavour: 'delta',
      decode: decodeDeltaRequest,
      open: (onReady, scopeOf, maxMessageBytes) => {
        const own = { silentAbsentRoutes, unanswerableAfterMs, maxMessageBytes };
        return new DeltaSession({ ...shared, ...own, onReady, scopeOf });
      },
    },
    sotw: {
      flavour: 'sotw',
      decode: decodeSotwRequest,
      open: (onReady, scopeOf, maxMessageBytes) =>
        new SotwSession({
          ...shared,
          placeholderAfterMs,
          unanswerableAfterMs,
          onReady,
          scopeOf,
          maxMessageBytes,
        }),
    },
  };
}

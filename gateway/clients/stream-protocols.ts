/** Both variants of the protocol (delta, state of the world) on one cache, configured by the settings. */
import type { Settings } from '../../config/settings.js';
import { decodeDeltaRequest } from '../../protos/delta-codec.js';
import { decodeSotwRequest } from '../../protos/sotw-codec.js';
import type { SotwRequest } from '../../protos/discovery.js';
import type { Flavour, StreamProtocol } from './client-stream.js';
import { DeltaSession } from '../core/delta/delta-session.js';
import type { ResourceCache } from '../core/cache/resource-cache.js';
import { PollSession } from '../core/sotw/poll-session.js';
import { SotwSession } from '../core/sotw/sotw-session.js';

/**
 * The work of a session is done in portions of these sizes, each some 0.5 ms of CPU, and ten times that before V8 has compiled
 * it. Counts.
 */
const PORTIONS = { namesPerPortion: 25, membersPerPortion: 1_000, looksPerPortion: 250 } as const;

type Portions = Readonly<Record<keyof typeof PORTIONS, number>>;

type StreamSettings = Pick<
  Settings,
  'limits' | 'absentRouteAnswer' | 'missingClusterAnswer' | 'unanswerableStream'
>;

/** @param portions for tests */
export function streamProtocols(
  settings: StreamSettings,
  cache: ResourceCache,
  portions: Portions = PORTIONS,
): Readonly<Record<Flavour, StreamProtocol>> {
  const { limits, absentRouteAnswer, missingClusterAnswer, unanswerableStream } = settings;
  const silentAbsentRoutes = absentRouteAnswer === 'silence';
  const placeholderAfterMs =
    missingClusterAnswer === 'placeholder' ? limits.missingClusterWaitMs : undefined;
  const unanswerableAfterMs = unanswerableStream === 'end' ? limits.unanswerableWaitMs : undefined;
  return {
    delta: {
      flavour: 'delta',
      decode: decodeDeltaRequest,
      // Named one by one in both flavours: spread objects take 2 KB of memory for each stream.
      open: ({
        onReady,
        scopeOf,
        maxMessageBytes,
        isOfOneType,
        nameQuota,
        judge,
        past,
        isBufferFull,
      }) =>
        new DeltaSession({
          cache,
          maxNames: limits.maxNamesPerClient,
          chunkBytes: limits.responseChunkBytes,
          ackDeadlineMs: limits.ackDeadlineMs,
          namesPerPortion: portions.namesPerPortion,
          looksPerPortion: portions.looksPerPortion,
          silentAbsentRoutes,
          unanswerableAfterMs,
          onReady,
          scopeOf,
          maxMessageBytes,
          isOfOneType,
          nameQuota,
          judge,
          past,
          isBufferFull,
        }),
    },
    sotw: {
      flavour: 'sotw',
      decode: decodeSotwRequest,
      open: ({ onReady, scopeOf, maxMessageBytes, isOfOneType, nameQuota, judge, isBufferFull }) =>
        new SotwSession({
          cache,
          maxNames: limits.maxNamesPerClient,
          chunkBytes: limits.responseChunkBytes,
          ackDeadlineMs: limits.ackDeadlineMs,
          namesPerPortion: portions.namesPerPortion,
          membersPerPortion: portions.membersPerPortion,
          // A placeholder takes its endpoints from ADS, which such a client does not use.
          placeholderAfterMs: isOfOneType ? undefined : placeholderAfterMs,
          unanswerableAfterMs,
          onReady,
          scopeOf,
          maxMessageBytes,
          isOfOneType,
          nameQuota,
          judge,
          isBufferFull,
        }),
    },
  };
}

/**
 * The variant for clients that poll. Each request has one response, so responses are not split; a
 * request that cannot be answered ends by itself.
 */
export function pollProtocol(
  settings: Pick<Settings, 'limits'>,
  cache: ResourceCache,
): StreamProtocol<SotwRequest, PollSession> {
  const { limits } = settings;
  return {
    flavour: 'poll',
    decode: decodeSotwRequest,
    open: (client) =>
      new PollSession({
        contents: new SotwSession({
          ...client,
          cache,
          maxNames: limits.maxNamesPerClient,
          chunkBytes: Infinity,
          ackDeadlineMs: limits.ackDeadlineMs,
          ...PORTIONS,
          isOfOneType: true,
          placeholderAfterMs: undefined,
          unanswerableAfterMs: undefined,
        }),
        waitMs: limits.pollWaitMs,
        leaseMs: limits.pollLeaseMs,
        onReady: client.onReady,
      }),
  };
}

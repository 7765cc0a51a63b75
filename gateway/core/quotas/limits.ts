/** The bounds of all clients together and of one peer, as values: settings and rules make them. */

import type { Limits } from '../../../config/limits.js';

/** The quotas that all peers share. */
export const QUOTAS = [
  'streams',
  'connections',
  'names',
  'upstream_names',
  'node_groups',
  'first_syncs',
  'buffered',
] as const;
export type Quota = (typeof QUOTAS)[number];

/** The bounds of one peer: of all connections with one identity, or else from one address. */
export interface PeerLimits {
  /** Counts; of `buffered`, bytes. Infinity: the peer's share of the global quota is its only bound. */
  readonly counts: Readonly<Record<Quota, number>>;
  /** A count per second; twice as many at once. */
  readonly requestsPerSecond: number;
}

export interface QuotaLimits {
  /** Of all peers together. Counts; of `buffered`, bytes. */
  readonly global: Readonly<Record<Quota, number>>;
  /** The part of what the other peers leave free that one peer may take, above 0 and at most 1. */
  readonly peerShare: number;
  /** Of each peer that has no limits of its own. */
  readonly peer: PeerLimits;
}

/**
 * The bounds of the settings. No peer has limits of its own in them, but each has its share.
 *
 * @param mostConnections that the open files of the process leave room for; default: any number
 */
export function quotaLimitsOf(limits: Limits, mostConnections = Infinity): QuotaLimits {
  return {
    global: {
      streams: limits.maxClients,
      connections: Math.min(limits.maxConnections, mostConnections),
      names: limits.maxNames,
      upstream_names: limits.maxUpstreamNames,
      node_groups: limits.maxNodeGroups,
      first_syncs: limits.maxFirstSyncs,
      buffered: limits.maxBufferedBytes,
    },
    peerShare: limits.maxPeerPercent / 100,
    peer: {
      counts: {
        streams: Infinity,
        connections: Infinity,
        names: Infinity,
        upstream_names: Infinity,
        node_groups: Infinity,
        first_syncs: Infinity,
        buffered: Infinity,
      },
      requestsPerSecond: limits.peerRequestsPerSecond,
    },
  };
}

/** The setting that an operator raises, for error messages. */
export const SETTING_OF: Readonly<Record<Quota, string>> = {
  streams: 'limits.max_clients',
  connections: 'limits.max_connections',
  names: 'limits.max_names',
  upstream_names: 'limits.max_upstream_names',
  node_groups: 'limits.max_node_groups',
  first_syncs: 'limits.max_first_syncs',
  buffered: 'limits.max_buffered',
};

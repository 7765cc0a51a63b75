/** Connects the hints of this instance with the exchange, the cache, the upstream side and telemetry. */
import type { FederatedClient } from '../../authorities/index.js';
import type { NatsSettings } from '../../config/settings.js';
import type { ResourceCache } from '../core/cache/resource-cache.js';
import { clock } from '../clock.js';
import { NatsPeerExchange } from './nats-exchange.js';
import { Peers } from './peers.js';
import type { Telemetry } from '../telemetry/telemetry.js';

export interface PeerParts {
  readonly upstream: FederatedClient;
  readonly cache: ResourceCache;
  readonly telemetry: Telemetry;
}

export interface ConnectedPeers {
  readonly peers: Peers;
  /** Absent without `nats` settings. */
  readonly exchange: NatsPeerExchange | undefined;
}

export function connectPeers(settings: NatsSettings | null, parts: PeerParts): ConnectedPeers {
  const { upstream, cache, telemetry } = parts;
  const peers = new Peers({
    graceMs: settings?.graceMs ?? 0,
    held: cache.held.bind(cache),
    upstream: {
      revalidate: upstream.revalidate.bind(upstream),
      revalidateAuthority: upstream.revalidateAuthority.bind(upstream),
      nudge: upstream.nudge.bind(upstream),
      groupIdOf: (name) => upstream.view.groupFor(name)?.id,
    },
    events: telemetry.peers,
    clock,
  });
  return { peers, exchange: settings ? createExchange(settings, telemetry, peers) : undefined };
}

function createExchange(
  settings: NatsSettings,
  telemetry: Telemetry,
  peers: Peers,
): NatsPeerExchange {
  const exchange = new NatsPeerExchange(settings, peers.instance, {
    onConnected: (server) => {
      telemetry.peers.onConnected(server);
      peers.handleConnected();
    },
    onDisconnected: (reason) => {
      telemetry.peers.onDisconnected(reason, settings.servers);
      peers.handleDisconnected();
    },
    onMessage: (bytes) => {
      peers.handleMessage(bytes);
    },
    onSent: () => {
      telemetry.peers.onSent();
    },
    onDropped: () => {
      telemetry.peers.onDropped();
    },
    onRefused: (reason) => {
      telemetry.peers.onRefused(reason);
    },
    onError: (error) => {
      telemetry.onHandlerError(error);
    },
  });
  peers.join(exchange);
  return exchange;
}

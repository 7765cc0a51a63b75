/** What telemetry and the admin side may look at of the running gateway. */
import type { FederatedClient } from '../authorities/index.js';
import type { ResourceCache } from './core/resource-cache.js';
import type { NatsExchange } from './nats-exchange.js';
import type { Peers } from './peers.js';
import type { XdsServer } from './xds-server.js';

export type GatewayPhase = 'starting' | 'serving' | 'draining';

export interface GatewayView {
  readonly client: FederatedClient;
  readonly cache: ResourceCache;
  readonly server: XdsServer;
  readonly peers: Peers;
  /** Absent: a lone instance. */
  readonly exchange: NatsExchange | undefined;
  readonly phase: GatewayPhase;
}

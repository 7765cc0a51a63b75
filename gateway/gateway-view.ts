/** The parts of the running gateway that telemetry and the admin API may use. */
import type { ContentTotal, FederatedClient } from '../authorities/index.js';
import type { ResourceCache } from './core/cache/resource-cache.js';
import type { NatsPeerExchange } from './peers/nats-exchange.js';
import type { Peers } from './peers/peers.js';
import type { MemoryWatch } from './clients/memory-watch.js';
import type { Quotas } from './core/quotas/quotas.js';
import type { XdsServer } from './clients/xds-server.js';

export type GatewayPhase = 'starting' | 'serving' | 'draining';

export interface GatewayView {
  /** The sources and authorities. */
  readonly upstream: FederatedClient;
  readonly cache: ResourceCache;
  readonly server: XdsServer;
  readonly peers: Peers;
  /** Absent without `nats` settings. */
  readonly exchange: NatsPeerExchange | undefined;
  readonly quotas: Quotas;
  /** The content of all sources together. */
  readonly contentTotal: ContentTotal;
  readonly memoryWatch: Pick<MemoryWatch, 'level' | 'fullness'>;
  readonly phase: GatewayPhase;
}

/**
 * A federated xDS client: give it an authority map and it watches locators, with failover. This is
 * its whole public surface; the gateway uses nothing else of it.
 */
export { Federation, type FederationEffect, type FederationOptions } from './core/federation.js';
export {
  FAILOVER_STATES,
  TRANSITIONS,
  type FailoverKind,
  type FailoverState,
} from './core/failover.js';
export type { Candidate } from './core/candidate.js';
export type { Group, GroupEvent } from './core/group.js';
export { isOldStyleEntry, scopeOfSource, sourceNameOf, type NodeGroup } from './core/node-group.js';
export { typeOfNamed, type Hop } from './core/hops.js';
export { isTooMuch, RemovalHold } from './core/removal-hold.js';
export type { Projection } from './core/projection.js';
export type { ServerEffect } from './core/management-server.js';
export type { SourceHealth, StreamEnd, TripReason } from './core/source-health.js';
export type { ResourceWatcher } from './core/watcher.js';
export { FederatedClient, type FederatedClientOptions } from './federated-client.js';
export { grpcTransport } from './grpc-transport.js';
export type { BreakerState } from './source-breaker.js';
export type { Attempt, AttemptHandlers, Transport } from './transport.js';

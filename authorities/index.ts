/**
 * A federated xDS client: takes an authority map and watches locators, with failover. This is its
 * complete public API; the gateway imports nothing else from it.
 */
export {
  Federation,
  type FederationEffect,
  type FederationOptions,
  type FederationView,
} from './core/federation.js';
export {
  FAILOVER_STATES,
  TRANSITIONS,
  type FailoverKind,
  type FailoverState,
} from './core/failover/failover.js';
export type { Candidate } from './core/failover/candidate.js';
export { answerAt, type Asked, type CandidateAnswer } from './core/failover/candidate-content.js';
export type { LastKnown } from './core/failover/last-known.js';
export type { FailoverGroup, GroupEvent } from './core/failover/failover-group.js';
export {
  DIFFERENCE_KINDS,
  type Difference,
  type DifferenceKind,
  type Differences,
} from './core/failover/differences.js';
export type { ComparisonEnd } from './comparison-run.js';
export { isOldStyleEntry, type NodeGroup } from './core/node-groups/node-group.js';
export {
  SecretHeaders,
  type ClientCertificate,
  type ClientIdentity,
} from './core/sources/client-identity.js';
export { ContentTotal, type ContentLimits } from './core/sources/content-budget.js';
export { appliesTo } from './core/sources/node-conditions.js';
export { scopeOfSource, sourceNameOf } from './core/sources/source-ids.js';
export { typeOfNamed, type Hop } from './core/resolution/hops.js';
export { triggersGuard, RemovalHold, type HeldName } from './core/failover/removal-hold.js';
export { TurnRoom } from './core/failover/turn-room.js';
export { soonestOf } from './core/soonest.js';
export type { Projection } from './core/projection.js';
export type { Source } from './core/sources/source.js';
export type { ServerEffect } from './core/sources/management-server.js';
export { Fifo } from './core/sources/fifo.js';
export { TokenBucket } from './core/sources/token-bucket.js';
export {
  TRIP_REASONS,
  type SourceHealth,
  type StreamEnd,
  type TripReason,
} from './core/sources/source-health.js';
export type { ResourceWatcher } from './core/watcher.js';
export type { LoadStreamEvent } from './core/load-reports/source-loads.js';
export type {
  LoadReporter,
  ReportedCluster,
  WantedLoads,
} from './core/load-reports/load-reports.js';
export type { LoadReportCalls } from './load-report-calls.js';
export { unwatchable } from './directory-watches.js';
export { ContentStore, type ContentStoreEvent } from './content-store.js';
export { directoryProblems, type DirectoryProblems } from './directory-problems.js';
export { FederatedClient, type FederatedClientOptions } from './federated-client.js';
export { sourceTransport } from './source-transport.js';
export { conversions } from './conversion-thread.js';
export { PORTION_MS, Turns } from './turns.js';
export type { BreakerState } from './source-breaker.js';
export type {
  Attempt,
  AttemptHandlers,
  LoadCall,
  LoadCallHandlers,
  Transport,
} from './transport.js';

/** Does a client hold one resource as the gateway serves it? Pure; for the operator's view. */
import type { SyncState } from './sync-state.js';

/**
 * What the client holds of one resource: `absent`: there is no such resource. `unsent`: nothing was sent, or the
 * sources are silent. `older`: another version than the one that is served. `current`: the one that is served.
 */
export type Holding = 'absent' | 'unsent' | 'older' | 'current';

/** `envoy.service.status.v3.ConfigStatus`. */
export type ResourceStatus = 'SYNCED' | 'NOT_SENT' | 'STALE' | 'ERROR';

/**
 * By what the client holds, and by the state of its subscriptions to the type. An ACK or NACK is of a whole
 * response, so the resources of a refused response share its error.
 */
const STATUS: Readonly<Record<Holding, Readonly<Record<SyncState['kind'], ResourceStatus>>>> = {
  absent: { SYNCED: 'SYNCED', STALE: 'STALE', NACK: 'SYNCED', 'NOT SENT': 'NOT_SENT' },
  unsent: { SYNCED: 'NOT_SENT', STALE: 'NOT_SENT', NACK: 'NOT_SENT', 'NOT SENT': 'NOT_SENT' },
  older: { SYNCED: 'STALE', STALE: 'STALE', NACK: 'ERROR', 'NOT SENT': 'STALE' },
  current: { SYNCED: 'SYNCED', STALE: 'STALE', NACK: 'ERROR', 'NOT SENT': 'SYNCED' },
};

/** @param ofType see `syncStateOf` */
export const resourceStatusOf = (holding: Holding, ofType: SyncState['kind']): ResourceStatus =>
  STATUS[holding][ofType];

/** The state of a client's subscriptions to one type, as `/status` and the client status service show it. */
import type { ClientStream } from '../clients/client-stream.js';
import type { SubscriptionsView } from '../core/session/stream-session.js';
import { syncStateOf, type SyncState } from '../core/session/sync-state.js';

export function subscriptionsState(
  stream: ClientStream,
  subscriptions: SubscriptionsView,
): SyncState {
  return syncStateOf(subscriptions, stream.rejectionOf(subscriptions), stream.flavour !== 'poll');
}

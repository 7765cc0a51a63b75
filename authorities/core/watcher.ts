/**
 * What a watcher of one name or glob is told. Calls come in batches and never from within `watch`. A
 * `status` is why there is nothing, where the source said so (TP3: NOT_FOUND, PERMISSION_DENIED).
 */
import type { ResourceName } from '../../protos/resource-name.js';
import type { RpcStatus } from '../../protos/discovery.js';
import type { Projection } from './projection.js';

export interface ResourceWatcher {
  /** New content of the watched name, or of a member of the watched glob. */
  onChanged(projection: Projection): void;
  /** A resource that was there went: deleted upstream, or the right to it was lost. */
  onRemoved(typeUrl: string, name: ResourceName, status?: RpcStatus): void;
  /** A member of the watched list came or changed: of any name and authority that the list leads to. */
  onMemberChanged(list: ResourceName, projection: Projection): void;
  /** The watched list has no such member any more. */
  onMemberRemoved(typeUrl: string, list: ResourceName, name: ResourceName): void;
  /** The watched name does not exist. */
  onDoesNotExist(typeUrl: string, name: ResourceName, status?: RpcStatus): void;
  /**
   * The watched glob is answered: its members, perhaps none, were told. `isProof`: what was not told
   * does not exist; an alternative's word is no proof of that.
   */
  onComplete(typeUrl: string, glob: ResourceName, isProof: boolean, status?: RpcStatus): void;
  /** Nothing can be said of the watched name, and nothing is held: wait, and do not call it missing. */
  onResourceError(typeUrl: string, name: ResourceName, status: RpcStatus): void;
}

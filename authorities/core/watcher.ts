/**
 * Events for the watcher of one name or glob. They come in batches and never from within `watch`.
 * A new watcher gets the whole state once; the other watchers of the name are not notified again.
 * `status` is the source's reason for an absence (TP3: NOT_FOUND, PERMISSION_DENIED).
 */
import type { ResourceName } from '../../protos/resource-name.js';
import type { RpcStatus } from '../../protos/discovery.js';
import type { Projection } from './projection.js';

export interface ResourceWatcher {
  /** New content of the watched name, or of a member of the watched glob. */
  onChanged(projection: Projection): void;
  /** The content is that of the last `onChanged`, and does not only come from the disk any more (`Projection.isRestored`). */
  onConfirmed?(projection: Projection): void;
  /** A resource is gone: deleted upstream, or the source may no longer serve it. */
  onRemoved(typeUrl: string, name: ResourceName, status?: RpcStatus): void;
  /**
   * A member of the watched list is new or changed. The list may lead to members of other names and
   * authorities.
   */
  onMemberChanged(list: ResourceName, projection: Projection): void;
  /** A member of the watched list is gone. */
  onMemberRemoved(typeUrl: string, list: ResourceName, name: ResourceName): void;
  /** The watched name does not exist. */
  onDoesNotExist(typeUrl: string, name: ResourceName, status?: RpcStatus): void;
  /**
   * The source answered the watched glob, and its members, if any, were sent before. `isProof`: no
   * other member exists. An alternative cannot prove that.
   */
  onComplete(typeUrl: string, glob: ResourceName, isProof: boolean, status?: RpcStatus): void;
  /** The watched name has an error and no cached content: wait, and do not treat it as absent. */
  onResourceError(typeUrl: string, name: ResourceName, status: RpcStatus): void;
}

/** What a failover group tells of the names that are demanded of it. `name` is the requested name, never the mapped one. */
import type { RpcStatus } from '../../../protos/discovery.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import type { Projection } from '../projection.js';

/** A name without a resource; `status` is the reason, if the source gave one. */
export interface Absence {
  readonly typeUrl: string;
  readonly name: ResourceName;
  readonly status: RpcStatus | undefined;
}

/** An event for watchers and observers. */
export type ResourceEvent =
  | {
      readonly kind: 'changed';
      readonly projection: Projection;
      /** The projection served before. */
      readonly before?: Projection;
    }
  /** The content is unchanged, but its references carry other `#alt=` alternatives. */
  | { readonly kind: 'noted'; readonly projection: Projection }
  /** The content is unchanged, and does not only come from the disk any more (`Projection.isRestored`). */
  | { readonly kind: 'confirmed'; readonly projection: Projection }
  /** A served resource is gone. */
  | ({ readonly kind: 'removed' } & Absence)
  /** A requested name does not exist. */
  | ({ readonly kind: 'absent' } & Absence)
  /** The source answered a requested glob, and all its members were sent before this event. */
  | ({ readonly kind: 'complete'; readonly isProof: boolean } & Absence)
  /**
   * The group holds nothing for a requested name, and no candidate is reachable, or the candidate
   * in use returned an error (`status`) that does not prove absence.
   */
  | ({ readonly kind: 'unavailable' } & Absence)
  /** The deletion guard holds back this many removals. */
  | { readonly kind: 'guarded'; readonly names: number; readonly untilMs: number }
  /** A candidate's content cannot be served under the requested name. */
  | { readonly kind: 'refused'; readonly name: ResourceName; readonly reason: string };

/** An event for the watchers of one name. */
export type NameEvent = Extract<
  ResourceEvent,
  { readonly kind: 'changed' | 'confirmed' | 'removed' | 'absent' | 'complete' | 'unavailable' }
>;

/** What redirects and lists need from the federation. */
import type { ResolutionBounds } from '../../../config/limits.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import type { ResourceWatcher } from '../watcher.js';
import type { HopRules } from './hops.js';

export interface ResolutionPort extends HopRules {
  readonly bounds: ResolutionBounds;
  /** The time of the present input. */
  nowMs(): number;
  watch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher): void;
  unwatch(typeUrl: string, name: ResourceName, watcher: ResourceWatcher): void;
  /** The watchers of a name and of its glob. */
  watchersOf(typeUrl: string, name: ResourceName): Iterable<ResourceWatcher>;
  /** The watchers to notify of a change: all but new ones, which get the whole state afterwards. */
  audienceOf(typeUrl: string, name: ResourceName): Iterable<ResourceWatcher>;
}

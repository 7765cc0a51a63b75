/**
 * The entries of the cache: one for each name and glob that any client subscribes to, with what its
 * sources say of it and its subscribers.
 */
import type { Projection } from '../../../authorities/index.js';
import type { RpcStatus } from '../../../protos/discovery.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import type { NamePayer } from '../quotas/stream-names.js';
import type { Collection, Member } from './collection.js';
import type { LastContent } from './last-contents.js';

/** `waiting`: requested upstream, no response yet. */
export type NameState =
  | { readonly kind: 'waiting' }
  | { readonly kind: 'present'; readonly projection: Projection }
  /** `status`: the reason, if the source gave one. `wasHeld`: held here until its source removed it. `last`: what a cluster had. */
  | {
      readonly kind: 'absent';
      readonly status?: RpcStatus;
      readonly wasHeld?: boolean;
      readonly last?: LastContent;
    }
  | { readonly kind: 'error'; readonly status: RpcStatus };

export interface NameEntry {
  readonly typeUrl: string;
  readonly name: ResourceName;
  readonly subscribers: Set<NameSubscriber>;
  /** Pays for the entry: the first subscriber's stream; undefined: none. */
  readonly payer: NamePayer | undefined;
  state: NameState;
  /** Present: the client may not ask for it. The cache does not have such an entry. */
  readonly denial?: Denial;
}

export interface GlobEntry {
  readonly typeUrl: string;
  readonly collection: Collection;
  readonly subscribers: Set<GlobSubscriber>;
  readonly payer: NamePayer | undefined;
  error: RpcStatus | undefined;
  /** As in `NameEntry`. */
  readonly denial?: Denial;
}

/** Why one client may not ask for a name (gateway/core/rights). */
export interface Denial {
  readonly status: RpcStatus;
  /** The client learns only that the name does not exist. */
  readonly isHidden: boolean;
}

/** The notifications of the cache; a client's subscriptions implement both interfaces. */
export interface NameSubscriber {
  handleNameChanged(key: string): void;
}
export interface GlobSubscriber {
  /** @param gone a member that was removed */
  handleGlobChanged(glob: GlobEntry, gone?: Member): void;
}

export const WAITING: NameState = { kind: 'waiting' };

type Absent = Extract<NameState, { kind: 'absent' }>;
const ABSENT: Absent = { kind: 'absent' };

export const absent = (status: RpcStatus | undefined): Absent =>
  status ? { kind: 'absent', status } : ABSENT;

/**
 * What the sources say of a resource. `unknown`: they are silent, or cannot be reached. `restored`: the same, and the disk has content
 * of an earlier process.
 */
export type Reported = 'present' | 'restored' | 'absent' | 'unknown';

const REPORTED: Readonly<Record<NameState['kind'], Reported>> = {
  present: 'present',
  absent: 'absent',
  waiting: 'unknown',
  // "Unreachable" does not decide whether the resource exists.
  error: 'unknown',
};

export const reportedOf = (state: NameState): Reported =>
  state.kind === 'present' ? reportedWith(state.projection) : REPORTED[state.kind];

/** What the sources say of a resource with this content. */
export const reportedWith = ({ isRestored }: Projection): Reported =>
  isRestored ? 'restored' : 'present';

/** Is it known whether the name exists? */
export function isKnown(state: NameState): boolean {
  return reportedOf(state) !== 'unknown';
}

/** A source has answered it, at least in part. */
export function isAnswered(entry: NameEntry | GlobEntry): boolean {
  if (!('collection' in entry)) return isKnown(entry.state);
  return entry.collection.complete || entry.collection.members.size > 0;
}

/**
 * No source will send more, though something is unknown: an alternative has sent all it has, or the
 * source failed.
 */
export function isStuck(entry: NameEntry | GlobEntry): boolean {
  if (!('collection' in entry)) return entry.state.kind === 'error';
  return entry.collection.complete || entry.error !== undefined;
}

/** Its source cannot be reached. */
export function isUnreachable(entry: NameEntry | GlobEntry): boolean {
  return 'collection' in entry ? entry.error !== undefined : entry.state.kind === 'error';
}

/**
 * A source reported, without a reason, that a name does not exist, and this process never held it. If a
 * client claims to hold the name, the report may be wrong: a source that has just started may still
 * load it.
 */
export const isDoubtful = (state: NameState): boolean =>
  state.kind === 'absent' && state.wasHeld !== true && state.status === undefined;

export function notifyName(entry: NameEntry): void {
  for (const subscriber of entry.subscribers) subscriber.handleNameChanged(entry.name.key);
}

export function notifyGlob(glob: GlobEntry, gone?: Member): void {
  for (const subscriber of glob.subscribers) subscriber.handleGlobChanged(glob, gone);
}

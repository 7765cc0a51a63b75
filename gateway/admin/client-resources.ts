/** The resources that one client subscribes to, by name or as members of a glob, and what it holds of each. */
import type { Projection } from '../../authorities/index.js';
import { wireText, type ResourceName } from '../../protos/resource-name.js';
import type { Member } from '../core/cache/collection.js';
import { LOG_START } from '../core/cache/change-log.js';
import type { GlobEntry, NameState } from '../core/cache/entries.js';
import { DeltaSubscriptions } from '../core/delta/delta-subscriptions.js';
import type { GlobSubscription, NameSubscription } from '../core/delta/subscription.js';
import { contentVersionOf, NOT_HELD, type Held } from '../core/session/holdings.js';
import type { Holding } from '../core/session/resource-status.js';
import type { SubscriptionsView } from '../core/session/stream-session.js';
import type { SotwName } from '../core/sotw/sotw-subscription.js';
import { SotwSubscriptions } from '../core/sotw/sotw-subscriptions.js';

export interface ClientResource {
  /** As the client spells it. */
  readonly name: string;
  readonly holding: Holding;
  /** What the gateway serves; undefined: nothing. */
  readonly served: Projection | undefined;
  /** The version that the client holds; empty: none, or unknown. */
  readonly version: string;
}

/**
 * One for each name, and for each member of a glob that is not subscribed by name too; a glob without members
 * stands for itself.
 */
export function* clientResources(
  subscriptions: SubscriptionsView,
): IterableIterator<ClientResource> {
  const { names, globs, isNamed } = subscribedIn(subscriptions);
  for (const { asked, entry, held } of names) yield namedResource(asked, entry.state, held);
  for (const { asked, entry, sentSeq } of globs) {
    const { members } = entry.collection;
    if (members.size === 0) yield emptyGlob(asked, entry);
    for (const member of members.since(LOG_START)) {
      if (!isNamed(member.projection.name)) yield memberResource(member, sentSeq);
    }
  }
}

/** What both flavours have in common. */
interface Subscribed {
  readonly names: Iterable<Pick<NameSubscription, 'asked' | 'entry' | 'held'>>;
  readonly globs: Iterable<Pick<GlobSubscription, 'asked' | 'entry' | 'sentSeq'>>;
  readonly isNamed: (name: ResourceName) => boolean;
}

function subscribedIn(subscriptions: SubscriptionsView): Subscribed {
  if (subscriptions instanceof DeltaSubscriptions) {
    return {
      names: subscriptions.subscribed.names.values(),
      globs: subscriptions.subscribed.globs.values(),
      isNamed: (name) => subscriptions.subscribed.has(name),
    };
  }
  if (!(subscriptions instanceof SotwSubscriptions)) {
    return { names: [], globs: [], isNamed: () => false };
  }
  return {
    names: [...subscriptions.names.values()].map(asHeld),
    globs: subscriptions.globs.values(),
    isNamed: ({ key }) => subscriptions.names.has(key),
  };
}

/** In the state of the world, a resource that is to be sent again is `MAYBE_HELD` beside `sent`. */
const asHeld = ({ asked, entry, sent, held }: SotwName) => ({
  asked,
  entry,
  held: sent === undefined ? NOT_HELD : held,
});

function namedResource(name: string, state: NameState, held: Held): ClientResource {
  const version = typeof held === 'string' ? contentVersionOf(held) : '';
  if (state.kind === 'absent') return { name, holding: 'absent', served: undefined, version: '' };
  const served = state.kind === 'present' ? state.projection : undefined;
  if (held === NOT_HELD) return { name, holding: 'unsent', served, version };
  return { name, holding: version === served?.version ? 'current' : 'older', served, version };
}

function memberResource(
  { key, seq, joinedSeq, projection }: Member,
  sentSeq: number,
): ClientResource {
  const isSent = seq <= sentSeq;
  const holding = isSent ? 'current' : joinedSeq <= sentSeq ? 'older' : 'unsent';
  return {
    name: wireText(key),
    holding,
    served: projection,
    version: isSent ? projection.version : '',
  };
}

function emptyGlob(name: string, { collection }: GlobEntry): ClientResource {
  const holding = collection.complete ? 'absent' : 'unsent';
  return { name, holding, served: undefined, version: '' };
}

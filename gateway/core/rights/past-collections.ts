/**
 * What clients held of collections when their streams ended. Envoy does not mention the members of a glob
 * when it resumes. If Envoy lost its right to the glob meanwhile, Envoy would keep the members: only the gateway can tell
 * which names Envoy has to remove. The gateway tells a client only names that it was sent itself.
 *
 * One entry for each client and collection, whatever its size. Entries refer to the collections of the cache,
 * so they know nothing that the cache has forgotten.
 */
import type { ResourceName } from '../../../protos/resource-name.js';
import type { Collection } from '../cache/collection.js';
import { accountKeyOf } from '../quotas/client-accounts.js';
import type { Requester } from './requester.js';

/** How far a client was sent a collection; see `GlobSubscription`. */
export interface CollectionPlace {
  readonly collection: Collection;
  readonly sentSeq: number;
  readonly removedSeq: number;
}

/** The entries of one client. */
export interface ClientPast {
  /** Its stream ends. */
  note(typeUrl: string, place: CollectionPlace, nowMs: number): void;
  /** @returns the keys of the members that it may hold from its earlier streams */
  heldOf(typeUrl: string, glob: ResourceName): readonly string[];
}

/** Some 300 bytes each. A count. */
const MAX_ENTRIES = 50_000;

interface Entry extends CollectionPlace {
  readonly untilMs: number;
}

export class PastCollections {
  readonly #maxAgeMs: number;
  readonly #maxEntries: number;
  /** By client, type and glob; the oldest first. */
  readonly #entries = new Map<string, Entry>();

  /** @param maxAgeMs for which a removed name is remembered too (`limits.tombstone_max_age`) */
  constructor(maxAgeMs: number, maxEntries = MAX_ENTRIES) {
    this.#maxAgeMs = maxAgeMs;
    this.#maxEntries = maxEntries;
  }

  get size(): number {
    return this.#entries.size;
  }

  /**
   * @param requester its identity, which a later stream has to prove too
   * @param nodeId empty: the client cannot be told from others, and has no past
   */
  of(requester: Requester, nodeId: string): ClientPast | undefined {
    if (nodeId === '') return undefined;
    const client = `${clientKeyOf(requester)} ${nodeId}`;
    const keyOf = (typeUrl: string, glob: ResourceName): string =>
      `${client}\n${typeUrl} ${glob.key}`;
    return {
      note: (typeUrl, place, nowMs) => {
        const key = keyOf(typeUrl, place.collection.glob);
        const known = this.#entries.get(key);
        this.#entries.delete(key);
        const untilMs = nowMs + this.#maxAgeMs;
        this.#entries.set(key, { ...merged(place, known), untilMs });
        this.#dropOld(nowMs);
      },
      heldOf: (typeUrl, glob) => {
        const entry = this.#entries.get(keyOf(typeUrl, glob));
        return entry?.collection.keysSentTo(entry.sentSeq, entry.removedSeq) ?? [];
      },
    };
  }

  #dropOld(nowMs: number): void {
    for (const [key, { untilMs }] of this.#entries) {
      if (untilMs > nowMs && this.#entries.size <= this.#maxEntries) return;
      this.#entries.delete(key);
    }
  }
}

/** A short stream may have sent less than the one before it, whose members the client still holds. */
function merged(place: CollectionPlace, before: CollectionPlace | undefined): CollectionPlace {
  const { collection, sentSeq, removedSeq } = place;
  if (before?.collection !== collection) return place;
  return {
    collection,
    sentSeq: Math.max(sentSeq, before.sentSeq),
    removedSeq: Math.min(removedSeq, before.removedSeq),
  };
}

/** What stays when the client opens another stream. */
function clientKeyOf({ identity, address }: Requester): string {
  switch (identity.kind) {
    case 'certificate':
      return JSON.stringify([identity.uris, identity.dnsNames]);
    case 'jwt':
      return `token ${accountKeyOf(identity.claims, address)}`;
    case 'anonymous':
      return address;
  }
}

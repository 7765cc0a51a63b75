/**
 * The cache as one client may see it: the only way from a session to the resources. A name that the
 * client may not ask for gets an entry of its own, which says that there is none. The cache and the
 * sources do not learn of that name.
 *
 * A denied entry is never doubtful: no deletion guard and no source has a say in it.
 */
import type { RpcStatus } from '../../../protos/discovery.js';
import { wireText, type ResourceName } from '../../../protos/resource-name.js';
import { Collection } from '../cache/collection.js';
import type { GlobEntry, GlobSubscriber, NameEntry, NameSubscriber } from '../cache/entries.js';
import type { ResourceCache } from '../cache/resource-cache.js';
import type { Parting } from '../cache/lingering.js';
import type { NamePayer } from '../quotas/stream-names.js';
import type { SessionEvent } from '../session/stream-session.js';
import type { ClientPast, CollectionPlace } from './past-collections.js';
import { GRANTED, type Judge, type Verdict } from './rights.js';

export type RefusedNameEvent = Extract<SessionEvent, { kind: 'refused_name' }>;
type DeniedVerdict = Extract<Verdict, { kind: 'denied' }>;
type Entry = NameEntry | GlobEntry;

export class GrantedCache {
  readonly #cache: ResourceCache;
  readonly #judge: Judge;
  readonly #onDenied: (refused: RefusedNameEvent) => void;
  readonly #past: () => ClientPast | undefined;

  /**
   * @param judge default: the client may ask for everything
   * @param onDenied called for each subscription that is denied
   * @param past what the client's earlier streams were sent; default: unknown
   */
  constructor(
    cache: ResourceCache,
    judge: Judge = () => GRANTED,
    onDenied: (refused: RefusedNameEvent) => void = () => undefined,
    past: () => ClientPast | undefined = () => undefined,
  ) {
    this.#cache = cache;
    this.#judge = judge;
    this.#onDenied = onDenied;
    this.#past = past;
  }

  get responses(): ResourceCache['responses'] {
    return this.#cache.responses;
  }

  get fallbacks(): ResourceCache['fallbacks'] {
    return this.#cache.fallbacks;
  }

  held(...asked: Parameters<ResourceCache['held']>): ReturnType<ResourceCache['held']> {
    return this.#cache.held(...asked);
  }

  isWatched(typeUrl: string, name: ResourceName): boolean {
    return this.#cache.isWatched(typeUrl, name);
  }

  variantRefusal(typeUrl: string, name: ResourceName): RpcStatus | undefined {
    return this.#cache.variantRefusal(typeUrl, name);
  }

  nameOf(typeUrl: string, key: string): ResourceName | undefined {
    return this.#cache.nameOf(typeUrl, key);
  }

  removalPolicyOf(
    typeUrl: string,
    name: ResourceName,
  ): ReturnType<ResourceCache['removalPolicyOf']> {
    return this.#cache.removalPolicyOf(typeUrl, name);
  }

  isCurrent(typeUrl: string, name: ResourceName): boolean {
    return this.#cache.isCurrent(typeUrl, name);
  }

  guardedUntilMs(typeUrl: string, name: ResourceName): number {
    return this.#cache.guardedUntilMs(typeUrl, name);
  }

  isSilentAbout(typeUrl: string, name: ResourceName): boolean {
    return this.#cache.isSilentAbout(typeUrl, name);
  }

  clustersOf(edsKey: string): ReturnType<ResourceCache['clustersOf']> {
    return this.#cache.clustersOf(edsKey);
  }

  mayAsk(typeUrl: string, name: ResourceName): boolean {
    return this.#judge(typeUrl, name).kind === 'granted';
  }

  // ---- demand -------------------------------------------------------------------------------

  subscribeName(
    typeUrl: string,
    name: ResourceName,
    subscriber: NameSubscriber,
    payer?: NamePayer,
  ): NameEntry {
    const verdict = this.#judge(typeUrl, name);
    if (verdict.kind === 'denied') {
      this.#tell(typeUrl, name, verdict);
      return deniedName(typeUrl, name, verdict);
    }
    return this.#cache.subscribeName(typeUrl, name, subscriber, payer);
  }

  subscribeGlob(
    typeUrl: string,
    glob: ResourceName,
    subscriber: GlobSubscriber,
    payer?: NamePayer,
  ): GlobEntry {
    const verdict = this.#judge(typeUrl, glob);
    if (verdict.kind === 'denied') {
      const held = this.#past()?.heldOf(typeUrl, glob) ?? [];
      this.#tell(typeUrl, glob, verdict);
      return deniedGlob(typeUrl, glob, verdict, held);
    }
    return this.#cache.subscribeGlob(typeUrl, glob, subscriber, payer);
  }

  /** Notes how far the client read the collection: its next stream may not name the members. */
  notePlaceRead({ typeUrl, denial }: GlobEntry, place: CollectionPlace, nowMs: number): void {
    if (!denial) this.#past()?.note(typeUrl, place, nowMs);
  }

  #tell(typeUrl: string, name: ResourceName, { status }: DeniedVerdict): void {
    const reason = status.message;
    this.#onDenied({ kind: 'refused_name', typeUrl, name: wireText(name.key), reason });
  }

  unsubscribeName(
    entry: NameEntry,
    subscriber: NameSubscriber,
    parting: Parting,
    nowMs: number,
  ): void {
    if (!entry.denial) this.#cache.unsubscribeName(entry, subscriber, parting, nowMs);
  }

  unsubscribeGlob(
    entry: GlobEntry,
    subscriber: GlobSubscriber,
    parting: Parting,
    nowMs: number,
  ): void {
    if (!entry.denial) this.#cache.unsubscribeGlob(entry, subscriber, parting, nowMs);
  }

  /** Do the rules that are in force now judge this entry as they did when the client subscribed? */
  isUpToDate(entry: Entry): boolean {
    const name = 'name' in entry ? entry.name : entry.collection.glob;
    const verdict = this.#judge(entry.typeUrl, name);
    if (verdict.kind === 'granted') return entry.denial === undefined;
    return (
      entry.denial?.isHidden === verdict.isHidden &&
      entry.denial.status.message === verdict.status.message
    );
  }

  /** Unsubscribes the entry and subscribes to its name by the rules that are in force now. */
  renewName(
    entry: NameEntry,
    subscriber: NameSubscriber,
    payer: NamePayer | undefined,
    nowMs: number,
  ): NameEntry {
    const renewed = this.subscribeName(entry.typeUrl, entry.name, subscriber, payer);
    this.unsubscribeName(entry, subscriber, 'unsubscribed', nowMs);
    return renewed;
  }

  /** The same for a glob or list. */
  renewGlob(
    entry: GlobEntry,
    subscriber: GlobSubscriber,
    payer: NamePayer | undefined,
    nowMs: number,
  ): GlobEntry {
    const renewed = this.subscribeGlob(entry.typeUrl, entry.collection.glob, subscriber, payer);
    this.unsubscribeGlob(entry, subscriber, 'unsubscribed', nowMs);
    return renewed;
  }
}

function deniedName(typeUrl: string, name: ResourceName, denial: DeniedVerdict): NameEntry {
  const { status, isHidden } = denial;
  // `wasHeld`: the absence is certain, also without a reason.
  const state = { kind: 'absent' as const, wasHeld: true, ...(isHidden ? {} : { status }) };
  return { typeUrl, name, subscribers: new Set(), payer: undefined, state, denial };
}

/** @param held keys of members that the client may hold from an earlier stream: it is sent their removal */
function deniedGlob(
  typeUrl: string,
  glob: ResourceName,
  denial: DeniedVerdict,
  held: readonly string[],
): GlobEntry {
  const limits = { tombstonesPerCollection: held.length, tombstoneMaxAgeMs: Infinity };
  const collection = new Collection(glob, limits);
  collection.restore({ typeUrl, glob, members: held, removed: [], knownAtMs: 0 }, 0);
  collection.removeRemembered(0);
  const error = denial.isHidden ? undefined : denial.status;
  return { typeUrl, collection, subscribers: new Set(), payer: undefined, error, denial };
}

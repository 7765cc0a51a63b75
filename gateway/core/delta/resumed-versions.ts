/**
 * What a resuming delta client claims to hold: the `initial_resource_versions` of its first request of a
 * type on a stream. Versions in later requests do not count (xDS protocol).
 */
import type { DeltaRequest } from '../../../protos/discovery.js';
import { globKeyOf, isXdstp } from '../../../protos/resource-name.js';
import { TYPE_URL } from '../../../protos/type-urls.js';
import { hasClusterMark, type Resumed } from '../session/clusters-to-come.js';
import { mayHaveDirectives, type AskedName, type NameReader } from '../session/asked-name.js';
import { contentVersionOf, MAYBE_HELD, type Held } from '../session/holdings.js';
import type { DeltaSubscriptions } from './delta-subscriptions.js';
import type { SubscribedCollection, SubscriptionTable } from './subscription-table.js';

export class ResumedVersions {
  readonly #request: DeltaRequest;
  readonly #isOfOneType: boolean;
  /** What the client may hold of a subscribed name whose version it did not give. */
  readonly #untold: Held | undefined;

  /** @param isOfOneType the client has a stream for each type, and the request came on one of them */
  constructor(request: DeltaRequest, isOfOneType: boolean) {
    this.#request = request;
    this.#isOfOneType = isOfOneType;
    // A resuming client may hold a resource without giving its version, for example after it
    // rejected a later one.
    this.#untold = request.initialVersions.size > 0 ? MAYBE_HELD : undefined;
  }

  /** For `ClustersToCome`. */
  get told(): Resumed {
    const { typeUrl, initialVersions } = this.#request;
    const hasMark = typeUrl === TYPE_URL.clusterLoadAssignment && someHasMark(initialVersions);
    return { isResumed: initialVersions.size > 0, hasMark };
  }

  /** @returns what the client claims to hold of a name that it subscribes to; undefined: nothing */
  claimOf(text: string): Held | undefined {
    const version = this.#request.initialVersions.get(text);
    return version === undefined ? this.#untold : this.#heldOf(version);
  }

  /**
   * The gateway never sends an empty version, so with one the client holds the resource in some
   * other version. On a stream of one type the suffix of a version, which encodes clusters, says
   * nothing: the clusters come on another stream, and a client that changes a cluster subscribes
   * its endpoints anew.
   */
  #heldOf(version: string): Held {
    if (version === '') return MAYBE_HELD;
    return this.#isOfOneType ? contentVersionOf(version) : version;
  }

  /**
   * Notes the versions of members whose glob or list the request subscribes to. Versions of other
   * members are ignored.
   *
   * A client may hold more members than it may request names: the versions beyond `mostVersions` are left out, as if it had not brought
   * them. It is then sent these members again.
   *
   * @param isPortionOver asked before each version; if so, the iterator stops until the next portion
   * @param mostVersions how many versions the session may note. A count
   * @returns how many were left out
   */
  *noteMembers(
    table: SubscriptionTable,
    names: NameReader,
    {
      isPortionOver,
      mostVersions,
    }: { readonly isPortionOver: () => boolean; readonly mostVersions: number },
  ): Generator<void, number> {
    const { typeUrl, initialVersions, subscribe, locators } = this.#request;
    if (initialVersions.size === 0) return 0;
    let noted = 0;
    let leftOut = 0;
    const asked = new Set(subscribe);
    for (const { name } of locators?.subscribe ?? []) asked.add(name);
    const globs = table.globsOf(typeUrl);
    const lists = table.listsOf(typeUrl);
    for (const [text, version] of initialVersions) {
      if (isPortionOver()) yield;
      if (asked.has(text)) continue;
      const owner =
        ownerOfMember(globs, text) ?? this.#ownerOf(names.read(typeUrl, text), table, lists);
      if (!owner) continue;
      if (noted++ >= mostVersions) leftOut++;
      else owner.subscriptions.noteClaim(owner.collectionKey, owner.key, this.#heldOf(version));
    }
    return leftOut;
  }

  #ownerOf(
    asked: AskedName,
    table: SubscriptionTable,
    lists: readonly SubscribedCollection[],
  ): MemberOwner | undefined {
    if (!asked.ok) return undefined;
    const { key, authority } = asked.name;
    const globKey = globKeyOf(asked.name);
    const subscriptions = table.find(this.#request.typeUrl, authority);
    if (subscriptions?.subscribed.globs.has(globKey)) {
      return { subscriptions, collectionKey: globKey, key };
    }
    // Members of a list may have any name: with two lists, the owner of a member is unknown.
    const [list] = lists.length === 1 ? lists : [];
    return list && { subscriptions: list.subscriptions, collectionKey: list.key, key };
  }
}

/** Mostly the first version decides. */
function someHasMark(versions: ReadonlyMap<string, string>): boolean {
  for (const version of versions.values()) if (hasClusterMark(version)) return true;
  return false;
}

/** The collection that a version belongs to. */
interface MemberOwner {
  readonly subscriptions: DeltaSubscriptions;
  readonly collectionKey: string;
  readonly key: string;
}

/** With more globs than these, a name is parsed instead of looked up in each. A count. */
const MAX_GLOBS_SEARCHED = 4;

/** Most versions are of present members, spelled canonically, so their texts need not be parsed. */
function ownerOfMember(
  globs: readonly SubscribedCollection[],
  text: string,
): MemberOwner | undefined {
  if (globs.length > MAX_GLOBS_SEARCHED || !isXdstp(text) || mayHaveDirectives(text))
    return undefined;
  for (const { subscriptions, key, collection } of globs) {
    const member = collection.member(text);
    if (member) return { subscriptions, collectionKey: key, key: member.key };
  }
  return undefined;
}

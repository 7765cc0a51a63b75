/**
 * What is due to one client for one type of one authority: names and globs to look at, and names and members to remove. Changes
 * merge while a response is unacknowledged, so it is bounded by the number of subscriptions. It does not say what is sent:
 * `DeltaSubscriptions` looks at the cache then. Most clients have little due, so most collections here are shared and empty.
 */
import type { RpcStatus } from '../../../protos/discovery.js';
import { noMap, noSet, ownMap, ownSet } from '../../../protos/empty-collections.js';
import {
  hasLost,
  isBegun,
  passOf,
  type GlobSubscription,
  type GoneMember,
  type UnsubscribedName,
  type NameSubscription,
  type Pass,
} from './subscription.js';

const NO_NAMES: readonly UnsubscribedName[] = [];

export class DueChanges {
  // Names to process, in two collections because removals go last.
  #names: Set<NameSubscription> = noSet();
  /** Empty; swapped with `#names`, so that a response does not allocate a new Set. */
  #spare: Set<NameSubscription> = noSet();
  #goneNames: Map<NameSubscription, RpcStatus | undefined> = noMap();
  #goneMembers: Map<string, GoneMember> = noMap();
  #globs: Set<GlobSubscription> = noSet();
  /** A client may have thousands of globs. */
  #shrunkGlobs: Set<GlobSubscription> = noSet();
  #unsubscribedNames: Map<string, UnsubscribedName> = noMap();
  /** The response being sent in chunks; undefined between responses. */
  #pass: Pass | undefined;

  /** Names to remove, with the reason if the source gave one. */
  get goneNames(): Map<NameSubscription, RpcStatus | undefined> {
    return this.#goneNames;
  }

  /** Members to remove from the client, by key. */
  get goneMembers(): Map<string, GoneMember> {
    return this.#goneMembers;
  }

  /** Globs that lost members since the last removal that the client was sent. */
  get shrunkGlobs(): Set<GlobSubscription> {
    return this.#shrunkGlobs;
  }

  /** Globs with something to send, or whose missing members are to be found. */
  get globs(): ReadonlySet<GlobSubscription> {
    return this.#globs;
  }

  /** Unsubscribed names that a glob still covers, by key, with the client's spelling. */
  get unsubscribedNames(): ReadonlyMap<string, UnsubscribedName> {
    return this.#unsubscribedNames;
  }

  get isMidPass(): boolean {
    return this.#pass !== undefined;
  }

  get hasAdditions(): boolean {
    return (
      this.#names.size > 0 ||
      this.#globs.size > 0 ||
      this.#pass !== undefined ||
      this.#unsubscribedNames.size > 0
    );
  }

  get hasRemovals(): boolean {
    if (this.#goneNames.size + this.#goneMembers.size > 0) return true;
    for (const glob of this.#shrunkGlobs) if (isBegun(glob)) return true;
    return false;
  }

  queueName(known: NameSubscription): void {
    this.#names = ownSet(this.#names).add(known);
  }

  queueGlob(glob: GlobSubscription): void {
    this.#globs = ownSet(this.#globs).add(glob);
    this.noteShrunk(glob);
  }

  noteShrunk(glob: GlobSubscription): void {
    if (hasLost(glob)) this.#shrunkGlobs = ownSet(this.#shrunkGlobs).add(glob);
    else this.#shrunkGlobs.delete(glob);
  }

  noteGone(known: NameSubscription, status: RpcStatus | undefined): void {
    this.#goneNames = ownMap(this.#goneNames).set(known, status);
  }

  noteGoneMember(key: string, asked: string, glob: GlobSubscription): void {
    this.#goneMembers = ownMap(this.#goneMembers).set(key, { asked, glob });
  }

  noteUnsubscribed(key: string, unsubscribed: UnsubscribedName): void {
    this.#unsubscribedNames = ownMap(this.#unsubscribedNames).set(key, unsubscribed);
  }

  /** The name is subscribed again. */
  forgetUnsubscribed(key: string): void {
    this.#unsubscribedNames.delete(key);
  }

  /** It is to be removed, or was unsubscribed: nothing is sent for it. */
  forgetContent(known: NameSubscription): void {
    this.#names.delete(known);
    this.#pass?.names.delete(known);
  }

  forgetName(known: NameSubscription): void {
    this.forgetContent(known);
    this.#goneNames.delete(known);
  }

  forgetGlob(glob: GlobSubscription): void {
    this.#globs.delete(glob);
    this.#shrunkGlobs.delete(glob);
    this.#pass?.globs.delete(glob);
  }

  /** The rest of the response that is being sent leaves this glob out. */
  leavePass(glob: GlobSubscription): void {
    this.#pass?.globs.delete(glob);
  }

  /** The unsubscribed names that are still to be answered; none while a response is being sent. */
  takeUnsubscribed(): Iterable<UnsubscribedName> {
    if (this.#pass || this.#unsubscribedNames.size === 0) return NO_NAMES;
    const names = this.#unsubscribedNames.values();
    this.#unsubscribedNames = noMap();
    return names;
  }

  /** The response being sent, or a new one with all that is due. */
  beginPass(): Pass {
    if (this.#pass) return this.#pass;
    const names = this.#names;
    this.#names = this.#spare;
    this.#pass = passOf(names, this.#globs);
    this.#globs.clear();
    return this.#pass;
  }

  /** Everything in it was sent. */
  endPass({ names }: Pass): void {
    this.#spare = names;
    this.#pass = undefined;
  }
}

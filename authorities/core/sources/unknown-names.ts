/**
 * Leaves names out of the requests for endpoints and routes while a state-of-the-world server is silent
 * about all of them. Some servers answer no name of a request with a name that they lack
 * (java-control-plane for ADS), because an Envoy that is connected to them would only request what their
 * own clusters and listeners refer to. The clients of the gateway may hold those of another source, and
 * request their endpoints and routes too.
 *
 * A server without this rule is silent only while it has none of the names, or is slow. So the names that
 * no resource of the source refers to are left out for some seconds only, and then requested again.
 */
import { TYPE_URL } from '../../../protos/type-urls.js';
import { referredKeys, type Projection } from '../projection.js';
import type { SourceContents, SourceSubscription } from './source-contents.js';
import { soonestOf } from '../soonest.js';

/** Silence about a request with new names, or after a name lost its last reference. */
export const SILENCE_MS = 2_000;
/** How long names are left out before the server is asked for all of them again. */
export const LEAVE_OUT_MS = 10_000;

/** By the type whose names may be left out: the types of the resources that refer to them. */
const REFERRERS: ReadonlyMap<string, readonly string[]> = new Map([
  [TYPE_URL.clusterLoadAssignment, [TYPE_URL.cluster]],
  [TYPE_URL.routeConfiguration, [TYPE_URL.listener, TYPE_URL.scopedRouteConfiguration]],
]);

/** Shared and never filled: most of 5,000 node groups have none. It is mutable only to fit the type. */
const NO_NAMES = new Set<SourceSubscription>();

/** What a resource refers to, so that it is read once, and not with each response. */
const KEYS_OF = new WeakMap<Projection, readonly string[]>();

/** All types of one source. A machine outlives its streams and restarts with each one. */
export class UnknownNames {
  readonly #types: ReadonlyMap<string, UnknownOfType>;

  constructor(contents: SourceContents) {
    this.#types = new Map(
      Array.from(REFERRERS, ([typeUrl, referrers]) => [
        typeUrl,
        new UnknownOfType(contents, typeUrl, referrers),
      ]),
    );
  }

  /** A new stream. */
  restart(): void {
    for (const type of this.#types.values()) type.restart();
  }

  /** @param sent the subscriptions whose names the request has */
  handleRequested(typeUrl: string, sent: readonly SourceSubscription[], nowMs: number): void {
    this.#types.get(typeUrl)?.handleRequested(sent, nowMs);
  }

  /** The source may have the name by now: a request has it even while others are left out. */
  handleAskedAgain(subscription: SourceSubscription): void {
    this.#types.get(subscription.typeUrl)?.handleAskedAgain(subscription);
  }

  /**
   * The contents have taken in a response.
   *
   * @param sent the keys of the names in it
   * @returns the types to request again: the response may refer to more of their names
   */
  handleResponse(typeUrl: string, sent: ReadonlySet<string>, nowMs: number): readonly string[] {
    this.#types.get(typeUrl)?.handleAnswer(sent);
    return this.#where((type) => type.handleReferrers(typeUrl, nowMs));
  }

  get nextMs(): number | undefined {
    return soonestOf(...[...this.#types.values()].map(({ nextMs }) => nextMs));
  }

  /**
   * @param isAnswered the present stream has sent resources of this type
   * @returns the types to request again, with other names
   */
  handleTimer(nowMs: number, isAnswered: (typeUrl: string) => boolean): readonly string[] {
    return this.#where((type) => type.handleTimer(nowMs, isAnswered));
  }

  /** The subscriptions of a type that its next request has. */
  requested(
    typeUrl: string,
    subscriptions: readonly SourceSubscription[],
  ): readonly SourceSubscription[] {
    return this.#types.get(typeUrl)?.requested(subscriptions) ?? subscriptions;
  }

  #where(isDue: (type: UnknownOfType) => boolean): readonly string[] {
    return [...this.#types].filter(([, type]) => isDue(type)).map(([typeUrl]) => typeUrl);
  }
}

/** The names of one type. */
class UnknownOfType {
  readonly #contents: SourceContents;
  readonly #typeUrl: string;
  readonly #referrers: readonly string[];
  #isRequested = false;
  /** Names are left out of requests. */
  #isNarrow = false;
  /** When to leave names out, or to request them again; Infinity: the server answers all. */
  #nextMs = Infinity;
  /** The keys that the referrers referred to when they last came; undefined: not looked up since. */
  #referred: ReadonlySet<string> | undefined;
  /**
   * Names that lost their last reference: the source may lack them too by now, and no response would say
   * so. One that comes again leaves.
   */
  #doubted = NO_NAMES;
  /** Names that were to be requested again while names are left out. */
  #askedAgain = NO_NAMES;

  constructor(contents: SourceContents, typeUrl: string, referrers: readonly string[]) {
    this.#contents = contents;
    this.#typeUrl = typeUrl;
    this.#referrers = referrers;
  }

  restart(): void {
    this.#isRequested = false;
    this.#isNarrow = false;
    this.#nextMs = Infinity;
    this.#referred = undefined;
    this.#doubted = NO_NAMES;
    this.#askedAgain = NO_NAMES;
  }

  get nextMs(): number {
    return this.#nextMs;
  }

  handleRequested(sent: readonly SourceSubscription[], nowMs: number): void {
    this.#isRequested = true;
    if (this.#nextMs !== Infinity || this.#subscribedReferrers().length === 0) return;
    if (sent.some((one) => this.#isUnproven(one))) this.#nextMs = nowMs + SILENCE_MS;
  }

  handleAskedAgain(one: SourceSubscription): void {
    if (this.#isNarrow) this.#askedAgain = new Set(this.#askedAgain).add(one);
  }

  handleAnswer(sent: ReadonlySet<string>): void {
    for (const one of this.#doubted) if (sent.has(one.name.key)) this.#doubted.delete(one);
    // What the server has just answered, it also has.
    const isOpen = !this.#isNarrow && this.#nextMs !== Infinity;
    if (isOpen && this.#unknown().size === 0) this.#nextMs = Infinity;
  }

  /** @returns whether the names are to be requested again: the referrers may refer to more of them */
  handleReferrers(typeUrl: string, nowMs: number): boolean {
    if (!this.#isRequested || !this.#referrers.includes(typeUrl)) return false;
    const before = this.#referred;
    const after = this.#references();
    this.#referred = after;
    const names = [...this.#contents.subscriptions(this.#typeUrl)];
    const isDoubted = (one: SourceSubscription): boolean =>
      !after.has(one.name.key) && (this.#doubted.has(one) || before?.has(one.name.key) === true);
    this.#doubted = new Set(names.filter(isDoubted));
    if (this.#isNarrow) return true;
    if (this.#unknown().size > 0) this.#nextMs = Math.min(this.#nextMs, nowMs + SILENCE_MS);
    return false;
  }

  handleTimer(nowMs: number, isAnswered: (typeUrl: string) => boolean): boolean {
    if (nowMs < this.#nextMs) return false;
    this.#askedAgain = NO_NAMES;
    const wasNarrow = this.#isNarrow;
    const referrers = this.#subscribedReferrers();
    const isKnown = referrers.length > 0 && referrers.every(isAnswered);
    const hasUnknown = this.#unknown().size > 0;
    this.#isNarrow = !wasNarrow && isKnown && hasUnknown;
    if (wasNarrow) this.#nextMs = nowMs + SILENCE_MS;
    // The next request with a new name begins another wait.
    else this.#nextMs = hasUnknown ? nowMs + LEAVE_OUT_MS : Infinity;
    return this.#isNarrow !== wasNarrow;
  }

  requested(subscriptions: readonly SourceSubscription[]): readonly SourceSubscription[] {
    if (!this.#isNarrow) return subscriptions;
    const unknown = this.#unknown();
    return subscriptions.filter((one) => !unknown.has(one));
  }

  #subscribedReferrers(): readonly string[] {
    const subscribed = new Set(this.#contents.types());
    return this.#referrers.filter((typeUrl) => subscribed.has(typeUrl));
  }

  /** The server may lack it. */
  #isUnproven(one: SourceSubscription): boolean {
    return !one.name.isGlob && (one.status !== 'present' || this.#doubted.has(one));
  }

  /** The names that the server may lack, and that no resource of the source refers to. */
  #unknown(): ReadonlySet<SourceSubscription> {
    const referred = (this.#referred ??= this.#references());
    return new Set(
      [...this.#contents.subscriptions(this.#typeUrl)].filter(
        (one) => this.#isUnproven(one) && !referred.has(one.name.key) && !this.#askedAgain.has(one),
      ),
    );
  }

  #references(): ReadonlySet<string> {
    const keys = new Set<string>();
    for (const typeUrl of this.#referrers) {
      for (const { projection } of this.#contents.entries(typeUrl)) {
        for (const key of this.#keysIn(projection)) keys.add(key);
      }
    }
    return keys;
  }

  #keysIn(projection: Projection): readonly string[] {
    // The names of one type only: no type refers to two of `REFERRERS`.
    let keys = KEYS_OF.get(projection);
    if (!keys) KEYS_OF.set(projection, (keys = referredKeys(projection, this.#typeUrl)));
    return keys;
  }
}

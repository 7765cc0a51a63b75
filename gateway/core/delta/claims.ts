/**
 * The claims of a resuming client, by authority, and the removals that rest on a claim alone: the
 * client names a resource, this process never saw it, and the source does not have it. A source
 * that has just started may still load it. So these removals wait, and then pass the deletion
 * guard, which judges all types of the authority together.
 */
import type { RemovalPolicy } from '../../../config/model.js';
import { RemovalHold } from '../../../authorities/index.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import { TypedMap } from '../../../protos/typed-map.js';

/**
 * How long doubts wait for claims that the sources have said nothing about. Twice the default of `resource_timeout`: a
 * source of the state of the world never answers an endpoint or route that it lacks (seed 110610).
 */
const MAX_OPEN_MS = 60_000;

/** A client's subscriptions to one type of one authority, as far as claims need them. */
export interface ClaimingSubscriptions {
  readonly typeUrl: string;
  readonly authority: string;
  /**
   * Are the sources of this name, or of its collection, answering now? What they sent before may be
   * outdated.
   */
  isCurrent(key: string): boolean;
  /** When the guard lets the name go at the earliest: its source may have failed meanwhile. */
  claimGuardedUntilMs(key: string): number;
  /** The guard let the name pass: send its removal if it is still missing. */
  settleDoubt(key: string): void;
}

/** A name that the client claims and the source seems not to have. */
export interface ClaimedName {
  readonly key: string;
  readonly subscriptions: ClaimingSubscriptions;
}

export interface AuthorityDoubts extends DueDoubts {
  readonly authority: string;
}

export interface DueDoubts {
  readonly due: readonly ClaimedName[];
  /** Set when the guard holds names back. */
  readonly guarded: { readonly names: number; readonly untilMs: number } | undefined;
}

/** The claims of one client. */
export class ClientClaims {
  readonly #byAuthority = new Map<string, Claims>();
  /** Those with doubts since the last `takeDue`, by authority. */
  #fresh = new Map<string, Claims>();
  /** No other claims are due before. */
  #dueMs = Infinity;
  readonly #policyOf: (typeUrl: string, name: ResourceName) => RemovalPolicy;

  constructor(policyOf: (typeUrl: string, name: ResourceName) => RemovalPolicy) {
    this.#policyOf = policyOf;
  }

  /** Number of authorities whose names the client has claimed. */
  get authorityCount(): number {
    return this.#byAuthority.size;
  }

  /** Counts one more name that the client claims. */
  handleClaimed({ typeUrl, authority }: ClaimingSubscriptions, name: ResourceName): void {
    let claims = this.#byAuthority.get(authority);
    if (!claims) {
      claims = new Claims(this.#policyOf(typeUrl, name));
      this.#byAuthority.set(authority, claims);
    }
    claims.handleClaimed();
  }

  /** One of the claimed names is gone without doubt, or the client gave it up. */
  handleGone(claim: ClaimedName): void {
    this.#byAuthority.get(claim.subscriptions.authority)?.handleGone(claim);
  }

  handleDoubt(doubt: ClaimedName): void {
    const { authority } = doubt.subscriptions;
    const claims = this.#byAuthority.get(authority);
    if (!claims) return;
    claims.handleDoubt(doubt);
    this.#fresh.set(authority, claims);
  }

  /**
   * @param isOpen as for `Claims.takeDue`, of one authority
   * @returns what `Claims.takeDue` returns, for each authority with new doubts; if any are due, for all
   */
  *takeDue(
    nowMs: number,
    isOpen: (authority: string) => boolean,
  ): IterableIterator<AuthorityDoubts> {
    const areDue = nowMs >= this.#dueMs;
    const looked = areDue ? this.#byAuthority : this.#fresh;
    if (areDue) this.#dueMs = Infinity;
    this.#fresh = new Map();
    for (const [authority, claims] of looked) {
      yield { authority, ...claims.takeDue(nowMs, () => isOpen(authority)) };
      this.#dueMs = Math.min(this.#dueMs, claims.nextDeadlineMs ?? Infinity);
    }
  }

  /** When to call `takeDue` again; Infinity: not before another doubt. */
  get nextDeadlineMs(): number {
    return this.#dueMs;
  }
}

/** The claims on one authority. */
export class Claims {
  readonly #policy: RemovalPolicy;
  readonly #hold: RemovalHold<ClaimedName>;
  /** Doubts since the last `takeDue`; the next call starts their wait. */
  readonly #fresh = new TypedMap<ClaimedName>();
  #claimed = 0;
  /** Since when doubts wait for claims of unknown existence; undefined: none does. */
  #openSinceMs: number | undefined;

  constructor(policy: RemovalPolicy) {
    this.#policy = policy;
    this.#hold = new RemovalHold(policy.deletionGuard);
  }

  /** Counts one more name that the client claims. */
  handleClaimed(): void {
    this.#claimed++;
  }

  /** One of them is gone without doubt, so it leaves the total. Otherwise a source that lacks all others would not trigger the guard (seed 301859). */
  handleGone(claim: ClaimedName): void {
    const { typeUrl } = claim.subscriptions;
    this.#claimed--;
    this.#fresh.delete(typeUrl, claim.key);
    this.#hold.cancel(typeUrl, claim);
  }

  /** The name seems not to exist. Repeated calls for the same doubt have no effect. */
  handleDoubt(doubt: ClaimedName): void {
    this.#fresh.set(doubt.subscriptions.typeUrl, doubt.key, doubt);
  }

  /**
   * @param isOpen do claimed names remain whose existence is unknown? All claims are judged
   * together, because the first responses of a source that lost everything cover only a part of
   * them. They wait for one another for `MAX_OPEN_MS`.
   * @returns the doubts that passed; the caller sends removals for names that are still missing.
   */
  takeDue(nowMs: number, isOpen: () => boolean = () => false): DueDoubts {
    for (const doubt of this.#fresh.values()) {
      const removal = { typeUrl: doubt.subscriptions.typeUrl, name: doubt };
      this.#hold.add(removal, nowMs + this.#policy.switchWaitMs);
    }
    this.#fresh.clear();
    let areOthersOpen: boolean | undefined;
    const { due, guarded } = this.#hold.takeDue(() => this.#claimed, nowMs, {
      isOpen: ({ name: { subscriptions, key } }) =>
        (areOthersOpen ??= this.#mustWait(isOpen(), nowMs)) || !subscriptions.isCurrent(key),
      againAtMs: nowMs + this.#policy.switchWaitMs,
      guardedUntilMs: ({ name: { subscriptions, key } }) => subscriptions.claimGuardedUntilMs(key),
    });
    return { due: due.map(({ name }) => name), guarded };
  }

  #mustWait(isOpen: boolean, nowMs: number): boolean {
    this.#openSinceMs = isOpen ? (this.#openSinceMs ?? nowMs) : undefined;
    return this.#openSinceMs !== undefined && nowMs < this.#openSinceMs + MAX_OPEN_MS;
  }

  get nextDeadlineMs(): number | undefined {
    return this.#hold.nextDeadlineMs();
  }
}

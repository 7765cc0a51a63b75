/**
 * Which account do the streams of a client count for, and which limits does it have? The entry of
 * `clients` that matches the client may bound each of its peers more tightly than the settings
 * (docs/SECURITY.md, "Quotas").
 */
import type { ClientRule } from '../../../config/model.js';
import { matchingRule, type JwtClaims, type Requester } from '../rights/requester.js';
import type { PeerLimits } from './limits.js';
import type { PeerAccount, Quotas } from './quotas.js';

/** A client that authentication let pass; it may be anonymous. */
export interface KnownClient {
  readonly requester: Requester;
  /** Of its token, if it is known by one. */
  readonly claims?: JwtClaims;
}

/**
 * @param connectionKey of the certificate or the address; see `quotaKeyOf`
 * @returns the issuer and subject of the token: clients behind one address do not share an account
 */
export function accountKeyOf(claims: JwtClaims | undefined, connectionKey: string): string {
  const { iss, sub } = claims ?? {};
  return typeof sub === 'string' ? `jwt:${JSON.stringify([iss, sub])}` : connectionKey;
}

/**
 * @param base the limits of every peer
 * @param rules `clients` of the map; undefined: absent
 */
export function peerLimitsOf(
  base: PeerLimits,
  rules: readonly ClientRule[] | undefined,
  requester: Requester,
): PeerLimits {
  const { limits } = rules?.[matchingRule(rules, requester)] ?? {};
  if (!limits) return base;
  const { streams = base.counts.streams, names = base.counts.names } = limits;
  return {
    counts: { ...base.counts, streams, names },
    requestsPerSecond: limits.requestsPerSecond ?? base.requestsPerSecond,
  };
}

export class ClientAccounts {
  readonly #quotas: Quotas;
  readonly #rules: () => readonly ClientRule[] | undefined;
  /** The clients with open streams; a client is in it once for each. */
  readonly #open = new Set<{ readonly account: PeerAccount; readonly requester: Requester }>();

  /** @param rules `clients` of the current map; undefined: absent */
  constructor(quotas: Quotas, rules: () => readonly ClientRule[] | undefined) {
    this.#quotas = quotas;
    this.#rules = rules;
  }

  /** @param connectionKey see `accountKeyOf` */
  of({ requester, claims }: KnownClient, connectionKey: string): PeerAccount {
    const account = this.#quotas.account(accountKeyOf(claims, connectionKey));
    account.limits = this.#limitsOf(requester);
    return account;
  }

  /** Counts a stream. @returns call it once when the stream has ended: it gives the slot back */
  takeStream(account: PeerAccount, requester: Requester): () => void {
    const held = { account, requester };
    this.#open.add(held);
    account.change('streams', 1);
    return () => {
      if (this.#open.delete(held)) account.change('streams', -1);
    };
  }

  /** A peer that holds more than its new limits keeps that, and gets no more. */
  handleRulesChanged(): void {
    for (const { account, requester } of this.#open) account.limits = this.#limitsOf(requester);
  }

  #limitsOf(requester: Requester): PeerLimits {
    return peerLimitsOf(this.#quotas.limits.peer, this.#rules(), requester);
  }
}

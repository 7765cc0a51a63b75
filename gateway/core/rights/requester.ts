/** Which identity a client has, and which entries of `clients` match it. */
import type { ClientCertificate } from '../../../authorities/index.js';
import type { ClientMatch, ClientRule } from '../../../config/model.js';
import { isInRange } from '../../../protos/address-range.js';

/** The claims of a token whose signature, issuer, audience and times are valid. */
export type JwtClaims = Readonly<Record<string, unknown>>;

/** What a connection proves of its client. The Node is a claim of the client, and never counts. */
export type Identity =
  | {
      readonly kind: 'certificate';
      readonly uris: readonly string[];
      readonly dnsNames: readonly string[];
    }
  | { readonly kind: 'jwt'; readonly claims: JwtClaims }
  | { readonly kind: 'anonymous' };

/** A client, as the rules for clients see it. */
export interface Requester {
  readonly identity: Identity;
  /** IP address, without the port. */
  readonly address: string;
}

export const ANONYMOUS: Identity = { kind: 'anonymous' };

/**
 * The identity of a client. A certificate with a name comes before a token, which comes before nothing.
 *
 * @param certificate verified; undefined: none
 */
export function identityOf(
  certificate: Pick<ClientCertificate, 'uris' | 'dnsNames'> | undefined,
  claims: JwtClaims | undefined,
): Identity {
  const { uris = [], dnsNames = [] } = certificate ?? {};
  if (uris.length + dnsNames.length > 0) return { kind: 'certificate', uris, dnsNames };
  return claims ? { kind: 'jwt', claims } : ANONYMOUS;
}

/** For operators: `spiffe://…`, `dns:…`, `jwt:sub`, or `anonymous`. */
export function identityText(identity: Identity): string {
  if (identity.kind === 'anonymous') return 'anonymous';
  if (identity.kind === 'jwt') {
    const { sub } = identity.claims;
    return `jwt:${typeof sub === 'string' ? sub : ''}`;
  }
  return identity.uris[0] ?? `dns:${identity.dnsNames[0] ?? ''}`;
}

/** @returns the index of the first entry that matches, or -1 */
export function matchingRule(rules: readonly ClientRule[], requester: Requester): number {
  return rules.findIndex(({ match }) => matches(match, requester));
}

function matches(match: ClientMatch, { identity, address }: Requester): boolean {
  const { spiffe, dns, jwt, anonymous, address: range } = match;
  const { uris, dnsNames } = identity.kind === 'certificate' ? identity : NO_NAMES;
  if (spiffe !== undefined && !uris.some((uri) => fits(uri, spiffe))) return false;
  if (dns !== undefined && !dnsNames.some((name) => isDnsName(name.toLowerCase(), dns))) {
    return false;
  }
  if (jwt !== undefined && !(identity.kind === 'jwt' && hasClaims(identity.claims, jwt))) {
    return false;
  }
  if (anonymous !== undefined && identity.kind !== 'anonymous') return false;
  return range === undefined || isInRange(address, range);
}

const NO_NAMES = { uris: [], dnsNames: [] };

/** A `*` at the end of the pattern stands for any rest, but not for none. */
function fits(text: string, pattern: string): boolean {
  if (!pattern.endsWith('*')) return text === pattern;
  const start = pattern.slice(0, -1);
  return text.length > start.length && text.startsWith(start);
}

/** `*.` stands for one label, as in certificates (RFC 9525, section 6.3). */
function isDnsName(name: string, pattern: string): boolean {
  if (!pattern.startsWith('*.')) return name === pattern;
  const dot = name.indexOf('.');
  return dot > 0 && name.slice(dot) === pattern.slice(1) && !name.startsWith('*');
}

function hasClaims(claims: JwtClaims, expected: NonNullable<ClientMatch['jwt']>): boolean {
  return Object.entries(expected).every(([name, value]) => {
    const claim = Object.hasOwn(claims, name) ? claims[name] : undefined;
    const held: readonly unknown[] = Array.isArray(claim) ? claim : [claim];
    return held.some((one) =>
      typeof one === 'string' && typeof value === 'string' ? fits(one, value) : one === value,
    );
  });
}

/** Finds entries of `clients` that decide for no client: another entry comes first, or no client has the identity. */
import { contains } from '../protos/address-range.js';
import type { ClientMatch, ClientRule } from './model.js';
import type { Problem } from './problems.js';
import type { Settings } from './settings.js';

/** @returns the index of the first entry that matches every client of the entry at `index`; -1: none does */
export function coveringRule(rules: readonly Pick<ClientRule, 'match'>[], index: number): number {
  const later = rules[index]?.match ?? {};
  return rules.slice(0, index).findIndex(({ match }) => covers(match, later));
}

/** Whether every client that `later` matches also matches `earlier`. */
function covers(earlier: ClientMatch, later: ClientMatch): boolean {
  const { spiffe, dns, jwt, anonymous, address } = earlier;
  return (
    (spiffe === undefined || isWithin(later.spiffe, spiffe)) &&
    (dns === undefined || later.dns === dns || isOneLabelOf(later.dns, dns)) &&
    Object.entries(jwt ?? {}).every(([claim, value]) => isClaimWithin(later.jwt?.[claim], value)) &&
    (anonymous === undefined || later.anonymous === anonymous) &&
    (address === undefined || (later.address !== undefined && contains(address, later.address)))
  );
}

/** A `*` at the end of a pattern stands for any rest, but not for none. */
function isWithin(pattern: string | undefined, wider: string): boolean {
  if (pattern === undefined || !wider.endsWith('*')) return pattern === wider;
  const start = wider.slice(0, -1);
  return pattern.length > start.length && pattern.startsWith(start);
}

/** `edge.example.com` of `*.example.com`. */
function isOneLabelOf(name: string | undefined, wider: string): boolean {
  if (name === undefined || !wider.startsWith('*.') || name.startsWith('*')) return false;
  return name.slice(name.indexOf('.')) === wider.slice(1);
}

function isClaimWithin(
  value: string | number | boolean | undefined,
  wider: string | number | boolean,
): boolean {
  if (typeof wider !== 'string') return value === wider;
  return typeof value === 'string' && isWithin(value, wider);
}

/**
 * Warnings of entries for identities that no client of this gateway can have.
 *
 * @param file of the authority map
 */
export function identityWarnings(
  rules: readonly ClientRule[] | undefined,
  { tls, jwt }: Pick<Settings['client'], 'tls' | 'jwt'>,
  file: string,
): readonly Problem[] {
  return (rules ?? []).flatMap(({ match }, index) => {
    const { spiffe, dns, jwt: claims } = match;
    const wanted = spiffe !== undefined ? 'spiffe' : dns !== undefined ? 'dns' : undefined;
    if (wanted !== undefined && tls?.clientCaFile === undefined) {
      const message = 'matches no client: the gateway verifies no certificates';
      return [warning(file, `clients[${index}].match.${wanted}`, message, 'client.tls.client_ca')];
    }
    if (claims !== undefined && jwt === null) {
      const message = 'matches no client: the gateway reads no tokens';
      return [warning(file, `clients[${index}].match.jwt`, message, 'client.jwt.jwks')];
    }
    return [];
  });
}

const warning = (file: string, field: string, message: string, setting: string): Problem => ({
  file,
  line: 0,
  column: 0,
  field,
  message,
  remedy: `set ${setting}`,
});

/**
 * Reads the section `clients` of the authority map: which clients may ask for what. The gateway denies what no
 * entry allows, so a slip that would widen a right is a problem, not a warning.
 */
import { hasNoHostBits, parseAddressRange, type AddressRange } from '../protos/address-range.js';
import { elementTypeOf } from '../protos/list-collection.js';
import { messageOf } from '../protos/type-urls.js';
import type { Cursor } from './cursor.js';
import type { ClientGrant, ClientLimits, ClientMatch, ClientRule, PathPattern } from './model.js';
import { didYouMean } from './nearest.js';
import { misspelledType } from './type-names.js';
import { coveringRule } from './unmatched-rules.js';

/** The names that the other sections of the map serve. */
export interface ServedNames {
  readonly authorities: readonly string[];
  /** The map serves authorities that it does not name. */
  readonly servesOthers: boolean;
  readonly servesOldStyle: boolean;
}

/** Each entry is compared with all before it, so later ones are not. A count. */
const MAX_COMPARED = 1_000;

/** @returns undefined if the section is absent: every client may then ask for everything */
export function readClients(at: Cursor, served: ServedNames): readonly ClientRule[] | undefined {
  if (!at.present) return undefined;
  const items = at.items();
  const rules = items.map((entry) => ({
    match: readMatch(entry.field('match')),
    allow: entry
      .field('allow')
      .items()
      .flatMap((grant) => readGrant(grant, served) ?? []),
    limits: readLimits(entry.field('limits')),
    ...readNodeIdMustMatch(entry.field('node_id_must_match')),
    hideExistence: entry.field('hide_existence').boolean() ?? false,
  }));
  for (const [index, entry] of items.slice(0, MAX_COMPARED).entries()) {
    warnOfCovered(entry, rules, index);
  }
  return rules;
}

/** The first entry that matches a client decides, so the order is probably a mistake. */
function warnOfCovered(entry: Cursor, rules: readonly ClientRule[], index: number): void {
  if (Object.keys(rules[index]?.match ?? {}).length === 0) return;
  const before = coveringRule(rules, index);
  if (before === -1) return;
  entry.warn(
    `never applies: clients[${before}] comes first and matches all of its clients`,
    `put it before clients[${before}]`,
    'key',
  );
}

function readNodeIdMustMatch(at: Cursor): Pick<ClientRule, 'nodeIdMustMatch'> {
  const pattern = at.string();
  return pattern === undefined ? {} : { nodeIdMustMatch: pattern };
}

// ---- match ---------------------------------------------------------------------------------------

function readMatch(at: Cursor): ClientMatch {
  if (at.object() === undefined) return {};
  const match: ClientMatch = {
    ...readSpiffe(at.field('spiffe')),
    ...readDns(at.field('dns')),
    ...readClaims(at.field('jwt')),
    ...readAnonymous(at.field('anonymous')),
    ...readAddress(at.field('address')),
  };
  if (Object.keys(at.object() ?? {}).length === 0) {
    at.problem(
      'matches nothing in particular',
      'write spiffe, dns, jwt, anonymous or address; address: 0.0.0.0/0 is every IPv4 client',
      'key',
    );
  }
  const kinds = (['spiffe', 'dns', 'jwt', 'anonymous'] as const).filter((kind) => kind in match);
  const isCertificate = kinds.every((kind) => kind === 'spiffe' || kind === 'dns');
  if (kinds.length > 1 && !isCertificate) {
    at.problem(
      `no client has both ${kinds.slice(0, 2).join(' and ')}: a client has one identity`,
      'write one entry for each',
      'key',
    );
  }
  return match;
}

function readSpiffe(at: Cursor): Pick<ClientMatch, 'spiffe'> {
  const text = at.string();
  if (text === undefined) return {};
  // A trust domain is never a pattern: the `*` has to follow its slash.
  if (/^spiffe:\/\/[^/*]+(\/[^*]*\*?)?$/.test(text)) return { spiffe: text };
  at.problem(
    'is not a SPIFFE ID, or a SPIFFE ID with * at its end',
    'write "spiffe://trust.domain/path" or "spiffe://trust.domain/path/*"',
  );
  return {};
}

function readDns(at: Cursor): Pick<ClientMatch, 'dns'> {
  const text = at.string()?.toLowerCase();
  if (text === undefined) return {};
  if (/^(\*\.)?[^*/\s:]+$/.test(text)) return { dns: text };
  at.problem(
    'is not a DNS name, or one with *. at its start',
    'write "edge.example.com" or "*.edge.example.com"',
  );
  return {};
}

function readClaims(at: Cursor): Pick<ClientMatch, 'jwt'> {
  const claims: Record<string, string | number | boolean> = {};
  for (const [name, value] of at.entries()) {
    const expected = value.string() ?? value.number() ?? value.boolean();
    if (expected === undefined) continue;
    if (typeof expected === 'string' && expected.slice(0, -1).includes('*')) {
      value.problem('may have * only at its end', undefined);
    } else claims[name] = expected;
  }
  if (at.object() !== undefined && at.entries().length === 0) {
    at.problem('names no claim', 'write { sub: "value" }');
  }
  return at.object() === undefined ? {} : { jwt: claims };
}

function readAnonymous(at: Cursor): Pick<ClientMatch, 'anonymous'> {
  const value = at.boolean();
  if (value === false) at.problem('must be true', 'leave it out to match any identity');
  return value === true ? { anonymous: true } : {};
}

function readAddress(at: Cursor): { readonly address?: AddressRange } {
  const text = at.string();
  if (text === undefined) return {};
  const address = parseAddressRange(text);
  if (address === undefined) {
    at.problem('is not an IP address or a range in CIDR notation', 'write "10.0.0.0/8"');
    return {};
  }
  if (!hasNoHostBits(address)) {
    at.problem(
      `has bits beyond its prefix of ${address.prefixBits}`,
      'write the first address of the range, or a longer prefix',
    );
  }
  return { address };
}

// ---- allow ---------------------------------------------------------------------------------------

function readGrant(at: Cursor, served: ServedNames): ClientGrant | undefined {
  if (at.object() === undefined) return undefined;
  const authority = at.field('authority');
  const oldStyle = at.field('old_style');
  const types = readTypes(at.field('types'));
  if (authority.present === oldStyle.present) {
    at.problem('must have authority or old_style, and not both', undefined, 'key');
    return undefined;
  }
  if (authority.present) {
    checkAuthority(authority, served);
    const paths = readPaths(at.field('paths'));
    return { kind: 'xdstp', authority: authority.string() ?? '', paths, types };
  }
  if (oldStyle.boolean() === false) oldStyle.problem('must be true', 'leave it out');
  if (at.field('paths').present) {
    at.field('paths').problem('old-style names have no paths', 'leave it out', 'key');
  }
  if (!served.servesOldStyle) {
    oldStyle.warn('the map serves no old-style names', 'write old_style_names', 'key');
  }
  return { kind: 'old_style', types };
}

function checkAuthority(at: Cursor, { authorities, servesOthers }: ServedNames): void {
  const name = at.string();
  if (name === undefined || name === '*' || servesOthers || authorities.includes(name)) return;
  at.problem(`unknown authority ${JSON.stringify(name)}`, didYouMean(name, authorities));
}

function readPaths(at: Cursor): readonly PathPattern[] | undefined {
  if (!at.present) return undefined;
  return at.items().flatMap((item) => readPath(item) ?? []);
}

/** `*`: every path. `edge/*`: every path below `edge`, at any depth. Otherwise one path. */
function readPath(at: Cursor): PathPattern | undefined {
  const text = at.string();
  if (text === undefined) return undefined;
  const directory = text === '*' ? '' : text.slice(0, -1);
  const isDirectory = text === '*' || text.endsWith('/*');
  if (text.startsWith('/') || (isDirectory ? directory : text).includes('*')) {
    const start = text
      .replace(/^\/+/, '')
      .replace(/\*.*$/s, '')
      .replace(/[^/]*$/, '');
    at.problem(
      'must be a path, a directory that ends with /*, or *',
      start === '' ? 'write * only at the end, after a slash' : `write "${start}*"`,
    );
    return undefined;
  }
  if (/%[0-9A-Fa-f]{2}/.test(text)) {
    at.problem('must be written without percent-escapes');
    return undefined;
  }
  return isDirectory ? { prefix: directory } : { id: text };
}

function readTypes(at: Cursor): readonly string[] | undefined {
  if (!at.present) return undefined;
  return at.items().flatMap((item) => {
    const text = item.string();
    if (text === undefined) return [];
    const message = messageOf(text);
    if (!/^[A-Za-z0-9_.]+$/.test(message)) {
      item.problem('is not a type', 'write its short name, such as Cluster');
      return [];
    }
    const likely = misspelledType(message);
    if (likely !== undefined) {
      item.warn(`no client asks for ${message}`, `did you mean ${JSON.stringify(likely)}?`);
    }
    return [elementTypeOf(message) ?? message];
  });
}

function readLimits(at: Cursor): ClientLimits {
  const streams = at.field('streams').number();
  const names = at.field('names').number();
  const requestsPerSecond = at.field('requests_per_second').number();
  return {
    ...(streams === undefined ? {} : { streams }),
    ...(names === undefined ? {} : { names }),
    ...(requestsPerSecond === undefined ? {} : { requestsPerSecond }),
  };
}

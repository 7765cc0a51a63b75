/**
 * Node groups: clients that no source tells apart. The scope is a text that identifies the group and
 * qualifies its old-style names. Equal identity, equal scope, at every instance and after every
 * restart.
 *
 * A scope has one of two forms. *Readable*: JSON with the fields themselves; short, and without any part
 * of a secret. *Hashed*: a readable prefix, `#`, and a SHA-256 hash. A readable scope ends with `}` and a
 * hashed one with a hexadecimal digit, so they never collide.
 */
import { createHash } from 'node:crypto';
import type { NodeFields } from './node-codec.js';

/** A field of `envoy.config.core.v3.Node` on which responses may depend; of metadata, a top-level key. */
export type NodeField = 'id' | 'cluster' | 'locality' | `metadata.${string}`;

const METADATA = 'metadata.';

/** The Node fields of a group. */
export type ScopeFields = Partial<Pick<NodeFields, 'id' | 'cluster' | 'locality' | 'metadata'>>;

/** By which parts of a client's identity the groups of a map differ. */
export interface ScopeRule {
  /** Node fields that differ between groups. */
  readonly fields: readonly NodeField[];
  /** The whole Node differs between groups. */
  readonly wholeNode: boolean;
  /** Headers whose exact values differ between groups. In order. */
  readonly headers: readonly string[];
  /** `names`: the URI and DNS names of the client certificate; `whole`: the certificate. */
  readonly certificate: 'none' | 'names' | 'whole';
  /**
   * The part of a Node that sources get, if it is another one than `fields`. Groups of maps that differ
   * in this have different scopes, so that no group keeps a stream with another Node.
   */
  readonly forward: 'all' | readonly NodeField[] | undefined;
}

/** The values of one client for a {@link ScopeRule}. */
export interface ScopeValues {
  readonly node: ScopeFields;
  /** A canonical encoding of the Node, or a hash of one. Required with `wholeNode`. */
  readonly wholeNode?: Uint8Array | undefined;
  /** The values of each header that the client sent. Secrets. */
  readonly headers?: ReadonlyMap<string, readonly string[]>;
  /** The compared part of the certificate, as text; undefined: the client has no certificate. */
  readonly certificate?: string | undefined;
}

/** The scope if nothing tells clients apart: all clients are one group. */
export const COMMON_SCOPE = '';

/** A longer scope is hashed: it is a part of the key of each name. Characters. */
const MAX_READABLE = 1_024;
const MAX_PREFIX = 64;

export const ruleOfFields = (fields: readonly NodeField[]): ScopeRule => ({
  fields,
  wholeNode: false,
  headers: [],
  certificate: 'none',
  forward: undefined,
});

export function metadataKeysOf(fields: readonly NodeField[]): readonly string[] {
  return fields.flatMap((field) =>
    field.startsWith(METADATA) ? [field.slice(METADATA.length)] : [],
  );
}

/** The values of these fields. A metadata key that the Node lacks is absent. */
export function pickFields(node: ScopeFields, fields: readonly NodeField[]): ScopeFields {
  const { region = '', zone = '', subZone = '' } = node.locality ?? {};
  const has = node.metadata ?? {};
  const keys = metadataKeysOf(fields).filter((key) => Object.hasOwn(has, key));
  return {
    ...(fields.includes('id') ? { id: node.id ?? '' } : {}),
    ...(fields.includes('cluster') ? { cluster: node.cluster ?? '' } : {}),
    ...(fields.includes('locality') ? { locality: { region, zone, subZone } } : {}),
    ...(keys.length > 0
      ? { metadata: Object.fromEntries(keys.map((key) => [key, has[key]])) }
      : {}),
  };
}

/** The scope of a client in a map whose groups differ by Node fields alone. One line. */
export function scopeOf(node: ScopeFields, fields: readonly NodeField[]): string {
  return scopeByRule({ node }, ruleOfFields(fields));
}

/** @returns one line without line breaks, of at most 1,024 characters. */
export function scopeByRule(values: ScopeValues, rule: ScopeRule): string {
  const { fields, wholeNode, headers, certificate, forward } = rule;
  const isReadable = !wholeNode && headers.length === 0 && certificate === 'none';
  if (isReadable && fields.length === 0 && forward === undefined) return COMMON_SCOPE;
  const text = textOf(values.node, rule);
  if (isReadable && text.length <= MAX_READABLE) return text;
  const hash = createHash('sha256');
  const parts = [
    text,
    JSON.stringify({ wholeNode, headers, certificate }),
    (wholeNode && values.wholeNode) || '',
    JSON.stringify(headers.map((key) => values.headers?.get(key) ?? null)),
    JSON.stringify((certificate !== 'none' && values.certificate) || null),
  ];
  for (const part of parts) {
    const bytes = Buffer.from(part);
    // The length keeps the parts apart.
    hash.update(`${bytes.length}\n`).update(bytes);
  }
  return `${prefixOf(values.node, rule)}#${hash.digest('hex')}`;
}

/** The fields in a readable scope; undefined for a hashed one. */
export function fieldsOfScope(scope: string): ScopeFields | undefined {
  if (scope === COMMON_SCOPE) return {};
  if (!scope.endsWith('}')) return undefined;
  const { id, cluster, locality, metadata } = JSON.parse(scope) as ScopeFields;
  return {
    ...(id === undefined ? {} : { id }),
    ...(cluster === undefined ? {} : { cluster }),
    ...(locality === undefined ? {} : { locality }),
    ...(metadata === undefined ? {} : { metadata }),
  };
}

/**
 * JSON with sorted keys. It names the fields that the Node lacks, so scopes made from different fields
 * never collide.
 */
function textOf(node: ScopeFields, { fields, forward }: ScopeRule): string {
  const picked = pickFields(node, fields);
  const without = metadataKeysOf(fields).filter((key) => !Object.hasOwn(node.metadata ?? {}, key));
  return JSON.stringify(
    sorted({
      ...picked,
      ...(without.length > 0 ? { without: without.sort() } : {}),
      ...(forward === undefined ? {} : { forward }),
    }),
  );
}

/** Only of fields that differ between groups: equal scopes for equal groups. */
function prefixOf(node: ScopeFields, { fields, wholeNode }: ScopeRule): string {
  const has = (field: NodeField): boolean => wholeNode || fields.includes(field);
  const text = has('id') ? (node.id ?? '') : has('cluster') ? (node.cluster ?? '') : '';
  return text.replace(/[^\x21-\x7e]/g, '?').slice(0, MAX_PREFIX);
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, field]) => [key, sorted(field)]));
}

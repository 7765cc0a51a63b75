/**
 * Node groups: clients with equal values in the Node fields on which a control plane's responses depend.
 * The scope is a text with exactly these fields. It identifies the group, qualifies the group's
 * old-style names, and is parsed back to build the group's Node for a source. Equal text, equal group.
 */
import type { NodeFields } from './node-codec.js';

/** A field of `envoy.config.core.v3.Node` on which responses may depend; of metadata, a top-level key. */
export type NodeField = 'id' | 'cluster' | 'locality' | `metadata.${string}`;

const METADATA = 'metadata.';

/** The Node fields in a scope. */
export type ScopeFields = Partial<Pick<NodeFields, 'id' | 'cluster' | 'locality' | 'metadata'>>;

/** The scope if responses depend on no field: all clients are one group. */
export const COMMON_SCOPE = '';

export function metadataKeysOf(fields: readonly NodeField[]): readonly string[] {
  return fields.flatMap((field) =>
    field.startsWith(METADATA) ? [field.slice(METADATA.length)] : [],
  );
}

/**
 * @returns JSON with sorted keys and without line breaks. It contains a field that the Node lacks, as
 * its default (text) or as `null`. So scopes made from different fields never collide.
 */
export function scopeOf(node: ScopeFields, fields: readonly NodeField[]): string {
  if (fields.length === 0) return COMMON_SCOPE;
  const { region = '', zone = '', subZone = '' } = node.locality ?? {};
  const keys = metadataKeysOf(fields);
  const has = node.metadata ?? {};
  const metadata = Object.fromEntries(
    keys.map((key) => [key, Object.hasOwn(has, key) ? has[key] : null]),
  );
  return JSON.stringify(
    sorted({
      ...(fields.includes('id') ? { id: node.id ?? '' } : {}),
      ...(fields.includes('cluster') ? { cluster: node.cluster ?? '' } : {}),
      ...(fields.includes('locality') ? { locality: { region, zone, subZone } } : {}),
      ...(keys.length > 0 ? { metadata } : {}),
    }),
  );
}

/** The inverse of `scopeOf`. */
export function fieldsOfScope(scope: string): ScopeFields {
  return scope === COMMON_SCOPE ? {} : (JSON.parse(scope) as ScopeFields);
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, field]) => [key, sorted(field)]));
}

/**
 * Node groups: clients whose Nodes are the same in the fields by which a control plane's answers
 * differ. The group's text says these fields and nothing else, so it is the scope of the group's
 * old-style names and, read back, what is said of the group to a source. Equal text, equal group.
 */
import type { NodeFields } from './node-codec.js';

/** A field of `envoy.config.core.v3.Node` by which answers may differ; of metadata, a key of the first level. */
export type NodeField = 'id' | 'cluster' | 'locality' | `metadata.${string}`;

const METADATA = 'metadata.';

/** What a scope says of a Node. */
export type ScopeFields = Partial<Pick<NodeFields, 'id' | 'cluster' | 'locality' | 'metadata'>>;

/** The scope of those to whom everybody is the same. */
export const COMMON_SCOPE = '';

export function metadataKeysOf(fields: readonly NodeField[]): readonly string[] {
  return fields.flatMap((field) =>
    field.startsWith(METADATA) ? [field.slice(METADATA.length)] : [],
  );
}

/**
 * @returns JSON with sorted keys and without line breaks; a field that the Node does not have is there
 * as its default (text) or as `null`, so that scopes made from other fields are never the same.
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

/** The fields that a scope was made from. */
export function fieldsOfScope(scope: string): ScopeFields {
  return scope === COMMON_SCOPE ? {} : (JSON.parse(scope) as ScopeFields);
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, field]) => [key, sorted(field)]));
}

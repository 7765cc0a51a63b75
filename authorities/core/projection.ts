/**
 * A resource as clients see it: under the asked name, encoded once, versioned by its content.
 *
 * The version is a hash of what clients get, so it is the same at every instance, from every source
 * and after every restart (invariant 4), and a client's `initial_resource_versions` mean the same
 * everywhere.
 */
import { createHash } from 'node:crypto';
import { MOST_LIST_ENTRIES } from '../../config/limits.js';
import { bodyOf, encodeResourceField, type ResourceField } from '../../protos/resource-field.js';
import { rewritePayloadNames } from '../../protos/payload-names.js';
import { isListType, readList } from '../../protos/list-collection.js';
import { readResourceLocator } from '../../protos/locator-codec.js';
import {
  formatResourceLocator,
  isOldStyle,
  isXdstp,
  oldStyleName,
  parseResourceLocator,
  wireText,
  type ResourceLocator,
  type ResourceName,
} from '../../protos/resource-name.js';
import { TYPE_URL } from '../../protos/type-urls.js';

export interface Projection {
  readonly name: ResourceName;
  readonly typeUrl: string;
  /** Content hash, 22 characters. */
  readonly version: string;
  readonly field: ResourceField;
  /** Clusters only: the key of the assignment that this cluster's endpoints come from. */
  readonly edsKey: string | undefined;
  /** Where it leads, instead of content (TP1, "Server redirects"). Followed, never served. */
  readonly redirect?: ResourceLocator;
  /** The locators with alternatives among its references; the references lost them (TP1, `alt`). */
  readonly alternatives?: readonly ResourceLocator[];
  /** Of a list that an alternative published: how what its entries lead to is known here. */
  readonly mapEntry?: ReferenceMapping;
}

export type Projected =
  | { readonly ok: true; readonly projection: Projection }
  | { readonly ok: false; readonly reason: string };

/** The same for clients, and the same said of other names. */
export function isSame(a: Projection, b: Projection): boolean {
  if (a.version !== b.version) return false;
  // Nearly always there are none.
  return a.alternatives === b.alternatives || textsOf(a) === textsOf(b);
}

const textsOf = ({ alternatives = [] }: Projection): string =>
  alternatives.map(formatResourceLocator).join();

/** Where a reference found in a payload leads for the client: given and returned as canonical names. */
export type ReferenceMapping = (name: ResourceName) => ResourceName;

const sameReference: ReferenceMapping = (name) => name;

function contentHash(typeUrl: string, body: Uint8Array): string {
  const hash = createHash('sha256').update(typeUrl).update('\0').update(body);
  return hash.digest('base64url').slice(0, 22);
}

/**
 * What a source sent under a name: content, or a redirect.
 *
 * @param typeUrl of the response
 * @param bodyTypeUrl of the resource's Any
 * @returns or why not, as what may follow the name in a sentence
 */
export function readResource(
  name: ResourceName,
  typeUrl: string,
  bodyTypeUrl: string,
  body: Uint8Array,
  mapReference: ReferenceMapping = sameReference,
): Projected {
  if (bodyTypeUrl === typeUrl) {
    // Which of the two is meant nobody knows: the last good list is better than half of this one.
    const list = isListType(typeUrl) ? readList(body, MOST_LIST_ENTRIES) : undefined;
    if (list?.ok === false && list.code === 'ambiguous') return list;
    const projected = project(name, typeUrl, body, mapReference);
    return projected.ok ? projected : { ok: false, reason: `cannot be read: ${projected.reason}` };
  }
  if (bodyTypeUrl === TYPE_URL.resourceLocator) return projectRedirect(name, typeUrl, body);
  const reason = `carries ${bodyTypeUrl || 'no type'} in a response of ${typeUrl}`;
  return { ok: false, reason };
}

function projectRedirect(name: ResourceName, typeUrl: string, body: Uint8Array): Projected {
  const read = readResourceLocator(body);
  if (!read.ok) return { ok: false, reason: `is a redirect that ${read.reason}` };
  const version = contentHash(TYPE_URL.resourceLocator, body);
  const field = encodeResourceField(wireText(name.key), version, TYPE_URL.resourceLocator, body);
  const redirect = read.locator;
  return { ok: true, projection: { name, typeUrl, version, field, edsKey: undefined, redirect } };
}

/**
 * @param body the value of the resource's Any; it is copied.
 * @param mapReference for content that comes from an alternative: which name the client knows that
 * neighbour by. Canonical spelling and the dropping of directives happen for every reference, since
 * clients compare spellings (gRPC) or crash on them (grpc-go).
 */
export function project(
  name: ResourceName,
  typeUrl: string,
  body: Uint8Array,
  mapReference: ReferenceMapping = sameReference,
): Projected {
  const alternatives: ResourceLocator[] = [];
  const rewritten = rewritePayloadNames(typeUrl, body, {
    // An old-style name's payload is its control plane's business.
    ownName: isOldStyle(name) ? null : name.key,
    reference: (text) => {
      const locator = parseResourceLocator(text);
      if (!locator.ok) return text;
      if (locator.value.alternatives.length > 0) alternatives.push(locator.value);
      return mapReference(locator.value.name).key;
    },
  });
  if (!rewritten.ok) return { ok: false, reason: rewritten.error.message };
  const { value, edsName } = rewritten.value;
  const version = contentHash(typeUrl, value);
  const field = encodeResourceField(wireText(name.key), version, typeUrl, value);
  const edsKey = edsName === undefined ? undefined : edsKeyOf(name, edsName);
  const projection = { name, typeUrl, version, field, edsKey };
  return {
    ok: true,
    projection: alternatives.length === 0 ? projection : { ...projection, alternatives },
  };
}

/** An old-style assignment is one of the cluster's own scope. */
function edsKeyOf(cluster: ResourceName, edsName: string): string {
  const isScoped = isOldStyle(cluster) && !isXdstp(edsName);
  return isScoped ? oldStyleName(cluster.authority, edsName).key : edsName;
}

/** The same, with what else is known of names that it refers to; its own word goes first. */
export function withAlternatives(
  projection: Projection,
  known: readonly ResourceLocator[] | undefined,
): Projection {
  const { alternatives = [] } = projection;
  if (!known || known === alternatives) return projection;
  const said = new Set(alternatives.map(({ name }) => name.key));
  const more = known.filter(({ name }) => !said.has(name.key));
  return more.length === 0
    ? projection
    : { ...projection, alternatives: [...alternatives, ...more] };
}

/** The same resource under another name, as an alternative's content is served under the asked one. */
export function reproject(
  source: Projection,
  name: ResourceName,
  mapReference: ReferenceMapping = sameReference,
): Projected {
  // The same bytes for another scope.
  if (isOldStyle(name)) {
    const { edsKey: before } = source;
    const edsKey = before === undefined ? undefined : edsKeyOf(name, wireText(before));
    return { ok: true, projection: { ...source, name, edsKey } };
  }
  const { typeUrl, redirect } = source;
  const body = bodyOf(source.field);
  if (redirect) return projectRedirect(name, typeUrl, body);
  const projected = project(name, typeUrl, body, mapReference);
  if (!projected.ok) return projected;
  // They were taken off when the source sent it.
  const { alternatives } = source;
  const mapEntry =
    mapReference !== sameReference && isListType(typeUrl) ? mapReference : source.mapEntry;
  if (!alternatives && !mapEntry) return projected;
  return {
    ok: true,
    projection: {
      ...projected.projection,
      ...(alternatives && { alternatives }),
      ...(mapEntry && { mapEntry }),
    },
  };
}

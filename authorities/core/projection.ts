/**
 * A resource as clients see it: under the requested name, encoded once, versioned by its content.
 *
 * The version is a hash of the content, so every instance derives the same version from every
 * source and after every restart (invariant 4), and `initial_resource_versions` are valid at every
 * instance.
 */
import { hash } from 'node:crypto';
import { MAX_LIST_ENTRIES } from '../../config/limits.js';
import { bodyOf, encodeResourceField, type ResourceField } from '../../protos/resource-field.js';
import { hasEndpoints } from '../../protos/load-assignment.js';
import { referencesIn, rewritePayloadNames } from '../../protos/payload-names.js';
import { NO_BYTES } from '../../protos/discovery-fields.js';
import { keyWithParameters } from '../../protos/dynamic-parameters.js';
import { isListType, readList } from '../../protos/list-collection.js';
import type { ParameterConstraints } from '../../protos/parameter-constraints.js';
import { readResourceLocator } from '../../protos/locator-codec.js';
import {
  formatResourceLocator,
  isOldStyle,
  isXdstp,
  oldStyleName,
  parametersIn,
  parseResourceLocator,
  plainKeyOf,
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
  /** Clusters only: the key of the ClusterLoadAssignment with this cluster's endpoints. */
  readonly edsKey: string | undefined;
  /**
   * The target of a redirect (TP1, "Server redirects"): followed, never served. Absent: this is
   * content.
   */
  readonly redirect?: ResourceLocator;
  /** The references that carried alternatives, which were removed from the payload (TP1, `alt`). */
  readonly alternatives?: readonly ResourceLocator[];
  /**
   * For a list published by an alternative: maps the targets of its entries to names of the
   * primary.
   */
  readonly mapEntry?: ReferenceMapping;
  /** It comes from the disk, and no source has sent it since: a client that returns may hold newer content (docs/FAILOVER.md). */
  readonly isRestored?: boolean;
  /** TP2: the constraints with which its source sent it. Clients that requested the resource with parameters get them, too. */
  readonly constraints?: ParameterConstraints;
}

/** @returns why content with these constraints is not for this name; undefined: it is */
export function constraintProblem(
  { parameters = '' }: ResourceName,
  constraints: ParameterConstraints | undefined,
): string | undefined {
  if (!constraints || constraints.matches(parametersIn(parameters))) return undefined;
  return `is a variant for other clients: ${constraints.text} is not met by {${parameters}}`;
}

export type Projected =
  | { readonly ok: true; readonly projection: Projection }
  | { readonly ok: false; readonly reason: string };

/** Same content for clients, and same alternatives in its references. */
export function isSame(a: Projection, b: Projection): boolean {
  if (a.version !== b.version) return false;
  // The usual case: neither has any.
  return a.alternatives === b.alternatives || textsOf(a) === textsOf(b);
}

/** Is this an assignment without endpoints? That is worse than its deletion, which Envoy ignores: all requests fail. */
export const lacksEndpoints = ({ typeUrl, redirect, field }: Projection): boolean =>
  typeUrl === TYPE_URL.clusterLoadAssignment && !redirect && !hasEndpointsIn(field);

/**
 * Does it show that its source has loaded this type? An assignment without endpoints, or one that leads to another name, shows
 * nothing: its source may not know the endpoints of the others yet.
 */
export const isConfirmation = ({ typeUrl, redirect, field }: Projection): boolean =>
  typeUrl !== TYPE_URL.clusterLoadAssignment || (!redirect && hasEndpointsIn(field));

const hasEndpointsIn = ({ bytes, bodyOffset, bodyLength }: ResourceField): boolean =>
  hasEndpoints(bytes, bodyOffset, bodyOffset + bodyLength);

const textsOf = ({ alternatives = [] }: Projection): string =>
  alternatives.map(formatResourceLocator).join();

/** Maps a reference in a payload to the name that the client uses. Both are canonical names. */
export type ReferenceMapping = (name: ResourceName) => ResourceName;

const sameReference: ReferenceMapping = (name) => name;

const VERSION_LENGTH = 22;
/** For what is hashed, and for the text of the hash: a cold start makes both for each resource. */
const scratch = Buffer.allocUnsafeSlow(64 * 1_024);

function contentHash(typeUrl: string, body: Uint8Array, constraints = NO_BYTES): string {
  // In one call: a hash object costs more than the hash.
  const text = hash('sha256', hashedBytes(typeUrl, body, constraints), 'base64url');
  // A copy: a slice would keep the whole hash in memory, for each resource.
  scratch.write(text, 0, VERSION_LENGTH, 'latin1');
  return scratch.toString('latin1', 0, VERSION_LENGTH);
}

/** @returns valid until the next call */
function hashedBytes(typeUrl: string, body: Uint8Array, constraints: Uint8Array): Uint8Array {
  const head = `${typeUrl}\0`;
  const most = 3 * head.length + body.length + constraints.length;
  if (most > scratch.length) return Buffer.concat([Buffer.from(head), body, constraints]);
  const bodyAt = scratch.write(head);
  scratch.set(body, bodyAt);
  scratch.set(constraints, bodyAt + body.length);
  return scratch.subarray(0, bodyAt + body.length + constraints.length);
}

/**
 * Reads what a source sent under a name: content, or a redirect.
 *
 * @param typeUrl of the response
 * @param bodyTypeUrl of the resource's Any
 * @returns the projection, or a reason that can follow the name in a sentence
 */
export function readResource(
  name: ResourceName,
  typeUrl: string,
  bodyTypeUrl: string,
  body: Uint8Array,
  mapReference: ReferenceMapping = sameReference,
  constraints?: ParameterConstraints,
): Projected {
  if (bodyTypeUrl === typeUrl) {
    // An ambiguous list: the last good one is better than a guess, which may drop half of it.
    const list = isListType(typeUrl) ? readList(body, MAX_LIST_ENTRIES) : undefined;
    if (list?.ok === false && list.code === 'ambiguous') return list;
    const projected = project(name, typeUrl, body, mapReference, constraints);
    return projected.ok ? projected : { ok: false, reason: `cannot be read: ${projected.reason}` };
  }
  if (bodyTypeUrl === TYPE_URL.resourceLocator)
    return projectRedirect(name, typeUrl, body, constraints);
  const reason = `carries ${bodyTypeUrl || 'no type'} in a response of ${typeUrl}`;
  return { ok: false, reason };
}

function projectRedirect(
  name: ResourceName,
  typeUrl: string,
  body: Uint8Array,
  constraints: ParameterConstraints | undefined,
): Projected {
  const read = readResourceLocator(body);
  if (!read.ok) return { ok: false, reason: `is a redirect that ${read.reason}` };
  const version = contentHash(TYPE_URL.resourceLocator, body);
  const field = encodeResourceField(wireText(name.key), version, TYPE_URL.resourceLocator, body);
  const redirect = read.locator;
  const projection = { name, typeUrl, version, field, edsKey: undefined, redirect };
  return { ok: true, projection: constraints ? { ...projection, constraints } : projection };
}

/**
 * @param body the value of the resource's Any; it is copied.
 * @param mapReference for content of an alternative: the name by which the client knows a
 * neighbour. Every reference is put into canonical spelling and loses its directives, since clients
 * compare spellings (gRPC) or crash on directives (grpc-go).
 */
export function project(
  name: ResourceName,
  typeUrl: string,
  body: Uint8Array,
  mapReference: ReferenceMapping = sameReference,
  constraints?: ParameterConstraints,
): Projected {
  const alternatives: ResourceLocator[] = [];
  const rewritten = rewritePayloadNames(typeUrl, body, {
    // The payload of an old-style name is left as the control plane wrote it.
    ownName: isOldStyle(name) ? null : wireText(name.key),
    keepsCanonical: mapReference === sameReference,
    reference: (text) => {
      const locator = parseResourceLocator(text);
      if (!locator.ok) return text;
      if (locator.value.alternatives.length > 0) alternatives.push(locator.value);
      return mapReference(locator.value.name).key;
    },
  });
  if (!rewritten.ok) return { ok: false, reason: rewritten.error.message };
  const { value, edsName } = rewritten.value;
  const sent = name.parameters === undefined ? undefined : constraints?.bytes;
  const version = contentHash(typeUrl, value, sent);
  const field = encodeResourceField(wireText(name.key), version, typeUrl, value, sent);
  const edsKey = edsName === undefined ? undefined : referredKey(name, edsName);
  const plain = { name, typeUrl, version, field, edsKey };
  const projection = constraints ? { ...plain, constraints } : plain;
  return {
    ok: true,
    projection: alternatives.length === 0 ? projection : { ...projection, alternatives },
  };
}

/**
 * The key of the resource that another one refers to: an old-style reference stays in its scope, and a client requests what a variant
 * refers to with the same parameters (TP2, "Configuring Dynamic Parameters").
 */
function referredKey(referrer: ResourceName, text: string): string {
  const isScoped = isOldStyle(referrer) && !isXdstp(text);
  const key = isScoped ? oldStyleName(referrer.authority, text).key : text;
  return keyWithParameters(key, referrer.parameters);
}

/** The same variant (TP2) for another set of parameters: the bytes are the same. */
export function forParameters(variant: Projection, name: ResourceName): Projection {
  const { edsKey } = variant;
  const key = edsKey && keyWithParameters(plainKeyOf(edsKey), name.parameters);
  return { ...variant, name, edsKey: key };
}

/** The same name with other parameters (TP2)? A mapping of references would change the name, too. */
const isOtherVariant = (a: ResourceName, b: ResourceName): boolean =>
  a.parameters !== b.parameters && plainKeyOf(a.key) === plainKeyOf(b.key);

/** The keys of the resources of a type that a resource refers to. */
export function referredKeys(
  { name, typeUrl, field, edsKey, redirect }: Projection,
  referredTypeUrl: string,
): readonly string[] {
  if (redirect) return [];
  const hasEdsKey = edsKey !== undefined && referredTypeUrl === TYPE_URL.clusterLoadAssignment;
  // For a cluster without `service_name`, `edsKey` is the cluster's own name, which `referencesIn` would not find.
  if (hasEdsKey) return [edsKey];
  const names = referencesIn(typeUrl, bodyOf(field), referredTypeUrl);
  return [...names].map((text) => referredKey(name, text));
}

/**
 * Adds known alternatives of referenced names. The projection's own alternatives take precedence.
 */
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

/**
 * The same resource under another name: an alternative's content is served under the requested
 * name.
 */
export function reproject(
  source: Projection,
  name: ResourceName,
  mapReference: ReferenceMapping = sameReference,
): Projected {
  // Old-style names differ in their scope only: the bytes stay.
  const { typeUrl, redirect, constraints } = source;
  const problem = constraintProblem(name, constraints);
  if (problem !== undefined) return { ok: false, reason: problem };
  if (!constraints && isOtherVariant(name, source.name))
    return { ok: true, projection: forParameters(source, name) };
  if (isOldStyle(name) && !constraints) {
    const { edsKey: before } = source;
    const edsKey = before === undefined ? undefined : referredKey(name, wireText(before));
    return { ok: true, projection: { ...source, name, edsKey } };
  }
  const body = bodyOf(source.field);
  if (redirect) return projectRedirect(name, typeUrl, body, constraints);
  const projected = project(name, typeUrl, body, mapReference, constraints);
  if (!projected.ok) return projected;
  // The source's bytes had the alternatives; `project` removed them when the resource came.
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

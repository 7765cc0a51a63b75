/**
 * A resource as clients see it: under the asked name, encoded once, versioned by its content.
 *
 * The version is a hash of what clients get, so it is the same at every instance, from every source
 * and after every restart (invariant 4), and a client's `initial_resource_versions` mean the same
 * everywhere.
 */
import { createHash } from 'node:crypto';
import { bodyOf, encodeResourceField, type ResourceField } from '../../protos/resource-field.js';
import { rewritePayloadNames } from '../../protos/payload-names.js';
import {
  isOldStyle,
  parseResourceLocator,
  wireText,
  type ResourceName,
} from '../../protos/resource-name.js';

export interface Projection {
  readonly name: ResourceName;
  readonly typeUrl: string;
  /** Content hash, 22 characters. */
  readonly version: string;
  readonly field: ResourceField;
  /** Clusters only: the key of the assignment that this cluster's endpoints come from. */
  readonly edsKey: string | undefined;
}

export type Projected =
  | { readonly ok: true; readonly projection: Projection }
  | { readonly ok: false; readonly reason: string };

/** Where a reference found in a payload leads for the client: given and returned as canonical names. */
export type ReferenceMapping = (name: ResourceName) => ResourceName;

const sameReference: ReferenceMapping = (name) => name;

function contentHash(typeUrl: string, body: Uint8Array): string {
  const hash = createHash('sha256').update(typeUrl).update('\0').update(body);
  return hash.digest('base64url').slice(0, 22);
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
  const rewritten = rewritePayloadNames(typeUrl, body, {
    // An old-style name's payload is its control plane's business.
    ownName: isOldStyle(name) ? null : name.key,
    reference: (text) => {
      const locator = parseResourceLocator(text);
      return locator.ok ? mapReference(locator.value.name).key : text;
    },
  });
  if (!rewritten.ok) return { ok: false, reason: rewritten.error.message };
  const { value, edsName } = rewritten.value;
  const version = contentHash(typeUrl, value);
  const field = encodeResourceField(wireText(name.key), version, typeUrl, value);
  return { ok: true, projection: { name, typeUrl, version, field, edsKey: edsName } };
}

/** The same resource under another name, as an alternative's content is served under the asked one. */
export function reproject(
  source: Projection,
  name: ResourceName,
  mapReference: ReferenceMapping,
): Projected {
  return project(name, source.typeUrl, bodyOf(source.field), mapReference);
}

/**
 * TP1 URNs and globs: `xdstp://{authority}/{resource type}/{id}?{context parameters}`.
 *
 * Decisions where TP1 is silent (each is also a row of the unit test's tables):
 * - The authority is opaque, may be empty, and keeps its case. It is percent-decoded, as RFC 3986
 *   (reg-name) requires and Envoy does.
 * - `%2F` in an id equals `/`: Envoy and gRPC decode it, so keeping it apart would split one
 *   client's cache key in two.
 * - `xdstp://a/T` and `xdstp://a/T/` have no id and are refused. Other empty segments are allowed.
 * - The type must be a protobuf full name, without escapes. Envoy does not decode the type, so to Envoy
 *   an escaped type would be another type.
 * - A bare `?` and empty pieces between `&` add no parameter; an empty key is refused.
 * - A duplicate key is refused: Envoy, gRPC-Go and C-core each keep a different value.
 * - A glob has a literal `*`; `%2A` names a resource that is called `*`.
 */
import {
  allowedInType,
  asciiClass,
  escapeComponent,
  escapedInAuthority,
  escapedInId,
  escapedInParameter,
  maxNameBytes,
  refuse,
  unescapeComponent,
} from './resource-name-text.js';
import type { Parsed } from './resource-name-text.js';

export const scheme = 'xdstp://';

/** One decoded context parameter. */
export type ContextParam = readonly [key: string, value: string];

/** A URN, or a glob (a URN whose last path segment is `*`). All components are decoded. */
export interface ResourceName {
  readonly authority: string;
  readonly resourceType: string;
  /** May contain `/`; ends in `*` for a glob. */
  readonly id: string;
  /** In the order of the keys' UTF-8 bytes. */
  readonly contextParams: readonly ContextParam[];
  readonly isGlob: boolean;
  /**
   * The cache key. Of a plain `xdstp:` name, its canonical text: two names have the same key iff TP1 defines them as equivalent, and TP2
   * their parameters. With directives it has the client's spelling (`nameOfLocator`). See also old-style-name.ts and
   * dynamic-parameters.ts.
   */
  readonly key: string;
  /** TP2 dynamic parameters, in canonical form (dynamic-parameters.ts). Absent: none, as in nearly all names. */
  readonly parameters?: string;
}

/**
 * The decoded components of a name. By default, `isGlob` is true iff the last segment of the id is
 * `*`.
 */
export interface ResourceNameComponents {
  readonly authority: string;
  readonly resourceType: string;
  readonly id: string;
  readonly contextParams?: readonly ContextParam[];
  readonly isGlob?: boolean;
}

export const noParams: readonly ContextParam[] = [];

/** Whether the text is meant as a TP1 name. All other texts are old-style names. */
export function isXdstp(text: string): boolean {
  return text.startsWith('xdstp:');
}

export function typeError(resourceType: string, at: number): Parsed<never> | undefined {
  if (resourceType === '') {
    return refuse('missing-type', at, 'no resource type follows the authority');
  }
  for (let index = 0; index < resourceType.length; index += 1) {
    if (((asciiClass[resourceType.charCodeAt(index)] ?? 0) & allowedInType) === 0) {
      return refuse('bad-type', at + index, 'the resource type is not a protobuf message name');
    }
  }
  return undefined;
}

/** A parameter and its offset in the text, for errors. */
export type PlacedParam = readonly [key: string, value: string, at: number];

export function sortParams(placed: readonly PlacedParam[]): Parsed<readonly ContextParam[]> {
  const sorted = placed.toSorted((a, b) => compareUtf8(a[0], b[0]));
  let previousKey: string | undefined;
  for (const [key, , at] of sorted) {
    if (key === '') {
      return refuse('empty-parameter-key', at, 'a context parameter has no key');
    }
    if (key === previousKey) {
      return refuse('duplicate-parameter', at, 'duplicate context parameter');
    }
    previousKey = key;
  }
  return { ok: true, value: sorted.map(([key, value]): ContextParam => [key, value]) };
}

/**
 * Compares by UTF-8 bytes, like Envoy and gRPC-Go. The order of UTF-16 differs only for surrogate
 * pairs.
 */
function compareUtf8(a: string, b: string): number {
  for (let index = 0; index < a.length && index < b.length; index += 1) {
    const difference = utf8Rank(a.charCodeAt(index)) - utf8Rank(b.charCodeAt(index));
    if (difference !== 0) {
      return difference;
    }
  }
  return a.length - b.length;
}

function utf8Rank(unit: number): number {
  return unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit;
}

export function endsInStar(id: string): boolean {
  return id.endsWith('*') && (id.length === 1 || id.charCodeAt(id.length - 2) === 0x2f);
}

export function compose(
  authority: string,
  resourceType: string,
  id: string,
  contextParams: readonly ContextParam[],
  isGlob: boolean,
): Parsed<ResourceName> {
  let query = '';
  for (const [key, value] of contextParams) {
    query += query === '' ? '?' : '&';
    query += `${escapeComponent(key, escapedInParameter)}=${escapeComponent(value, escapedInParameter)}`;
  }
  const key = pathText(authority, resourceType, id, isGlob) + query;
  if (key.length > maxNameBytes) {
    return refuse('too-long', 0, `the canonical name is longer than ${maxNameBytes} bytes`);
  }
  return { ok: true, value: { authority, resourceType, id, contextParams, isGlob, key } };
}

function pathText(authority: string, resourceType: string, id: string, isGlob: boolean): string {
  const idText = escapeComponent(id, escapedInId);
  const starSafe = !isGlob && endsInStar(id) ? `${idText.slice(0, -1)}%2A` : idText;
  return `${scheme}${escapeComponent(authority, escapedInAuthority)}/${resourceType}/${starSafe}`;
}

/**
 * Builds a name from decoded components, under the same rules as parsing. The offset of errors is 0,
 * since there is no text. `not-a-glob`: `isGlob` is true, but the id does not end in `*`.
 */
export function makeResourceName(components: ResourceNameComponents): Parsed<ResourceName> {
  const { authority, resourceType, id, contextParams = noParams } = components;
  const badType = typeError(resourceType, 0);
  if (badType !== undefined) {
    return badType;
  }
  if (id === '') {
    return refuse('missing-id', 0, 'the id is empty');
  }
  for (const part of [authority, id, ...contextParams.flat()]) {
    // Reuses the character check of parsing. A decoded `%` is literal, so it must not start an escape.
    const checked = unescapeComponent(part.replaceAll('%', '_'), 0, part.length, false);
    if (!checked.ok) {
      return refuse(checked.error.code, 0, checked.error.message);
    }
  }
  const isGlob = components.isGlob ?? endsInStar(id);
  if (isGlob && !endsInStar(id)) {
    return refuse('not-a-glob', 0, 'the last segment of a glob must be *');
  }
  const params = sortParams(contextParams.map(([key, value]): PlacedParam => [key, value, 0]));
  return params.ok ? compose(authority, resourceType, id, params.value, isGlob) : params;
}

/**
 * A name with the same type and parameters, and another authority and (decoded) id. A glob stays a glob
 * if the new id ends in `*`. For speed, it checks nothing: the caller ensures valid characters and a
 * result that is not too long.
 */
export function withAuthorityAndId(
  name: ResourceName,
  authority: string,
  id: string,
): ResourceName {
  const { resourceType, contextParams } = name;
  const isGlob = name.isGlob && endsInStar(id);
  const query = contextParams.length === 0 ? '' : name.key.slice(name.key.indexOf('?'));
  const key = pathText(authority, resourceType, id, isGlob) + query;
  return { authority, resourceType, id, contextParams, isGlob, key };
}

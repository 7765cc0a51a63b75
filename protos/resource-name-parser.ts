/**
 * Parses URNs and globs. Nearly every received name is canonical, so there is a fast path for canonical
 * names, and a second path for all other spellings. Both are linear in the length of the text.
 */
import {
  allowedInType,
  asciiClass,
  escapedInAuthority,
  escapedInId,
  escapedInParameter,
  isPlain,
  maxNameBytes,
  refuse,
  unescapeComponent,
} from './resource-name-text.js';
import type { Parsed } from './resource-name-text.js';
import { compose, endsInStar, noParams, scheme, sortParams, typeError } from './resource-urn.js';
import type { ContextParam, PlacedParam, ResourceName } from './resource-urn.js';

/**
 * Parses a URN or glob in any spelling. Refuses a fragment (code `fragment`): only locators have
 * directives.
 */
export function parseResourceName(text: string): Parsed<ResourceName> {
  return parseCanonical(text) ?? parseAnySpelling(text);
}

/**
 * The fast path. A canonical name without escapes is its own key. Undefined: the text is another
 * spelling.
 */
function parseCanonical(text: string): Parsed<ResourceName> | undefined {
  if (text.length > maxNameBytes || !text.startsWith(scheme)) {
    return undefined;
  }
  const prefix = canonicalPrefix(text);
  if (prefix === undefined) {
    return undefined;
  }
  const idStart = prefix.text.length;
  let end = idStart;
  while (end < text.length && text.charCodeAt(end) !== 0x3f) {
    if (!isPlain(text.charCodeAt(end), escapedInId)) {
      return undefined;
    }
    end += 1;
  }
  if (end === idStart) {
    return undefined;
  }
  const contextParams = end < text.length ? canonicalParams(text, end + 1) : noParams;
  if (contextParams === undefined) {
    return undefined;
  }
  const id = text.slice(idStart, end);
  const name: ResourceName = {
    authority: prefix.authority,
    resourceType: prefix.resourceType,
    id,
    contextParams,
    isGlob: endsInStar(id),
    key: text,
  };
  return { ok: true, value: name };
}

/** `xdstp://AUTHORITY/TYPE/` */
interface Prefix {
  readonly text: string;
  readonly authority: string;
  readonly resourceType: string;
}

/**
 * Of the last canonical name. The next name mostly has the same prefix: it is not read again, and the names
 * share its strings. A hundred thousand names would otherwise hold as many copies of both.
 */
let lastPrefix: Prefix | undefined;

/** `xdstp://AUTHORITY/TYPE/` of a name; undefined: it is spelled in another way. What follows is not looked at. */
export const canonicalPrefixOf = (text: string): string | undefined =>
  text.startsWith(scheme) ? canonicalPrefix(text)?.text : undefined;

function canonicalPrefix(text: string): Prefix | undefined {
  if (lastPrefix !== undefined && text.startsWith(lastPrefix.text)) {
    return lastPrefix;
  }
  const typeSlash = text.indexOf('/', scheme.length);
  const idSlash = typeSlash < 0 ? -1 : text.indexOf('/', typeSlash + 1);
  if (idSlash <= typeSlash + 1) {
    return undefined;
  }
  for (let index = scheme.length; index < idSlash; index += 1) {
    const code = text.charCodeAt(index);
    const isInType = index > typeSlash;
    if (
      index !== typeSlash &&
      !(isInType ? isAllowedInType(code) : isPlain(code, escapedInAuthority))
    ) {
      return undefined;
    }
  }
  lastPrefix = {
    text: text.slice(0, idSlash + 1),
    authority: text.slice(scheme.length, typeSlash),
    resourceType: text.slice(typeSlash + 1, idSlash),
  };
  return lastPrefix;
}

function isAllowedInType(code: number): boolean {
  return code < 128 && ((asciiClass[code] ?? 0) & allowedInType) !== 0;
}

/** Sorted parameters without escapes; undefined for any other spelling. */
function canonicalParams(text: string, start: number): readonly ContextParam[] | undefined {
  const params: ContextParam[] = [];
  let pieceStart = start;
  let equals = -1;
  let previousKey = '';
  for (let index = start; index <= text.length; index += 1) {
    const code = index < text.length ? text.charCodeAt(index) : 0x26;
    if (code === 0x26) {
      const key = text.slice(pieceStart, equals);
      if (equals < 0 || key <= previousKey) {
        return undefined;
      }
      params.push([key, text.slice(equals + 1, index)]);
      previousKey = key;
      pieceStart = index + 1;
      equals = -1;
    } else if (code === 0x3d && equals < 0) {
      equals = index;
    } else if (code >= 128 || ((asciiClass[code] ?? 0) & escapedInParameter) !== 0) {
      return undefined;
    }
  }
  return params;
}

function parseAnySpelling(text: string): Parsed<ResourceName> {
  if (!text.startsWith(scheme)) {
    return refuse('not-xdstp', 0, 'the name does not begin with xdstp://');
  }
  if (text.length > maxNameBytes || Buffer.byteLength(text) > maxNameBytes) {
    return refuse('too-long', maxNameBytes, `the name is longer than ${maxNameBytes} bytes`);
  }
  const fragment = text.indexOf('#');
  if (fragment >= 0) {
    return refuse('fragment', fragment, 'a resource name must not have processing directives');
  }
  const question = text.indexOf('?');
  const pathEnd = question < 0 ? text.length : question;
  const typeSlash = indexBefore(text, '/', scheme.length, pathEnd);
  const idSlash = indexBefore(text, '/', typeSlash + 1, pathEnd);
  const authority = unescapeComponent(text, scheme.length, typeSlash, false);
  if (!authority.ok) {
    return authority;
  }
  const badType = typeError(text.slice(typeSlash + 1, idSlash), Math.min(typeSlash + 1, pathEnd));
  if (badType !== undefined) {
    return badType;
  }
  const id = unescapeComponent(text, idSlash + 1, pathEnd, false);
  if (!id.ok) {
    return id;
  }
  if (id.value === '') {
    return refuse('missing-id', pathEnd, 'no id follows the resource type');
  }
  const params = parseParams(text, pathEnd + 1);
  if (!params.ok) {
    return params;
  }
  // Only a literal `*` makes a glob; `%2A` names a resource that is called `*`.
  const isGlob = text[pathEnd - 1] === '*' && endsInStar(id.value);
  const resourceType = text.slice(typeSlash + 1, idSlash);
  return compose(authority.value, resourceType, id.value, params.value, isGlob);
}

function indexBefore(text: string, character: string, start: number, end: number): number {
  const index = text.indexOf(character, start);
  return index < 0 || index > end ? end : index;
}

function parseParams(text: string, start: number): Parsed<readonly ContextParam[]> {
  const placed: PlacedParam[] = [];
  for (let piece = start; piece < text.length;) {
    const end = indexBefore(text, '&', piece, text.length);
    if (end > piece) {
      const inPiece = text.slice(piece, end).indexOf('=');
      const equals = inPiece < 0 ? end : piece + inPiece;
      const key = unescapeComponent(text, piece, equals, true);
      const value = unescapeComponent(text, Math.min(equals + 1, end), end, true);
      if (!key.ok) {
        return key;
      }
      if (!value.ok) {
        return value;
      }
      placed.push([key.value, value.value, piece]);
    }
    piece = end + 1;
  }
  return sortParams(placed);
}

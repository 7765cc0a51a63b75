/**
 * TP1 URLs: a resource name with processing directives in its fragment,
 * `#alt={xdstp:// URL},entry={entry name}`.
 *
 * Where TP1 is silent, Envoy's rules apply: a directive's value is percent-decoded once and then
 * parsed, so an alternative's own `?`, `#` and `,` are written as `%3F`, `%23` and `%2C`; an unknown
 * directive is refused. A duplicate directive is refused, as TP1 requires (Envoy does not check it).
 */
import {
  escapeComponent,
  escapedInDirective,
  maxNameBytes,
  refuse,
  unescapeComponent,
} from './resource-name-text.js';
import type { Parsed } from './resource-name-text.js';
import { parseResourceName } from './resource-name-parser.js';
import { isOldStyle } from './old-style-name.js';
import { makeResourceName } from './resource-urn.js';
import type { ResourceName } from './resource-urn.js';

/** The longest locator, in bytes of UTF-8: a name and a few nested alternatives. */
export const maxLocatorBytes = 4 * maxNameBytes;

/** Most levels of nested alternatives (an alternative may have its own alternative). */
export const maxAlternativeDepth = 4;

/** A name with its directives. */
export interface ResourceLocator {
  readonly name: ResourceName;
  /** From `alt`: at most one alternative, which may have its own. */
  readonly alternatives: readonly ResourceLocator[];
  /** From `entry`: at most one name of a list entry. */
  readonly entries: readonly string[];
}

/** The widest of three published alphabets: TP1's prose, the directive, and InlineEntry.name. */
const entryAlphabet = /^[0-9A-Za-z_\-./~:]+$/;

/** Parses a URN, glob or URL. The offset of an error in an alternative is its place in the whole text. */
export function parseResourceLocator(text: string): Parsed<ResourceLocator> {
  if (text.length > maxLocatorBytes || Buffer.byteLength(text) > maxLocatorBytes) {
    return refuse('too-long', maxLocatorBytes, `longer than ${maxLocatorBytes} bytes`);
  }
  return parseNested(text, 0);
}

function parseNested(text: string, depth: number): Parsed<ResourceLocator> {
  const hash = text.indexOf('#');
  const name = parseResourceName(hash < 0 ? text : text.slice(0, hash));
  if (!name.ok) {
    return name;
  }
  const directives = { alternatives: [] as ResourceLocator[], entries: [] as string[] };
  // A bare `#` is an empty fragment without directives, so the name is the same.
  for (let start = hash + 1; hash >= 0 && start < text.length;) {
    const comma = text.indexOf(',', start);
    const end = comma < 0 ? text.length : comma;
    const refusal = readDirective(text, start, end, depth, directives);
    if (refusal !== undefined) {
      return refusal;
    }
    start = end + 1;
  }
  return { ok: true, value: { name: name.value, ...directives } };
}

function readDirective(
  text: string,
  start: number,
  end: number,
  depth: number,
  into: { readonly alternatives: ResourceLocator[]; readonly entries: string[] },
): Parsed<never> | undefined {
  const isAlt = text.startsWith('alt=', start);
  if (!isAlt && !text.startsWith('entry=', start)) {
    return refuse('unknown-directive', start, 'unknown directive: only alt= and entry= exist');
  }
  if ((isAlt ? into.alternatives : into.entries).length > 0) {
    return refuse('duplicate-directive', start, 'duplicate directive');
  }
  const valueAt = start + (isAlt ? 4 : 6);
  const value = unescapeComponent(text, valueAt, Math.max(valueAt, end), false);
  if (!value.ok) {
    return value;
  }
  if (!isAlt) {
    if (!entryAlphabet.test(value.value)) {
      return refuse('bad-entry', valueAt, 'an entry name may contain only [0-9A-Za-z_-./~:]');
    }
    into.entries.push(value.value);
    return undefined;
  }
  if (depth === maxAlternativeDepth) {
    return refuse('too-deep', valueAt, `more than ${maxAlternativeDepth} nested alternatives`);
  }
  const alternative = parseNested(value.value, depth + 1);
  if (!alternative.ok) {
    // Decoding escapes shifts offsets: then report the start of the alternative.
    const { code, message, at } = alternative.error;
    return refuse(code, value.value.length === end - valueAt ? valueAt + at : valueAt, message);
  }
  into.alternatives.push(alternative.value);
  return undefined;
}

/** The canonical text of a locator: the name's key, then `alt` before `entry`. */
export function formatResourceLocator(locator: ResourceLocator): string {
  const directives = [
    ...locator.alternatives.map(
      (alternative) =>
        `alt=${escapeComponent(formatResourceLocator(alternative), escapedInDirective)}`,
    ),
    ...locator.entries.map((entry) => `entry=${entry}`),
  ];
  return directives.length === 0 ? locator.name.key : `${locator.name.key}#${directives.join(',')}`;
}

/**
 * A locator with directives as a distinct name. Its key includes the directives, so the cache keeps it
 * apart from the bare name.
 * @param text the key, in the client's spelling; by default the canonical text
 */
export function nameOfLocator(
  locator: ResourceLocator,
  text: string = formatResourceLocator(locator),
): ResourceName {
  return text === locator.name.key ? locator.name : { ...locator.name, key: text };
}

/** The inverse of `nameOfLocator`; undefined for a name without directives. */
export function locatorOfName(name: ResourceName): ResourceLocator | undefined {
  // A name with dynamic parameters has no directives.
  if (isOldStyle(name) || !name.key.includes('#') || name.parameters !== undefined)
    return undefined;
  const parsed = parseResourceLocator(name.key);
  return parsed.ok ? parsed.value : undefined;
}

/** Directives that a client percent-escaped into a name, separated from the name again. */
export interface EscapedDirectives {
  readonly locator: ResourceLocator;
  /** The name with an unescaped fragment, which such a client expects inside the payload (ENVOY 10). */
  readonly rawText: string;
}

/**
 * Recovers directives from Envoy, whose URN decoder does not know fragments. For
 * `…/foo#alt=xdstp://b/T/x` it requests `…/foo%23alt=xdstp://b/T/x`, or, with parameters, a last value
 * that ends in `%23alt…`.
 * @returns undefined without such directives, or if they do not parse: the name is then literal
 */
export function escapedDirectivesOf(name: ResourceName): EscapedDirectives | undefined {
  const { authority, resourceType, id, contextParams } = name;
  const inId = fragmentStart(id);
  // If the fragment is in the id, the parameters belong to the alternative, not to the name.
  const fragmentParams = inId < 0 ? [] : contextParams;
  const carrier = inId < 0 ? contextParams.findIndex(([, value]) => fragmentStart(value) >= 0) : -1;
  if (inId < 0 && carrier < 0) {
    return undefined;
  }
  const carried = contextParams[carrier]?.[1] ?? id;
  const hash = fragmentStart(carried);
  const clean = makeResourceName({
    authority,
    resourceType,
    id: inId < 0 ? id : id.slice(0, inId),
    contextParams:
      inId < 0
        ? contextParams.map(([key, value], index) => [
            key,
            index === carrier ? value.slice(0, hash) : value,
          ])
        : [],
  });
  if (!clean.ok) {
    return undefined;
  }
  const tail = fragmentParams.map(([key, value]) => `${key}=${value}`).join('&');
  const rawText = `${clean.value.key}${carried.slice(hash)}${tail === '' ? '' : `?${tail}`}`;
  const locator = parseResourceLocator(rawText);
  return locator.ok ? { locator: locator.value, rawText } : undefined;
}

function fragmentStart(text: string): number {
  const alt = text.indexOf('#alt=');
  const entry = text.indexOf('#entry=');
  return alt < 0 || (entry >= 0 && entry < alt) ? entry : alt;
}

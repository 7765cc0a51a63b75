/**
 * TP1 URLs: a resource name with processing directives in its fragment,
 * `#alt={xdstp:// URL},entry={entry name}`.
 *
 * Envoy's rules where TP1 leaves room: a directive's value is percent-decoded once and then read,
 * so that an alternative's own `?`, `#` and `,` travel as `%3F`, `%23` and `%2C`; an unknown directive
 * is refused. TP1's rule that a directive occurs once is kept (Envoy does not check it).
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

/** How deep alternatives may nest (an alternative may have its own alternative). */
export const maxAlternativeDepth = 4;

/** A name, where to look if its authority fails, and which entry of the list it is. */
export interface ResourceLocator {
  readonly name: ResourceName;
  /** From `alt`: none or one; that one may have its own. */
  readonly alternatives: readonly ResourceLocator[];
  /** From `entry`: none or one entry name. */
  readonly entries: readonly string[];
}

/** The widest of the three published alphabets (prose, directive, InlineEntry.name). */
const entryAlphabet = /^[0-9A-Za-z_\-./~:]+$/;

/** Parses a URN, glob or URL. Errors in an alternative are reported at its place in the text. */
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
  // A bare `#` is an empty fragment: no directive, and the same name.
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
    return refuse('unknown-directive', start, 'the directives are alt= and entry=');
  }
  if ((isAlt ? into.alternatives : into.entries).length > 0) {
    return refuse('duplicate-directive', start, 'a directive occurs twice');
  }
  const valueAt = start + (isAlt ? 4 : 6);
  const value = unescapeComponent(text, valueAt, Math.max(valueAt, end), false);
  if (!value.ok) {
    return value;
  }
  if (!isAlt) {
    if (!entryAlphabet.test(value.value)) {
      return refuse('bad-entry', valueAt, 'an entry name is made of [0-9A-Za-z_-./~:]');
    }
    into.entries.push(value.value);
    return undefined;
  }
  if (depth === maxAlternativeDepth) {
    return refuse('too-deep', valueAt, `more than ${maxAlternativeDepth} nested alternatives`);
  }
  const alternative = parseNested(value.value, depth + 1);
  if (!alternative.ok) {
    // Offsets move when escapes are undone; then the start of the alternative must do.
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
 * A locator with directives as a name of its own: what is asked for with an alternative, or as an
 * entry of a list, is another thing than the bare name, and is kept and answered apart from it.
 * @param text as it is to be written to whoever asks; by default the canonical one
 */
export function nameOfLocator(
  locator: ResourceLocator,
  text: string = formatResourceLocator(locator),
): ResourceName {
  return text === locator.name.key ? locator.name : { ...locator.name, key: text };
}

/** The locator that such a name stands for; undefined for a plain name. */
export function locatorOfName(name: ResourceName): ResourceLocator | undefined {
  if (isOldStyle(name) || !name.key.includes('#')) return undefined;
  const parsed = parseResourceLocator(name.key);
  return parsed.ok ? parsed.value : undefined;
}

/** Directives that a client escaped into a name, told apart again. */
export interface EscapedDirectives {
  readonly locator: ResourceLocator;
  /** The name with the fragment raw, which such a client expects inside the payload. */
  readonly rawText: string;
}

/**
 * Envoy's URN decoder knows no fragments: from `…/foo#alt=xdstp://b/T/x` it asks for
 * `…/foo%23alt=xdstp://b/T/x`, or, after parameters, for a last value that ends in `%23alt…`.
 * @returns undefined for a name without such directives, or with ones that do not parse: then the
 *   name means what it says
 */
export function escapedDirectivesOf(name: ResourceName): EscapedDirectives | undefined {
  const { authority, resourceType, id, contextParams } = name;
  const inId = fragmentStart(id);
  // A fragment in the id swallowed the `?` of its alternative: those parameters are not the name's.
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

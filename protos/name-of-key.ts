/** The way back from a key to its name, for keys that were written down. */
import { oldStyleName } from './old-style-name.js';
import { parseResourceName } from './resource-name-parser.js';
import type { ResourceName } from './resource-urn.js';

/** `\n{scope}\n{text}`: a text may hold line breaks, a scope none. */
const OLD_STYLE = /^\n([^\n]*)\n([^]+)$/;

/** @returns undefined for a text that is the key of no name. */
export function nameOfKey(key: string): ResourceName | undefined {
  const [, scope, text] = OLD_STYLE.exec(key) ?? [];
  if (scope !== undefined && text !== undefined) return oldStyleName(scope, text);
  const parsed = parseResourceName(key);
  return parsed.ok && parsed.value.key === key ? parsed.value : undefined;
}

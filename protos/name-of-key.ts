/** The way back from a key to its name, for keys that were written down. */
import { oldStyleName } from './old-style-name.js';
import { nameOfLocator, parseResourceLocator } from './resource-locator.js';
import type { ResourceName } from './resource-urn.js';

/** `\n{scope}\n{text}`: a text may hold line breaks, a scope none. */
const OLD_STYLE = /^\n([^\n]*)\n([^]+)$/;

/** @returns undefined for a text that is the key of no name. */
export function nameOfKey(key: string): ResourceName | undefined {
  const [, scope, text] = OLD_STYLE.exec(key) ?? [];
  if (scope !== undefined && text !== undefined) return oldStyleName(scope, text);
  const parsed = parseResourceLocator(key);
  if (!parsed.ok) return undefined;
  const { key: plain } = parsed.value.name;
  const isKey = key === plain || key.startsWith(`${plain}#`);
  return isKey ? nameOfLocator(parsed.value, key) : undefined;
}

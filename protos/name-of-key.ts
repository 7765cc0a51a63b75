/** From a key back to its name, or to a part of it. */
import { readParameters, withParameters } from './dynamic-parameters.js';
import { oldStyleName, parametersOfKey, plainKeyOf, scopeOfKey } from './old-style-name.js';
import { nameOfLocator, parseResourceLocator } from './resource-locator.js';
import { unescapeComponent } from './resource-name-text.js';
import { scheme, type ResourceName } from './resource-urn.js';

/** `\n{scope}\n{text}`: the text may contain line breaks, or be empty as that of the NameTable of Istio. The scope must have no line break. */
const OLD_STYLE = /^\n([^\n]*)\n([^]*)$/;

/** @returns undefined if no name has this key */
export function nameOfKey(key: string): ResourceName | undefined {
  const parameters = parametersOfKey(key);
  if (parameters !== '') {
    const plain = nameOfKey(plainKeyOf(key));
    if (!plain || readParameters(parameters) === undefined) return undefined;
    const name = withParameters(plain, parameters);
    return name.key === key ? name : undefined;
  }
  const [, scope, text] = OLD_STYLE.exec(key) ?? [];
  if (scope !== undefined && text !== undefined) return oldStyleName(scope, text);
  const parsed = parseResourceLocator(key);
  if (!parsed.ok) return undefined;
  const { key: plain } = parsed.value.name;
  const isKey = key === plain || key.startsWith(`${plain}#`);
  return isKey ? nameOfLocator(parsed.value, key) : undefined;
}

/** The authority of the name with this key. */
export function authorityOfKey(key: string): string {
  const scope = scopeOfKey(key);
  if (scope !== undefined) return scope;
  const plain = plainKeyOf(key);
  const end = plain.indexOf('/', scheme.length);
  const authority = unescapeComponent(plain, scheme.length, end, false);
  return authority.ok ? authority.value : '';
}

/**
 * Old-style names: all names but `xdstp:`. They are opaque to everything but their control plane (xDS
 * protocol, "Resource names"). Here they have the type `ResourceName`, so the same cache and watchers
 * serve them. `*` is the wildcard: all resources of a type that the server chooses for this client. It
 * corresponds to a glob of `xdstp:` names.
 *
 * The same text may mean another resource to another Node. So each name belongs to a scope, and scopes
 * share no responses. The key is `\n{scope}\n{text}`, which is never a valid `xdstp:` name. With dynamic parameters (TP2), the key of
 * either kind of name has a prefix: see dynamic-parameters.ts.
 */
import { noParams, type ResourceName } from './resource-urn.js';

const MARK = '\n';
const MARK_CODE = 0x0a;
const WILDCARD = '*';

/** Before and after the parameters in the key of a name with dynamic parameters. */
export const VARIANT_MARK = '\t';
const VARIANT_MARK_CODE = 0x09;

/**
 * @param scope of the node group (node-scope.ts), without line breaks
 * @param text the name on the wire; `*` is the wildcard
 */
export function oldStyleName(scope: string, text: string): ResourceName {
  return {
    authority: scope,
    resourceType: '',
    id: text,
    contextParams: noParams,
    isGlob: text === WILDCARD,
    key: `${MARK}${scope}${MARK}${text}`,
  };
}

/** Where the key of the plain name begins: after the dynamic parameters, if the key has any. */
const plainAt = (key: string): number =>
  key.charCodeAt(0) === VARIANT_MARK_CODE ? key.indexOf(VARIANT_MARK, 1) + 1 : 0;

/** The key of the same name without dynamic parameters. */
export function plainKeyOf(key: string): string {
  const at = plainAt(key);
  return at === 0 ? key : key.slice(at);
}

/** The dynamic parameters in a key, in canonical form; empty: none. */
export function parametersOfKey(key: string): string {
  const at = plainAt(key);
  return at === 0 ? '' : key.slice(1, at - 1);
}

export function isOldStyle(name: ResourceName): boolean {
  return name.key.charCodeAt(plainAt(name.key)) === MARK_CODE;
}

/** The name on the wire for a key: without the scope for an old-style name, and without dynamic parameters. */
export function wireText(key: string): string {
  const at = plainAt(key);
  if (key.charCodeAt(at) === MARK_CODE) return key.slice(key.indexOf(MARK, at + 1) + 1);
  return at === 0 ? key : key.slice(at);
}

/** The scope of an old-style name, by its key; undefined: it is the key of another name. */
export function scopeOfKey(key: string): string | undefined {
  const at = plainAt(key);
  return key.charCodeAt(at) === MARK_CODE
    ? key.slice(at + 1, key.indexOf(MARK, at + 1))
    : undefined;
}

/** The key of the wildcard in a scope. */
export function wildcardKeyOf(scope: string): string {
  return `${MARK}${scope}${MARK}${WILDCARD}`;
}

/**
 * Old-style names: all names but `xdstp:`. They are opaque to everything but their control plane (xDS
 * protocol, "Resource names"). Here they have the type `ResourceName`, so the same cache and watchers
 * serve them. `*` is the wildcard: all resources of a type that the server chooses for this client. It
 * corresponds to a glob of `xdstp:` names.
 *
 * The same text may mean another resource to another Node. So each name belongs to a scope, and scopes
 * share no responses. The key is `\n{scope}\n{text}`, which is never a valid `xdstp:` name.
 */
import { noParams, type ResourceName } from './resource-urn.js';

const MARK = '\n';
const MARK_CODE = 0x0a;
const WILDCARD = '*';

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

export function isOldStyle(name: ResourceName): boolean {
  return name.key.charCodeAt(0) === MARK_CODE;
}

/** The name on the wire for a key: without the scope for an old-style name, else the key itself. */
export function wireText(key: string): string {
  return key.charCodeAt(0) === MARK_CODE ? key.slice(key.indexOf(MARK, 1) + 1) : key;
}

/** The scope of an old-style name, by its key; undefined: it is the key of another name. */
export function scopeOfKey(key: string): string | undefined {
  return key.charCodeAt(0) === MARK_CODE ? key.slice(1, key.indexOf(MARK, 1)) : undefined;
}

/** The key of the wildcard in a scope. */
export function wildcardKeyOf(scope: string): string {
  return `${MARK}${scope}${MARK}${WILDCARD}`;
}

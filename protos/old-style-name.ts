/**
 * Names that are not `xdstp:`: opaque texts whose meaning only the control plane that made them knows
 * (xDS protocol, "Resource names"). They are given the shape of a `ResourceName`, so that all that is
 * keyed by names serves them too. `*` is the wildcard: every resource of a type that the server
 * chooses for this client, which is what a glob is to `xdstp:` names.
 *
 * The same text may mean something else to another node, so a name lives in a scope: what is asked
 * for one scope never answers another. The key is `\n{scope}\n{text}`, which no `xdstp:` name can be.
 */
import { noParams, type ResourceName } from './resource-urn.js';

const MARK = '\n';
const MARK_CODE = 0x0a;
const WILDCARD = '*';

/**
 * @param scope whose name it is; no line break
 * @param text as it goes over the wire; `*` is the wildcard
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

/** The text of a name's key as it goes over the wire: the key itself, but for old-style names. */
export function wireText(key: string): string {
  return key.charCodeAt(0) === MARK_CODE ? key.slice(key.indexOf(MARK, 1) + 1) : key;
}

/** The key of the wildcard of an old-style name's scope. */
export function wildcardKeyOf({ authority }: ResourceName): string {
  return `${MARK}${authority}${MARK}${WILDCARD}`;
}

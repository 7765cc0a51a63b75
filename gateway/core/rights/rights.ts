/**
 * May this client ask for this name? The whole decision: `rightsOf` finds the entry of `clients` that
 * decides, and `verdictOf` judges one requested name by it (docs/SECURITY.md, "Rights").
 *
 * The name is judged as the client wrote it, with the alternatives that the client wrote. Where
 * redirects, lists and the alternatives of the map lead is a decision of the map (`may_lead_to`).
 */
import type { ClientGrant, ClientRule, PathPattern } from '../../../config/model.js';
import { STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';
import { elementTypeOf } from '../../../protos/list-collection.js';
import {
  isOldStyle,
  locatorOfName,
  type ResourceLocator,
  type ResourceName,
} from '../../../protos/resource-name.js';
import { messageOf, shortTypeOf, TYPE_URL } from '../../../protos/type-urls.js';
import { matchingRule, type Requester } from './requester.js';

/** The entry of `clients` that decides for one client. */
export type Rights =
  /** The map has no `clients`. */
  | { readonly kind: 'all' }
  /** `at`: index of the entry. `isNodeForeign`: the Node does not meet `node_id_must_match`. */
  | {
      readonly kind: 'rule';
      readonly at: number;
      readonly rule: ClientRule;
      readonly isNodeForeign: boolean;
    }
  /** No entry matches the client. */
  | { readonly kind: 'none' };

export type Verdict =
  | { readonly kind: 'granted' }
  | {
      readonly kind: 'denied';
      readonly status: RpcStatus;
      /** The client learns only that the name does not exist. */
      readonly isHidden: boolean;
    };

/** Judges a requested name of one client. */
export type Judge = (typeUrl: string, name: ResourceName) => Verdict;

export const GRANTED: Verdict = { kind: 'granted' };
export const EVERYTHING: Rights = { kind: 'all' };

const denied = (message: string, isHidden: boolean): Verdict => ({
  kind: 'denied',
  status: { code: STATUS_CODE.permissionDenied, message },
  isHidden,
});

const NO_RULE = 'no rule for clients matches this client';
const NOT_ALLOWED = 'the rule for this client does not allow this name';
const NODE_FOREIGN = 'the Node id does not fit the identity of this client';

/**
 * @param rules `clients` of the map; undefined: absent
 * @param nodeId the id of the client's Node; empty: it has none; undefined: it is too long to be compared
 */
export function rightsOf(
  rules: readonly ClientRule[] | undefined,
  requester: Requester,
  nodeId: string | undefined,
): Rights {
  if (!rules) return EVERYTHING;
  const at = matchingRule(rules, requester);
  const rule = rules[at];
  if (!rule) return { kind: 'none' };
  const pattern = rule.nodeIdMustMatch;
  const isNodeForeign =
    pattern !== undefined && (nodeId === undefined || !fitsPattern(nodeId, pattern));
  return { kind: 'rule', at, rule, isNodeForeign };
}

/** @param name the requested name, glob or list, or the wildcard of old-style names */
export function verdictOf(rights: Rights, typeUrl: string, name: ResourceName): Verdict {
  if (rights.kind === 'all') return GRANTED;
  if (rights.kind === 'none') return denied(NO_RULE, false);
  const { rule, isNodeForeign } = rights;
  if (isNodeForeign) return denied(NODE_FOREIGN, rule.hideExistence);
  const isAllowed = namesOf(name).every((one) =>
    rule.allow.some((grant) => allows(grant, typeUrl, one)),
  );
  return isAllowed ? GRANTED : denied(NOT_ALLOWED, rule.hideExistence);
}

/** The name without its directives, and each alternative that the client wrote (`#alt=`). */
function namesOf(name: ResourceName): readonly ResourceName[] {
  const locator = locatorOfName(name);
  return locator ? namesIn(locator) : [name];
}

const namesIn = ({ name, alternatives }: ResourceLocator): readonly ResourceName[] => [
  name,
  ...alternatives.flatMap(namesIn),
];

function allows(grant: ClientGrant, typeUrl: string, name: ResourceName): boolean {
  if (!allowsType(grant.types, messageOf(typeUrl))) return false;
  if (grant.kind === 'old_style') return isOldStyle(name);
  if (isOldStyle(name)) return false;
  // A source may go by the type in the name, whatever the type of the request.
  if (!allowsType(grant.types, name.resourceType)) return false;
  if (grant.authority !== '*' && grant.authority !== name.authority) return false;
  const { paths } = grant;
  return paths === undefined || paths.some((path) => covers(path, name));
}

/**
 * The `*` of a glob is a part of its id, so a directory covers the glob if it is that of the glob or one
 * above it: the whole directory is allowed. One path covers no glob, even if it is called `*`.
 */
function covers(path: PathPattern, { id, isGlob }: ResourceName): boolean {
  if ('prefix' in path) return id.startsWith(path.prefix);
  return id === path.id && !(isGlob && id.endsWith('*'));
}

const SECRET = messageOf(TYPE_URL.secret);

/** @param message full name; the list type of a type is that type */
function allowsType(types: readonly string[] | undefined, message: string): boolean {
  const member = elementTypeOf(message) ?? message;
  const short = shortTypeOf(member);
  // A secret is never allowed by default.
  if (types === undefined) return short !== shortTypeOf(SECRET);
  return types.some((type) => type === member || type === short);
}

/** Whether `*` in the pattern can stand for texts that make it equal to `text`. */
function fitsPattern(text: string, pattern: string): boolean {
  const star = pattern.indexOf('*');
  if (star < 0) return text === pattern;
  const lastStar = pattern.lastIndexOf('*');
  const first = pattern.slice(0, star);
  const last = pattern.slice(lastStar + 1);
  if (text.length < first.length + last.length) return false;
  if (!text.startsWith(first) || !text.endsWith(last)) return false;
  const end = text.length - last.length;
  let at = first.length;
  for (const part of pattern.slice(star + 1, lastStar).split('*')) {
    const found = text.indexOf(part, at);
    if (found < 0 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}

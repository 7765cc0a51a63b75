/** How a session reads a name that its client asks for, in either protocol flavour. */
import { STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';
import { isListName, isListType } from '../../../protos/list-collection.js';
import {
  escapedDirectivesOf,
  isXdstp,
  nameOfLocator,
  oldStyleName,
  parseResourceLocator,
  type ResourceLocator,
  type ResourceName,
} from '../../../protos/resource-name.js';

export type AskedName =
  | { readonly ok: true; readonly name: ResourceName }
  /** Why this name alone is not served. */
  | { readonly ok: false; readonly status: RpcStatus };

/**
 * The scope of a client's old-style names, which is its node group; or why it has none. It is made
 * when the client asks for the first such name, and is the same for the rest of its stream.
 */
export type ClientScope =
  | { readonly kind: 'scope'; readonly scope: string }
  /** The map does not serve such names: each of them is refused. */
  | { readonly kind: 'not_served' }
  /** This client cannot be served: its stream ends, since a refused name would pass for a missing one. */
  | { readonly kind: 'refused'; readonly status: RpcStatus };

const nobodysScope = (): ClientScope => ({ kind: 'not_served' });

const NOT_SERVED: AskedName = {
  ok: false,
  status: {
    code: STATUS_CODE.unimplemented,
    message: 'only xdstp:// names and their globs are served',
  },
};

/**
 * TP2's locators (a name with dynamic parameters) go among the names as texts that no client can send
 * for a name: half a surrogate pair is not in any UTF-8. They are refused one by one.
 */
const LOCATOR_MARK = '\ud800';

export const locatorText = (name: string): string => LOCATOR_MARK + name;
export const isLocatorText = (text: string): boolean => text.startsWith(LOCATOR_MARK);

/** What the client calls what it asked for by this text. */
export const spokenName = (text: string): string => (isLocatorText(text) ? text.slice(1) : text);

const LOCATORS_NOT_SERVED: AskedName = {
  ok: false,
  status: {
    code: STATUS_CODE.unimplemented,
    message: 'resource locators with dynamic parameters (TP2) are not served, only names',
  },
};

/**
 * A list of resources of the type is a collection, as a glob is: its members are what is asked for.
 *
 * @param typeUrl of the request; empty where people ask
 * @param text as the client wrote it; `*` is the wildcard
 * @param scopeOf called for old-style names only; absent: whoever asks is no client
 */
export function readAskedName(
  typeUrl: string,
  text: string,
  scopeOf: () => ClientScope = nobodysScope,
): AskedName {
  if (!isXdstp(text)) return readOldStyle(text, scopeOf());
  const locator = parseResourceLocator(text);
  if (locator.ok) return nameFor(typeUrl, locator.value, text);
  const { message, at } = locator.error;
  return {
    ok: false,
    status: { code: STATUS_CODE.invalidArgument, message: `${message} (at ${at})` },
  };
}

/** Reads the names of one stream; the client's scope is asked for once. */
export class NameReader {
  readonly #scopeOf: () => ClientScope;
  #scope: ClientScope | undefined;

  constructor(scopeOf: () => ClientScope) {
    this.#scopeOf = scopeOf;
  }

  /** Absent as long as no old-style name was read. */
  get scope(): ClientScope | undefined {
    return this.#scope;
  }

  read(typeUrl: string, text: string): AskedName {
    if (isLocatorText(text)) return LOCATORS_NOT_SERVED;
    return readAskedName(typeUrl, text, () => (this.#scope ??= this.#scopeOf()));
  }
}

function readOldStyle(text: string, scope: ClientScope): AskedName {
  if (scope.kind === 'refused') return { ok: false, status: scope.status };
  if (scope.kind === 'not_served') return NOT_SERVED;
  if (text !== '') return { ok: true, name: oldStyleName(scope.scope, text) };
  return { ok: false, status: { code: STATUS_CODE.invalidArgument, message: 'the name is empty' } };
}

function nameFor(typeUrl: string, asked: ResourceLocator, text: string): AskedName {
  // Envoy knows no fragments, and escapes them into the name.
  const escaped = text.includes('%23') ? escapedDirectivesOf(asked.name) : undefined;
  const locator = escaped?.locator ?? asked;
  const { name, alternatives, entries } = locator;
  const isList = !name.isGlob && isListOf(typeUrl, name);
  if (entries.length > 0 && !isList) {
    const message = `only lists have entries, and ${name.key} is no list of this type`;
    return { ok: false, status: { code: STATUS_CODE.invalidArgument, message } };
  }
  // Alternatives of globs are the authority map's: a member has no name for where else it is.
  if (name.isGlob) return { ok: true, name };
  const hash = text.indexOf('#');
  const written = escaped?.rawText ?? name.key + (hash < 0 ? '' : text.slice(hash));
  const whole = alternatives.length + entries.length > 0 ? nameOfLocator(locator, written) : name;
  const isAll = entries.length === 0 && isListName(typeUrl, name);
  return { ok: true, name: isAll ? { ...whole, isGlob: true } : whole };
}

/** People name no type: it is that of the name. */
const isListOf = (typeUrl: string, name: ResourceName): boolean =>
  typeUrl === '' ? isListType(name.resourceType) : isListName(typeUrl, name);

/** Parses a requested name, for both protocol flavours. */
import { STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';
import { isListName, isListType } from '../../../protos/list-collection.js';
import {
  escapedDirectivesOf,
  isXdstp,
  locatorOfName,
  nameOfLocator,
  oldStyleName,
  parseResourceLocator,
  withParameters,
  type ParameterizedName,
  type ResourceLocator,
  type ResourceName,
} from '../../../protos/resource-name.js';
import { mayLackName } from '../../../protos/type-urls.js';

export type AskedName =
  | { readonly ok: true; readonly name: ResourceName }
  /** Refuses this name only; other names of the request are served. */
  | { readonly ok: false; readonly status: RpcStatus };

/**
 * The scope of a client's old-style names is its node group. It is determined when the client
 * requests its first old-style name, and stays the same until the stream ends.
 */
export type ClientScope =
  | { readonly kind: 'scope'; readonly scope: string }
  /** The authority map serves this client no old-style names: each of them is refused. */
  | { readonly kind: 'not_served'; readonly reason?: string }
  /**
   * The client cannot be served. Its stream ends, because it would take refused names for missing
   * resources.
   */
  | { readonly kind: 'refused'; readonly status: RpcStatus };

const noScope = (): ClientScope => ({ kind: 'not_served' });

const notServed = (message = 'only xdstp:// names and their globs are served'): AskedName => ({
  ok: false,
  status: { code: STATUS_CODE.unimplemented, message },
});

/**
 * Resource locators of TP2 are kept among the names: as the name alone without dynamic parameters, else as
 * `{mark}{parameters}\t{name}`. The mark is half a surrogate pair. No client can send that as a name, since UTF-8 cannot encode it.
 */
const LOCATOR_MARK = '\ud800';
const PARAMETERS_END = '\t';

export const locatorText = ({ name, parameters }: ParameterizedName): string =>
  parameters === '' ? name : `${LOCATOR_MARK}${parameters}${PARAMETERS_END}${name}`;
export const isLocatorText = (text: string): boolean => text.startsWith(LOCATOR_MARK);

/** The name as the client sent it, without its dynamic parameters. */
export const spokenName = (text: string): string =>
  isLocatorText(text) ? text.slice(text.indexOf(PARAMETERS_END) + 1) : text;

const parametersOf = (text: string): string => text.slice(1, text.indexOf(PARAMETERS_END));

const ONLY_NAMES: AskedName = {
  ok: false,
  status: {
    code: STATUS_CODE.unimplemented,
    message:
      'dynamic parameters (TP2) select a variant of one resource; collections, and names with directives, have none',
  },
};

/**
 * A list name stands for its members, as a glob does: the result then has `isGlob` set.
 *
 * @param typeUrl of the request; empty for queries of an operator, which name no type
 * @param text as the client wrote it; `*` is the wildcard
 * @param scopeOf called for old-style names only; absent for queries of an operator
 */
export function readAskedName(
  typeUrl: string,
  text: string,
  scopeOf: () => ClientScope = noScope,
): AskedName {
  if (!isXdstp(text)) return readOldStyle(typeUrl, text, scopeOf());
  const locator = parseResourceLocator(text);
  if (locator.ok) return nameFor(typeUrl, locator.value, text);
  const { message, at } = locator.error;
  return {
    ok: false,
    status: { code: STATUS_CODE.invalidArgument, message: `${message} (at ${at})` },
  };
}

/** Directives, or directives that a client escaped (ENVOY 10). */
export const mayHaveDirectives = (text: string): boolean =>
  text.includes('#') || text.includes('%');

/** Parses the names of one stream. Calls `scopeOf` at most once. */
export class NameReader {
  readonly #scopeOf: () => ClientScope;
  readonly #knownName: (typeUrl: string, key: string) => ResourceName | undefined;
  #scope: ClientScope | undefined;

  /** @param knownName the parsed name with this key, if another client subscribes to it */
  constructor(
    scopeOf: () => ClientScope,
    knownName: (typeUrl: string, key: string) => ResourceName | undefined,
  ) {
    this.#scopeOf = scopeOf;
    this.#knownName = knownName;
  }

  /** Undefined until the first old-style name is read. */
  get scope(): ClientScope | undefined {
    return this.#scope;
  }

  read(typeUrl: string, text: string): AskedName {
    if (isLocatorText(text)) return this.#readVariant(typeUrl, text);
    // Most names are spelled canonically, so the text is the key, and other clients ask for them too.
    // An old-style text is never the key: the key has the node group, and a client must not choose it.
    const known = isXdstp(text) ? this.#knownName(typeUrl, text) : undefined;
    if (known && !mayHaveDirectives(text)) return { ok: true, name: known };
    return readAskedName(typeUrl, text, () => (this.#scope ??= this.#scopeOf()));
  }

  #readVariant(typeUrl: string, text: string): AskedName {
    const asked = this.read(typeUrl, spokenName(text));
    if (!asked.ok) return asked;
    if (asked.name.isGlob || locatorOfName(asked.name)) return ONLY_NAMES;
    const name = withParameters(asked.name, parametersOf(text));
    return { ok: true, name: this.#knownName(typeUrl, name.key) ?? name };
  }
}

function readOldStyle(typeUrl: string, text: string, scope: ClientScope): AskedName {
  if (scope.kind === 'refused') return { ok: false, status: scope.status };
  if (scope.kind === 'not_served') return notServed(scope.reason);
  if (text !== '' || mayLackName(typeUrl))
    return { ok: true, name: oldStyleName(scope.scope, text) };
  return { ok: false, status: { code: STATUS_CODE.invalidArgument, message: 'the name is empty' } };
}

function nameFor(typeUrl: string, asked: ResourceLocator, text: string): AskedName {
  // Envoy does not understand fragments: it percent-escapes them into the id (ENVOY 10).
  const escaped = text.includes('%23') ? escapedDirectivesOf(asked.name) : undefined;
  const locator = escaped?.locator ?? asked;
  const { name, alternatives, entries } = locator;
  const isList = !name.isGlob && isListOf(typeUrl, name);
  if (entries.length > 0 && !isList) {
    const message = `only lists have entries; ${name.key} is not a list of this type`;
    return { ok: false, status: { code: STATUS_CODE.invalidArgument, message } };
  }
  // Drop alternatives of a glob: `#alt=` cannot give the alternative name of each member. Only the
  // authority map defines alternatives of globs.
  if (name.isGlob) return { ok: true, name };
  const hash = text.indexOf('#');
  const written = escaped?.rawText ?? name.key + (hash < 0 ? '' : text.slice(hash));
  const whole = alternatives.length + entries.length > 0 ? nameOfLocator(locator, written) : name;
  const isAll = entries.length === 0 && isListName(typeUrl, name);
  return { ok: true, name: isAll ? { ...whole, isGlob: true } : whole };
}

/** Operators name no type: take it from the name. */
const isListOf = (typeUrl: string, name: ResourceName): boolean =>
  typeUrl === '' ? isListType(name.resourceType) : isListName(typeUrl, name);

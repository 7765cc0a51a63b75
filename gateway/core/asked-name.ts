/** How a session reads a name that its client asks for, in either protocol flavour. */
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import { isListName } from '../../protos/list-collection.js';
import {
  escapedDirectivesOf,
  isXdstp,
  nameOfLocator,
  parseResourceLocator,
  type ResourceLocator,
  type ResourceName,
} from '../../protos/resource-name.js';

export type AskedName =
  | { readonly ok: true; readonly name: ResourceName }
  /** Why this name alone is not served. */
  | { readonly ok: false; readonly status: RpcStatus };

const NOT_SERVED: AskedName = {
  ok: false,
  status: {
    code: STATUS_CODE.unimplemented,
    message: 'only xdstp:// names and their globs are served',
  },
};

/**
 * A list of resources of the type is a collection, as a glob is: its members are what is asked for.
 *
 * @param typeUrl of the request
 * @param text as the client wrote it; `*` is the wildcard
 */
export function readAskedName(typeUrl: string, text: string): AskedName {
  if (!isXdstp(text)) return NOT_SERVED;
  const locator = parseResourceLocator(text);
  if (locator.ok) return { ok: true, name: nameFor(typeUrl, locator.value, text) };
  const { message, at } = locator.error;
  return {
    ok: false,
    status: { code: STATUS_CODE.invalidArgument, message: `${message} (at ${at})` },
  };
}

function nameFor(typeUrl: string, asked: ResourceLocator, text: string): ResourceName {
  // Envoy knows no fragments, and escapes them into the name.
  const escaped = text.includes('%23') ? escapedDirectivesOf(asked.name) : undefined;
  const locator = escaped?.locator ?? asked;
  const { name, alternatives, entries } = locator;
  // Alternatives of globs are the authority map's: a member has no name for where else it is.
  if (name.isGlob) return name;
  const hash = text.indexOf('#');
  const written = escaped?.rawText ?? name.key + (hash < 0 ? '' : text.slice(hash));
  const whole = alternatives.length + entries.length > 0 ? nameOfLocator(locator, written) : name;
  return entries.length === 0 && isListName(typeUrl, name) ? { ...whole, isGlob: true } : whole;
}

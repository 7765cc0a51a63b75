/**
 * Types as operators write them: a type URL, a message name (`envoy.config.cluster.v3.Cluster`), or the short
 * name of a type that Envoy and gRPC subscribe to (`Cluster`).
 */
import { messageOf, shortTypeOf, TYPE_URL, TYPE_URL_PREFIX } from '../protos/type-urls.js';
import { nearestWord } from './nearest.js';

/** Parts of responses; no client subscribes to them. */
const NO_RESOURCES: readonly string[] = [TYPE_URL.resource, TYPE_URL.resourceLocator];

/** By short name, the message names of the known types. */
const MESSAGES: ReadonlyMap<string, string> = new Map(
  Object.values(TYPE_URL)
    .filter((url) => !NO_RESOURCES.includes(url))
    .map((url) => [shortTypeOf(url), messageOf(url)]),
);

export type TypeRead =
  | { readonly ok: true; readonly typeUrl: string }
  | { readonly ok: false; readonly message: string; readonly remedy: string };

/** Any message name is accepted: a gateway serves types that it does not know. */
export function readType(text: string): TypeRead {
  if (text.includes('/')) return { ok: true, typeUrl: text };
  const message = text.includes('.') ? text : MESSAGES.get(text);
  if (message !== undefined) return { ok: true, typeUrl: TYPE_URL_PREFIX + message };
  const nearest = nearestWord(text, MESSAGES.keys());
  const remedy =
    nearest === undefined
      ? 'write its message name, such as envoy.config.cluster.v3.Cluster'
      : `did you mean ${JSON.stringify(nearest)}?`;
  return { ok: false, message: `unknown type ${JSON.stringify(text)}`, remedy };
}

/** A message of another project, with its package and version, such as Istio's or Quilkin's. Envoy's types do not resemble it by mistake. */
const OTHER_PROJECT = /^(?!envoy\.)\w+(\.\w+)*\.v\d\w*\./;

/**
 * The known type that an operator probably meant, in the form in which the operator wrote it.
 *
 * @param text a short name, a message name or a type URL
 * @returns undefined: the type is known, is of another project, or resembles no known type
 */
export function misspelledType(text: string): string | undefined {
  const message = messageOf(text);
  if (MESSAGES.has(message)) return undefined;
  const likely = likelyType(message);
  return likely === undefined || message.includes('.') ? likely : shortTypeOf(likely);
}

/**
 * The known type that an operator probably meant.
 *
 * @param type a type URL or a message name
 * @returns a message name; undefined: the type is known, is of another project, or its short name is like that of no known type
 */
export function likelyType(type: string): string | undefined {
  const message = messageOf(type);
  if (OTHER_PROJECT.test(message)) return undefined;
  const short = shortTypeOf(message);
  const nearest = MESSAGES.has(short) ? short : nearestWord(short, MESSAGES.keys());
  const likely = nearest === undefined ? undefined : MESSAGES.get(nearest);
  return likely === message ? undefined : likely;
}

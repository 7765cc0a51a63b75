/**
 * TP2 dynamic parameters: the pairs by which a client chooses among the variants of a resource, and the names of such variants.
 *
 * The parameters belong to the transport, not to the resource's name. So a name with parameters has the text of the plain name on
 * the wire, and a key of its own: `\t{parameters}\t{key of the plain name}`. No plain key begins with a tab.
 */
import { plainKeyOf, VARIANT_MARK } from './old-style-name.js';
import type { ResourceName } from './resource-urn.js';

/** The name of one subscription, with the canonical text of its parameters; empty: none. TP2's `ResourceLocator`. */
export interface ParameterizedName {
  readonly name: string;
  readonly parameters: string;
}

/**
 * The canonical text of parameters, `env=prod&version=v1`: equal for equal parameters, whatever their order. A key that occurs twice
 * has its last value, as in a protobuf map.
 */
export function formatParameters(pairs: Iterable<readonly [key: string, value: string]>): string {
  const inOrder = [...new Map(pairs)].sort(([a], [b]) => (a < b ? -1 : 1));
  return inOrder.map(([key, value]) => `${escaped(key)}=${escaped(value)}`).join('&');
}

/** What `encodeURIComponent` leaves as it is: nearly all keys and values. */
const PLAIN = /^[\w.~!*'()-]*$/;

/** A text that came as invalid UTF-8 has half a surrogate pair, for which `encodeURIComponent` would throw. */
const escaped = (text: string): string =>
  PLAIN.test(text) ? text : encodeURIComponent(Buffer.from(text).toString());

/** The inverse of {@link formatParameters}, of a text that it made. */
export function parametersIn(text: string): ReadonlyMap<string, string> {
  if (text === '') return NO_PARAMETERS;
  const pairs = text.split('&').map((pair): [string, string] => {
    const [key = '', value = ''] = pair.split('=');
    return [decodeURIComponent(key), decodeURIComponent(value)];
  });
  return new Map(pairs);
}

const NO_PARAMETERS: ReadonlyMap<string, string> = new Map();

/** @returns undefined: the text was not made by {@link formatParameters} */
export function readParameters(text: string): string | undefined {
  try {
    return formatParameters(parametersIn(text)) === text ? text : undefined;
  } catch {
    return undefined;
  }
}

/** The name with these parameters in place of its own; empty: without any. */
export function withParameters(name: ResourceName, parameters: string): ResourceName {
  if (parameters === (name.parameters ?? '')) return name;
  const { authority, resourceType, id, contextParams, isGlob } = name;
  const plain = { authority, resourceType, id, contextParams, isGlob, key: plainKeyOf(name.key) };
  if (parameters === '') return plain;
  return { ...plain, key: keyWithParameters(plain.key, parameters), parameters };
}

/** The key of the name with these parameters, by the key of the plain name. */
export const keyWithParameters = (plainKey: string, parameters = ''): string =>
  parameters === '' ? plainKey : `${VARIANT_MARK}${parameters}${VARIANT_MARK}${plainKey}`;

/**
 * Delta messages, written and read for a client of a node: on the wire old-style names lack their
 * node.
 */
import { encodeDeltaRequest } from '../../protos/delta-codec.js';
import type { DeltaRequest, DeltaResponse } from '../../protos/discovery.js';
import { authorityOf, isListed, nameOfWire, partsOf, wireName } from './names.js';
import { Violation } from './oracle.js';

export type RequestParts = Partial<DeltaRequest> & { readonly typeUrl: string };

/** @param node the encoded Node; undefined: the request has none */
export function encodeRequest(parts: RequestParts, node: Uint8Array | undefined): Uint8Array {
  const { subscribe = [], unsubscribe = [], initialVersions = [] } = parts;
  const versions = [...initialVersions].map(([name, one]) => [wireName(name), one] as const);
  return encodeDeltaRequest({
    responseNonce: '',
    errorDetail: undefined,
    ...parts,
    node,
    subscribe: subscribe.map(wireName),
    unsubscribe: unsubscribe.map(wireName),
    initialVersions: new Map(versions),
  });
}

/** Requests that no correct client sends; a server must tolerate them. */
export function oddParts(typeUrl: string, kind: number): RequestParts {
  if (kind === 0) return { typeUrl, responseNonce: 'never sent' };
  const stranger = `xdstp://stranger/${typeUrl.slice(typeUrl.indexOf('/') + 1)}/x`;
  if (kind === 1) return { typeUrl, unsubscribe: [stranger, 'no name'] };
  return { typeUrl, responseNonce: '0', errorDetail: { code: 13, message: 'odd' } };
}

/** The response with names that include their node. */
export function namedResponse(response: DeltaResponse, node: string | undefined): DeltaResponse {
  if (node === undefined) return response;
  const { typeUrl, resources, removed, errors } = response;
  return {
    ...response,
    resources: resources.map((one) => ({ ...one, name: nameOfWire(one.name, typeUrl, node) })),
    removed: removed.map((wire) => nameOfWire(wire, typeUrl, node)),
    errors: errors.map((one) => ({ ...one, name: nameOfWire(one.name, typeUrl, node) })),
  };
}

/** @throws Violation if a response is malformed, whatever was requested. */
export function checkEnvelope(
  { typeUrl, nonce, resources }: DeltaResponse,
  names: readonly string[],
): void {
  if (new Set(names).size < names.length)
    throw new Violation('5', `a name occurs twice in response ${nonce}`);
  if (new Set(names.filter((name) => !isListed(name)).map(authorityOf)).size > 1) {
    throw new Violation('16', `two authorities in one response: ${names.join(' ')}`);
  }
  for (const { name, typeUrl: inner, ttlMs } of resources) {
    if (ttlMs !== undefined) throw new Violation('20', `${name} has a TTL`);
    if (inner !== typeUrl || partsOf(name).typeUrl !== typeUrl) {
      throw new Violation('wire', `${name} of type ${inner} in a response of ${typeUrl}`);
    }
  }
}

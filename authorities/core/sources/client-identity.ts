/**
 * The identity of the clients of one node group, and the parts of it that a source gets: the Node, the
 * headers, the client certificate. Header values are secrets: they are in no key, log, dump or message.
 */
import type { GrpcSourceSpec, OldStyleSpec } from '../../../config/model.js';
import { noMap } from '../../../protos/empty-collections.js';
import { forwardedNode } from '../../../protos/forwarded-node.js';
import { readClientNode } from '../../../protos/node-codec.js';
import {
  metadataKeysOf,
  pickFields,
  type NodeField,
  type ScopeFields,
} from '../../../protos/node-scope.js';

/** The verified client certificate of a TLS connection. */
export interface ClientCertificate {
  /** SHA-256 of the certificate, in lower-case hexadecimal digits. */
  readonly sha256: string;
  /** RFC 2253, printable ASCII. */
  readonly subject: string;
  /** Subject alternative names, in the order of the certificate. */
  readonly uris: readonly string[];
  readonly dnsNames: readonly string[];
  /** URI names in the gateway's own certificate on this connection. No key contains them. */
  readonly by: readonly string[];
}

/** Values of headers by key. No serializer and no inspector shows them. */
export class SecretHeaders {
  readonly #values: ReadonlyMap<string, readonly string[]>;

  constructor(values: ReadonlyMap<string, readonly string[]> = noMap()) {
    this.#values = values;
  }

  /** The secrets themselves, for hashes and for the streams to sources. */
  reveal(): ReadonlyMap<string, readonly string[]> {
    return this.#values;
  }

  toJSON(): string {
    return '(hidden)';
  }
}

export interface ClientIdentity {
  /** The fields by which the groups of the map differ. */
  readonly fields: ScopeFields;
  /** The Node as received, if a source needs more of it than `fields`. */
  readonly node?: Uint8Array | undefined;
  readonly headers: SecretHeaders;
  readonly certificate?: ClientCertificate | undefined;
}

/** An identity of Node fields alone. */
export const identityOfFields = (fields: ScopeFields): ClientIdentity => ({
  fields,
  headers: new SecretHeaders(),
});

/** The additions of a node group to an attempt to connect, beside the settings of the source. */
export interface DialIdentity {
  /** Keys and values, in order. The values are secrets. */
  readonly headers: readonly (readonly [key: string, value: string])[];
  /**
   * The names of the client certificate to connect with, in order of preference. Empty: the group has no
   * certificate, and the attempt must fail. Undefined: the certificate in the map, if any.
   */
  readonly certificateNames?: readonly string[];
}

/** For streams that serve no particular group. */
export const NO_IDENTITY: DialIdentity = Object.freeze({ headers: [] });

/** @param identity undefined: the stream serves no particular group */
export function dialIdentityOf(
  { forwardHeaders = [], clientIdentity, tlsByIdentity }: GrpcSourceSpec,
  identity: ClientIdentity | undefined,
): DialIdentity {
  if (!identity) return NO_IDENTITY;
  const { headers, certificate } = identity;
  const given = headers.reveal();
  const forwarded = forwardHeaders.flatMap((key) =>
    (given.get(key) ?? []).map((value) => [key, value] as const),
  );
  const isNamed = clientIdentity === 'forward' && certificate !== undefined;
  return {
    headers: isNamed ? [...forwarded, [XFCC, forwardedCertificate(certificate)]] : forwarded,
    ...(tlsByIdentity === undefined ? {} : { certificateNames: certificateNamesOf(certificate) }),
  };
}

const certificateNamesOf = (certificate: ClientCertificate | undefined): readonly string[] =>
  certificate ? [...certificate.uris, ...certificate.dnsNames] : [];

/** Does the source send the groups of a map different responses for the same Node? */
export const tellsClientsApart = ({
  forwardHeaders = [],
  clientIdentity,
  tlsByIdentity,
}: GrpcSourceSpec): boolean =>
  forwardHeaders.length > 0 || clientIdentity !== undefined || tlsByIdentity !== undefined;

/**
 * The part of the group's Node that a source gets: all of it, or fields that replace those of the
 * gateway's Node.
 */
export function nodePartOf(
  spec: GrpcSourceSpec,
  { fields, node }: ClientIdentity,
  differBy: OldStyleSpec['differBy'],
): { readonly whole: Uint8Array } | { readonly fields: ScopeFields } {
  if (spec.node) return { fields: {} };
  const forward = spec.forwardNode ?? differBy;
  if (forward === 'all') return node ? { whole: forwardedNode(node) } : { fields };
  return { fields: pickFields(node ? readFields(node, forward) : fields, forward) };
}

const readFields = (node: Uint8Array, fields: readonly NodeField[]): ScopeFields =>
  readClientNode(node, metadataKeysOf(fields));

const XFCC = 'x-forwarded-client-cert';

/**
 * The value of `x-forwarded-client-cert` as Envoy writes it with `set_current_client_cert_details:
 * { subject: true, uri: true, dns: true }` (Envoy, "HTTP header manipulation"). `Subject` and `URI` are
 * there even if they are empty. RFC 2253 has escaped each `"` of the subject.
 */
function forwardedCertificate(certificate: ClientCertificate): string {
  const { sha256, subject } = certificate;
  const by = writable(certificate.by);
  const uris = writable(certificate.uris);
  const dnsNames = writable(certificate.dnsNames);
  return [
    ...by.map((uri) => `By=${uri}`),
    `Hash=${sha256}`,
    `Subject="${subject}"`,
    ...(uris.length > 0 ? uris : ['']).map((uri) => `URI=${uri}`),
    ...dnsNames.map((name) => `DNS=${name}`),
  ].join(';');
}

/**
 * A certificate may carry any name, and must not add an element of its own to the header. Parsers do not
 * agree on escapes, so a name with a quote or backslash, which no URI or DNS name has, is left out.
 */
const isPlain = (name: string): boolean => /^[\x21-\x7e]+$/.test(name) && !/["\\]/.test(name);

const writable = (names: readonly string[]): readonly string[] => names.filter(isPlain).map(quoted);

const quoted = (name: string): string => (/[,;=]/.test(name) ? `"${name}"` : name);

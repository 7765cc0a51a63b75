/** How the gateway names the client at the other end of a connection. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { ClientCertificate } from '../../authorities/index.js';
import type { PollPeer } from './polls.js';

/**
 * @param certificate of the connection (client-certificate.ts)
 * @param headerValues of the request, by lower-case key
 */
export function peerOf(
  socket: Socket,
  certificate: ClientCertificate | undefined,
  headerValues: (key: string) => readonly string[],
): PollPeer {
  return {
    peer: addressOf(socket),
    address: socket.remoteAddress ?? '',
    identity: connectionKeyOf(socket),
    quotaKey: quotaKeyOf(socket.remoteAddress, certificate),
    userAgent: headerValues('user-agent')[0] ?? '',
    headerValues,
    certificate,
  };
}

export const headerValuesIn =
  (headers: IncomingHttpHeaders) =>
  (key: string): readonly string[] =>
    [headers[key] ?? []].flat();

/** Address and port. */
export function addressOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress ?? 'unknown'}:${remotePort ?? 0}`;
}

/** IPv6 addresses of one network segment, which one host can take at will (RFC 4291, 2.5.4). Bits: 64. */
const SEGMENT_GROUPS = 4;

/**
 * The key of the account of a client's quotas: the first SPIFFE id or DNS name of its verified certificate,
 * else its address (of IPv6, the first 64 bits).
 */
export function quotaKeyOf(
  address: string | undefined,
  certificate: ClientCertificate | undefined,
): string {
  const { uris = [], dnsNames = [] } = certificate ?? {};
  const identity = uris.find((uri) => uri.startsWith('spiffe://')) ?? dnsNames[0];
  return identity ?? networkOf(address ?? 'unknown');
}

function networkOf(address: string): string {
  const ipv4 = /^::ffff:([\d.]+)$/i.exec(address)?.[1];
  if (ipv4 !== undefined || !address.includes(':')) return ipv4 ?? address;
  const [head = '', tail = ''] = address.replace(/%.*$/, '').split('::');
  const first = head === '' ? [] : head.split(':');
  const last = tail === '' ? [] : tail.split(':');
  const zeros = Array.from({ length: Math.max(0, 8 - first.length - last.length) }, () => '0');
  const groups = address.includes('::') ? [...first, ...zeros, ...last] : first;
  return `${groups.slice(0, SEGMENT_GROUPS).join(':')}::/64`;
}

/** The address without the port, and the certificate of the client if it has one. */
function connectionKeyOf(socket: Socket): string {
  const certificate = socket instanceof TLSSocket ? socket.getPeerCertificate() : undefined;
  // An empty object: the client has no certificate.
  const fingerprint = (certificate as { fingerprint256?: string } | undefined)?.fingerprint256;
  return `${socket.remoteAddress ?? 'unknown'} ${fingerprint ?? ''}`;
}

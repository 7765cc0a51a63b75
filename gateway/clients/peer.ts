/** How the gateway names the client at the other end of a connection. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { readClientCertificate } from './client-certificate.js';
import type { PollPeer } from './polls.js';

/** @param headerValues of the request, by lower-case key */
export function peerOf(socket: Socket, headerValues: (key: string) => readonly string[]): PollPeer {
  return {
    peer: addressOf(socket),
    identity: identityOf(socket),
    userAgent: headerValues('user-agent')[0] ?? '',
    headerValues,
    // Most maps do not ask for it, and reading it costs.
    get certificate() {
      return readClientCertificate(socket);
    },
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

/** The address without the port, and the certificate of the client if it has one. */
function identityOf(socket: Socket): string {
  const certificate = socket instanceof TLSSocket ? socket.getPeerCertificate() : undefined;
  // An empty object: the client has no certificate.
  const fingerprint = (certificate as { fingerprint256?: string } | undefined)?.fingerprint256;
  return `${socket.remoteAddress ?? 'unknown'} ${fingerprint ?? ''}`;
}

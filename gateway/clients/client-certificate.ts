/** Reads the verified client certificate of a TLS connection: its hash, its subject, its names. */
import type { X509Certificate } from 'node:crypto';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { ClientCertificate } from '../../authorities/index.js';

/** @returns undefined for a connection without TLS, or without a certificate that the client CA signed */
export function readClientCertificate(socket: Socket): ClientCertificate | undefined {
  if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined;
  const certificate = socket.getPeerX509Certificate();
  if (!certificate) return undefined;
  return {
    sha256: certificate.fingerprint256.replaceAll(':', '').toLowerCase(),
    subject: rfc2253(certificate.subject),
    uris: namesOf(certificate, 'URI'),
    dnsNames: namesOf(certificate, 'DNS'),
    by: namesOf(socket.getX509Certificate(), 'URI'),
  };
}

/** `DNS:a, URI:spiffe://b`. Node writes a name with special characters as a JSON string. */
const NAME = /(?:^|, )([A-Za-z ]+):("(?:[^"\\]|\\.)*"|[^,]*)/g;

/** @returns the subject alternative names of one kind, in the order of the certificate */
function namesOf(certificate: X509Certificate | undefined, kind: 'URI' | 'DNS'): readonly string[] {
  const written = certificate?.subjectAltName ?? '';
  return [...written.matchAll(NAME)].flatMap(([, found, text = '']) => {
    if (found !== kind || text === '') return [];
    return text.startsWith('"') ? [JSON.parse(text) as string] : [text];
  });
}

/**
 * Node writes one attribute per line, the most general first, with the escapes of RFC 2253 but plain
 * UTF-8; RFC 2253 starts with the most special one, and OpenSSL then escapes all other bytes too.
 */
function rfc2253(subject: string | undefined): string {
  const written = (subject ?? '').split('\n').reverse().join(',');
  return written.replace(/[^\x20-\x7e]+/g, (text) =>
    Buffer.from(text).toString('hex').toUpperCase().replace(/../g, '\\$&'),
  );
}

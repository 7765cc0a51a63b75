/**
 * Reads the files by which an attempt identifies itself to a source, and the source to the gateway: headers,
 * certificates, names in the server's certificate. Each attempt reads them anew.
 */
import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import type { ClientTlsSpec, GrpcSourceSpec, MetadataSpec } from '../config/model.js';
import { readNamedFile } from '../config/unreadable-file.js';
import type { DialIdentity } from './core/sources/client-identity.js';
import type { IdentityFiles } from './identity-files.js';
import { checkJwt } from './jwt-file.js';

export interface SourceHeaders {
  /** Key and value, in order. A key may occur several times. */
  readonly headers: readonly (readonly [string, string])[];
  /** The values that no log may show. */
  readonly secrets: readonly string[];
}

/**
 * The headers of the source's requests: those of the map, and those of the clients it is asked for.
 *
 * @throws if a file cannot be read, or has no valid token
 */
export function sourceHeaders(
  { initialMetadata }: GrpcSourceSpec,
  identity: DialIdentity,
): SourceHeaders {
  const own = initialMetadata.map((entry) => [entry.key, headerValue(entry)] as const);
  const fromFiles = initialMetadata.flatMap(({ valueFile }, index) =>
    valueFile === undefined ? [] : [own[index]?.[1] ?? ''],
  );
  const secrets = [...fromFiles, ...identity.headers.map(([, value]) => value)];
  return { headers: [...own, ...identity.headers], secrets };
}

function headerValue({ value, valueFile, prefix = '', isJwt }: MetadataSpec): string {
  if (valueFile === undefined) return value ?? '';
  const text = readNamedFile(valueFile).toString().trim();
  if (isJwt) checkJwt(text, valueFile);
  return prefix + text;
}

/** The error of a library repeats the value, which may be a secret: this one does not. */
export const invalidHeader = (key: string): Error =>
  new Error(`initial metadata "${key}" has a value that no header can carry`);

export interface TlsFiles {
  /** Null: the root certificates built into Node.js. */
  readonly roots: Buffer | null;
  readonly key: Buffer | null;
  readonly certificates: Buffer | null;
}

/**
 * @param files the certificate and key of a client, in place of those in the map
 * @throws if a file cannot be read
 */
export function readTlsFiles(tls: ClientTlsSpec, files: IdentityFiles | undefined): TlsFiles {
  const read = (path: string | undefined): Buffer | null =>
    path === undefined ? null : readNamedFile(path);
  return {
    roots: read(tls.rootCertsFile),
    key: read(files ? files.key : tls.privateKeyFile),
    certificates: read(files ? files.cert : tls.certChainFile),
  };
}

/** Called after the chain was verified; checks the name in the certificate. */
export function checkSans(
  required: readonly string[],
  host: string,
  certificate: PeerCertificate,
): Error | undefined {
  const sans = (certificate.subjectaltname ?? '').split(', ');
  const named = required.some((san) => sans.includes(`DNS:${san}`) || sans.includes(`URI:${san}`));
  if (named) return undefined;
  const byHost = checkServerIdentity(host, certificate);
  const detail = byHost ? `, and ${byHost.message}` : '';
  return new Error(
    `the certificate has none of the required names ${required.join(', ')}${detail}`,
  );
}

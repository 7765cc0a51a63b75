/**
 * The client certificates of `tls_by_identity`: a directory with `<name>.crt` and `<name>.key` (PEM) for
 * each client identity. `<name>` is the SPIFFE id or DNS name, URL-encoded, so it is one file name:
 * `spiffe%3A%2F%2Fmesh%2Fns%2Fweb%2Fsa%2Fapi.crt`.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { GrpcSourceSpec } from '../config/model.js';
import type { DialIdentity } from './core/sources/client-identity.js';

export interface IdentityFiles {
  /** Absolute paths. */
  readonly cert: string;
  readonly key: string;
}

/** Certificates carry few names; a longer list is not an identity. A count. */
const MAX_NAMES = 20;
/** Of most file systems. Characters. */
const MAX_FILE_NAME = 255;

/** The files that the identity may use, in order of preference, whether they exist or not. */
export function identityFilesOf(
  { tlsByIdentity }: GrpcSourceSpec,
  { certificateNames = [] }: DialIdentity,
): readonly IdentityFiles[] {
  if (tlsByIdentity === undefined) return [];
  return certificateNames
    .slice(0, MAX_NAMES)
    .map((name) => encodeURIComponent(name))
    .filter((name) => name.length + '.crt'.length <= MAX_FILE_NAME)
    .map((name) => ({
      cert: join(tlsByIdentity, `${name}.crt`),
      key: join(tlsByIdentity, `${name}.key`),
    }));
}

/**
 * The certificate to connect with: the first one that is there.
 *
 * @returns undefined: the source has no `tls_by_identity`, or the stream serves no particular group
 * @throws Error if there is none for the client. The certificate of the gateway must not stand in for it.
 */
export function identityFilesInUse(
  source: GrpcSourceSpec,
  identity: DialIdentity,
): IdentityFiles | undefined {
  const { certificateNames } = identity;
  if (source.tlsByIdentity === undefined || certificateNames === undefined) return undefined;
  if (certificateNames.length === 0) {
    throw new Error('the client has no certificate with a name, which tls_by_identity needs');
  }
  const found = identityFilesOf(source, identity).find(
    ({ cert, key }) => existsSync(cert) && existsSync(key),
  );
  if (found) return found;
  const name = certificateNames[0] ?? '';
  throw new Error(`tls_by_identity has no certificate and key for ${JSON.stringify(name)}`);
}

import { createHash } from 'node:crypto';

/** @returns a digest of a set of versions, independent of their order; 8 base64url characters. */
export function contentDigest(versions: readonly string[]): string {
  const hash = createHash('sha256');
  for (const version of [...versions].sort()) hash.update(version).update('\0');
  return hash.digest('base64url').slice(0, 8);
}

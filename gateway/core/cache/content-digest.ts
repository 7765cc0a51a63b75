import { createHash } from 'node:crypto';

/** A short digest of a set of versions, in any order; 8 characters. */
export function contentDigest(versions: readonly string[]): string {
  const hash = createHash('sha256');
  for (const version of [...versions].sort()) hash.update(version).update('\0');
  return hash.digest('base64url').slice(0, 8);
}

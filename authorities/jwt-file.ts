/**
 * Checks a file with a JSON Web Token before it is sent (gRFC A97): a source answers an expired token
 * with UNAUTHENTICATED and no reason, and a clear error saves the operator the search.
 */

/**
 * @param token the content of the file, without white space around it
 * @param path for the error
 * @throws Error if it is not a JSON Web Token (RFC 7519), or has expired. The error does not repeat it.
 */
export function checkJwt(token: string, path: string): void {
  const [, payload, signature, ...more] = token.split('.');
  if (payload === undefined || signature === undefined || more.length > 0) {
    throw new Error(`${path} does not contain a JSON Web Token`);
  }
  const expiresMs = expiryOf(payload);
  if (expiresMs === null) throw new Error(`${path} does not contain a JSON Web Token`);
  if (expiresMs <= Date.now()) {
    throw new Error(`the token in ${path} expired at ${new Date(expiresMs).toISOString()}`);
  }
}

/** @returns milliseconds since 1970; Infinity: no expiry; null: the payload cannot be read */
function expiryOf(payload: string): number | null {
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString());
    if (typeof claims !== 'object' || claims === null) return null;
    const expires = (claims as { readonly exp?: unknown }).exp;
    if (expires === undefined) return Infinity;
    const isDate = typeof expires === 'number' && Math.abs(expires) < 8.64e12;
    return isDate ? expires * 1_000 : null;
  } catch {
    return null;
  }
}

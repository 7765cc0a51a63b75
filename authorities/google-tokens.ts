/** Tokens of Google's application default credentials: the only file that uses google-auth-library. */
import type { GoogleAuth } from 'google-auth-library';
import { STATUS_CODE } from '../protos/discovery.js';

const SCOPES = 'https://www.googleapis.com/auth/cloud-platform';

let credentials: GoogleAuth | undefined;

/** Its `code` is the gRPC status of the attempt. */
class NoToken extends Error {
  readonly code = STATUS_CODE.unavailable;
}

/**
 * The headers of one call. The library caches the token and renews it before it ends.
 *
 * @returns pairs of key and value, which are secrets
 * @throws Error that does not repeat them
 */
export async function googleHeaders(): Promise<readonly (readonly [string, string])[]> {
  try {
    credentials ??= await load();
    return [...(await credentials.getRequestHeaders())];
  } catch (error) {
    // The library keeps credentials that it has read once, and the operator may mend the file.
    credentials = undefined;
    const reason = error instanceof Error ? error.message : String(error);
    throw new NoToken(`there is no Google token: ${reason}`, { cause: error });
  }
}

/** Loads the library only when a source needs it: most gateways never do. */
async function load(): Promise<GoogleAuth> {
  const library = await import('google-auth-library');
  return new library.GoogleAuth({ scopes: SCOPES });
}

/** What the files of the listeners' secrets must contain: the token of the admin server, and the keys for the tokens of clients. */

export type Read<T> =
  | { readonly ok: true; readonly value: T }
  /** The words follow the name of the file, and quote nothing of its content. */
  | { readonly ok: false; readonly words: string; readonly remedy: string };

/** @param text of the file of `admin.token_file` */
export function adminTokenIn(text: string): Read<string> {
  const value = text.trim();
  if (/^\S+$/.test(value)) return { ok: true, value };
  return {
    ok: false,
    words: 'must have one token without white space',
    remedy: 'write one, such as the output of openssl rand -hex 32',
  };
}

/** A public key of a JSON Web Key Set (RFC 7517). */
export interface PublicKey {
  readonly kty: 'RSA' | 'EC' | 'OKP';
}

/**
 * @param text of the file of `client.jwt.jwks`
 * @returns the keys that can verify a signature
 */
export function publicKeysIn(text: string): Read<readonly PublicKey[]> {
  const remedy = 'write a JSON Web Key Set: { "keys": [{ "kty": … }] }';
  const wrong = (words: string): Read<never> => ({ ok: false, words, remedy });
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    // The message of the parser quotes the file.
    return wrong('is not JSON');
  }
  const { keys } = (parsed ?? {}) as { readonly keys?: unknown };
  if (!Array.isArray(keys) || keys.length === 0) return wrong('has no keys');
  const value = keys.filter(isPublic);
  return value.length > 0 ? { ok: true, value } : wrong('has no RSA, EC or OKP key');
}

const isPublic = (key: unknown): key is PublicKey =>
  ['RSA', 'EC', 'OKP'].includes(String((key as { readonly kty?: unknown } | null)?.kty));

/** Removes secrets that the gateway sent from a text that it received. */

/** Shorter values occur in texts by chance, and protect nothing. Characters. */
const MIN_SECRET_LENGTH = 6;

/**
 * @param text such as the error of a source, which may repeat a refused token
 * @param values of headers; also the part after the scheme of `Bearer <token>` is replaced
 */
export function withoutSecrets(text: string, values: readonly string[]): string {
  const secrets = values
    .flatMap((value) => [value, ...value.split(/\s+/)])
    .filter(({ length }) => length >= MIN_SECRET_LENGTH)
    // The longest first: one may be a part of another.
    .sort((a, b) => b.length - a.length);
  return secrets.reduce((left, secret) => left.replaceAll(secret, '(hidden)'), text);
}

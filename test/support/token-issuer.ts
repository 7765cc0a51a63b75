/** Issues tokens for clients, and publishes its keys as a JWKS file. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK } from 'jose';
import type { Test } from 'tap';

export const ISSUER = 'https://issuer.test';
export const AUDIENCE = 'tributary';

export interface TokenOptions {
  /** Seconds; negative: it has expired. Default 600. */
  readonly expiresInS?: number;
  readonly issuer?: string;
  readonly audience?: string;
  readonly notBeforeS?: number;
  /** Index of the key that signs. Default 0. */
  readonly key?: number;
  /** Default: the id of the key. `undefined`: none. */
  readonly kid?: string | undefined;
  readonly hasEnd?: boolean;
}

interface KeyPair {
  readonly privateKey: CryptoKey;
  readonly jwk: JWK;
}

export class TokenIssuer {
  readonly file: string;
  readonly #keys: readonly KeyPair[];

  private constructor(file: string, keys: readonly KeyPair[]) {
    this.file = file;
    this.#keys = keys;
  }

  /** @param count of keys, all of ES256 */
  static async create(t: Test, count = 2): Promise<TokenIssuer> {
    const directory = mkdtempSync(join(tmpdir(), 'tributary-tokens-'));
    t.teardown(() => {
      rmSync(directory, { recursive: true, force: true });
    });
    const keys = await Promise.all(
      Array.from({ length: count }, async (_, index) => {
        const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
        const jwk = { ...(await exportJWK(publicKey)), kid: `key-${index}`, alg: 'ES256' };
        return { privateKey, jwk };
      }),
    );
    const issuer = new TokenIssuer(join(directory, 'jwks.json'), keys);
    issuer.publish(0);
    return issuer;
  }

  /** Writes the file with these keys. */
  publish(...keys: readonly number[]): void {
    this.write(JSON.stringify({ keys: keys.map((index) => this.#keys[index]?.jwk) }));
  }

  write(text: string): void {
    writeFileSync(this.file, text);
  }

  async issue(
    claims: Readonly<Record<string, unknown>>,
    options: TokenOptions = {},
  ): Promise<string> {
    const { expiresInS = 600, issuer = ISSUER, audience = AUDIENCE, key = 0 } = options;
    const nowS = Math.floor(Date.now() / 1_000);
    const kid = 'kid' in options ? options.kid : `key-${key}`;
    const signer = this.#keys[key];
    if (!signer) throw new Error(`no key ${key}`);
    const token = new SignJWT({ ...claims })
      .setProtectedHeader({ alg: 'ES256', ...(kid === undefined ? {} : { kid }) })
      .setIssuer(issuer)
      .setAudience(audience);
    if (options.hasEnd !== false) token.setExpirationTime(nowS + expiresInS);
    if (options.notBeforeS !== undefined) token.setNotBefore(nowS + options.notBeforeS);
    return token.sign(signer.privateKey);
  }
}

/**
 * Verifies the tokens of clients (JWT, RFC 7519) with the keys of a JWKS file (RFC 7517). The gateway
 * reads the file again when it changes; while it is broken, the keys before stay in use. The JOSE library is loaded only
 * if tokens are read.
 *
 * No message of this file contains a token or a part of one.
 */
import type * as Jose from 'jose';
import type { JSONWebKeySet, JWTPayload, JWTVerifyGetKey, JWTVerifyOptions } from 'jose';
import { publicKeysIn } from '../../config/listener-secrets.js';
import type { JwtSpec } from '../../config/settings.js';
import { readNamedFile } from '../../config/unreadable-file.js';
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import type { JwtClaims } from '../core/rights/requester.js';
import { Reread } from '../reread.js';

export type VerifiedToken =
  | {
      readonly ok: true;
      readonly claims: JwtClaims;
      /** How long the token is still valid, clock skew included. Milliseconds. */
      readonly validForMs: number;
    }
  | { readonly ok: false; readonly status: RpcStatus };

export type KeysEvent =
  { readonly kind: 'reloaded' } | { readonly kind: 'refused'; readonly reason: string };

export interface ClientTokensOptions extends JwtSpec {
  readonly onKeys: (event: KeysEvent) => void;
}

const INTERVAL_MS = 5_000;

/** Signatures by a private key. With a shared secret (HS256), the file of public keys could sign. */
const ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
];

const BEARER = /^Bearer +(\S+) *$/i;

type Library = typeof Jose;

export class ClientTokens {
  readonly #options: ClientTokensOptions;
  readonly #reread: Reread;
  #library: Library | undefined;
  #text = '';
  #keys: JWTVerifyGetKey | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ClientTokensOptions) {
    this.#options = options;
    this.#reread = new Reread((reason) => {
      options.onKeys({ kind: 'refused', reason });
    });
  }

  /** Reads the keys, and watches the file. Rejects with an Error if the file cannot be used. */
  async start(): Promise<void> {
    this.#library = await import('jose');
    this.#read(this.#library);
    this.#timer = setInterval(() => {
      this.refresh();
    }, INTERVAL_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Reads the file now. Does not throw. */
  refresh(): void {
    const library = this.#library;
    if (!library) return;
    this.#reread.attempt(() => {
      if (this.#read(library)) this.#options.onKeys({ kind: 'reloaded' });
    });
  }

  /** @returns whether the keys changed. @throws Error if the file is not a JWKS, or has no usable key */
  #read({ createLocalJWKSet }: Library): boolean {
    const { jwksFile } = this.#options;
    const text = readNamedFile(jwksFile).toString();
    if (text === this.#text) return false;
    this.#keys = createLocalJWKSet(keysIn(text, jwksFile));
    this.#text = text;
    return true;
  }

  /** @param authorization the value of the header. Does not reject. */
  async verify(authorization: string): Promise<VerifiedToken> {
    const token = BEARER.exec(authorization)?.[1];
    if (token === undefined) return refused('the authorization is not a bearer token');
    const library = this.#library;
    if (!library || !this.#keys) return refused('the gateway has no keys yet');
    try {
      const claims = await this.#claimsOf(token, this.#keys, library);
      const leftMs = (claims.exp ?? 0) * 1_000 - Date.now();
      return { ok: true, claims, validForMs: leftMs + this.#options.clockSkewMs };
    } catch (error) {
      return refused(reasonOf(error, library));
    }
  }

  async #claimsOf(
    token: string,
    keys: JWTVerifyGetKey,
    { jwtVerify, errors }: Library,
  ): Promise<JWTPayload> {
    const { issuer, audience, clockSkewMs } = this.#options;
    const options: JWTVerifyOptions = {
      issuer,
      audience,
      algorithms: ALGORITHMS,
      clockTolerance: clockSkewMs / 1_000,
      // Without an end, a stolen token would be valid for ever.
      requiredClaims: ['exp'],
    };
    try {
      return (await jwtVerify(token, keys, options)).payload;
    } catch (error) {
      if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
      // The token names no key: one of several has to verify it.
      for await (const key of error) {
        const payload = await jwtVerify(token, key, options).then(
          (verified) => verified.payload,
          (failure: unknown) => {
            if (failure instanceof errors.JWSSignatureVerificationFailed) return undefined;
            throw failure;
          },
        );
        if (payload) return payload;
      }
      throw new errors.JWSSignatureVerificationFailed();
    }
  }
}

function keysIn(text: string, file: string): JSONWebKeySet {
  const read = publicKeysIn(text);
  if (!read.ok) throw new Error(`client.jwt.jwks ${file} ${read.words} (${read.remedy})`);
  return { keys: [...read.value] };
}

const refused = (message: string): VerifiedToken => ({
  ok: false,
  status: { code: STATUS_CODE.unauthenticated, message },
});

/** In words of this gateway: messages of the library might quote the token. */
function reasonOf(error: unknown, { errors }: Library): string {
  if (error instanceof errors.JWTExpired) return 'the token has expired';
  if (error instanceof errors.JWTClaimValidationFailed) {
    const { claim } = error;
    if (claim === 'nbf') return 'the token is not valid yet';
    return `the claim ${claim} of the token is not the expected one`;
  }
  if (error instanceof errors.JWKSNoMatchingKey) return 'no key of the gateway fits the token';
  if (error instanceof errors.JWSSignatureVerificationFailed) {
    return 'the signature of the token is not valid';
  }
  if (error instanceof errors.JOSEAlgNotAllowed)
    return 'the token is signed with a refused algorithm';
  return 'the token cannot be read';
}

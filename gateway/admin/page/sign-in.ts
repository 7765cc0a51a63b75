/**
 * Browsers cannot send the admin token by themselves. A form takes it once, and the browser gets a cookie
 * instead that may only read: it is not the token, it ends with the process, after 12 hours, or when the
 * token changes, and no order accepts it.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Reply } from '../reply.js';
import { html } from './html.js';
import { htmlReply } from './page.js';

export const SIGN_IN_PATH = '/sign-in';
const COOKIE = 'tributary_page';
const VALID_S = 12 * 60 * 60;

/** The digest of the token that is valid now. */
export type TokenDigest = () => Buffer;

export class Sessions {
  readonly #key = randomBytes(32);
  readonly #tokenDigest: TokenDigest;
  readonly #isSecure: boolean;

  /** @param isSecure the admin server has TLS: the browser must not send the cookie without it */
  constructor(tokenDigest: TokenDigest, isSecure: boolean) {
    this.#tokenDigest = tokenDigest;
    this.#isSecure = isSecure;
  }

  /** @param nowS seconds since 1970. @returns the header `set-cookie` */
  cookie(nowS: number): string {
    const endsAtS = nowS + VALID_S;
    const flags = `Path=/; Max-Age=${VALID_S}; HttpOnly; SameSite=Strict${this.#isSecure ? '; Secure' : ''}`;
    return `${COOKIE}=${endsAtS}.${this.#seal(endsAtS)}; ${flags}`;
  }

  /** @param nowS seconds since 1970 */
  allows({ cookie }: IncomingHttpHeaders, nowS: number): boolean {
    const found = new RegExp(`(?:^|; *)${COOKIE}=(\\d{1,12})\\.([\\w-]{43})(?:;|$)`).exec(
      cookie ?? '',
    );
    const [, endsAt = '', seal = ''] = found ?? [];
    if (found === null || Number(endsAt) <= nowS) return false;
    return timingSafeEqual(Buffer.from(seal), Buffer.from(this.#seal(Number(endsAt))));
  }

  #seal(endsAtS: number): string {
    const hmac = createHmac('sha256', this.#key);
    return hmac.update(this.#tokenDigest()).update(String(endsAtS)).digest('base64url');
  }
}

/** The form, as an answer to a browser without a valid cookie or token. */
export function signInPage(problem?: string): Reply {
  const form = htmlReply(
    401,
    html`<main>
      <h1>Tributary</h1>
      ${problem === undefined ? undefined : html`<p role="alert"><b class="bad">${problem}</b></p>`}
      <form method="post" action="${SIGN_IN_PATH}">
        <label
          >Admin token (the content of admin.token_file)
          <input type="password" name="token" autocomplete="current-password" required size="40"
        /></label>
        <button>Sign in</button>
      </form>
    </main>`,
  );
  // A 401 names the scheme (RFC 9110, 15.5.2); browsers ignore this one.
  return { ...form, headers: { ...form.headers, 'www-authenticate': 'Bearer' } };
}

/** @param cookie as `Sessions.cookie` made it */
export function signedIn(cookie: string): Reply {
  const headers = { location: '/', 'set-cookie': cookie };
  return { status: 303, contentType: 'text/plain', body: '', headers };
}

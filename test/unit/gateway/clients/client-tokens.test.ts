/**
 * Goal: only a token that the issuer signed for this gateway, and that is valid now, is an identity;
 * no message quotes it; broken keys never replace working ones.
 * Method: tokens and key files of a test issuer.
 */
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import t, { type Test } from 'tap';
import { ClientAuthentication } from '../../../../gateway/clients/client-authentication.js';
import { ClientTokens, type KeysEvent } from '../../../../gateway/clients/client-tokens.js';
import { STATUS_CODE } from '../../../../protos/discovery.js';
import { AUDIENCE, ISSUER, TokenIssuer, type TokenOptions } from '../../../support/token-issuer.js';

async function setUp(t: Test) {
  const issuer = await TokenIssuer.create(t);
  const events: KeysEvent[] = [];
  const tokens = new ClientTokens({
    jwksFile: issuer.file,
    issuer: ISSUER,
    audience: AUDIENCE,
    clockSkewMs: 30_000,
    onKeys: (event) => events.push(event),
  });
  t.teardown(() => {
    tokens.close();
  });
  const verify = async (options: TokenOptions = {}) =>
    tokens.verify(`Bearer ${await issuer.issue({ sub: 'edge' }, options)}`);
  return { issuer, events, tokens, verify };
}

t.test('a valid token gives its claims and its remaining time (RFC 7519)', async (t) => {
  const { tokens, verify } = await setUp(t);
  t.match(await verify(), { ok: false, status: { message: 'the gateway has no keys yet' } });
  await tokens.start();
  const verified = await verify({ expiresInS: 100 });
  t.match(verified, { ok: true, claims: { sub: 'edge', iss: ISSUER } });
  const leftMs = verified.ok ? verified.validForMs : 0;
  t.ok(leftMs > 125_000 && leftMs <= 131_000, 'with the clock skew');
  t.match(await verify({ kid: undefined }), { ok: true }, 'the token names no key');
});

const REFUSED: readonly (readonly [TokenOptions, message: string])[] = [
  [{ expiresInS: -31 }, 'the token has expired'],
  [{ notBeforeS: 60 }, 'the token is not valid yet'],
  [{ issuer: 'https://other' }, 'the claim iss of the token is not the expected one'],
  [{ audience: 'other' }, 'the claim aud of the token is not the expected one'],
  [{ hasEnd: false }, 'the claim exp of the token is not the expected one'],
  [{ key: 1 }, 'no key of the gateway fits the token'],
  [{ key: 1, kid: 'key-0' }, 'the signature of the token is not valid'],
];

t.test('a token is refused with UNAUTHENTICATED and a reason, in plain words', async (t) => {
  const { tokens, verify } = await setUp(t);
  await tokens.start();
  for (const [options, message] of REFUSED) {
    const status = { code: STATUS_CODE.unauthenticated, message };
    t.strictSame(await verify(options), { ok: false, status }, message);
  }
  t.match(await verify({ expiresInS: -10 }), { ok: true }, 'within the clock skew');
});

t.test('a text that is not a token is refused, and never quoted', async (t) => {
  const { issuer, tokens } = await setUp(t);
  await tokens.start();
  const good = await issuer.issue({ sub: 'edge' });
  const [header = '', payload = '', signature = ''] = good.split('.');
  const none = Buffer.from('{"alg":"none"}').toString('base64url');
  const hmac = Buffer.from('{"alg":"HS256"}').toString('base64url');
  const rows: readonly (readonly [string, string])[] = [
    ['Basic c2VjcmV0', 'the authorization is not a bearer token'],
    ['Bearer', 'the authorization is not a bearer token'],
    ['Bearer secret', 'the token cannot be read'],
    [`Bearer ${header}.secret.${signature}`, 'the signature of the token is not valid'],
    [`Bearer ${none}.${payload}.`, 'the token is signed with a refused algorithm'],
    [`Bearer ${hmac}.${payload}.${signature}`, 'the token is signed with a refused algorithm'],
  ];
  for (const [authorization, message] of rows) {
    const status = { code: STATUS_CODE.unauthenticated, message };
    t.strictSame(await tokens.verify(authorization), { ok: false, status }, authorization);
  }
});

t.test('of several keys, one has to verify a token that names none', async (t) => {
  const { issuer, tokens, verify } = await setUp(t);
  issuer.publish(0, 1);
  await tokens.start();
  t.match(await verify({ kid: undefined, key: 1 }), { ok: true });
  t.match(await verify({ kid: undefined, key: 1, expiresInS: -60 }), {
    status: { message: 'the token has expired' },
  });
  const other = await TokenIssuer.create(t);
  const stranger = await other.issue({}, { kid: undefined });
  t.match(await tokens.verify(`bearer ${stranger}`), {
    status: { message: 'the signature of the token is not valid' },
  });
});

t.test(
  'new keys count once the file has them; a broken file keeps the old ones, said once',
  async (t) => {
    const { issuer, events, tokens, verify } = await setUp(t);
    await tokens.start();
    tokens.refresh();
    t.strictSame(events, []);
    issuer.publish(1);
    tokens.refresh();
    t.strictSame(events, [{ kind: 'reloaded' }]);
    t.match([await verify({ key: 0 }), await verify({ key: 1 })], [{ ok: false }, { ok: true }]);
    for (const [text, problem] of [
      ['{"keys": [secret', 'is not JSON'],
      ['{}', 'has no keys'],
      ['null', 'has no keys'],
      ['{"keys":[]}', 'has no keys'],
      ['{"keys":[null,{"kty":"oct","k":"c2VjcmV0"}]}', 'has no RSA, EC or OKP key'],
    ] as const) {
      issuer.write(text);
      tokens.refresh();
      const reason = `client.jwt.jwks ${issuer.file} ${problem} (write a JSON Web Key Set: { "keys": [{ "kty": … }] })`;
      t.strictSame(events.at(-1), { kind: 'refused', reason });
      t.match(await verify({ key: 1 }), { ok: true });
    }
    const count = events.length;
    tokens.refresh();
    t.equal(events.length, count);
    issuer.publish(1);
    tokens.refresh();
    t.equal(events.length, count, 'the keys in use came back');
  },
);

t.test('a gateway does not start with keys that cannot be used', async (t) => {
  const { issuer, tokens } = await setUp(t);
  issuer.write('no keys');
  await t.rejects(tokens.start(), { message: `client.jwt.jwks ${issuer.file} is not JSON` });
});

t.test('the gateway does not wait for the writer of a pipe in place of the keys', async (t) => {
  const { issuer, tokens } = await setUp(t);
  rmSync(issuer.file);
  execFileSync('mkfifo', [issuer.file]);
  await t.rejects(tokens.start(), { code: 'unreadable_file', message: /is a pipe/ });
});

t.test('more than one authorization header is refused', async (t) => {
  const { tokens } = await setUp(t);
  const identified = await new ClientAuthentication(tokens).identify({
    address: '',
    certificate: undefined,
    headerValues: () => ['Bearer a', 'Bearer b'],
  });
  t.match(identified, {
    ok: false,
    status: { message: 'there is more than one authorization header' },
  });
});

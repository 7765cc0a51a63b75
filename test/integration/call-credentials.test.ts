/**
 * Goal: `call_credentials` send the tokens that they name, fresh at each connection, and a missing or
 * expired one fails the attempt with a reason.
 * Method: the real transport against a server on loopback; for Google, a metadata server on loopback and
 * TLS, which grpc-js demands.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as grpc from '@grpc/grpc-js';
import t, { type Test } from 'tap';
import { NO_IDENTITY } from '../../authorities/core/sources/client-identity.js';
import type { StreamEnd } from '../../authorities/core/sources/source-health.js';
import { grpcTransport } from '../../authorities/grpc-transport.js';
import { DEFAULT_PROTOCOL, DEFAULT_TIMERS } from '../../config/defaults.js';
import type { GrpcSourceSpec } from '../../config/model.js';
import { createCertificateAuthority, opensslMissing } from '../support/certificates.js';
import { IdentityUpstream } from '../support/identity-upstream.js';
import { until } from '../support/until.js';

const sourceAt = (port: number, more: Partial<GrpcSourceSpec>): GrpcSourceSpec => ({
  ...DEFAULT_PROTOCOL,
  kind: 'grpc',
  name: 's',
  target: `127.0.0.1:${port}`,
  tls: null,
  initialMetadata: [],
  channelArgs: {},
  maxReceiveBytes: 1_000_000,
  timers: DEFAULT_TIMERS,
  ...more,
});

/** @returns how the attempt ended, as soon as it has */
function dial(t: Test, source: GrpcSourceSpec): { readonly end: StreamEnd | undefined } {
  const ended: StreamEnd[] = [];
  const attempt = grpcTransport.dial(source, NO_IDENTITY, {
    onMessage: () => undefined,
    onTypeUnserved: () => undefined,
    onBlocked: () => undefined,
    onWritable: () => undefined,
    onAlive: () => undefined,
    onEnd: (end) => ended.push(end),
  });
  t.teardown(() => {
    attempt.cancel();
  });
  return {
    get end() {
      return ended[0];
    },
  };
}

async function startUpstream(
  t: Test,
  credentials?: grpc.ServerCredentials,
): Promise<IdentityUpstream> {
  const upstream = await IdentityUpstream.start({
    ownerOf: (stream) => stream.header('authorization')[0] ?? 'nobody',
    ...(credentials ? { credentials } : {}),
  });
  t.teardown(() => {
    upstream.stop();
  });
  return upstream;
}

function startFile(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'tributary-tokens-'));
  t.teardown(() => {
    rmSync(directory, { recursive: true, force: true });
  });
  return join(directory, 'token');
}

const jwt = (claims: unknown): string =>
  ['{}', JSON.stringify(claims), 'x']
    .map((part) => Buffer.from(part).toString('base64url'))
    .join('.');

t.test('a token file is read at each connection and sent as a bearer token', async (t) => {
  const upstream = await startUpstream(t);
  const file = startFile(t);
  const spec = sourceAt(upstream.port, {
    initialMetadata: [{ key: 'authorization', valueFile: file, prefix: 'Bearer ' }],
  });
  for (const token of ['first-token', 'second-token']) {
    writeFileSync(file, `${token}\n`);
    dial(t, spec);
    await until('the source has it', () =>
      upstream.streams.some(({ owner }) => owner === `Bearer ${token}`),
    );
  }
});

t.test(
  'an expired or malformed JSON Web Token is not sent, and the reason hides it (gRFC A97)',
  async (t) => {
    const upstream = await startUpstream(t);
    const file = startFile(t);
    const spec = sourceAt(upstream.port, {
      initialMetadata: [{ key: 'authorization', valueFile: file, prefix: 'Bearer ', isJwt: true }],
    });
    const now = Math.floor(Date.now() / 1_000);
    for (const [token, reason] of [
      [jwt({ exp: now - 1 }), /the token in .*token expired at \d{4}-/],
      [jwt({ exp: 'soon' }), /token does not contain a JSON Web Token/],
      ['a.b', /token does not contain a JSON Web Token/],
      ['a.b.c', /token does not contain a JSON Web Token/],
      [jwt(null), /token does not contain a JSON Web Token/],
    ] as const) {
      writeFileSync(file, token);
      const attempt = dial(t, spec);
      const end = await until('it fails', () => attempt.end);
      t.match(end, { code: 14, message: reason });
      t.notOk(end.message.includes(token));
    }
    t.strictSame(upstream.streams, []);
    for (const token of [jwt({ exp: now + 3_600 }), jwt({ sub: 'no expiry' })]) {
      writeFileSync(file, token);
      dial(t, spec);
      await until('the source has it', () =>
        upstream.streams.some(({ owner }) => owner === `Bearer ${token}`),
      );
    }
  },
);

t.test(
  '`google_default` sends a token of the metadata server, and its refusal fails the attempt',
  { skip: await opensslMissing() },
  async (t) => {
    let answers = false;
    const metadata = createServer((request, response) => {
      response.setHeader('metadata-flavor', 'Google');
      if (request.url?.includes('/token') !== true) {
        response.end('x');
        return;
      }
      if (!answers) response.statusCode = 403;
      response.setHeader('content-type', 'application/json');
      response.end(
        JSON.stringify({ access_token: 'a-google-token', expires_in: 3_600, token_type: 'Bearer' }),
      );
    });
    await new Promise<void>((resolve) => {
      metadata.listen(0, '127.0.0.1', resolve);
    });
    const { port } = metadata.address() as AddressInfo;
    // No credentials of this machine, and no request beyond loopback.
    const env = {
      GCE_METADATA_HOST: `127.0.0.1:${port}`,
      METADATA_SERVER_DETECTION: 'assume-present',
      CLOUDSDK_CONFIG: join(startFile(t), 'none'),
      HOME: startFile(t),
    };
    const before = Object.fromEntries(Object.keys(env).map((key) => [key, process.env[key]]));
    Object.assign(process.env, env);
    delete process.env['GOOGLE_APPLICATION_CREDENTIALS'];
    t.teardown(() => {
      metadata.close();
      for (const [key, value] of Object.entries(before)) {
        if (value === undefined) Reflect.deleteProperty(process.env, key);
        else process.env[key] = value;
      }
    });
    const ca = await createCertificateAuthority();
    t.teardown(() => ca.remove());
    const pair = await ca.issue({ name: 'upstream', ipAddresses: ['127.0.0.1'] });
    const upstream = await startUpstream(
      t,
      grpc.ServerCredentials.createSsl(null, [
        { cert_chain: readFileSync(pair.cert), private_key: readFileSync(pair.key) },
      ]),
    );
    const spec = sourceAt(upstream.port, {
      tls: { rootCertsFile: ca.ca, requiredSans: [] },
      googleDefault: true,
    });
    const refused = dial(t, spec);
    t.match(await until('it fails', () => refused.end), {
      code: 14,
      message: /there is no Google token/,
    });
    answers = true;
    dial(t, spec);
    await until('the source has the token', () =>
      upstream.streams.some(({ owner }) => owner === 'Bearer a-google-token'),
    );
  },
);

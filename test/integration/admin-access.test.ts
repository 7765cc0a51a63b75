/**
 * Goal: the admin server answers only requests with the token, or connections with a certificate, that the
 * settings require, and the probe server answers everybody and shows nothing.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request as startRequest } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { createCertificateAuthority, opensslMissing } from '../support/certificates.js';
import { httpRequest } from '../support/http.js';
import { startGateway } from '../support/identity-gateway.js';
import { runHere } from '../support/program.js';
import { until, within } from '../support/until.js';

const MAP = `
sources: { s: { target: "127.0.0.1:1", insecure: true } }
authorities: { secret-name.test: { sources: [s] } }
`;
const LISTED = '/authorities';

function folder(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'tributary-admin-access-'));
  t.teardown(() => {
    rmSync(directory, { recursive: true, force: true });
  });
  return directory;
}

const command = (...argv: readonly string[]) => runHere(argv);

/** The status of one GET with this header. */
function statusWith(address: string, authorization: string | undefined): Promise<number> {
  const headers = authorization === undefined ? {} : { authorization };
  return new Promise((resolve, reject) => {
    const request = startRequest(
      `http://${address}${LISTED}`,
      { headers, agent: false },
      (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      },
    );
    request.on('error', reject).end();
  });
}

t.test(
  'with admin.token_file, each request needs the token of the file (RFC 6750, 2.1)',
  async (t) => {
    const file = join(folder(t), 'token');
    writeFileSync(file, 'first-token\n');
    const gateway = await startGateway(t, MAP, ['--admin-token-file', file]);
    for (const wrong of [undefined, 'Bearer', 'Bearer first', 'Basic first-token', 'first-token']) {
      t.equal(await statusWith(gateway.admin, wrong), 401, wrong ?? 'no header');
    }
    t.equal(await statusWith(gateway.admin, 'Bearer first-token'), 200);
    const force = ['force', 'secret-name.test', 's', '--admin', gateway.admin];
    t.match(await command(...force), { code: 1, stderr: /no valid token.*admin\.token_file/ });
    t.match((await command(...force, '--admin-token-file', file)).stderr, /no client subscribes/);
    t.match(await command(...force, '--admin-token-file', `${file}.none`), {
      code: 2,
      stderr: /token\.none cannot be read: there is no such file/,
    });
    writeFileSync(file, 'second-token\n');
    await until('the new token is valid', async () => {
      return (await statusWith(gateway.admin, 'Bearer second-token')) === 200;
    });
    t.equal(await statusWith(gateway.admin, 'Bearer first-token'), 401, 'the old one is not');
    rmSync(file);
    t.equal(await statusWith(gateway.admin, 'Bearer second-token'), 200, 'a file that is replaced');
  },
);

t.test(
  'the gateway does not start with a token file that it cannot use, and names the setting',
  async (t) => {
    const file = join(folder(t), 'token');
    const start = (): Promise<unknown> => startGateway(t, MAP, ['--admin-token-file', file]);
    await t.rejects(start(), {
      message: /^admin\.token_file .*token cannot be read: there is no such file/,
    });
    writeFileSync(file, '\n');
    await t.rejects(start(), { message: /must have one token/ });
  },
);

t.test(
  'with admin.tls.client_ca, only clients with a certificate of this CA are answered',
  { skip: await opensslMissing() },
  async (t) => {
    const own = await createCertificateAuthority();
    const other = await createCertificateAuthority('other CA');
    t.teardown(async () => {
      await own.remove();
      await other.remove();
    });
    const { ca } = own;
    const server = await own.issue({ name: 'admin', ipAddresses: ['127.0.0.1'] });
    const gateway = await startGateway(t, MAP, [
      ...['--admin-tls-cert', server.cert, '--admin-tls-key', server.key],
      ...['--admin-tls-client-ca', ca],
    ]);
    const get = ['release', 'secret-name.test', '--admin', gateway.admin, '--admin-ca', ca];
    const mine = await own.issue({ name: 'operator' });
    const certificate = ['--admin-cert', mine.cert, '--admin-key', mine.key];
    t.match((await command(...get, ...certificate)).stderr, /no client subscribes/);
    t.match(await command(...get), { code: 4 }, 'no certificate');
    const foreign = await other.issue({ name: 'foreign' });
    const withForeign = ['--admin-cert', foreign.cert, '--admin-key', foreign.key];
    t.match(await command(...get, ...withForeign), { code: 4 }, 'of another CA');
    await t.rejects(httpRequest(`http://${gateway.admin}/live`), 'plaintext');
  },
);

t.test('the probe server answers /live and /ready without a token, and no more', async (t) => {
  const file = join(folder(t), 'token');
  writeFileSync(file, 'token');
  const gateway = await startGateway(t, MAP, ['--admin-token-file', file]);
  const probes = `http://${gateway.gateway.probes.address}`;
  t.match(await httpRequest(`${probes}/live`), { status: 200, body: '{"live":true}\n' });
  t.match(await httpRequest(`${probes}/ready?x=1`), { status: 200, body: '{"ready":true}\n' });
  t.match(await httpRequest(`${probes}/live`, { method: 'HEAD' }), { status: 200, body: '' });
  t.equal((await httpRequest(`${probes}/live`, { method: 'POST' })).status, 405);
  for (const path of ['/', '/metrics', '/authorities', '/resources/x', '/live/']) {
    t.equal((await httpRequest(`${probes}${path}`)).status, 404, path);
  }
});

t.test('bodies over 64 KiB close the connection, with and without a length', async (t) => {
  const gateway = await startGateway(t, MAP);
  for (const head of ['content-length: 400000000', 'transfer-encoding: chunked']) {
    const [host = '', port = ''] = gateway.admin.split(':');
    const socket = connect(Number(port), host);
    socket.on('error', () => undefined);
    // `once` would reject with the reset that unread bytes may cause.
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.resume();
    socket.write(`POST /logging?level=info HTTP/1.1\r\nhost: ${gateway.admin}\r\n${head}\r\n\r\n`);
    const part = `8000\r\n${'x'.repeat(0x80_00)}\r\n`;
    for (let sent = 0; sent < 10; sent++) socket.write(part);
    await within('it is closed', 5_000, closed);
  }
  t.equal((await httpRequest(`http://${gateway.admin}/live`)).status, 200);
});

t.test('a connection that pipelines more than 16 requests is closed', async (t) => {
  const gateway = await startGateway(t, MAP);
  const [host = '', port = ''] = gateway.admin.split(':');
  const request = `GET /live HTTP/1.1\r\nhost: ${gateway.admin}\r\n\r\n`;
  const socket = connect(Number(port), host);
  socket.on('error', () => undefined);
  socket.resume();
  socket.write(request.repeat(1_000));
  await until('it is closed', () => socket.destroyed);
  const other = connect(Number(port), host);
  t.teardown(() => other.destroy());
  let text = '';
  other.on('data', (chunk: Buffer) => (text += chunk.toString()));
  other.write(request.repeat(16));
  await until('16 are answered', () => text.split('HTTP/1.1 200').length === 17);
});

t.test(
  'responses that wait in a pipelined connection end with it, and give their places back',
  async (t) => {
    const gateway = await startGateway(t, MAP);
    const [host = '', port = ''] = gateway.admin.split(':');
    const openings = '/watch/xdstp://secret-name.test/test.v1.T/x';
    const request = (path: string): string =>
      `GET ${path} HTTP/1.1\r\nhost: ${gateway.admin}\r\n\r\n`;
    const sockets = Array.from({ length: 5 }, () => connect(Number(port), host));
    for (const socket of sockets) {
      socket.on('error', () => undefined);
      // Nobody reads the first one, so that the others wait behind it.
      socket.write(request(openings).repeat(14));
      await new Promise((resolve) => socket.once('readable', resolve));
    }
    const next = (): Promise<number> =>
      new Promise((resolve, reject) => {
        const one = startRequest(
          `http://${gateway.admin}${openings}`,
          { agent: false },
          (response) => {
            resolve(response.statusCode ?? 0);
            response.destroy();
          },
        );
        one.on('error', reject);
        one.end();
      });
    await until('all places are taken', async () => (await next()) === 503);
    for (const socket of sockets) socket.destroy();
    await until('there is a place again', async () => (await next()) === 200);
  },
);

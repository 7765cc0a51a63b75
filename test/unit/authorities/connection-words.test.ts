/**
 * Goal: the error of a connection to a source says what is wrong and what to change.
 * Method: real connections over TLS and without it, between grpc-js and grpc-js; and texts for the rest.
 */
import { readFileSync } from 'node:fs';
import * as grpc from '@grpc/grpc-js';
import t, { type Test } from 'tap';
import { connectionWords, statusWords } from '../../../authorities/connection-words.js';
import { createCertificateAuthority, opensslMissing } from '../../support/certificates.js';
import { sslByAddress } from '../../support/ssl-by-address.js';

/** Serves nothing. @returns host:port */
async function serverWith(t: Test, credentials: grpc.ServerCredentials): Promise<string> {
  const server = new grpc.Server();
  t.teardown(() => {
    server.forceShutdown();
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', credentials, (error, bound) => {
      if (error) reject(error);
      else resolve(bound);
    });
  });
  return `127.0.0.1:${port}`;
}

/** @returns the details of the status with which a call to the server ends */
async function detailsFrom(
  t: Test,
  target: string,
  credentials: grpc.ChannelCredentials,
  options: grpc.ChannelOptions = {},
): Promise<string> {
  const client = new grpc.Client(target, credentials, options);
  t.teardown(() => {
    client.close();
  });
  const bytes = (value: Buffer): Buffer => value;
  const call = client.makeBidiStreamRequest('/a/b', bytes, bytes);
  call.on('error', () => undefined);
  call.on('data', () => undefined);
  return new Promise((resolve) => {
    call.on('status', ({ details }: grpc.StatusObject) => {
      resolve(details);
    });
  });
}

const skip = await opensslMissing();

t.test('a connection that TLS prevents is an error with a remedy', { skip }, async (t) => {
  const ca = await createCertificateAuthority();
  const other = await createCertificateAuthority('other CA');
  t.teardown(async () => {
    await ca.remove();
    await other.remove();
  });
  const { cert, key } = await ca.issue({ name: 'server', ipAddresses: ['127.0.0.1'] });
  const pair = { cert_chain: readFileSync(cert), private_key: readFileSync(key) };
  const roots = readFileSync(ca.ca);
  const tls = await serverWith(t, grpc.ServerCredentials.createSsl(null, [pair]));
  const mutual = await serverWith(t, grpc.ServerCredentials.createSsl(roots, [pair], true));
  const plain = await serverWith(t, grpc.ServerCredentials.createInsecure());
  const trusting = sslByAddress(roots);
  const words = async (...given: Parameters<typeof detailsFrom>): Promise<string> =>
    statusWords(await detailsFrom(...given));

  const foreign = sslByAddress(readFileSync(other.ca));
  t.match(await words(t, tls, foreign), /no CA of this source signed.*\(correct tls\.ca;/);
  t.match(await words(t, plain, trusting), /does not speak TLS.*insecure: true/);
  t.match(await words(t, tls, grpc.credentials.createInsecure()), /if it wants TLS, leave out/);
  t.match(await words(t, mutual, trusting), /client certificate.*\(correct tls\.cert and tls\.key/);
  const named = { 'grpc.ssl_target_name_override': 'other.test' };
  t.match(await words(t, tls, trusting, named), /^Hostname.*other\.test.*tls\.server_name\)$/);
  t.equal(await words(t, '127.0.0.1:1', trusting), 'connect ECONNREFUSED 127.0.0.1:1');
});

t.test('a proxy that does not connect to the source is an error with a remedy', async (t) => {
  t.teardown(() => {
    delete process.env['grpc_proxy'];
  });
  process.env['grpc_proxy'] = 'http://127.0.0.1:1';
  const details = await detailsFrom(t, '127.0.0.1:2', grpc.credentials.createInsecure());
  t.match(statusWords(details), /the HTTP proxy of the environment does not connect/);
});

t.test('words of a source stay as they are', (t) => {
  t.equal(statusWords('certificate has expired'), 'certificate has expired');
  t.equal(statusWords('down. Resolution note: '), 'down');
  const expired = 'No connection established. Last error: Error: certificate has expired';
  t.match(statusWords(expired), /of the source, or of its CA, has expired \(renew it there\)/);
  t.match(connectionWords('certificate is not yet valid'), /not valid yet/);
  t.equal(connectionWords('socket hang up'), 'socket hang up');
  t.end();
});

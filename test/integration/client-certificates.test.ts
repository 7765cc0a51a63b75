/**
 * Goal: the verified certificate of a client reaches the source, as a header or as the certificate of
 * the connection, and is part of the client's node group.
 * Method: a gateway with mutual TLS in this process, real certificates, real sockets.
 */
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as grpc from '@grpc/grpc-js';
import t, { type Test } from 'tap';
import { encodeNode } from '../../protos/node-codec.js';
import {
  createCertificateAuthority,
  opensslMissing,
  type CertificateAuthority,
  type CertificatePaths,
} from '../support/certificates.js';
import { DeltaClient } from '../support/delta-client.js';
import { startGateway, type StartedGateway } from '../support/identity-gateway.js';
import { IdentityUpstream, ownerIn } from '../support/identity-upstream.js';
import { TYPE_URLS } from '../support/mesh.js';
import { until } from '../support/until.js';
import { sslByAddress } from '../support/ssl-by-address.js';

const CDS = TYPE_URLS.cluster;
const XFCC = 'x-forwarded-client-cert';
const SPIFFE = 'spiffe://mesh/ns/shop/sa/web';
const skip = await opensslMissing();

async function startAuthority(t: Test): Promise<CertificateAuthority> {
  const ca = await createCertificateAuthority();
  t.teardown(() => ca.remove());
  return ca;
}

/** A gateway whose listener demands certificates of the CA. */
async function startTlsGateway(
  t: Test,
  ca: CertificateAuthority,
  map: string,
): Promise<StartedGateway> {
  const pair = await ca.issue({
    name: 'gateway',
    ipAddresses: ['127.0.0.1'],
    uris: ['spiffe://mesh/gateway'],
  });
  const flags = ['--client-tls-cert', pair.cert, '--client-tls-key', pair.key];
  return startGateway(t, map, [...flags, '--client-tls-client-ca', ca.ca]);
}

const credentialsOf = (ca: CertificateAuthority, pair: CertificatePaths): grpc.ChannelCredentials =>
  sslByAddress(readFileSync(ca.ca), readFileSync(pair.key), readFileSync(pair.cert));

function open(t: Test, port: number, credentials: grpc.ChannelCredentials): DeltaClient {
  const node = encodeNode({ id: 'n', cluster: '', userAgentName: '', userAgentVersion: '' });
  const client = new DeltaClient({ port, credentials, node });
  t.teardown(() => {
    client.close();
  });
  client.subscribe(CDS, ['*']);
  return client;
}

const contentOf = (client: DeltaClient): string | undefined =>
  ownerIn(client.content(CDS).get('web'));

t.test(
  '`client_identity: forward` sends the certificate as Envoy writes it, and groups by it (invariant 21)',
  { skip },
  async (t) => {
    const ca = await startAuthority(t);
    const upstream = await IdentityUpstream.start({
      ownerOf: (stream) => /sa\/(\w+)/.exec(stream.header(XFCC).join())?.[1],
    });
    t.teardown(() => {
      upstream.stop();
    });
    const gateway = await startTlsGateway(
      t,
      ca,
      `
sources: { s: { target: "127.0.0.1:${upstream.port}", insecure: true, client_identity: forward } }
old_style_names: { differ_by: [id], served_by: [{ sources: [s] }] }`,
    );
    const web = await ca.issue({
      name: 'web',
      uris: [SPIFFE],
      dnsNames: ['web.shop', 'web.shop.svc'],
    });
    const api = await ca.issue({ name: 'api', uris: ['spiffe://mesh/ns/shop/sa/api'] });
    const clients = [web, api].map((pair) => open(t, gateway.port, credentialsOf(ca, pair)));
    await until('both are served', () => clients.every((one) => contentOf(one) !== undefined));
    t.strictSame(clients.map(contentOf), ['web/1', 'api/1']);
    const [sent] = upstream.openStreams('web').map((seen) => seen.header(XFCC));
    t.strictSame(sent?.length, 1);
    t.match(
      sent?.[0],
      /^By=spiffe:\/\/mesh\/gateway;Hash=[0-9a-f]{64};Subject="CN=web";URI=spiffe:\/\/mesh\/ns\/shop\/sa\/web;DNS=web\.shop;DNS=web\.shop\.svc$/,
    );
  },
);

t.test(
  '`tls_by_identity` connects for a client with its certificate, and never with another one',
  { skip },
  async (t) => {
    const ca = await startAuthority(t);
    const pair = await ca.issue({ name: 'upstream', ipAddresses: ['127.0.0.1'] });
    const upstream = await IdentityUpstream.start({
      ownerOf: (stream) => stream.certificateName,
      credentials: grpc.ServerCredentials.createSsl(
        readFileSync(ca.ca),
        [{ cert_chain: readFileSync(pair.cert), private_key: readFileSync(pair.key) }],
        true,
      ),
    });
    t.teardown(() => {
      upstream.stop();
    });
    const identities = join(ca.directory, 'identities');
    mkdirSync(identities);
    const keep = async (name: string, file: string): Promise<CertificatePaths> => {
      const made = await ca.issue({ name, uris: [SPIFFE] });
      copyFileSync(made.cert, join(identities, `${file}.crt`));
      copyFileSync(made.key, join(identities, `${file}.key`));
      return made;
    };
    await keep('upstream-web', 'spiffe%3A%2F%2Fmesh%2Fns%2Fshop%2Fsa%2Fweb');
    await keep('upstream-api', 'api.shop');
    const own = await ca.issue({ name: 'the-gateway' });
    const gateway = await startTlsGateway(
      t,
      ca,
      `
sources:
  s:
    target: "127.0.0.1:${upstream.port}"
    tls: { ca: "${ca.ca}", cert: "${own.cert}", key: "${own.key}" }
    tls_by_identity: "${identities}"
old_style_names: { differ_by: [id], served_by: [{ sources: [s] }] }`,
    );
    const web = await ca.issue({ name: 'web', uris: [SPIFFE], dnsNames: ['api.shop'] });
    const api = await ca.issue({ name: 'api', dnsNames: ['api.shop'] });
    const other = await ca.issue({ name: 'other', dnsNames: ['other.shop'] });
    const clients = [web, api].map((one) => open(t, gateway.port, credentialsOf(ca, one)));
    open(t, gateway.port, credentialsOf(ca, other));
    await until('both are served', () => clients.every((one) => contentOf(one) !== undefined));
    t.strictSame(clients.map(contentOf), ['upstream-web/1', 'upstream-api/1']);
    await until('the third group reports its missing certificate', () =>
      gateway.lines.some((line) =>
        line.includes('tls_by_identity has no certificate and key for \\"other.shop\\"'),
      ),
    );
    t.notOk(
      upstream.streams.some(({ certificateName }) => certificateName === 'the-gateway'),
      'the certificate of the gateway stands in for no client',
    );
    const renewed = await ca.issue({ name: 'web', uris: [SPIFFE], dnsNames: ['api.shop'] });
    const again = open(t, gateway.port, credentialsOf(ca, renewed));
    await until('a renewed certificate is served', () => contentOf(again) !== undefined);
    t.equal(upstream.openStreams('upstream-web').length, 1, 'by the same group');
  },
);

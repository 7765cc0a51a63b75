/**
 * Goal: load balancers and gRPC clients learn from the client port whether the gateway is ready
 * (grpc.health.v1, gRPC's doc/health-checking.md).
 * Method: gateways in this process, and grpc-js as the client.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as grpc from '@grpc/grpc-js';
import t, { type Test } from 'tap';
import { STATUS_CODE } from '../../protos/discovery.js';
import { DISCOVERY_SERVICES } from '../../protos/discovery-services.js';
import { startGateway } from '../support/identity-gateway.js';
import { AUDIENCE, ISSUER, TokenIssuer } from '../support/token-issuer.js';
import { until } from '../support/until.js';

const [SERVING, NOT_SERVING] = [1, 2];

function mapIn(t: Test, more = ''): string {
  const directory = mkdtempSync(join(tmpdir(), 'tributary-health-'));
  t.teardown(() => {
    rmSync(directory, { recursive: true, force: true });
  });
  return `sources: { files: { path: "${directory}" } }\nauthorities: { a.test: { sources: [files] } }\n${more}`;
}

const asRequest = (service: string): Buffer =>
  service === ''
    ? Buffer.alloc(0)
    : Buffer.concat([Buffer.from([0x0a, service.length]), Buffer.from(service)]);
const statusIn = (bytes: Buffer): number => bytes[1] ?? 0;

function connectTo(t: Test, port: number): grpc.Client {
  const options = { 'grpc.use_local_subchannel_pool': 1 };
  const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure(), options);
  t.teardown(() => {
    client.close();
  });
  return client;
}

/** @returns the status of the service, or `{ code }` of the failed call. */
function check(client: grpc.Client, service = '', token?: string): Promise<unknown> {
  const metadata = new grpc.Metadata();
  if (token !== undefined) metadata.set('authorization', `Bearer ${token}`);
  return new Promise((resolve) => {
    client.makeUnaryRequest(
      '/grpc.health.v1.Health/Check',
      asRequest,
      statusIn,
      service,
      metadata,
      (error, status) => {
        resolve(error ? { code: error.code } : status);
      },
    );
  });
}

interface OpenWatch {
  readonly statuses: readonly number[];
  /** The code of its end; undefined: it is open. */
  readonly code: number | undefined;
  cancel(): void;
}

function watch(t: Test, client: grpc.Client): OpenWatch {
  const path = '/grpc.health.v1.Health/Watch';
  const call = client.makeServerStreamRequest(path, asRequest, statusIn, '');
  const statuses: number[] = [];
  let code: number | undefined;
  call.on('data', (status: number) => statuses.push(status));
  call.on('error', () => undefined);
  call.on('status', (status: grpc.StatusObject) => (code = status.code));
  const cancel = (): void => {
    call.cancel();
  };
  t.teardown(cancel);
  return {
    statuses,
    cancel,
    get code() {
      return code;
    },
  };
}

t.test('the gateway and each discovery service are SERVING, and no other service is', async (t) => {
  const { port } = await startGateway(t, mapIn(t));
  const client = connectTo(t, port);
  for (const service of ['', ...DISCOVERY_SERVICES.map((one) => one.service)]) {
    t.equal(await check(client, service), SERVING, service);
  }
  t.strictSame(await check(client, 'some.Other'), { code: STATUS_CODE.notFound });
});

t.test('a gateway that stops tells watching clients before it ends their streams', async (t) => {
  const started = await startGateway(t, mapIn(t));
  const open = watch(t, connectTo(t, started.port));
  await until('it is SERVING', () => open.statuses.length === 1);
  await started.gateway.stop();
  t.strictSame(open.statuses, [SERVING, NOT_SERVING]);
  t.equal(open.code, STATUS_CODE.unavailable);
});

t.test(
  'a health check needs no right, but a token that comes with it has to be valid',
  async (t) => {
    const issuer = await TokenIssuer.create(t);
    const { port } = await startGateway(t, mapIn(t, 'clients: []\n'), [
      ...['--client-jwt-jwks', issuer.file, '--client-jwt-issuer', ISSUER],
      ...['--client-jwt-audience', AUDIENCE],
    ]);
    const client = connectTo(t, port);
    t.equal(await check(client), SERVING, 'anonymous, and no entry matches it');
    t.strictSame(await check(client, '', 'no-token'), { code: STATUS_CODE.unauthenticated });
  },
);

t.test('an open watch counts as a stream of its client, a finished check does not', async (t) => {
  const limits = ['--max-clients', '1', '--max-peer-percent', '100'];
  const { port } = await startGateway(t, mapIn(t), limits);
  const client = connectTo(t, port);
  t.equal(await check(client), SERVING);
  t.equal(await check(client), SERVING);
  const open = watch(t, client);
  await until('it is SERVING', () => open.statuses.length === 1);
  t.strictSame(await check(client), { code: STATUS_CODE.resourceExhausted });
  open.cancel();
  await until('its place is free', async () => (await check(client)) === SERVING);
});

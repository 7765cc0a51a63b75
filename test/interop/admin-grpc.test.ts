/**
 * Goal: the tools of gRPC work on the admin port: an operator sees there what a real client accepted, what it
 * refused, and what it still waits for.
 * Method: grpcurl, which knows the services by reflection alone; the gateway as a process of its own with a
 * directory and a silent source; and an application with grpc-go, which refuses one listener.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';

import { DeltaClient } from '../support/delta-client.js';
import { grpcService, writeResourceFile } from '../support/mesh.js';
import { CDS, LDS, cds, lds } from '../support/mesh-names.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { stoppedWith } from '../support/stopped-with.js';
import { until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import { Gateway, skipWithoutGateway } from './peers/gateway.js';
import { startGrpcBackend } from './peers/grpc-backend.js';
import { grpcBootstrap, GrpcClient } from './peers/grpc-client.js';
import { peerPath, skipWithout } from './peers/provisioned.js';
import { cloud, onprem } from './peers/rig.js';

t.setTimeout(120_000);

const execute = promisify(execFile);
const skip = skipWithout('grpcurl', 'grpc-go-client') || skipWithoutGateway();
const CSDS = 'envoy.service.status.v3.ClientStatusDiscoveryService';
const OTHER = 'other.example.com';
const SHOP = lds('shop', cloud);
const BAD = lds('bad', cloud);
const AWAY = lds('shop', onprem);

interface Scene {
  readonly gateway: Gateway;
  readonly client: GrpcClient;
  /** Of the source to which the gateway has a channel. */
  readonly livePort: number;
  /** The output of grpcurl. @param what a command or a method. @param more flags before the address */
  readonly ask: (what: readonly string[], ...more: readonly string[]) => Promise<string>;
}

async function start(t: Test): Promise<Scene> {
  const files = await mkdtemp(join(tmpdir(), 'tributary-admin-grpc-'));
  t.teardown(() => rm(files, { recursive: true, force: true }));
  const backend = await stoppedWith(t, startGrpcBackend('cloud'));
  await writeResourceFile(files, grpcService(cloud, 'shop', backend.port));
  // Without an API listener, gRPC refuses it (gRFC A27).
  await writeFile(join(files, 'bad.json'), JSON.stringify({ '@type': LDS, name: BAD }));
  const live = await ScriptedUpstream.start();
  t.teardown(() => live.stop());
  const authorityMap = {
    sources: {
      files: { path: files },
      // Nothing listens there.
      silent: { target: '127.0.0.1:1', insecure: true },
      live: { target: `127.0.0.1:${live.port}`, insecure: true },
    },
    authorities: {
      [cloud]: { sources: ['files'] },
      [onprem]: { sources: ['silent'] },
      [OTHER]: { sources: ['live'] },
    },
  };
  const gateway = await stoppedWith(t, Gateway.start({ authorityMap }));
  const subscriber = new DeltaClient({ port: gateway.port });
  t.teardown(() => {
    subscriber.close();
  });
  subscriber.subscribe(CDS, [cds('x', OTHER)]);
  const targets = [`xds://${cloud}/shop`, `xds://${cloud}/bad`, `xds://${onprem}/shop`];
  const bootstrap = grpcBootstrap(gateway.port, [cloud, onprem]);
  const client = await stoppedWith(
    t,
    GrpcClient.start({ language: 'go', targets, bootstrap, everyMs: 200 }),
  );
  const ask: Scene['ask'] = async (what, ...more) => {
    const args = ['-plaintext', '-max-time', '10', ...more, gateway.adminAddress, ...what];
    return (await execute(peerPath('grpcurl'), args)).stdout;
  };
  return { gateway, client, livePort: live.port, ask };
}

interface Row {
  readonly typeUrl: string;
  readonly name: string;
  readonly versionInfo?: string;
  readonly configStatus: string;
  readonly clientStatus: string;
  readonly errorState?: { readonly details: string };
}

/** The JSON of a `ClientStatusResponse`. */
interface Shown {
  readonly config?: readonly { readonly genericXdsConfigs?: readonly Row[] }[];
}

t.test(
  'grpcurl shows what a client of grpc-go accepted, refused and waits for (CSDS, channelz, health)',
  { skip },
  async (t) => {
    const { gateway, client, livePort, ask } = await start(t);
    await tellingLogs([gateway, client], async () => {
      const services = await ask(['list']);
      t.match(services, CSDS);
      t.match(services, 'grpc.channelz.v1.Channelz');
      t.match(services, 'grpc.health.v1.Health');

      // grpc-go has a stream for each target.
      const rows = await until('the client has answered', async () => {
        const shown = JSON.parse(await ask([`${CSDS}/FetchClientStatus`])) as Shown;
        const found = shown.config?.flatMap(({ genericXdsConfigs = [] }) => genericXdsConfigs);
        const isSynced = found?.some(
          ({ name, configStatus }) => name === cds('shop', cloud) && configStatus === 'SYNCED',
        );
        const isRefused = found?.some(({ configStatus }) => configStatus === 'ERROR');
        const isAsked = found?.some(({ name }) => name === AWAY);
        return isSynced && isRefused && isAsked && found;
      });
      const named = (name: string) => rows.find((row) => row.name === name);
      const accepted = { configStatus: 'SYNCED', clientStatus: 'ACKED' };
      t.match(named(SHOP), { typeUrl: LDS, versionInfo: /^\S{22}$/, ...accepted });
      t.match(named(cds('shop', cloud)), { typeUrl: CDS, ...accepted });
      t.match(named(BAD), {
        typeUrl: LDS,
        configStatus: 'ERROR',
        clientStatus: 'NACKED',
        errorState: { details: /bad/ },
      });
      t.match(named(AWAY), { configStatus: 'NOT_SENT', clientStatus: 'REQUESTED' });

      const matchers = '{"node_matchers":[{"node_id":{"exact":"nobody"}}]}';
      const none = await ask([`${CSDS}/StreamClientStatus`], '-d', matchers);
      t.equal(none.trim(), '{}');
      await until('the channel to the live source is there', async () => {
        const channels = await ask(['grpc.channelz.v1.Channelz/GetTopChannels']);
        return channels.includes(`127.0.0.1:${livePort}"`);
      });
      const health = JSON.parse(await ask(['grpc.health.v1.Health/Check'])) as unknown;
      t.match(health, { status: /SERVING/ });
      t.match(await ask(['describe', `${CSDS}.FetchClientStatus`]), 'ClientStatusResponse');
    });
  },
);

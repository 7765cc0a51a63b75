/**
 * Goal: grpcdebug, the tool of gRPC for operators, works on the admin port: the status and the contents of a client
 * (CSDS), health, and channelz.
 * Method: grpcdebug itself; the gateway as a process of its own between a control plane and an Envoy. Runs where the
 * registry for Go offers grpcdebug.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';

import { edsCluster, xdstpName } from '../support/mesh.js';
import { until } from '../support/until.js';
import { tellingLogs } from './peers/child.js';
import { skipWithoutGateway } from './peers/gateway.js';
import { peerPath, skipWithout } from './peers/provisioned.js';
import { cloud, startRig } from './peers/rig.js';

t.setTimeout(120_000);

const ADS = 'envoy.service.discovery.v3.AggregatedDiscoveryService';

const execute = promisify(execFile);
const skip = skipWithout('grpcdebug', 'envoy', 'control-plane') || skipWithoutGateway();

type Row = readonly string[];

/** The rows of a table of grpcdebug, the heading first. */
const table = (output: string): readonly Row[] =>
  output
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/ {2,}/));

/** Of `xds status`, without the heading, by name. */
async function rowsUntil(
  ask: () => Promise<string>,
  isDone: (rows: readonly Row[]) => boolean,
): Promise<readonly Row[]> {
  return until('grpcdebug shows the status', async () => {
    const [, ...rows] = table(await ask());
    return isDone(rows) && rows.sort(([one = ''], [other = '']) => (one < other ? -1 : 1));
  });
}

/** The JSON of a `ClientStatusResponse` of one client. */
interface ShownConfig {
  readonly config: readonly [{ readonly genericXdsConfigs: readonly { readonly name: string }[] }];
}

const isAccepted = ([, status]: Row): boolean => status === 'ACKED';

t.test(
  'grpcdebug shows what an Envoy accepted and refused (CSDS), the health and the channels (channelz)',
  { skip },
  async (t) => {
    const { gateway, envoy, cloudPlane, cloudResources } = await startRig(t);
    const ask = async (...command: readonly string[]): Promise<string> => {
      const args = [gateway.adminAddress, ...command];
      return (await execute(peerPath('grpcdebug'), args)).stdout;
    };
    await tellingLogs([gateway, envoy], async () => {
      const accepted = await rowsUntil(
        () => ask('xds', 'status'),
        (rows) => rows.length === cloudResources.length && rows.every(isAccepted),
      );
      const columns = cloudResources.map(({ name, typeUrl }) => [
        name,
        'ACKED',
        /^\S{22}$/,
        typeUrl,
      ]);
      t.match(accepted, columns, 'the same type, each with the version of its content');

      const name = xdstpName(cloud, 'cluster', 'edge/web');
      const { config } = JSON.parse(await ask('xds', 'config')) as ShownConfig;
      t.match(
        config[0].genericXdsConfigs.find((resource) => resource.name === name),
        { xdsConfig: { name, type: 'EDS' }, configStatus: 'SYNCED', clientStatus: 'ACKED' },
      );
      const listener = JSON.parse(await ask('xds', 'config', '--type', 'lds')) as unknown;
      t.match(listener, { name: xdstpName(cloud, 'listener', 'edge/ingress') });

      t.match(await ask('health'), /^<Overall>: +SERVING\b/);
      t.match(await ask('health', ADS), new RegExp(`^${ADS}: +SERVING\\b`, 'm'));
      t.match(await ask('health', 'example.Nothing'), /^example\.Nothing: +SERVICE_UNKNOWN\b/m);
      const [heading, ...channels] = table(await ask('channelz', 'channels'));
      t.match(heading, ['Channel ID', 'Target', 'State']);
      t.match(channels, [[/^\d+$/, `127.0.0.1:${cloudPlane.xdsPort}`, 'READY']]);
      const servers = table(await ask('channelz', 'servers'));
      t.match(
        servers,
        [['Server ID']],
        'the heading alone: the server for clients is not of grpc-js',
      );
      t.equal(servers.length, 1);

      const refused = edsCluster(cloud, 'edge/bad', '-1s');
      await cloudPlane.setResources([...cloudResources, refused]);
      await rowsUntil(
        () => ask('xds', 'status'),
        (rows) => rows.some(([of, status]) => of === refused.name && status === 'NACKED'),
      );
    });
  },
);

/**
 * Goal: `tributary status --fleet` shows the clients of all instances, and which instance does not answer
 * (docs/OPERATIONS.md, "Look").
 * Method: two gateways and the command line in this process.
 */
import { writeFileSync } from 'node:fs';
import t from 'tap';
import { encodeNode } from '../../protos/node-codec.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { DeltaClient } from '../support/delta-client.js';
import { startDirectoryGateway } from '../support/directory-gateway.js';
import { freePort } from '../support/free-port.js';
import { runHere } from '../support/program.js';
import { until } from '../support/until.js';

const WEB = 'xdstp://cloud.test/envoy.config.cluster.v3.Cluster/web';
const NODE = { id: 'node-1', cluster: 'edge', userAgentName: 'test', userAgentVersion: '1' };

const status = (...flags: readonly string[]) => runHere(['status', ...flags]);

const fleet = (addresses: readonly string[], ...more: readonly string[]) =>
  status('--fleet', addresses.join(','), ...more);

t.test('status --fleet tells the clients of all instances', async (t) => {
  const fill = ({
    put,
  }: {
    put: (file: string, resource: object & Record<string, unknown>) => void;
  }) => {
    put('web', { '@type': TYPE_URL.cluster, name: WEB });
  };
  const one = await startDirectoryGateway(t, { fill });
  const two = await startDirectoryGateway(t);
  const client = new DeltaClient({ port: one.port, node: encodeNode(NODE) });
  t.teardown(() => {
    client.close();
  });
  client.subscribe(TYPE_URL.cluster, [WEB]);
  await until('the ACK has arrived', async () =>
    (await fleet([one.admin])).stdout.includes('SYNCED'),
  );

  const all = await fleet([two.admin, one.admin, two.admin]);
  t.match(all, { code: 0, stderr: '' });
  const [titles, first, second, ...rest] = all.stdout.split('\n');
  t.match(titles, /^INSTANCE +CLIENT +NODE +IDENTITY +TYPE +STATE +NAMES +SERVED FROM$/);
  t.match(first, new RegExp(`^${two.admin} +- +- +- +- +no client is connected +0 +-$`));
  const row = `^${one.admin} +127\\.0\\.0\\.1:\\d+ +node-1 +anonymous +Cluster +SYNCED +1 +cloud\\.test from files`;
  t.match(second, new RegExp(row));
  t.strictSame(rest, [''], 'each instance once, in the order of the addresses');

  t.test('an instance that does not answer has its row, and the exit code says so', async (t) => {
    const closed = `127.0.0.1:${await freePort()}`;
    const partly = await fleet([closed, one.admin]);
    t.equal(partly.code, 4);
    const reason = `^${closed} +- +- +- +- +no gateway responds at ${closed}: connection refused +- +-$`;
    t.match(partly.stdout, new RegExp(reason, 'm'));
    t.match(partly.stdout, /node-1 +anonymous +Cluster +SYNCED/, 'the other one answers');
    const asJson = await fleet([closed, one.admin], '-o', 'json');
    t.equal(asJson.code, 4);
    t.match(JSON.parse(asJson.stdout), {
      instances: [
        { instance: closed, error: /no gateway responds/ },
        { instance: one.admin, count: 1, clients: [{ node: { id: 'node-1' } }] },
      ],
    });
  });

  t.test('an instance that refuses has its row, and the exit code 1', async (t) => {
    const tokenFile = `${t.testdir()}/token`;
    writeFileSync(tokenFile, 'secret\n');
    const closed = await startDirectoryGateway(t, { argv: ['--admin-token-file', tokenFile] });
    const refused = await fleet([closed.admin, one.admin]);
    t.match(refused, { code: 1, stdout: /no valid token/ });
    t.match(await fleet([closed.admin], '--admin-token-file', tokenFile), { code: 0 });
  });

  t.test('wrong addresses are refused before any is asked', async (t) => {
    t.match(await fleet(['gw-1', one.admin]), {
      code: 2,
      stderr: /--fleet: "gw-1" is not an address/,
    });
    t.match(await fleet([one.admin], '--admin', two.admin), { code: 2, stderr: /both set/ });
  });
});

/**
 * Goal: what counts for the requests per second of a peer (docs/SECURITY.md, "Quotas").
 * Method: a gateway with a low rate, and a client over gRPC that is sent one change after another.
 */
import t from 'tap';
import { TYPE_URL } from '../../protos/type-urls.js';
import { DeltaClient } from '../support/delta-client.js';
import { startDirectoryGateway } from '../support/directory-gateway.js';
import { httpRequest } from '../support/http.js';
import { until } from '../support/until.js';

const CDS = TYPE_URL.cluster;
const NAME = 'xdstp://cloud.test/envoy.config.cluster.v3.Cluster/a';
const CHANGES = 10;

t.test(
  'an ACK does not count as a request: a client that is sent many changes is not read later (docs/SECURITY.md, "Quotas")',
  async (t) => {
    const gateway = await startDirectoryGateway(t, {
      argv: ['--peer-requests-per-second', '1'],
      fill: ({ put }) => {
        put('a', { '@type': CDS, name: NAME, connect_timeout: '1s' });
      },
    });
    const { port, admin } = gateway;
    const client = new DeltaClient({ port });
    t.teardown(() => {
      client.close();
    });
    const metric = async (name: string): Promise<number> => {
      const { body } = await httpRequest(`http://${admin}/metrics`);
      const line = body.split('\n').find((one) => one.startsWith(name)) ?? '';
      return Number(line.split(' ').at(-1));
    };
    const acks = (): Promise<number> =>
      metric('tributary_client_acks_total{authority="cloud.test",type="Cluster"}');
    client.subscribe(CDS, [NAME]);
    await until('the first ACK', async () => (await acks()) === 1);
    for (let change = 1; change <= CHANGES; change++) {
      gateway.put('a', { '@type': CDS, name: NAME, connect_timeout: `${change + 1}s` });
      await until(`the ACK of change ${change}`, async () => (await acks()) === change + 1);
    }
    t.equal(client.responses.length, CHANGES + 1);
    const used = await metric('tributary_quota_used_ratio{quota="requests",scope="peer"}');
    t.ok(used < 1, `one request and ${CHANGES + 1} ACKs: ${used} of the burst is used`);
  },
);

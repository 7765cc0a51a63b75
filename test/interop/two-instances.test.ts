/**
 * Goal: examples/two-instances/ runs as its README describes.
 * Method: its own files, on free ports instead of the written ones.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';

import { runHere } from '../support/program.js';
import { until } from '../support/until.js';
import { Gateway, skipWithoutGateway } from './peers/gateway.js';
import { NatsServer } from './peers/nats-server.js';
import { projectRoot, skipWithout } from './peers/provisioned.js';

const skip = skipWithout('nats-server') || skipWithoutGateway();
const folder = join(projectRoot, 'examples', 'two-instances');

t.test(
  'two instances of the example exchange hints, and continue without NATS',
  { skip },
  async (t) => {
    const written = await readFile(join(folder, 'nats-server.conf'), 'utf8');
    const nats = await NatsServer.start({ config: written.replace(/^listen: .*$/m, '') });
    t.teardown(() => nats.stop());
    const start = async (name: string): Promise<Gateway> => {
      const gateway = await Gateway.start({
        settings: join(folder, `${name}.yaml`),
        args: ['--nats-servers', nats.url],
      });
      t.teardown(() => gateway.stop());
      return gateway;
    };
    const [a, b] = [await start('a'), await start('b')];
    for (const each of [a, b]) {
      await until('it is connected', async () => {
        return ((await each.admin('/instances')) as { nats: string }).nats === 'connected';
      });
    }
    const order = ['invalidate', 'cloud.example.com', '--admin', a.adminAddress];
    const said = await runHere(order);
    t.equal(said.code, 0, said.stderr);
    t.match(said.stdout, /toldOthers: true/);
    await until(
      'b received it',
      async () => (await b.metric('tributary_peer_messages_received_total')) > 0,
    );
    await nats.kill();
    const urn = 'xdstp://cloud.example.com/envoy.config.cluster.v3.Cluster/shop';
    for (const each of [a, b]) {
      await until('it knows', async () => (await each.metric('tributary_peers_connected')) === 0);
      t.ok(await each.admin(`/explain/${urn}`));
    }
  },
);

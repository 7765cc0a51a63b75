/**
 * Goal: a listener that an Envoy refuses, since its port is taken, opens once the port is free, without a change at the
 * source.
 */
import { once } from 'node:events';
import { createServer } from 'node:net';
import t from 'tap';
import { startDirectoryGateway } from '../support/directory-gateway.js';
import { httpRequest } from '../support/http.js';
import { stoppedWith } from '../support/stopped-with.js';
import { until } from '../support/until.js';
import { Envoy } from './peers/envoy.js';
import { skipWithout } from './peers/provisioned.js';

t.setTimeout(150_000);

/** The gateway retries after a minute. */
const RETRIED = { timeoutMs: 90_000 };

const HTTP_CONNECTION_MANAGER =
  'type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager';
const ROUTER = 'type.googleapis.com/envoy.extensions.filters.http.router.v3.Router';

const listener = (port: number): Readonly<Record<string, unknown>> => ({
  '@type': 'type.googleapis.com/envoy.config.listener.v3.Listener',
  name: 'ingress',
  address: { socket_address: { address: '127.0.0.1', port_value: port } },
  filter_chains: [
    {
      filters: [
        {
          name: 'http',
          typed_config: {
            '@type': HTTP_CONNECTION_MANAGER,
            stat_prefix: 'ingress',
            http_filters: [{ name: 'router', typed_config: { '@type': ROUTER } }],
            route_config: {
              virtual_hosts: [
                {
                  name: 'all',
                  domains: ['*'],
                  routes: [{ match: { prefix: '/' }, direct_response: { status: 204 } }],
                },
              ],
            },
          },
        },
      ],
    },
  ],
});

t.test(
  'a listener whose port was taken opens a minute after the NACK at the latest',
  { skip: skipWithout('envoy') },
  async (t) => {
    const holder = createServer().listen(0, '127.0.0.1');
    await once(holder, 'listening');
    t.teardown(() => holder.close());
    const { port } = holder.address() as { port: number };
    const gateway = await startDirectoryGateway(t);
    gateway.put('listener', listener(port));
    const envoy = await stoppedWith(
      t,
      Envoy.start({ xdsPort: gateway.port, collections: 'wildcard' }),
    );
    await envoy.ready({ timeoutMs: 30_000 });
    await until('Envoy has refused it', () =>
      gateway.log.some(({ event }) => event === 'client_nack'),
    );
    holder.close();
    const answer = async (): Promise<boolean> =>
      (await httpRequest(`http://127.0.0.1:${port}/`)).status === 204;
    await until('the listener is open', answer, RETRIED);
    t.equal(gateway.log.filter(({ event }) => event === 'client_nack').length, 1);
  },
);

/**
 * Goal: a client may open a stream for each type (CDS, EDS, LDS, …) instead of one aggregated stream,
 * in both flavours, and a call that the gateway does not serve is refused and explained.
 * Method: a gateway in this process with a directory as its source, and clients over real sockets.
 */
import { connect } from 'node:http2';
import t, { type Test } from 'tap';
import { STATUS_CODE } from '../../protos/discovery.js';
import { ADS, DISCOVERY_SERVICES, type DiscoveryService } from '../../protos/discovery-services.js';
import { DeltaClient } from '../support/delta-client.js';
import { startDirectoryGateway, type DirectoryGateway } from '../support/directory-gateway.js';
import { httpJson, httpRequest } from '../support/http.js';
import { openHttp2Call } from '../support/http2-call.js';
import { CDS, EDS, eds } from '../support/mesh-names.js';
import { SotwClient } from '../support/sotw-client.js';
import { until } from '../support/until.js';

const authority = 'cloud.test';
const PER_TYPE = DISCOVERY_SERVICES.filter((service) => service !== ADS);
const typeOf = ({ typeUrl }: DiscoveryService): string => typeUrl ?? '';
const nameOf = (service: DiscoveryService): string =>
  `xdstp://${authority}/${typeOf(service).slice(typeOf(service).indexOf('/') + 1)}/one`;
const pathOf = ({ service, methods }: DiscoveryService, method: 'stream' | 'delta'): string =>
  `/${service}/${methods[method]}`;

/** The name is in field 1 of each of these types, whose JSON name differs. */
const nameField = ({ shortName }: DiscoveryService): string =>
  shortName === 'EDS' ? 'cluster_name' : 'name';

function fillAll({ put }: Pick<DirectoryGateway, 'put'>): void {
  for (const service of PER_TYPE) {
    const resource = { '@type': typeOf(service), [nameField(service)]: nameOf(service) };
    const more = { SRDS: { route_configuration_name: 'r', key: { fragments: [] } } };
    const own = service.shortName === 'SRDS' ? more.SRDS : {};
    put(service.shortName, { ...resource, ...own });
  }
}

const closing = <C extends { close(): void }>(t: Test, client: C): C => {
  t.teardown(() => {
    client.close();
  });
  return client;
};

t.test('each per-type service answers both kinds of streams with its type', async (t) => {
  const { port, admin } = await startDirectoryGateway(t, { fill: fillAll });
  for (const service of PER_TYPE) {
    const [typeUrl, name] = [typeOf(service), nameOf(service)];
    const sotw = closing(t, new SotwClient({ port, path: pathOf(service, 'stream') }));
    sotw.subscribe(typeUrl, [name]);
    const delta = closing(t, new DeltaClient({ port, path: pathOf(service, 'delta') }));
    delta.subscribe(typeUrl, [name]);
    await until(`both have ${service.shortName}`, () => {
      return sotw.responses.length === 1 && delta.held(typeUrl).has(name);
    });
    t.match(sotw.responses[0], { typeUrl, resources: [{ typeUrl }] });
  }
  const { clients } = (await httpJson(`http://${admin}/clients`)) as {
    readonly clients: readonly { readonly service: string }[];
  };
  t.strictSame(
    clients.map(({ service }) => service).sort(),
    PER_TYPE.flatMap(({ shortName }) => [shortName, shortName]).sort(),
    'the admin side shows the service of each stream',
  );
});

t.test(
  'an empty type_url is the type of the method, another one ends the stream with INVALID_ARGUMENT',
  async (t) => {
    const { port } = await startDirectoryGateway(t, { fill: fillAll });
    const cluster = DISCOVERY_SERVICES.find(({ shortName }) => shortName === 'CDS')!;
    const path = pathOf(cluster, 'stream');
    const unnamed = closing(t, new SotwClient({ port, path }));
    unnamed.subscribe('', [nameOf(cluster)]);
    await until('it is answered', () => unnamed.responses.length > 0);
    t.match(unnamed.responses[0], { typeUrl: CDS, resources: [{ typeUrl: CDS }] });

    const wrong = closing(t, new SotwClient({ port, path }));
    wrong.subscribe(EDS, [eds('one', authority)]);
    await until('it has ended', () => wrong.status);
    t.match(wrong.status, { code: STATUS_CODE.invalidArgument });
    t.equal(wrong.status?.details, `this method serves ${CDS}, not ${EDS}`);
  },
);

t.test(
  'a call of a service that the gateway lacks is UNIMPLEMENTED, and logged once with its meaning',
  async (t) => {
    const { port, admin, log } = await startDirectoryGateway(t);
    const session = connect(`http://127.0.0.1:${port}`);
    t.teardown(() => {
      session.destroy();
    });
    const paths = [
      '/envoy.service.health.v3.HealthDiscoveryService/StreamHealthCheck',
      '/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs',
      '/envoy.service.metrics.v3.MetricsService/StreamMetrics',
      '/envoy.service.discovery.v2.AggregatedDiscoveryService/StreamAggregatedResources',
      '/some.Service/Method',
    ];
    for (const path of [...paths, ...paths]) {
      const call = openHttp2Call(session, { ':path': path });
      await call.closed();
      t.equal(call.response?.['grpc-status'], String(STATUS_CODE.unimplemented));
    }
    const told = log.filter(({ event }) => event === 'client_unknown_method');
    t.strictSame(
      told.map(({ method }) => method),
      paths,
    );
    t.match(told, [
      { meaning: /HDS/ },
      { meaning: /access logs/ },
      { meaning: /metrics/ },
      { meaning: /version 2 of xDS/ },
      { meaning: /does not have/ },
    ]);
    const { body } = await httpRequest(`http://${admin}/metrics`);
    t.match(body, /^tributary_client_unknown_methods_total 5$/m);
  },
);

t.test(
  'one connection makes the gateway report a bounded number of invented methods',
  async (t) => {
    const { port, admin } = await startDirectoryGateway(t);
    const session = connect(`http://127.0.0.1:${port}`);
    t.teardown(() => {
      session.destroy();
    });
    for (let number = 0; number < 20; number++) {
      await openHttp2Call(session, { ':path': `/invented/${number}` }).closed();
    }
    // The log has fewer lines: it is bounded for each second as well.
    const { body } = await httpRequest(`http://${admin}/metrics`);
    t.match(body, /^tributary_client_unknown_methods_total 16$/m);
  },
);

/**
 * Goal: the status of many clients is bounded, and holds up the event loop no longer than a few milliseconds
 * (docs/SECURITY.md, "Bounds on input").
 * Method: real sessions over a directory of the test; Envoy's descriptors read the response.
 */
import { fromBinary, toJson } from '@bufbuild/protobuf';
import t from 'tap';
import { clientStatus } from '../../../../../gateway/admin/grpc/client-configs.js';
import type { GatewayView } from '../../../../../gateway/gateway-view.js';
import type { ClientStatusRequest } from '../../../../../protos/client-status.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { envoyRegistry } from '../../../../../protos/envoy-registry.js';
import { CDS, RDS, cds, rds } from '../../../../support/mesh-names.js';
import { Instance } from '../../../../support/session-driver.js';

type Server = Pick<GatewayView, 'server'>;
type Client = ReturnType<Instance['connect']>;
const ALL: ClientStatusRequest = { nodeIds: [], excludesContents: false };

function serverOf(clients: readonly Client[], nodeId = 'node'): Server {
  const streams = clients.map(({ session }, index) => ({
    id: clients.length - index,
    node: index === 0 ? undefined : { id: `${nodeId}-${index}`, cluster: 'edge' },
    peer: 'peer',
    service: 'ADS',
    flavour: 'delta',
    session,
    rejectionOf: () => undefined,
  }));
  return { server: { clients: () => streams } } as unknown as Server;
}

/** A client of a glob with members of this content. */
function clientOf(instance: Instance, count: number, content: string): Client {
  for (let id = 0; id < count; id++) instance.directory.put(CDS, cds(`g/${id}`), content);
  const client = instance.connect();
  client.subscribe(CDS, cds('g/*'));
  instance.directory.answer();
  client.settle();
  return client;
}

interface Shown {
  readonly config?: readonly {
    readonly node?: { readonly id: string };
    readonly genericXdsConfigs?: readonly { readonly xdsConfig?: unknown }[];
  }[];
}

async function ask(server: Server, request = ALL): Promise<Shown> {
  const reply = await clientStatus(server, request);
  if (!reply.ok) throw new Error(reply.status.message);
  const desc = envoyRegistry().getMessage('envoy.service.status.v3.ClientStatusResponse')!;
  return toJson(desc, fromBinary(desc, reply.bytes), { registry: envoyRegistry() }) as Shown;
}

t.test('clients come in the order in which they opened their streams', async (t) => {
  const instance = new Instance();
  const clients = [1, 2, 3].map(() => instance.connect());
  const { config } = await ask(serverOf(clients));
  t.match(config, [{ node: { id: 'node-2' } }, { node: { id: 'node-1' } }, {}]);
  const nodeIds = [{ kind: 'suffix', text: '-2', ignoresCase: false } as const];
  const chosen = await ask(serverOf(clients), { ...ALL, nodeIds });
  t.strictSame(
    chosen.config?.map(({ node }) => node?.id),
    ['node-2'],
    'a client without a Node matches nothing',
  );
});

t.test(
  'more than 20,000 resources are RESOURCE_EXHAUSTED, and the message says the way out',
  async (t) => {
    const instance = new Instance();
    const client = clientOf(instance, 10_001, 'v1');
    t.match(await clientStatus(serverOf([client]), ALL), { ok: true });
    t.match(await clientStatus(serverOf([client, client]), ALL), {
      ok: false,
      status: { code: STATUS_CODE.resourceExhausted, message: /^the status of 2 .*node_matchers/ },
    });
  },
);

t.test('more than 4 MB are RESOURCE_EXHAUSTED', async (t) => {
  const instance = new Instance();
  const client = instance.connect();
  const long = 'x'.repeat(1_900);
  const names = Array.from({ length: 900 }, (_, id) => rds(`${id}/${long}`));
  client.subscribe(RDS, ...names);
  t.match(await clientStatus(serverOf([client, client]), ALL), { ok: true });
  t.match(await clientStatus(serverOf([client, client, client]), ALL), {
    ok: false,
    status: { code: STATUS_CODE.resourceExhausted },
  });
});

t.test('the ids of Nodes count too, since clients choose them', async (t) => {
  const instance = new Instance();
  const clients = Array.from({ length: 30 }, () => instance.connect());
  const status = { code: STATUS_CODE.resourceExhausted };
  const long = 'x'.repeat(200_000);
  t.match(await clientStatus(serverOf(clients, long), ALL), { ok: false, status });
  t.match(await clientStatus(serverOf(clients), ALL), { ok: true });
});

t.test('contents beyond 2 MB are left out, and all of them on request', async (t) => {
  const instance = new Instance();
  // Cluster.health_checks = 8, HealthCheck.http_health_check = 8, HttpHealthCheck.host = 1.
  const healthCheck = `\x42\x72\x42\x70\x0a\x6e${'x'.repeat(0x6e)}`;
  const content = healthCheck.repeat(130);
  t.equal(content.length, 15_080);
  const client = clientOf(instance, 200, content);
  const withContent = async (request: ClientStatusRequest) => {
    const { config } = await ask(serverOf([client]), request);
    const rows = config?.[0]?.genericXdsConfigs ?? [];
    t.equal(rows.length, 200);
    return rows.filter(({ xdsConfig }) => xdsConfig !== undefined).length;
  };
  t.equal(await withContent(ALL), 132);
  t.equal(await withContent({ ...ALL, excludesContents: true }), 0);
});

t.test('a long response lets other work pass', async (t) => {
  const client = clientOf(new Instance(), 10_001, 'v1');
  let turns = 0;
  const turn = setInterval(() => turns++, 1);
  t.teardown(() => {
    clearInterval(turn);
  });
  t.match(await clientStatus(serverOf([client]), ALL), { ok: true });
  t.ok(turns >= 3, `${turns} turns of the event loop`);
});

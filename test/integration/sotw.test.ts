/**
 * Goal: one gateway serves state-of-the-world and delta clients side by side, with the same
 * content, and the admin side shows the protocol of each.
 * Method: a gateway in this process with a directory as source, and a client of each kind over
 * gRPC.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { parseAuthorityMap } from '../../config/authority-map.js';
import { parseSettings } from '../../config/settings.js';
import { createGateway } from '../../gateway/compose.js';
import { GRPC_MAX_MESSAGE_BYTES } from '../../gateway/core/session/message-limit.js';
import { Telemetry } from '../../gateway/telemetry/telemetry.js';
import { encodeNode } from '../../protos/node-codec.js';
import { TYPE_URL } from '../../protos/type-urls.js';
import { DeltaClient } from '../support/delta-client.js';
import type { SotwResponse } from '../support/discovery-messages.js';
import { httpJson, httpRequest } from '../support/http.js';
import { SotwClient } from '../support/sotw-client.js';
import { until } from '../support/until.js';

const CDS = TYPE_URL.cluster;
const urn = (name: string): string => `xdstp://cloud.test/envoy.config.cluster.v3.Cluster/${name}`;

async function startGateway(t: Test) {
  const directory = mkdtempSync(join(tmpdir(), 'tributary-sotw-'));
  mkdirSync(join(directory, 'files'));
  const put = (name: string, seconds: number, stat = name): void => {
    const timeout = { connect_timeout: `${seconds}s`, alt_stat_name: stat };
    const one = { '@type': CDS, name: urn(name), ...timeout };
    writeFileSync(join(directory, `files/${name}.json`), JSON.stringify(one));
  };
  const file = join(directory, 'map.json');
  const text = JSON.stringify({
    sources: { files: { path: 'files' } },
    authorities: { 'cloud.test': { sources: ['files'] } },
  });
  writeFileSync(file, text);
  const map = parseAuthorityMap(text, { file });
  const ports = ['--client-port', '0', '--admin-port', '0', '--drain-grace', '100ms'];
  const settings = parseSettings({ argv: ['--authority-map', file, ...ports], env: {} });
  if (!map.ok || !settings.ok) throw new Error('settings or map');
  const telemetry = new Telemetry(pino({ level: 'silent' }));
  const gateway = createGateway({ settings: settings.settings, map: map.map, telemetry });
  for (const name of ['a', 'b']) put(name, 1);
  const port = await gateway.start();
  t.teardown(async () => {
    await gateway.stop();
    rmSync(directory, { recursive: true, force: true });
  });
  const remove = (name: string): void => {
    rmSync(join(directory, `files/${name}.json`));
  };
  return { port, put, remove, admin: gateway.admin.address };
}

function startSotw(
  t: Test,
  port: number,
  names: readonly string[],
  { userAgentName = 't', maxMessageBytes = -1 } = {},
): SotwClient {
  const node = encodeNode({ id: 'grpc', cluster: 'c', userAgentName, userAgentVersion: '1' });
  const client = new SotwClient({ port, node, maxMessageBytes });
  client.subscribe(CDS, names);
  t.teardown(() => {
    client.close();
  });
  return client;
}

/** The name inside, which is the first field of a Cluster. */
const nameIn = (body: Buffer): string => body.subarray(2, 2 + (body[1] ?? 0)).toString();

t.test(
  'both flavours get the same bytes of the same resources over real sockets (GRPC 1)',
  async (t) => {
    const { port, put, remove, admin } = await startGateway(t);
    const names = [urn('a'), urn('b')];
    const { responses } = startSotw(t, port, names);
    const delta = new DeltaClient({ port });
    t.teardown(() => {
      delta.close();
    });
    delta.subscribe(CDS, names);
    const last = (): SotwResponse | undefined => responses.at(-1);
    await until('both have both', () => {
      return last()?.resources.length === 2 && delta.held(CDS).size === 2;
    });
    t.strictSame(
      last()
        ?.resources.map(({ body }) => nameIn(body))
        .sort(),
      names,
    );
    t.ok(last()?.resources.every(({ typeUrl }) => typeUrl === CDS));

    put('a', 5);
    const seen = responses.length;
    await until('a change is sent with the full set', () => {
      return responses.length > seen && last()?.resources.length === 2;
    });
    await until('to both', () => delta.bodies(CDS).length === 3);
    const bodies = new Map(
      delta.responses.flatMap((one) => one.resources.map((r) => [r.name, r.body])),
    );
    for (const { body } of last()?.resources ?? []) {
      t.ok(body.equals(bodies.get(nameIn(body)) ?? Buffer.alloc(0)), nameIn(body));
    }

    const { clients } = (await httpJson(`http://${admin}/clients`)) as {
      clients: readonly Record<string, unknown>[];
    };
    t.match(
      clients.find(({ protocol }) => protocol === 'sotw'),
      {
        node: { id: 'grpc' },
        names: 2,
        subscriptions: [{ type: 'Cluster', authority: 'cloud.test' }],
      },
    );
    t.ok(clients.some(({ protocol }) => protocol === 'delta'));
    const { body } = await httpRequest(`http://${admin}/metrics`);
    t.match(body, /^tributary_clients 2$/m);
    t.match(body, /^tributary_sotw_clients 1$/m);

    remove('b');
    await until('a deleted resource is left out', () => last()?.resources.length === 1);
    t.strictSame(
      last()?.resources.map(({ body }) => nameIn(body)),
      [urn('a')],
    );
  },
);

t.test(
  'a cluster over the 4 MiB of a gRPC client costs it no other cluster, and no stream (GRPC 12)',
  async (t) => {
    const { port, put, admin } = await startGateway(t);
    const names = [urn('a'), urn('b')];
    const grpcJs = { userAgentName: 'gRPC Node Pure JS', maxMessageBytes: GRPC_MAX_MESSAGE_BYTES };
    const limited = startSotw(t, port, names, grpcJs);
    const free = startSotw(t, port, names, { userAgentName: 'envoy' });
    const sizes = ({ responses }: SotwClient): readonly number[] =>
      responses.at(-1)?.resources.map(({ body }) => body.length) ?? [];
    await until('both have both', () => sizes(limited).length === 2 && sizes(free).length === 2);

    put('b', 1, 'x'.repeat(GRPC_MAX_MESSAGE_BYTES));
    await until('a client without the limit gets it', () => {
      return sizes(free).some((size) => size > GRPC_MAX_MESSAGE_BYTES);
    });
    const seen = limited.responses.length;
    put('a', 5, 'changed');
    await until('the other cluster is served', () => limited.responses.length > seen);
    t.match(
      limited.responses
        .at(-1)
        ?.resources.map(({ body }) => body.toString())
        .sort(),
      [/changed/, new RegExp(urn('b'))],
    );
    t.equal(limited.status, undefined, 'its stream stays open');

    const { clients } = (await httpJson(`http://${admin}/clients`)) as {
      clients: readonly Record<string, unknown>[];
    };
    t.match(
      clients.find(({ maxMessage }) => maxMessage === GRPC_MAX_MESSAGE_BYTES),
      { withheld: [{ type: 'Cluster', name: urn('b') }] },
    );
    const { body } = await httpRequest(`http://${admin}/metrics`);
    t.match(body, /^tributary_client_withheld_total\{type="Cluster"\} 1$/m);
    const again = startSotw(t, port, names, grpcJs);
    await until('a later client gets the last version that fits', () => sizes(again).length === 2);
  },
);

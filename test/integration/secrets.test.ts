/**
 * Goal: values of forwarded headers and of credentials leave the gateway on the streams to their sources
 * and nowhere else (invariant 13).
 * Method: twenty canaries as tokens, a session with refusals, updates, renewals and a reload at log level
 * trace, a server that repeats refused tokens; then a search in everything that the gateway wrote.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import t from 'tap';
import { run } from '../../gateway/cli/run.js';
import { encodeNode } from '../../protos/node-codec.js';
import { DeltaClient } from '../support/delta-client.js';
import { httpRequest } from '../support/http.js';
import { startGateway } from '../support/identity-gateway.js';
import { IdentityUpstream } from '../support/identity-upstream.js';
import { TYPE_URLS } from '../support/mesh.js';
import { ScriptedNats } from '../support/scripted-nats.js';
import { until } from '../support/until.js';

const CDS = TYPE_URLS.cluster;
const COUNT = 20;
const canary = (index: number): string => `canary-${index}-4f9c1d7be2`;

/** As a clear text, and as encodings that a dump might use. */
const formsOf = (text: string): readonly string[] => [
  text,
  Buffer.from(text).toString('base64').replace(/=+$/, ''),
  Buffer.from(text).toString('hex'),
];

t.test('13: no token of a client or source is in any output, at any log level', async (t) => {
  const accepted = new Set<string>();
  const upstream = await IdentityUpstream.start({
    ownerOf: (stream) => {
      const [token = ''] = stream.header('authorization');
      const index = /canary-(\d+)-/.exec(token)?.[1];
      return accepted.has(token) ? `owner-${index ?? ''}` : undefined;
    },
  });
  const nats = await ScriptedNats.start();
  const secrets = mkdtempSync(join(tmpdir(), 'tributary-secrets-'));
  writeFileSync(join(secrets, 'own-token'), canary(COUNT - 1));
  t.teardown(async () => {
    upstream.stop();
    await nats.stop();
    rmSync(secrets, { recursive: true, force: true });
  });
  const map = (more = ''): string => `
sources:
  s:
    target: "127.0.0.1:${upstream.port}"
    insecure: true
    forward_headers: [authorization, x-consul-token]
    forward_node: all
    timers: { backoff_base: 20ms, backoff_max: 50ms, linger: 50ms }
  own:
    target: "127.0.0.1:${upstream.port}"
    insecure: true
    call_credentials: { access_token_file: "${secrets}/own-token" }
    ${more}
authorities: { cloud.test: { sources: [own] } }
old_style_names: { served_by: [{ sources: [s], failover: { linger: 50ms } }] }
`;
  const gateway = await startGateway(t, map(), [
    ...['--state-file', 'DIR/state', '--nats-servers', `nats://${nats.address}`],
    ...['--nats-cluster', 'test', '--nats-insecure', '--unsubscribed-linger', '50ms'],
  ]);

  const node = encodeNode({ id: 'n', cluster: 'c', userAgentName: '', userAgentVersion: '' });
  const clients = Array.from({ length: COUNT - 1 }, (_, index) => {
    const authorization = `Bearer ${canary(index)}`;
    // A third of them is refused.
    if (index % 3 !== 0) accepted.add(authorization);
    const headers = { authorization, 'x-consul-token': canary(index), cookie: canary(index) };
    const client = new DeltaClient({ port: gateway.port, node, headers });
    t.teardown(() => {
      client.close();
    });
    client.subscribe(CDS, ['*']);
    client.subscribe(CDS, ['xdstp://cloud.test/envoy.config.cluster.v3.Cluster/a']);
    return client;
  });
  const served = clients.filter((_, index) => index % 3 !== 0);
  const refused = COUNT - 1 - served.length;
  await until('the accepted clients are served', () =>
    served.every((client) => client.content(CDS).has('web')),
  );
  await until('the others are refused, and the gateway itself', () => upstream.refusals > refused);

  const seen: string[] = [];
  const look = async (): Promise<void> => {
    const type = 'envoy.config.cluster.v3.Cluster';
    const paths = ['/', '/live', '/ready', '/authorities', '/clients', '/instances', '/metrics'];
    const more = [`/explain/web?type=${type}`, `/explain/*?type=${type}`, '/resources/web'];
    for (const path of [...paths, ...more]) {
      const { body } = await httpRequest(`http://${gateway.admin}${path}`);
      seen.push(body);
    }
    const asBrowser = { headers: { accept: 'text/html' } };
    const page = `http://${gateway.admin}/?name=web&type=${type}`;
    seen.push((await httpRequest(page, asBrowser)).body);
    for (const command of [
      ['explain', 'web', '--type', type],
      ['clients'],
      ['authorities'],
      ['status'],
    ]) {
      const said = (text: string): void => void seen.push(text);
      await run([...command, '--admin', gateway.admin], { env: {}, out: said, err: said });
    }
    seen.push(inspect(gateway.gateway, { depth: 12, showHidden: false }));
    seen.push(inspect(gateway.gateway.upstream.view.nodeGroups.identities, { depth: 12 }));
  };
  await look();
  upstream.update('owner-1');
  const [, first] = clients;
  await until('an update arrives', () => (first?.bodies(CDS).length ?? 0) > 1);
  // A renewed token, and one that is refused now.
  accepted.add(`Bearer ${canary(0)}`);
  clients[0]?.reopenWith({ authorization: `Bearer ${canary(0)}` });
  await until('it is served', () => clients[0]?.content(CDS).has('web'));
  gateway.reload(map('max_receive: 1MiB'));
  await until('all are served again', () => upstream.openStreams('owner-1').length === 1);
  await look();
  await until('hints were sent', () =>
    nats.connections.flat().some((line) => line.startsWith('PUB ') || line.startsWith('HPUB ')),
  );
  for (const client of clients) client.close();
  await until('the clients are gone', () => gateway.gateway.server.streams.size === 0);
  await look();
  await gateway.gateway.stop();

  const stateFile = join(gateway.directory, 'state');
  t.ok(existsSync(stateFile), 'there is a state file');
  const outputs: Readonly<Record<string, string>> = {
    log: gateway.lines.join('\n'),
    'admin side and commands': seen.join('\n'),
    NATS: nats.connections.flat().join('\n'),
    'state file': readFileSync(stateFile, 'latin1'),
    'responses to clients': JSON.stringify(
      clients.map(({ responses, status }) => ({ responses, status })),
    ),
  };
  for (const [what, text] of Object.entries(outputs)) {
    t.ok(text.length > 100, `${what} has content`);
    const found = Array.from({ length: COUNT }, (_, index) => canary(index)).filter((token) =>
      formsOf(token).some((form) => text.includes(form)),
    );
    t.strictSame(found, [], `no canary in: ${what}`);
  }
  t.match(
    outputs['log'],
    /no proxy has the token \\"\(hidden\)\\"/,
    'the rest of the error is there',
  );
  t.match(outputs['state file'], /n#[0-9a-f]{64}/, 'scopes are hashes');
  t.match(outputs['NATS'], /n#[0-9a-f]{64}/);
});

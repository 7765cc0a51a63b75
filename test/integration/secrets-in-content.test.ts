/**
 * Goal: secrets inside resources, also in files that are malformed, and passwords of the gateway itself are in no
 * log at level trace, dump, output of a command, metric, NATS message or state file (docs/SECURITY.md).
 * Method: twenty canaries at places where secrets are, or slip to by a mistake; then a search in everything
 * that the gateway wrote.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import t from 'tap';
import { run } from '../../gateway/cli/run.js';
import {
  AdminGrpcClient,
  CSDS_FETCH,
  CSDS_RESPONSE,
  decodeMessage,
} from '../support/admin-grpc.js';
import { DeltaClient } from '../support/delta-client.js';
import { httpRequest } from '../support/http.js';
import { startGateway } from '../support/identity-gateway.js';
import { ScriptedNats } from '../support/scripted-nats.js';
import { until } from '../support/until.js';

const COUNT = 20;
const canary = (index: number): string => `canary-${index}-8d1b6a50ce`;
/** As a clear text, and as encodings that a dump might use. */
const formsOf = (text: string): readonly string[] => [
  text,
  Buffer.from(text).toString('base64').replace(/=+$/, ''),
  Buffer.from(text).toString('hex'),
];

const API = 'type.googleapis.com/envoy';
const SECRET = `${API}.extensions.transport_sockets.tls.v3.Secret`;
const CLUSTER = `${API}.config.cluster.v3.Cluster`;
const LISTENER = `${API}.config.listener.v3.Listener`;
const ROUTE = `${API}.config.route.v3.RouteConfiguration`;
const AUTHORITY = 'files.test';
const urn = (type: string, path: string): string =>
  `xdstp://${AUTHORITY}/${type.slice(type.indexOf('/') + 1)}/${path}`;

const header = (key: string, value: string) => ({ header: { key, value } });
const filter = (name: string, typed_config: unknown) => ({ name, typed_config });

/** Valid resources with secrets, by name. */
const RESOURCES: Readonly<Record<string, readonly [type: string, content: unknown]>> = {
  key: [
    SECRET,
    {
      tls_certificate: {
        private_key: { inline_string: canary(0) },
        password: { inline_string: canary(1) },
      },
    },
  ],
  generic: [SECRET, { generic_secret: { secret: { inline_bytes: btoa(canary(2)) } } }],
  web: [
    CLUSTER,
    {
      metadata: { filter_metadata: { own: { api_key: canary(3), deep: { password: canary(4) } } } },
      transport_socket: {
        name: 'tls',
        typed_config: {
          '@type': 'type.googleapis.com/xds.type.v3.TypedStruct',
          type_url: 'example.com/Own',
          value: { anything: canary(5), list: [{ x: canary(6) }] },
        },
      },
    },
  ],
  routes: [
    ROUTE,
    {
      request_headers_to_add: [
        header('authorization', `Bearer ${canary(7)}`),
        header('x-api-key', canary(8)),
      ],
    },
  ],
  filters: [
    LISTENER,
    {
      filter_chains: [
        {
          filters: [
            filter('hcm', {
              '@type': `${API}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager`,
              stat_prefix: 's',
              http_filters: [
                filter('lua', {
                  '@type': `${API}.extensions.filters.http.lua.v3.Lua`,
                  inline_code: `-- ${canary(9)}`,
                  default_source_code: { inline_string: `-- ${canary(10)}` },
                }),
                filter('own', {
                  '@type': 'type.googleapis.com/google.protobuf.StringValue',
                  value: canary(11),
                }),
              ],
            }),
          ],
        },
      ],
    },
  ],
};

const secretFile = (rest: string): string =>
  `"@type": ${SECRET}\nname: ${urn(SECRET, 'bad')}\n${rest}`;

/** Files with a mistake at or beside a secret. */
const MALFORMED: Readonly<Record<string, string>> = {
  'not-a-message.yaml': secretFile(`tls_certificate: ${canary(12)}\n`),
  'as-key.yaml': secretFile(`tls_certificate: { private_key: { ${canary(13)}: 1 } }\n`),
  'not-indented.yaml': secretFile(
    `tls_certificate:\n  private_key:\n    inline_string: "x"\n${canary(14)}\n`,
  ),
  'tag.yaml': secretFile(`generic_secret: { secret: { inline_string: !${canary(15)} x } }\n`),
  'alias.yaml': secretFile(`generic_secret: { secret: { inline_string: *${canary(16)} } }\n`),
  'as-type.yaml': `"@type": ${canary(17)}\nname: x\n`,
  'text.pb_text': `resources { [${SECRET}] { name: "x" generic_secret { secret { inline_string: ${canary(18)} } } } }`,
};

t.test(
  '11: no secret of a resource, and no password of the gateway, is in any output',
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'tributary-contents-'));
    const nats = await ScriptedNats.start();
    t.teardown(async () => {
      await nats.stop();
      rmSync(folder, { recursive: true, force: true });
    });
    const files = join(folder, 'files');
    mkdirSync(files);
    for (const [name, [type, content]] of Object.entries(RESOURCES)) {
      const resource = { '@type': type, ...(content as object), name: urn(type, name) };
      writeFileSync(join(files, `${name}.json`), JSON.stringify(resource));
    }
    writeFileSync(join(folder, 'password'), canary(19));
    const gateway = await startGateway(
      t,
      `sources: { files: { path: "${files}" } }\nauthorities: { ${AUTHORITY}: { sources: [files] } }\n`,
      [
        ...['--state-file', 'DIR/state', '--nats-servers', `nats://${nats.address}`],
        ...['--nats-cluster', 'test', '--nats-insecure', '--nats-user', 'me'],
        ...['--nats-password-file', join(folder, 'password')],
      ],
    );
    const client = new DeltaClient({ port: gateway.port });
    t.teardown(() => {
      client.close();
    });
    const all = Object.entries(RESOURCES).map(([name, [type]]) => ({
      type,
      name: urn(type, name),
    }));
    for (const type of new Set(all.map((one) => one.type)))
      client.subscribe(type, [urn(type, '*')]);
    await until('the client has all', () =>
      all.every(({ type, name }) => client.held(type).has(name)),
    );
    for (const [name, text] of Object.entries(MALFORMED)) writeFileSync(join(files, name), text);
    await until('each mistake is logged', () =>
      Object.keys(MALFORMED).every((name) => gateway.lines.some((line) => line.includes(name))),
    );

    const seen: string[] = [];
    for (const path of ['/', '/ready', '/authorities', '/clients', '/instances', '/metrics']) {
      seen.push((await httpRequest(`http://${gateway.admin}${path}`)).body);
    }
    seen.push((await httpRequest(`http://${gateway.admin}/config_dump`)).body);
    const status = await new AdminGrpcClient(t, gateway.admin).unary(CSDS_FETCH, Buffer.alloc(0));
    t.equal(status.code, 0, status.details);
    const statusBytes = Buffer.from(status.hex, 'hex');
    t.match(JSON.stringify(decodeMessage(CSDS_RESPONSE, statusBytes)), '"xds_config"');
    seen.push(statusBytes.toString('latin1'));
    const page = { headers: { accept: 'text/html' } };
    seen.push((await httpRequest(`http://${gateway.admin}/`, page)).body);
    for (const { name } of all) {
      const { status, body } = await httpRequest(`http://${gateway.admin}/resources/${name}`);
      t.equal(status, 200, name);
      t.notMatch(body, /unknown type|"error"/, 'it is shown as JSON');
      seen.push(body);
      for (const command of ['get', 'explain']) {
        const said = (text: string): void => void seen.push(text);
        await run([command, name, '--admin', gateway.admin], { env: {}, out: said, err: said });
      }
    }
    seen.push(inspect(gateway.gateway.upstream.view.map, { depth: 12 }));
    await until('hints were sent', () =>
      nats.connections.flat().some((line) => line.startsWith('PUB ') || line.startsWith('HPUB ')),
    );
    await gateway.gateway.stop();

    const connects = nats.connections.flat().filter((line) => line.startsWith('CONNECT '));
    t.match(connects.join(), canary(19), 'the NATS server itself gets the password');
    const outputs: Readonly<Record<string, string>> = {
      log: gateway.lines.join('\n'),
      'admin side and commands': seen.join('\n'),
      NATS: nats.connections
        .flat()
        .filter((line) => !connects.includes(line))
        .join('\n'),
      'state file': readFileSync(join(gateway.directory, 'state'), 'latin1'),
    };
    for (const [what, text] of Object.entries(outputs)) {
      t.ok(text.length > 100, `${what} has content`);
      const found = Array.from({ length: COUNT }, (_, index) => canary(index)).filter((token) =>
        formsOf(token).some((form) => text.includes(form)),
      );
      t.strictSame(found, [], `no canary in: ${what}`);
    }
    t.match(outputs['admin side and commands'], '[redacted]');
  },
);

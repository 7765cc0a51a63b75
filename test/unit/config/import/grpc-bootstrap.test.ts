/** Goal: a whole gRPC bootstrap (gRFC A27) becomes an authority map without problems. */
import t from 'tap';
import { parse } from 'yaml';
import { parseAuthorityMap } from '../../../../config/authority-map.js';
import { importBootstrap } from '../../../../config/import/import-bootstrap.js';
import { nameOfTarget } from '../../../../config/import/map-draft.js';
import { formatProblem } from '../../../../config/problems.js';

const BOOTSTRAP = `{ "xds_servers": [
  { "server_uri": "dns:///td.example.com:443", "channel_creds": [{"type":"google_default"}], "server_features": ["xds_v3","ignore_resource_deletion"] },
  { "server_uri": "10.0.0.9:18000", "channel_creds": [{"type":"insecure"}], "server_features": ["trusted_xds_server"] } ],
  "node": { "id": "app-1", "locality": {} },
  "certificate_providers": { "default": { "plugin_name": "file_watcher", "config": { "certificate_file": "a" } } },
  "client_default_listener_resource_name_template": "xdstp://mesh/envoy.config.listener.v3.Listener/%s",
  "authorities": { "mesh": {}, "other": { "xds_servers": [ { "server_uri": "x.example.com:443", "channel_creds": [{"type":"weird"},{"type":"tls","config":{"ca_certificate_file":"certs/ca.pem"}}] } ] } } }`;

t.test('servers in order, credentials, authorities, and comments on the rest', (t) => {
  const read = importBootstrap(Buffer.from(BOOTSTRAP), 'grpc.json', 'grpc.json');
  if (!read.ok) throw new Error(read.problems.map(formatProblem).join());
  const valid = parseAuthorityMap(read.yaml, { file: '/x/map.yaml' });
  t.ok(valid.ok && valid.warnings.length === 0, read.yaml);
  const api = { api_type: 'AGGREGATED_GRPC' };
  t.strictSame(parse(read.yaml), {
    sources: {
      'td.example.com': {
        target: 'dns:///td.example.com:443',
        call_credentials: { google_default: {} },
        ...api,
      },
      '10.0.0.9': { target: '10.0.0.9:18000', insecure: true, ...api },
      'x.example.com': { target: 'x.example.com:443', tls: { ca: 'certs/ca.pem' }, ...api },
    },
    authorities: {
      mesh: { sources: ['td.example.com', '10.0.0.9'], ignore_deletion: true },
      other: { sources: ['x.example.com'] },
    },
    old_style_names: { served_by: [{ sources: ['td.example.com', '10.0.0.9'] }] },
  });
  for (const words of [
    /trusted_xds_server has no counterpart/,
    /channel_creds: weird has no counterpart/,
    /^# - node: each client sends its own/m,
    /certificate_providers: stays/,
    /client_default_listener_resource_name_template: stays/,
  ]) {
    t.match(read.yaml, words);
  }
  t.end();
});

t.test('a source is named like its host', (t) => {
  for (const [target, name] of [
    ['dns:///td.example.com:443', 'td.example.com'],
    ['dns://8.8.8.8/a:1', 'a'],
    ['dns:b:1', 'b'],
    ['127.0.0.1:5', '127.0.0.1'],
    ['ipv4:10.0.0.1:1,10.0.0.2:2', '10.0.0.1'],
    ['[::1]:5', '::1'],
    ['unix:/run/xds.sock', '/run/xds.sock'],
    ['', 'source'],
  ] as const) {
    t.equal(nameOfTarget(target), name, target);
  }
  t.end();
});

t.test('what is missing becomes a comment', (t) => {
  const odd = {
    xds_servers: [{}, { server_uri: '[::1]:5', channel_creds: [] }],
    authorities: { a: { client_listener_resource_name_template: 'x' } },
    more: 1,
  };
  const read = importBootstrap(Buffer.from(JSON.stringify(odd)), 'g', 'g');
  if (!read.ok) throw new Error('refused');
  t.match(parse(read.yaml), { sources: { '::1': { target: '[::1]:5' } } });
  for (const words of [
    /has no server_uri/,
    /TLS is assumed/,
    /more: has no counterpart/,
    /a\.client_listener/,
  ]) {
    t.match(read.yaml, words);
  }
  t.end();
});

t.test('validate says what a bootstrap is', (t) => {
  for (const [text, words] of [
    [
      BOOTSTRAP,
      'this is a gRPC bootstrap, not an authority map (tributary import f prints the map)',
    ],
    [
      'static_resources: {}',
      'this is an Envoy bootstrap, not an authority map (tributary import f',
    ],
    ['"@type": x/envoy.config.bootstrap.v3.Bootstrap', 'this is an Envoy bootstrap'],
  ] as const) {
    const read = parseAuthorityMap(text, { file: 'f' });
    t.notOk(read.ok);
    if (!read.ok) {
      t.equal(read.problems.length, 1);
      t.ok(formatProblem(read.problems[0]!).startsWith(`f:1:1: ${words}`), words);
    }
  }
  t.end();
});

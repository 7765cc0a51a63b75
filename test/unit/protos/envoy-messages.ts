/**
 * Encodes Envoy's messages from their published .proto files, with protobufjs and not with our
 * codecs.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import protobuf from 'protobufjs';

const require = createRequire(import.meta.url);
const deps = path.join(path.dirname(require.resolve('@grpc/grpc-js-xds/package.json')), 'deps');
const includes = [
  ...['envoy-api', 'xds', 'googleapis', 'protoc-gen-validate'].map((name) => path.join(deps, name)),
  // For google/protobuf/descriptor.proto.
  path.dirname(require.resolve('protobufjs/package.json')),
];

const files = [
  'config/cluster/v3/cluster',
  'config/core/v3/extension',
  'config/endpoint/v3/endpoint',
  'config/listener/v3/listener',
  'config/route/v3/route',
  'config/route/v3/scoped_route',
  'config/trace/v3/opentelemetry',
  'config/trace/v3/zipkin',
  'extensions/access_loggers/grpc/v3/als',
  'extensions/clusters/aggregate/v3/cluster',
  'extensions/filters/http/ext_authz/v3/ext_authz',
  'extensions/filters/http/ext_proc/v3/ext_proc',
  'extensions/filters/http/jwt_authn/v3/config',
  'extensions/filters/http/oauth2/v3/oauth',
  'extensions/filters/http/on_demand/v3/on_demand',
  'extensions/filters/http/ratelimit/v3/rate_limit',
  'extensions/filters/network/ext_authz/v3/ext_authz',
  'extensions/filters/network/http_connection_manager/v3/http_connection_manager',
  'extensions/filters/network/ratelimit/v3/rate_limit',
  'extensions/filters/network/tcp_proxy/v3/tcp_proxy',
  'extensions/filters/udp/udp_proxy/v3/udp_proxy',
  'extensions/transport_sockets/http_11_proxy/v3/upstream_http_11_connect',
  'extensions/transport_sockets/internal_upstream/v3/internal_upstream',
  'extensions/transport_sockets/proxy_protocol/v3/upstream_proxy_protocol',
  'extensions/transport_sockets/quic/v3/quic_transport',
  'extensions/transport_sockets/starttls/v3/starttls',
  'extensions/transport_sockets/tap/v3/tap',
  'extensions/transport_sockets/tcp_stats/v3/tcp_stats',
  'extensions/transport_sockets/tls/v3/tls',
  'service/load_stats/v3/lrs',
  'service/runtime/v3/rtds',
];

const root = new protobuf.Root();
root.resolvePath = (_origin, target) =>
  includes.map((folder) => path.join(folder, target)).find((file) => existsSync(file)) ?? null;
root.loadSync(
  files.map((file) => `envoy/${file}.proto`),
  { keepCase: true },
);

/** Fields by their names in the .proto file. An Any is `any(type, fields)`. */
export type Fields = Readonly<Record<string, unknown>>;

export function encode(type: string, fields: Fields): Uint8Array {
  const message = root.lookupType(type);
  const wrong = message.verify(fields);
  if (wrong !== null) {
    throw new Error(`${type}: ${wrong}`);
  }
  for (const name of Object.keys(fields)) {
    if (message.fields[name] === undefined) {
      throw new Error(`${type} has no field ${name}`);
    }
  }
  return message.encode(message.create({ ...fields })).finish();
}

/** Fields of encoded bytes, enums by name. */
export function decode(type: string, bytes: Uint8Array): Fields {
  const message = root.lookupType(type);
  return message.toObject(message.decode(bytes), { enums: String });
}

export function any(type: string, fields: Fields): Fields {
  return { type_url: `type.googleapis.com/${type}`, value: encode(type, fields) };
}

/**
 * Goal: the gateway's table of discovery services is that of the xDS API.
 * Method: every service in the compiled descriptors of the Envoy API, with its methods and the paths
 * of its `google.api.http` options.
 */
import type { DescService } from '@bufbuild/protobuf';
import t from 'tap';
import { DISCOVERY_SERVICES } from '../../../protos/discovery-services.js';
import { envoyRegistry } from '../../../protos/envoy-registry.js';
import { TYPE_URL_PREFIX } from '../../../protos/type-urls.js';

/** Discovery services that the gateway does not serve. */
const NOT_SERVED: ReadonlyMap<string, string> = new Map([
  ['envoy.service.route.v3.VirtualHostDiscoveryService', 'VHDS'],
  ['envoy.service.endpoint.v3.LocalityEndpointDiscoveryService', 'LEDS'],
]);
/** Services of the admin side: no discovery service is among them. */
const OF_ADMIN_SIDE: ReadonlySet<string> = new Set([
  'envoy.service.status.v3.ClientStatusDiscoveryService',
  'grpc.channelz.v1.Channelz',
  'grpc.health.v1.Health',
]);
/** `google.api.http`. */
const HTTP_OPTION = 72_295_728;

function services(): readonly DescService[] {
  return [...envoyRegistry()]
    .filter((desc) => desc.kind === 'service')
    .filter(({ typeName }) => !OF_ADMIN_SIDE.has(typeName));
}

/** The `post` path (field 4 of HttpRule) of the methods that have one. */
function restPathsOf({ methods }: DescService): readonly string[] {
  return methods.flatMap(({ proto }) => {
    const options = proto.options?.$unknown?.filter(({ no }) => no === HTTP_OPTION) ?? [];
    return options.map(({ data }) => /"[^]([^]*)$/.exec(Buffer.from(data).toString())?.[1] ?? '');
  });
}

t.test('each discovery service of the xDS API is served, or a named exception', (t) => {
  const served = DISCOVERY_SERVICES.map(({ service }) => service);
  const all = services().map(({ typeName }) => typeName);
  t.strictSame([...served, ...NOT_SERVED.keys()].sort(), all.sort());
  t.end();
});

t.test('each served service has the methods and the REST path of its .proto file', (t) => {
  for (const { service, methods, restPath } of DISCOVERY_SERVICES) {
    const desc = services().find(({ typeName }) => typeName === service)!;
    const ours = Object.values(methods).filter((name) => name !== undefined);
    t.strictSame(ours.sort(), desc.methods.map(({ name }) => name).sort(), service);
    const kinds = desc.methods.map(({ name, methodKind }) => [name, methodKind]);
    t.strictSame(
      Object.fromEntries(kinds),
      Object.fromEntries(
        ours.map((name) => [name, name === methods.fetch ? 'unary' : 'bidi_streaming']),
      ),
    );
    t.strictSame(restPathsOf(desc), restPath === undefined ? [] : [restPath]);
  }
  t.end();
});

t.test('the type of each per-type service is a message of the Envoy API', (t) => {
  const types = DISCOVERY_SERVICES.flatMap(({ typeUrl }) => typeUrl ?? []);
  t.equal(new Set(types).size, DISCOVERY_SERVICES.length - 1, 'all differ, and ADS has none');
  for (const typeUrl of types) {
    t.ok(envoyRegistry().getMessage(typeUrl.slice(TYPE_URL_PREFIX.length)), typeUrl);
  }
  t.end();
});

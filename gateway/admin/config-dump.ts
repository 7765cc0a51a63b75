/**
 * `/config_dump`: all resources that the gateway serves, in the format of Envoy's endpoint of that name
 * (`envoy.admin.v3.ConfigDump` as JSON), without secrets, for the tools that read it.
 *
 * The gateway may hold 1 GiB of content, so the answer is made while it is read, in slices of time.
 */
import type { Projection } from '../../authorities/index.js';
import { wireText } from '../../protos/resource-name.js';
import { TYPE_URL, TYPE_URL_PREFIX } from '../../protos/type-urls.js';
import { LOG_START } from '../core/cache/change-log.js';
import type { ResourceCache } from '../core/cache/resource-cache.js';
import type { GatewayView } from '../gateway-view.js';
import { writePieces } from './pieces.js';
import { failure, type AdminContext, type AdminRequest, type Reply } from './reply.js';
import { shownJson, withJson } from './shown-resource.js';

/** Dumps at a time, since each takes a part of every turn. A count. */
const MAX_DUMPS = 2;

const openDumps = new WeakMap<GatewayView, number>();

/** The dump of one type: a message of `envoy.admin.v3`, with a list of rows. */
interface Section {
  readonly typeUrl: string;
  readonly message: string;
  readonly list: string;
  /** @returns JSON. @param json of the resource */
  readonly rowOf: (name: string, version_info: string, json: string) => string;
}

/** In Envoy's order. Envoy has no dump of other types. */
const SECTIONS: readonly Section[] = [
  {
    typeUrl: TYPE_URL.cluster,
    message: 'ClustersConfigDump',
    list: 'dynamic_active_clusters',
    rowOf: (_name, version_info, json) => withJson({ version_info }, 'cluster', json),
  },
  {
    typeUrl: TYPE_URL.clusterLoadAssignment,
    message: 'EndpointsConfigDump',
    list: 'dynamic_endpoint_configs',
    rowOf: (_name, version_info, json) => withJson({ version_info }, 'endpoint_config', json),
  },
  {
    typeUrl: TYPE_URL.listener,
    message: 'ListenersConfigDump',
    list: 'dynamic_listeners',
    rowOf: (name, version_info, json) =>
      withJson({ name }, 'active_state', withJson({ version_info }, 'listener', json)),
  },
  {
    typeUrl: TYPE_URL.scopedRouteConfiguration,
    message: 'ScopedRoutesConfigDump',
    list: 'dynamic_scoped_route_configs',
    rowOf: (name, version_info, json) =>
      withJson({ name, version_info }, 'scoped_route_configs', `[${json}]`),
  },
  {
    typeUrl: TYPE_URL.routeConfiguration,
    message: 'RoutesConfigDump',
    list: 'dynamic_route_configs',
    rowOf: (_name, version_info, json) => withJson({ version_info }, 'route_config', json),
  },
  {
    typeUrl: TYPE_URL.secret,
    message: 'SecretsConfigDump',
    list: 'dynamic_active_secrets',
    rowOf: (name, version_info, json) => withJson({ name, version_info }, 'secret', json),
  },
  {
    typeUrl: TYPE_URL.typedExtensionConfig,
    message: 'EcdsConfigDump',
    list: 'ecds_filters',
    rowOf: (_name, version_info, json) => withJson({ version_info }, 'ecds_filter', json),
  },
];

/** 400 for a query, since the dump has no filters. 503 if two dumps are under way. */
export function configDump({ gateway, telemetry }: AdminContext, { query }: AdminRequest): Reply {
  if (query.size > 0) {
    const hint = 'ask for one resource with /resources/<urn>';
    return failure(400, 'the dump is of everything: it has no parameters', { hint });
  }
  if ((openDumps.get(gateway) ?? 0) >= MAX_DUMPS) {
    return failure(503, `${MAX_DUMPS} dumps are under way`, { hint: 'try again' });
  }
  return {
    status: 200,
    contentType: 'application/json',
    body: '',
    goOn: (out) => {
      // The response is closed: no further 'close' event will come.
      if (out.destroyed) return;
      openDumps.set(gateway, (openDumps.get(gateway) ?? 0) + 1);
      out.once('close', () => {
        openDumps.set(gateway, (openDumps.get(gateway) ?? 1) - 1);
      });
      writePieces(out, dumpOf(gateway.cache), telemetry);
    },
  };
}

/** The text of the dump, in pieces of at most one resource. */
export async function* dumpOf(
  cache: Pick<ResourceCache, 'names' | 'globs'>,
): AsyncIterableIterator<string> {
  yield '{"configs":[';
  for (const [index, { typeUrl, message, list, rowOf }] of SECTIONS.entries()) {
    const type = `${TYPE_URL_PREFIX}envoy.admin.v3.${message}`;
    yield `${index === 0 ? '' : ','}\n{"@type":"${type}","${list}":[`;
    let separator = '\n';
    for (const projection of servedOf(cache, typeUrl)) {
      const { name, version } = projection;
      const json = await shownJson(projection);
      yield separator + rowOf(wireText(name.key), version, json);
      separator = ',\n';
    }
    yield ']}';
  }
  yield ']}\n';
}

/** Each content under each name once, however many node groups and collections have it. */
function* servedOf(
  cache: Pick<ResourceCache, 'names' | 'globs'>,
  typeUrl: string,
): IterableIterator<Projection> {
  const seen = new Set<string>();
  const isNew = ({ name, version }: Projection): boolean => {
    const { size } = seen;
    return seen.add(`${version} ${wireText(name.key)}`).size > size;
  };
  for (const { typeUrl: type, state } of cache.names()) {
    if (type !== typeUrl || state.kind !== 'present') continue;
    if (isNew(state.projection)) yield state.projection;
  }
  for (const { typeUrl: type, collection } of cache.globs()) {
    if (type !== typeUrl) continue;
    // Copied, because the members change between two slices.
    for (const { projection } of [...collection.members.since(LOG_START)]) {
      if (isNew(projection)) yield projection;
    }
  }
}

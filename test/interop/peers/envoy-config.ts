/** The configuration of an Envoy, from its `/config_dump?include_eds`. */

type Json = Readonly<Record<string, unknown>>;

export interface EnvoyConfig {
  /** Active clusters by name, as Envoy prints them. */
  readonly clusters: ReadonlyMap<string, Json>;
  /** Names of clusters that are not active yet, or not in their latest version. */
  readonly warming: ReadonlySet<string>;
  /** Ports of all endpoints, by the name of the assignment. */
  readonly assignments: ReadonlyMap<string, readonly number[]>;
  readonly listeners: ReadonlyMap<string, Json>;
  readonly routes: ReadonlyMap<string, Json>;
}

interface Dump {
  readonly configs?: readonly {
    readonly dynamic_active_clusters?: readonly { readonly cluster: Json }[];
    readonly dynamic_warming_clusters?: readonly { readonly cluster: Json }[];
    readonly dynamic_endpoint_configs?: readonly { readonly endpoint_config: Assignment }[];
    readonly dynamic_listeners?: readonly { readonly active_state?: { readonly listener: Json } }[];
    readonly dynamic_route_configs?: readonly { readonly route_config: Json }[];
  }[];
}

interface Assignment {
  readonly cluster_name: string;
  readonly endpoints?: readonly {
    readonly lb_endpoints?: readonly {
      readonly endpoint: {
        readonly address: { readonly socket_address: { readonly port_value: number } };
      };
    }[];
  }[];
}

const byName = (resources: readonly Json[]): ReadonlyMap<string, Json> =>
  new Map(resources.map((resource) => [String(resource['name']), resource]));

function portsOf({ endpoints = [] }: Assignment): readonly number[] {
  return endpoints.flatMap(({ lb_endpoints: members = [] }) =>
    members.map(({ endpoint }) => endpoint.address.socket_address.port_value),
  );
}

export function readConfigDump(text: string): EnvoyConfig {
  const { configs = [] } = JSON.parse(text) as Dump;
  const active = configs.flatMap((config) => config.dynamic_active_clusters ?? []);
  const warming = configs.flatMap((config) => config.dynamic_warming_clusters ?? []);
  const endpoints = configs.flatMap((config) => config.dynamic_endpoint_configs ?? []);
  const listeners = configs.flatMap((config) => config.dynamic_listeners ?? []);
  const routes = configs.flatMap((config) => config.dynamic_route_configs ?? []);
  return {
    clusters: byName(active.map(({ cluster }) => cluster)),
    warming: new Set(warming.map(({ cluster }) => String(cluster['name']))),
    assignments: new Map(
      endpoints.map(({ endpoint_config: each }) => [each.cluster_name, portsOf(each)]),
    ),
    listeners: byName(
      listeners.flatMap(({ active_state: state }) => (state ? [state.listener] : [])),
    ),
    routes: byName(routes.map(({ route_config: route }) => route)),
  };
}

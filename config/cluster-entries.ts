/** Reads the section `clusters` of the authority map, in its own form and in that of Envoy. */
import { readSecurity, type Endpoint, type FileChecks } from './channel-parts.js';
import type { Cursor } from './cursor.js';
import { readEnvoyCluster } from './import/envoy-cluster.js';
import { readTarget } from './target.js';

/** The clusters with their names: a map, or a list as in Envoy's `static_resources`. */
export function clusterEntries(root: Cursor): readonly (readonly [string, Cursor])[] {
  const section = root.field('clusters');
  const listed = section.items().flatMap((entry) => {
    const name = entry.field('name').string();
    return name === undefined ? [] : [[name, entry] as const];
  });
  return [...section.entries(), ...listed];
}

/**
 * All clusters by name. It includes entries with problems: otherwise each reference would be reported as
 * unknown too.
 */
export function readClusters(root: Cursor, checks: FileChecks): ReadonlyMap<string, Endpoint> {
  const clusters = new Map<string, Endpoint>();
  for (const [name, entry] of clusterEntries(root)) {
    if (clusters.has(name))
      entry.field('name').problem(`duplicate cluster ${JSON.stringify(name)}`);
    const isOfEnvoy = entry.field('load_assignment').present;
    const cluster = isOfEnvoy ? shortFormOf(entry) : entry;
    const endpoints = cluster.field('endpoints').items();
    const addresses = endpoints.flatMap((endpoint) => readTarget(endpoint) ?? []);
    clusters.set(name, {
      target: oneTarget(addresses, cluster.field('endpoints')),
      tls: readSecurity(cluster, checks),
    });
  }
  return clusters;
}

/** The cluster of Envoy in the map's own form, at the same place. */
function shortFormOf(entry: Cursor): Cursor {
  const isInsecure = entry.field('insecure').boolean() === true;
  const { endpoints, tls } = readEnvoyCluster(entry.value, (what, message) => {
    entry.field(what).warn(message, undefined, 'key');
  });
  if (endpoints.length === 0) entry.field('load_assignment').problem('has no endpoints');
  if (tls === undefined && !isInsecure) {
    const remedy = 'write a transport_socket with TLS, or insecure: true to allow plaintext';
    entry.problem('has no transport_socket, which means plaintext', remedy, 'key');
  }
  const security = tls === undefined ? { insecure: true } : { tls, insecure: isInsecure };
  return entry.withValue({ endpoints, ...security });
}

/** A gRPC target with several addresses needs IP addresses of one family (gRPC naming). */
function oneTarget(addresses: readonly string[], at: Cursor): string {
  const [first] = addresses;
  if (first === undefined || addresses.length === 1) return first ?? '';
  if (addresses.every((address) => /^\d{1,3}(\.\d{1,3}){3}:\d+$/.test(address))) {
    return `ipv4:${addresses.join(',')}`;
  }
  if (addresses.every((address) => /^\[[0-9A-Fa-f:.]+\]:\d+$/.test(address))) {
    return `ipv6:${addresses.join(',')}`;
  }
  at.problem(
    'several endpoints must all be IPv4 or all IPv6 addresses with a port',
    'write one source per server and list them in order of preference under sources',
  );
  return first;
}

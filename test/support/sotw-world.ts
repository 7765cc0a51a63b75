/**
 * A gateway over servers in memory, all real between a source's stream and a client's: upstream
 * core, cache and sessions. It can be restarted, and records what its sources deleted.
 */
import { ResourceCache } from '../../gateway/core/cache/resource-cache.js';
import { TYPE_URL, TYPE_URL_PREFIX } from '../../protos/type-urls.js';
import { encode } from '../unit/protos/envoy-messages.js';
import { listBytes, textEntry } from './collection-messages.js';
import { FederationDriver, mapOf } from './federation-driver.js';
import type { SotwClient } from './sotw-driver.js';

const FOUND_OUT_MS = 13_000;
const STALL_MS = 10_000;
export const WHOLE: readonly string[] = [TYPE_URL.cluster, TYPE_URL.listener];
export const TYPES = [...WHOLE, TYPE_URL.clusterLoadAssignment];
export const IDS = ['g/1', 'g/2', 'g/3', 'solo'];
export const ASKED = [...IDS, 'g/*', 'LIST'];
export const SOURCES = ['c1', 'c2', 'o', 'x'];
export const AUTHORITY_OF: Record<string, string> = {
  c1: 'cloud',
  c2: 'cloud',
  o: 'onprem',
  x: 'other',
};

export const textFor = (typeUrl: string, authority: string, id: string): string => {
  const type = typeUrl.slice(TYPE_URL_PREFIX.length);
  if (id === 'LIST') return `xdstp://${authority}/${type}Collection/all`;
  return `xdstp://${authority}/${type}/${id}`;
};

function contentOf(typeUrl: string, name: string, mark: string): Uint8Array {
  const endpoints = name.replace(
    TYPE_URL.cluster.slice(TYPE_URL_PREFIX.length),
    TYPE_URL.clusterLoadAssignment.slice(TYPE_URL_PREFIX.length),
  );
  if (typeUrl === TYPE_URL.cluster)
    return encode('envoy.config.cluster.v3.Cluster', {
      name,
      alt_stat_name: `@${mark}@`,
      type: 3,
      eds_cluster_config: { service_name: endpoints },
    });
  if (typeUrl === TYPE_URL.listener)
    return encode('envoy.config.listener.v3.Listener', { name, stat_prefix: `@${mark}@` });
  return encode('envoy.config.endpoint.v3.ClusterLoadAssignment', {
    cluster_name: name,
    endpoints: [{ locality: { region: `@${mark}@` } }],
  });
}
export const markOf = (content: string): string => /@(\w+)@/.exec(content)?.[1] ?? `?${content}`;

const CLOUD = {
  sources: ['c1', 'c2'],
  alternatives: [{ authority: 'onprem', fromPrefix: '', toPrefix: '' }],
  failover: { holdMs: 5_000, holdMaxMs: 10_000 },
};
const AUTHORITIES = { cloud: CLOUD, onprem: { sources: ['o'] } };
export const FULL = mapOf({ authorities: { ...AUTHORITIES, other: { sources: ['x'] } } });
export const WITHOUT_OTHER = mapOf({ authorities: AUTHORITIES });

export class SotwWorld {
  driver: FederationDriver;
  cache: ResourceCache;
  map = FULL;
  readonly settings;
  /** By authority, type and id: deletions by its sources. */
  readonly deleted = new Set<string>();
  readonly clients: SotwClient[] = [];
  #marks = 0;
  #faults: { readonly untilMs: number; readonly end: () => void }[] = [];

  constructor(settings: { readonly chunkBytes: number; readonly unsubscribedLingerMs: number }) {
    this.settings = { maxNames: 1_000, ackDeadlineMs: 16_000, ...settings };
    [this.driver, this.cache] = this.#start();
  }

  get nowMs(): number {
    return this.driver.nowMs;
  }

  #start(): [FederationDriver, ResourceCache] {
    const driver = new FederationDriver(this.map);
    const cache = new ResourceCache(driver.directory, {
      tombstonesPerCollection: 100,
      tombstoneMaxAgeMs: 3_600_000,
      unsubscribedLingerMs: this.settings.unsubscribedLingerMs,
      maxUnsubscribedNames: 1_000,
    });
    return [driver, cache];
  }

  restart(): void {
    for (const client of this.clients) client.disconnect();
    const { servers, nowMs } = this.driver;
    [this.driver, this.cache] = this.#start();
    this.driver.nowMs = nowMs;
    for (const [name, server] of servers) this.driver.servers.set(name, server);
    for (const client of this.clients) client.reconnect();
    this.driver.pump();
  }

  advance(ms: number): void {
    for (let left = ms; left > 0; left -= 500) {
      this.driver.advance(Math.min(left, 500));
      for (const { untilMs, end } of this.#faults) if (untilMs <= this.nowMs) end();
      this.#faults = this.#faults.filter(({ untilMs }) => untilMs > this.nowMs);
      this.cache.handleTimer(this.nowMs);
      this.driver.pump();
    }
  }

  /** Publishes a resource at a source. */
  put(source: string, typeUrl: string, id: string): void {
    const name = textFor(typeUrl, AUTHORITY_OF[source] ?? '', id);
    this.driver.publish(source, name, contentOf(typeUrl, name, `m${++this.#marks}`), typeUrl);
  }
  list(source: string, typeUrl: string, ids: readonly string[]): void {
    const authority = AUTHORITY_OF[source] ?? '';
    const entries = ids.map((id) =>
      textEntry(textFor(typeUrl, authority === 'other' ? 'other' : 'cloud', id)),
    );
    this.driver.publish(
      source,
      textFor(typeUrl, authority, 'LIST'),
      listBytes(...entries),
      `${typeUrl}Collection`,
    );
  }

  delete(source: string, typeUrl: string, id: string): void {
    const name = this.#nameAt(source, typeUrl, id);
    if (!this.driver.server(source).get(typeUrl, name)) return;
    this.deleted.add(`${AUTHORITY_OF[source] ?? ''} ${typeUrl} ${id}`);
    this.driver.delete(source, name, typeUrl);
  }

  /** The source hangs until the keepalive or the probe detects it. */
  swallow(source: string): void {
    const server = this.driver.server(source);
    server.reachability = 'black_hole';
    const end = (): void => {
      if (server.reachability === 'black_hole') this.driver.cut(source, { detectedBy: 'probe' });
    };
    this.#faults.push({ untilMs: this.nowMs + FOUND_OUT_MS, end });
  }

  /**
   * The source does not answer a name or glob, but for a shorter time than makes silence an answer.
   */
  stall(source: string, typeUrl: string, id: string): void {
    this.driver.server(source).stalled.add(this.#nameAt(source, typeUrl, id));
    const end = (): void => {
      this.unstall(source, typeUrl, id);
    };
    this.#faults.push({ untilMs: this.nowMs + STALL_MS, end });
  }

  unstall(source: string, typeUrl: string, id: string): void {
    const server = this.driver.server(source);
    const name = this.#nameAt(source, typeUrl, id);
    if (!server.stalled.delete(name) || !this.driver.isConnected(source)) return;
    if (!server.stream.subscribed(typeUrl).includes(name)) return;
    const isIt = (one: string): boolean =>
      one === name || (name.endsWith('/*') && one.startsWith(name.slice(0, -1)));
    const members = server.names(typeUrl).filter(isIt);
    server.stream.push(typeUrl, members, members.length > 0 ? [] : [name]);
    this.driver.pump();
  }

  #nameAt(source: string, typeUrl: string, id: string): string {
    return textFor(typeUrl, AUTHORITY_OF[source] ?? '', id);
  }
}

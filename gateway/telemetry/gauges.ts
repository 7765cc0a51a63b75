/** Gauges: read from the state machines for each scrape instead of being updated with each event. */
import { FAILOVER_STATES, sourceNameOf, type FailoverGroup } from '../../authorities/index.js';
import { groupedBy } from '../grouped-by.js';
import { QUOTAS } from '../core/quotas/limits.js';
import { MEMORY_LEVELS } from '../core/quotas/memory-level.js';
import type { GatewayView } from '../gateway-view.js';
import { VERSION } from '../version.js';
import type { LoopLag } from './loop-lag.js';
import { groupLabel } from './groups.js';
import type { MapReloads } from './map-reloads.js';
import type { PutGauge } from './metrics.js';
import type { SourceTelemetry } from './sources.js';

const BREAKER_STATES = ['closed', 'open', 'half_open'] as const;

export interface GaugeInputs {
  readonly gateway: GatewayView;
  readonly sources: SourceTelemetry;
  readonly lag: LoopLag;
  readonly reloads: MapReloads;
  /** Milliseconds, monotonic. */
  readonly nowMs: number;
}

/** Each step puts the gauges of one authority, entry or node group, and the last one all others. */
export function* putGauges(put: PutGauge, inputs: GaugeInputs): Generator<void> {
  yield* putGroups(put, inputs);
  putSources(put, inputs);
  putClients(put, inputs.gateway);
  const { exchange } = inputs.gateway;
  if (exchange) put('tributary_peers_connected', [], Number(exchange.isConnected));
  const { p99Ms, maxMs } = inputs.lag.recent();
  put('tributary_event_loop_lag_p99_seconds', [], p99Ms / 1_000);
  putQuotas(put, inputs);
  put('tributary_event_loop_lag_max_seconds', [], maxMs / 1_000);
  inputs.reloads.put(put);
  put('tributary_build_info', [VERSION, process.versions.node], 1);
}

function* putGroups(put: PutGauge, { gateway, sources, nowMs }: GaugeInputs): Generator<void> {
  const { view } = gateway.upstream;
  const degraded = view.groups.filter(({ failover }) => failover.kind === 'cached');
  put('tributary_degraded_groups', [], degraded.length);
  const byLabel = groupedBy(view.groups, groupLabel);
  for (const [label, groups] of byLabel) {
    const labels = [groups[0]?.spec.name ?? '', label];
    const sum = (of: (group: FailoverGroup) => number): number =>
      groups.reduce((total, group) => total + of(group), 0);
    for (const state of FAILOVER_STATES) {
      const inState = sum(({ failover }) => Number(failover.kind === state));
      put('tributary_failover_state', [...labels, state], inState);
    }
    for (const [source, count] of activeSources(groups)) {
      put('tributary_active_source', [...labels, source], count);
    }
    const stale = groups.map((group) => {
      const active = group.candidates[group.failover.active]?.source.id ?? '';
      const lostAtMs = group.servedCount > 0 ? sources.lossOf(active)?.atMs : undefined;
      return lostAtMs === undefined ? 0 : (nowMs - lostAtMs) / 1_000;
    });
    put('tributary_stale_seconds', labels, Math.max(...stale));
    put(
      'tributary_wanted_names',
      labels,
      sum((group) => group.demandCount),
    );
    put(
      'tributary_served_names',
      labels,
      sum((group) => group.servedCount),
    );
    put(
      'tributary_guarded_names',
      labels,
      sum((group) => group.guardedCount),
    );
    const shadowed = sum((group) => view.nodeGroups.of(group)?.shadowedCount(group) ?? 0);
    put('tributary_shadowed_names', labels, shadowed);
    yield;
  }
}

/** By the name of each source of the groups: the number of groups that serve its content. */
function activeSources(groups: readonly FailoverGroup[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { candidates, activeSource } of groups) {
    const names = new Set(candidates.map(({ source }) => source.name));
    for (const name of names) {
      counts.set(name, (counts.get(name) ?? 0) + Number(name === activeSource?.name));
    }
  }
  return counts;
}

function putSources(put: PutGauge, { gateway, sources }: GaugeInputs): void {
  const { view } = gateway.upstream;
  const serversOf = groupedBy(view.servers, ({ name }) => name);
  const askingOf = groupedBy(gateway.upstream.loads.askingSources, sourceNameOf);
  for (const name of view.map.sources.keys()) {
    // Sources with equal settings share one source object, which is shown under each of their names.
    const lead = view.source(name)?.name ?? name;
    const servers = serversOf.get(lead) ?? [];
    // If only node groups use the source, its common stream is idle and must not count.
    const needed = servers.filter(({ id, health }) => id !== lead || health.wanted);
    const streams = needed.length > 0 ? needed : servers;
    const all = streams.length > 0 ? streams : [view.source(name)];
    const facts = all.map((source) => source?.facts());
    put('tributary_source_connected', [name], facts.filter((each) => each?.live).length);
    put('tributary_source_tripped', [name], facts.filter((each) => each?.tripped).length);
    if (gateway.upstream.breakerState(name) === undefined) {
      put('tributary_source_file_problems', [name], sources.fileProblems.get(name) ?? 0);
      continue;
    }
    put('tributary_source_load_asked', [name], askingOf.get(lead)?.length ?? 0);
    const fullest = Math.max(0, ...servers.map(({ contents }) => contents.budget.fullness));
    put('tributary_source_content_used_ratio', [name], fullest);
    const breakers = streams.map(({ id }) => gateway.upstream.breakerState(id));
    for (const state of BREAKER_STATES) {
      const inState = breakers.filter((each) => each === state).length;
      put('tributary_source_breaker_state', [name, state], inState);
    }
  }
}

/** How full the quotas are, from 0 to 1. */
function putQuotas(put: PutGauge, { gateway, nowMs }: GaugeInputs): void {
  const { quotas, contentTotal, memoryWatch, upstream } = gateway;
  for (const quota of QUOTAS) {
    put('tributary_quota_used_ratio', [quota, 'global'], quotas.fullness(quota));
    put('tributary_quota_used_ratio', [quota, 'peer'], quotas.fullestPeer(quota));
  }
  put('tributary_quota_used_ratio', ['requests', 'peer'], quotas.fastestPeer(nowMs));
  put('tributary_quota_used_ratio', ['memory', 'global'], memoryWatch.fullness);
  for (const level of MEMORY_LEVELS) {
    put('tributary_memory_state', [level], Number(level === memoryWatch.level));
  }
  const content = contentTotal.bytes / contentTotal.maxBytes;
  put('tributary_quota_used_ratio', ['content', 'global'], content);
  const fullest = upstream.view.servers.map(({ contents }) => contents.budget.fullness);
  put('tributary_quota_used_ratio', ['content', 'source'], Math.max(0, ...fullest));
}

function putClients(put: PutGauge, { server, cache }: GatewayView): void {
  let paused = 0;
  let sotw = 0;
  for (const stream of server.streams) {
    if (stream.isPaused) paused++;
    if (stream.flavour === 'sotw') sotw++;
  }
  put('tributary_clients', [], server.streams.size);
  put('tributary_polling_clients', [], server.polling.length);
  put('tributary_load_clients', [], server.loadStreams.size);
  put('tributary_sotw_clients', [], sotw);
  put('tributary_clients_paused', [], paused);
  put('tributary_cache_names', [], cache.nameCount);
  put('tributary_cache_globs', [], cache.globCount);
}

/** Metrics that are read from the machines when somebody looks, instead of being kept up to date. */
import { FAILOVER_STATES } from '../authorities/index.js';
import type { GatewayView } from './gateway-view.js';
import type { LoopLag } from './loop-lag.js';
import type { PutGauge } from './telemetry-metrics.js';
import type { SourceTelemetry } from './telemetry-sources.js';

const BREAKER_STATES = ['closed', 'open', 'half_open'] as const;
const STARTED_AT_SECONDS = performance.timeOrigin / 1_000;

export interface GaugeInputs {
  readonly gateway: GatewayView;
  readonly sources: SourceTelemetry;
  readonly lag: LoopLag;
  /** Milliseconds, monotonic. */
  readonly nowMs: number;
}

export function putGauges(put: PutGauge, inputs: GaugeInputs): void {
  putGroups(put, inputs);
  putSources(put, inputs);
  putClients(put, inputs.gateway);
  const { exchange } = inputs.gateway;
  if (exchange) put('tributary_peers_connected', [], Number(exchange.isConnected));
  const { p99Ms, maxMs } = inputs.lag.recent();
  put('tributary_event_loop_lag_p99_seconds', [], p99Ms / 1_000);
  put('tributary_event_loop_lag_max_seconds', [], maxMs / 1_000);
  put('tributary_resident_memory_bytes', [], process.memoryUsage.rss());
  put('tributary_start_time_seconds', [], STARTED_AT_SECONDS);
}

function putGroups(put: PutGauge, { gateway, sources, nowMs }: GaugeInputs): void {
  for (const group of gateway.client.federation.groups) {
    const labels = [group.spec.name, group.id];
    for (const state of FAILOVER_STATES) {
      put('tributary_failover_state', [...labels, state], Number(group.failover.kind === state));
    }
    const active = group.candidates[group.failover.active]?.source.name ?? '';
    const lostAtMs = group.servedCount > 0 ? sources.lossOf(active)?.atMs : undefined;
    put('tributary_stale_seconds', labels, lostAtMs === undefined ? 0 : (nowMs - lostAtMs) / 1_000);
    put('tributary_wanted_names', labels, group.demandCount);
    put('tributary_served_names', labels, group.servedCount);
    put('tributary_guarded_names', labels, group.guardedCount);
  }
}

function putSources(put: PutGauge, { gateway, sources }: GaugeInputs): void {
  const { federation } = gateway.client;
  for (const name of federation.map.sources.keys()) {
    const facts = federation.source(name)?.facts();
    put('tributary_source_connected', [name], Number(facts?.live === true));
    put('tributary_source_tripped', [name], Number(facts?.tripped === true));
    const breaker = gateway.client.breakerState(name);
    if (breaker === undefined) {
      put('tributary_source_file_problems', [name], sources.fileProblems.get(name) ?? 0);
      continue;
    }
    for (const state of BREAKER_STATES) {
      put('tributary_source_breaker_state', [name, state], Number(breaker === state));
    }
  }
}

function putClients(put: PutGauge, { server, cache }: GatewayView): void {
  let paused = 0;
  let sotw = 0;
  for (const stream of server.streams) {
    if (stream.isPaused) paused++;
    if (stream.flavour === 'sotw') sotw++;
  }
  put('tributary_clients', [], server.streams.size);
  put('tributary_sotw_clients', [], sotw);
  put('tributary_clients_paused', [], paused);
  put('tributary_cache_names', [], cache.nameCount);
  put('tributary_cache_globs', [], cache.globCount);
}

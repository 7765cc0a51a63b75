/** Load reports over a driven federation: the test is the client, and the LRS side of the sources. */
import {
  LoadReports,
  type LoadReporter,
} from '../../authorities/core/load-reports/load-reports.js';
import type { SourceLoads } from '../../authorities/core/load-reports/source-loads.js';
import { ManagementServer } from '../../authorities/core/sources/management-server.js';
import type { StreamEnd } from '../../authorities/core/sources/source-health.js';
import { decodeLoadStatsRequest, encodeLoadStatsResponse } from '../../protos/load-stats-codec.js';
import type { ClusterLoad, LoadStatsResponse } from '../../protos/load-stats.js';
import { readClientNode } from '../../protos/node-codec.js';
import type { ResourceName } from '../../protos/resource-name.js';
import { askedName, type FederationDriver } from './federation-driver.js';
import { clusterLoad, type LoadSketch } from './loads.js';
import { CDS } from './mesh-names.js';

interface Call {
  readonly loads: SourceLoads;
  readonly call: number;
  readonly received: ClusterLoad[];
  nodeId: string;
}

export class LoadsDriver {
  readonly driver: FederationDriver;
  readonly reports: LoadReports;
  /** Open calls by source id. */
  readonly calls = new Map<string, Call>();
  /** Ids of sources, one for each call that was opened. */
  readonly opened: string[] = [];
  /** Scopes of the clients that were notified. */
  readonly notified: (string | undefined)[] = [];

  constructor(driver: FederationDriver) {
    this.driver = driver;
    const view = driver.federation;
    this.reports = new LoadReports({ view, maxEntriesPerSource: 1_000, random: () => 0.5 });
  }

  client(scope?: string): LoadReporter {
    const reporter = { scope, onWanted: () => this.notified.push(scope) };
    this.reports.open(reporter, this.driver.nowMs);
    this.pump();
    return reporter;
  }

  leave(reporter: LoadReporter): void {
    this.reports.close(reporter, this.driver.nowMs);
    this.pump();
  }

  /** @returns the names of clusters that no source serves */
  report(reporter: LoadReporter, name: string, load: LoadSketch, serviceName = ''): string[] {
    const one = { name: askedName(name, CDS), load: clusterLoad(name, [load], { serviceName }) };
    const unknown = this.reports.report(reporter, [one], false, this.driver.nowMs);
    this.pump();
    return unknown.map(({ key }: ResourceName) => key);
  }

  /** The source asks for loads. @param id of the source */
  ask(id: string, asked: Partial<LoadStatsResponse> = {}): void {
    const { loads, call } = this.call(id);
    const whole = { clusters: 'all', intervalMs: 10_000, byEndpoint: false, ...asked } as const;
    this.reports.handleMessage(loads, call, encodeLoadStatsResponse(whole), this.driver.nowMs);
    this.pump();
  }

  end(id: string, end: Partial<StreamEnd>): void {
    const { loads, call } = this.call(id);
    this.calls.delete(id);
    const whole: StreamEnd = { code: 14, message: '', detectedBy: 'stream', ...end };
    this.reports.handleEnded(loads, call, whole, this.driver.nowMs);
    this.pump();
  }

  call(id: string): Call {
    const call = this.calls.get(id);
    if (!call) throw new Error(`${id} has no stream of load reports`);
    return call;
  }

  /** Advances the clock. @returns the clusters that a source received until now, once */
  after(ms: number, id: string): readonly ClusterLoad[] {
    this.advance(ms);
    return this.calls.get(id)?.received.splice(0) ?? [];
  }

  advance(ms: number): void {
    this.driver.advance(ms);
    this.syncSources();
    this.reports.handleTimer(this.driver.nowMs);
    this.pump();
  }

  /** What the shell does after each effect of a source. */
  syncSources(): void {
    const { federation, nowMs } = this.driver;
    const known = new Set([...federation.servers, ...this.reports.sources.keys()]);
    for (const source of known) {
      if (source instanceof ManagementServer) this.reports.handleSource(source, nowMs);
    }
    this.pump();
  }

  pump(): void {
    for (;;) {
      const effects = this.reports.takeEffects();
      for (const { loads, effect } of effects) {
        const { id } = loads.source;
        if (effect.kind === 'open') {
          this.opened.push(id);
          this.calls.set(id, { loads, call: effect.call, received: [], nodeId: '' });
        } else if (effect.kind === 'send') this.#receive(id, effect.bytes);
        else if (effect.kind === 'end') this.calls.delete(id);
      }
      const notified = this.reports.takeNotified();
      for (const { onWanted } of notified) onWanted();
      if (effects.length === 0 && notified.length === 0) return;
    }
  }

  #receive(id: string, bytes: Uint8Array): void {
    const call = this.call(id);
    const decoded = decodeLoadStatsRequest(bytes, 10_000);
    if (!decoded.ok) throw new Error(decoded.reason);
    const { node, clusters } = decoded.message;
    if (node) call.nodeId = readClientNode(node).id;
    call.received.push(...clusters);
    this.reports.handleWritten(call.loads, call.call, this.driver.nowMs);
  }
}

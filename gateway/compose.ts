/**
 * The whole gateway. `createGateway` composes its parts in reading order; the functions below it make the parts, in the same order:
 *
 *   map → upstream (sources, authorities, failover) → cache → fan-out → xDS server → admin
 *                                                       ↕
 *                                         peers (hints of peer instances)
 */
import { isDeepStrictEqual } from 'node:util';
import type {
  AuthorityMap,
  ClientRule,
  NodeSpec,
  SourceSpec,
  OldStyleSpec,
} from '../config/model.js';
import type { Settings } from '../config/settings.js';
import type { SotwRequest } from '../protos/discovery.js';
import { encodeNode } from '../protos/node-codec.js';
import type { ScopeFields } from '../protos/node-scope.js';
import {
  ContentStore,
  FederatedClient,
  scopeOfSource,
  sourceNameOf,
  sourceTransport,
  type ContentTotal,
  type Transport,
} from '../authorities/index.js';
import { AdminServer } from './admin/admin-server.js';
import { isReady } from './admin/health.js';
import { ProbeServer } from './admin/probe-server.js';
import { ClientAuthentication } from './clients/client-authentication.js';
import { ClientTokens } from './clients/client-tokens.js';
import {
  ClientStream,
  type ClientStreamEvent,
  type StreamContext,
} from './clients/client-stream.js';
import { CollectionMemory } from './state-file/collection-memory.js';
import type { PollSession } from './core/sotw/poll-session.js';
import { ResourceCache } from './core/cache/resource-cache.js';
import { leastMaxMessageBytesOf } from './core/session/message-limit.js';
import { PastCollections } from './core/rights/past-collections.js';
import type { NodeGroupRoom } from './core/session/client-scope.js';
import { GroupStays } from './core/session/group-stays.js';
import { FanOut } from './clients/fan-out.js';
import { LongRequests } from './clients/long-requests.js';
import { clock } from './clock.js';
import type { GatewayPhase, GatewayView } from './gateway-view.js';
import { connectPeers } from './peers/connect-peers.js';
import type { Peers } from './peers/peers.js';
import type { PeerAccount, Quotas } from './core/quotas/quotas.js';
import { LoadReportStream, type LoadReportStreamOptions } from './clients/load-report-stream.js';
import { pollProtocol, streamProtocols } from './clients/stream-protocols.js';
import { CertificateEnds } from './telemetry/certificate-ends.js';
import { startChores } from './chores.js';
import { createQuotas, maxAgeOf, roomIn, withQuota } from './quotas.js';
import type { Telemetry } from './telemetry/telemetry.js';
import { createTracing, observersOf, toldTo } from './tracing.js';
import type { Tracing } from './telemetry/traces/tracing.js';
import { VERSION } from './version.js';
import { XdsServer, type XdsServerOptions } from './clients/xds-server.js';

/** At shutdown, how long the sources may take to receive the last load reports. */
const LAST_LOADS_WITHIN_MS = 1_000;

export interface GatewayOptions {
  readonly settings: Settings;
  readonly map: AuthorityMap;
  readonly telemetry: Telemetry;
  readonly transport?: Transport;
}

/** With the traces, if the settings want any. */
interface TracedOptions extends GatewayOptions {
  readonly tracing: Tracing | undefined;
}

export interface Gateway extends GatewayView {
  readonly admin: AdminServer;
  readonly probes: ProbeServer;
  /** Starts everything. @returns the port of the client listener. */
  start(): Promise<number>;
  /** Puts a new map in force, which must be valid. */
  reload(map: AuthorityMap): void;
  /** Drains the client streams, then stops everything. */
  stop(): Promise<void>;
}

export function createGateway(options: GatewayOptions): Gateway {
  const { settings, telemetry } = options;
  const { limits } = settings;
  const tracing = createTracing(options, clock);
  const traced = { ...options, tracing };

  const { quotas, memoryWatch, contentTotal } = createQuotas(limits, telemetry);
  const store = createContentStore(options, () => upstream);
  const upstream = createUpstream(traced, { contentTotal, store }, () => ({ peers, groupStays }));
  const cache = createCache(traced, upstream, () => peers);
  const groupStays = createGroupStays(cache, upstream);
  const { peers, exchange } = connectPeers(settings.nats, { upstream, cache, telemetry });
  const collectionMemory = createCollectionMemory(options, cache);
  const room = roomIn(cache, upstream, limits);
  const tokens = createTokens(options);
  const ready = (): boolean => isReady({ gateway: view, telemetry });
  const admission = { quotas, room, tokens, groupStays, isReady: ready };
  const server = createServer(traced, cache, upstream, admission);

  let phase: GatewayPhase = 'starting';
  const parts = { upstream, cache, server, peers, exchange, quotas, contentTotal, memoryWatch };
  const view: GatewayView = {
    ...parts,
    get phase() {
      return phase;
    },
  };
  telemetry.observe(view, certificatesOf(view, settings));
  const { admin, probes } = createAdminSide(options, view);

  let stopChores: (() => void) | undefined;
  const close = async (): Promise<void> => {
    stopChores?.();
    memoryWatch.close();
    tokens?.close();
    collectionMemory?.close();
    peers.close();
    await exchange?.close();
    upstream.close();
    await store?.close();
    telemetry.close();
    await Promise.all([admin.close(), probes.close()]);
  };
  return Object.assign(view, {
    admin,
    probes,
    start: async () => {
      try {
        await Promise.all([tokens?.start(), store?.start()]);
        await Promise.all([admin.listen(), probes.listen()]);
        for (const part of [collectionMemory, upstream, memoryWatch, exchange, tracing])
          part?.start();
        stopChores = startChores(view, room);
        const port = await server.listen();
        phase = 'serving';
        return port;
      } catch (error) {
        await close();
        throw error;
      }
    },
    reload: reload.bind(undefined, upstream, server),
    stop: async () => {
      phase = 'draining';
      await drain({ server, upstream, store }, limits.drainGraceMs);
      await Promise.all([collectionMemory?.flush(), tracing?.close()]);
      await close();
    },
  });
}

/** The content on disk, if a directory is configured. */
function createContentStore(
  { settings, telemetry }: GatewayOptions,
  upstream: () => FederatedClient,
): ContentStore | undefined {
  if (settings.contentDir === null) return undefined;
  return new ContentStore({
    directory: settings.contentDir,
    maxAgeMs: settings.limits.contentMaxAgeMs,
    sourceOf: (id) => {
      const spec = upstream().view.map.sources.get(sourceNameOf(id));
      // Files are on this disk already.
      return spec?.kind === 'grpc' ? spec.target : undefined;
    },
    isServed: (typeUrl, name) => upstream().isServed(typeUrl, name),
    onEvent: (event) => {
      telemetry.onContentStore(event);
    },
  });
}

/** The parts that learn from the upstream side, and are made after it. */
interface Learners {
  readonly peers: Pick<Peers, 'handleSwitched'>;
  readonly groupStays: GroupStays;
}

/** What holds the content of all sources: the bound of what is in memory, and the store on disk, if one is configured. */
interface Contents {
  readonly contentTotal: ContentTotal;
  readonly store: ContentStore | undefined;
}

/** The upstream side. */
function createUpstream(
  options: TracedOptions,
  { contentTotal, store }: Contents,
  learners: () => Learners,
): FederatedClient {
  const { settings, map, telemetry, tracing } = options;
  const { limits } = settings;
  const upstream = new FederatedClient({
    map,
    nodeFor: (source, group) => nodeFor(source, settings.node, group),
    maxResourcesPerResponse: limits.maxResourcesPerResponse,
    contentLimits: {
      maxResources: limits.maxResourcesPerSource,
      maxBytes: limits.maxContentPerSourceBytes,
    },
    contentTotal,
    ...(store && { lastKnown: store }),
    bounds: settings.resolution,
    transport: options.transport ?? sourceTransport,
    onEffect: (effect) => {
      telemetry.onFederation(effect);
      tracing?.handleFederation(effect);
      if (effect.kind === 'group' && effect.event.kind === 'switched') {
        const to = effect.group.candidates[effect.event.to]?.source.name ?? '';
        learners().peers.handleSwitched(effect.group.id, to);
      }
      if (effect.kind === 'server' && effect.effect.kind === 'refused') {
        const spec = upstream.view.map.sources.get(sourceNameOf(effect.source));
        const areOfClients = spec?.kind === 'grpc' && (spec.forwardHeaders?.length ?? 0) > 0;
        const scope = scopeOfSource(effect.source);
        if (areOfClients) learners().groupStays.handleCredentialsRefused(scope);
      }
    },
    loads: {
      maxEntriesPerSource: limits.maxLoadEntriesPerSource,
      onEvent: (source, event) => {
        telemetry.loads.handleSource(source, event);
      },
    },
    onFileProblems: (source, problems) => {
      telemetry.onFileProblems(source, problems);
    },
    onError: (error) => {
      telemetry.onHandlerError(error);
    },
    clock,
  });
  return upstream;
}

const USER_AGENT = { userAgentName: 'tributary', userAgentVersion: VERSION };

/** The Node of the source if it has one, else that of the settings; with the fields of the node group. */
function nodeFor(source: SourceSpec, ours: NodeSpec, group: ScopeFields): Uint8Array {
  const node = source.kind === 'grpc' && source.node ? source.node : ours;
  const metadata = group.metadata ? { metadata: { ...node.metadata, ...group.metadata } } : {};
  return encodeNode({ ...node, ...group, ...metadata, ...USER_AGENT });
}

function createCache(
  { settings, telemetry, tracing }: TracedOptions,
  upstream: FederatedClient,
  peers: () => Peers,
): ResourceCache {
  return new ResourceCache(upstream, {
    ...settings.limits,
    leastMaxMessageBytes: leastMaxMessageBytesOf(settings.client.maxMessage),
    onHeldBack: (held) => {
      telemetry.onHeldBack(held);
    },
    ...toldTo(settings.nats ? peers : undefined, tracing),
  });
}

/** A node group ends at once when all of its clients are in other groups. */
function createGroupStays(cache: ResourceCache, upstream: FederatedClient): GroupStays {
  return new GroupStays((scope) => {
    cache.retire(upstream.retirable(scope), upstream.nowMs);
  });
}

/** The state file, if one is configured. */
function createCollectionMemory(
  { settings, telemetry }: GatewayOptions,
  cache: ResourceCache,
): CollectionMemory | undefined {
  if (settings.stateFile === null) return undefined;
  return new CollectionMemory({
    file: settings.stateFile,
    cache,
    maxAgeMs: settings.limits.tombstoneMaxAgeMs,
    clock,
    onEvent: (event) => {
      telemetry.onCollectionMemory(event);
    },
  });
}

/** The keys for the tokens of clients, if any are configured. */
function createTokens({ settings, telemetry }: GatewayOptions): ClientTokens | undefined {
  const { jwt } = settings.client;
  if (!jwt) return undefined;
  return new ClientTokens({
    ...jwt,
    onKeys: (event) => {
      telemetry.onKeys(event);
    },
  });
}

/** The parts that decide which clients may come, how much they may take, and what a health check says. */
interface Admission {
  readonly quotas: Quotas;
  readonly room: NodeGroupRoom;
  /** Undefined: the gateway reads no tokens. */
  readonly tokens: ClientTokens | undefined;
  readonly groupStays: GroupStays;
  readonly isReady: () => boolean;
}

/** The options that client streams and polls share. Only streams have a maximum age: see `createServer`. */
function streamContext({ settings, telemetry, tracing }: TracedOptions, upstream: FederatedClient) {
  const { limits } = settings;
  return {
    clock,
    oldStyle: (): OldStyleSpec | undefined => upstream.view.map.oldStyle,
    clientRules: (): readonly ClientRule[] | undefined => upstream.view.map.clients,
    fanOut: new FanOut(),
    longRequests: new LongRequests('in_turns'),
    maxNamesPerRequest: limits.maxNamesPerRequest,
    holdIdentity: upstream.holdIdentity.bind(upstream),
    maxMessage: settings.client.maxMessage,
    pastCollections: new PastCollections(limits.tombstoneMaxAgeMs),
    onError: telemetry.onHandlerError.bind(telemetry),
    ...observersOf(telemetry, tracing),
  } satisfies Omit<StreamContext, 'groupStays'>;
}

/** Fan-out and xDS server: each client stream has its own session on the shared cache. */
function createServer(
  options: TracedOptions,
  cache: ResourceCache,
  upstream: FederatedClient,
  { quotas, room, tokens, groupStays, isReady }: Admission,
): XdsServer {
  const { settings, telemetry } = options;
  const { limits } = settings;
  const protocols = streamProtocols(settings, cache);
  const polled = pollProtocol(settings, cache);
  const context = { ...streamContext(options, upstream), groupStays };
  const { oldStyle, clientRules, onError } = context;
  // Reports are read one by one, because a half-read one takes 25 MB.
  const loadReports = new LongRequests('one_by_one');
  let streams = 0;
  const ofAccount = (account: PeerAccount) => ({
    account,
    nodeGroupRoom: withQuota(room, account),
    id: ++streams,
  });
  return new XdsServer({
    ...settings.client,
    limits,
    clientRules,
    authentication: new ClientAuthentication(tokens),
    quotas,
    makeStream: (flavour, port, service, account) =>
      new ClientStream(context, {
        ...maxAgeOf(limits),
        ...ofAccount(account),
        service,
        port,
        protocol: protocols[flavour],
      }),
    makePoll: (service, port, onEvent, account) => {
      const onPollEvent = (stream: ClientStream, event: ClientStreamEvent): void => {
        telemetry.onClient(stream, event);
        onEvent(event);
      };
      const stream = new ClientStream<SotwRequest, PollSession>(
        { ...context, onEvent: onPollEvent },
        { ...ofAccount(account), service, port, protocol: polled },
      );
      return { stream, session: stream.session };
    },
    forwardedHeaders: () => oldStyle()?.rule?.headers ?? [],
    isReady,
    makeLoadStream: (port, account) =>
      new LoadReportStream({
        clock,
        oldStyle,
        onError,
        ...loadsOf(upstream, cache, settings, telemetry),
        ...ofAccount(account),
        longRequests: loadReports,
        port,
      }),
    ...eventsTo(telemetry),
    onError,
  });
}

type ServerEvents = 'onTls' | 'onRequest' | 'onUnknownMethod' | 'onUnwritable';

const eventsTo = (telemetry: Telemetry): Pick<XdsServerOptions, ServerEvents> => ({
  onTls: (event) => {
    telemetry.onTls(event);
  },
  onRequest: () => {
    telemetry.onClientRequest();
  },
  onUnknownMethod: (call) => {
    telemetry.onUnknownMethod(call);
  },
  onUnwritable: (typeUrl, reason) => {
    telemetry.onUnwritable(typeUrl, reason);
  },
});

/** Makes the sessions of all streams of load reports. */
const loadsOf = (
  upstream: FederatedClient,
  cache: ResourceCache,
  { limits }: Settings,
  telemetry: Telemetry,
): Pick<LoadReportStreamOptions, 'loads' | 'maxEntriesPerReport' | 'knownName' | 'onEvent'> => ({
  loads: upstream.loads,
  maxEntriesPerReport: limits.maxLoadEntriesPerReport,
  knownName: cache.nameOf.bind(cache),
  onEvent: (stream, event) => {
    telemetry.loads.handleClient(stream, event);
  },
});

function certificatesOf({ server, upstream }: GatewayView, settings: Settings): CertificateEnds {
  return new CertificateEnds({
    listener: () => server.tlsMaterial,
    map: () => upstream.view.map,
    admin: settings.admin.tls,
    nats: settings.nats?.tls ?? null,
    clock,
  });
}

/** The servers for operators and for probes. */
function createAdminSide(
  { settings, telemetry }: GatewayOptions,
  gateway: GatewayView,
): { readonly admin: AdminServer; readonly probes: ProbeServer } {
  const context = { gateway, telemetry, clock, listenHost: settings.admin.host };
  return {
    admin: new AdminServer({ settings: settings.admin, context }),
    probes: new ProbeServer({ settings: settings.probe, context }),
  };
}

function reload(upstream: FederatedClient, server: XdsServer, map: AuthorityMap): void {
  const areRightsNew = !isDeepStrictEqual(upstream.view.map.clients, map.clients);
  upstream.reload(map);
  if (areRightsNew) server.handleRulesChanged();
  for (const stream of server.clients()) stream.endIfRegrouped();
  for (const stream of server.loadStreams) stream.endIfRegrouped();
}

interface Drained {
  readonly server: XdsServer;
  readonly upstream: FederatedClient;
  readonly store: ContentStore | undefined;
}

/** Ends the streams of clients, whose last load reports then go to the sources. */
async function drain({ server, upstream, store }: Drained, graceMs: number): Promise<void> {
  // The content of clients that leave now is what the next process needs.
  store?.freeze();
  await server.drain(graceMs);
  await upstream.loads.finish(LAST_LOADS_WITHIN_MS);
}

/**
 * The whole gateway, wired in the order in which to read it:
 *
 *   map → federated client (sources, authorities, failover) → cache → fan-out → xDS server → admin
 */
import type { AuthorityMap, NodeSpec, SourceSpec } from '../config/model.js';
import type { Settings } from '../config/settings.js';
import { encodeNode } from '../protos/node-codec.js';
import { FederatedClient, grpcTransport, type Transport } from '../authorities/index.js';
import { ClientStream } from './client-stream.js';
import { ResourceCache } from './core/resource-cache.js';
import { FanOut } from './fan-out.js';
import { clock } from './gateway-clock.js';
import type { Telemetry } from './telemetry.js';
import { VERSION } from './version.js';
import { XdsServer } from './xds-server.js';

/** What nobody asks for any more is kept this long, for those who come back. */
const UNSUBSCRIBED_LINGER_MS = 30_000;
const CACHE_TICK_MS = 1_000;

export interface GatewayOptions {
  readonly settings: Settings;
  readonly map: AuthorityMap;
  readonly telemetry: Telemetry;
  readonly transport?: Transport;
}

export interface Gateway {
  readonly client: FederatedClient;
  readonly cache: ResourceCache;
  readonly server: XdsServer;
  /** Starts everything. @returns the port that clients are served on. */
  start(): Promise<number>;
  /** A map that was checked already. */
  reload(map: AuthorityMap): void;
  /** Lets clients go, then stops everything. */
  stop(): Promise<void>;
}

export function createGateway(options: GatewayOptions): Gateway {
  const { settings, map, telemetry } = options;
  const { limits } = settings;

  const client = new FederatedClient({
    map,
    nodeFor: (source) => encodeNode({ ...nodeOf(source, settings.node), ...USER_AGENT }),
    maxResourcesPerResponse: limits.maxResourcesPerResponse,
    transport: options.transport ?? grpcTransport,
    onEffect: (effect) => {
      telemetry.onFederation(effect);
    },
    onFileProblems: (source, problems) => {
      telemetry.onFileProblems(source, problems);
    },
    clock,
  });

  const cache = new ResourceCache(client, {
    ...limits,
    unsubscribedLingerMs: UNSUBSCRIBED_LINGER_MS,
  });

  const fanOut = new FanOut();

  let streams = 0;
  const server = new XdsServer({
    ...settings.client,
    limits,
    onStream: (port) =>
      new ClientStream({
        id: ++streams,
        port,
        fanOut,
        cache,
        clock,
        maxNames: limits.maxNamesPerClient,
        maxNamesPerRequest: limits.maxNamesPerRequest,
        chunkBytes: limits.responseChunkBytes,
        ackDeadlineMs: limits.ackDeadlineMs,
        silentAbsentRoutes: settings.absentRouteAnswer === 'silence',
        onEvent: (stream, event) => {
          telemetry.onClient(stream, event);
        },
      }),
    onHandlerError: (error) => {
      telemetry.onHandlerError(error);
    },
  });

  let tick: NodeJS.Timeout | undefined;
  return {
    client,
    cache,
    server,
    async start() {
      client.start();
      tick = setInterval(() => {
        cache.handleTimer(clock());
      }, CACHE_TICK_MS);
      return server.listen();
    },
    reload(next) {
      client.reload(next);
    },
    async stop() {
      await server.drain(limits.drainGraceMs);
      clearInterval(tick);
      client.close();
    },
  };
}

const USER_AGENT = { userAgentName: 'tributary', userAgentVersion: VERSION };

function nodeOf(source: SourceSpec, node: NodeSpec): NodeSpec {
  return source.kind === 'grpc' && source.node ? source.node : node;
}

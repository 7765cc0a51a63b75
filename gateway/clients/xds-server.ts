/**
 * The client-facing xDS server: the methods of all discovery services, load reports and health checks, on the gRPC
 * server of `grpc-http2.ts`, with the limit of clients, the certificates, and the end of all streams at shutdown. Messages stay bytes here.
 */
import type { Keepalive, Limits } from '../../config/limits.js';
import type { ClientRule } from '../../config/model.js';
import type { ServerTlsSpec } from '../../config/settings.js';
import { listenError } from '../listen-error.js';
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import { DISCOVERY_SERVICES, type DiscoveryService } from '../../protos/discovery-services.js';
import { HEALTH_SERVICE } from '../../protos/health.js';
import { LOAD_STATS_PATH } from '../../protos/load-stats.js';
import { ClientAuthentication } from './client-authentication.js';
import type { ClientStream, ClientStreamEvent, Flavour, StreamPort } from './client-stream.js';
import type { CallHandlers, GrpcCall, Method } from './grpc-call.js';
import { fetchMethod } from './fetch-call.js';
import { ClientAccounts } from '../core/quotas/client-accounts.js';
import type { PeerAccount, Quotas } from '../core/quotas/quotas.js';
import type { Requester } from '../core/rights/requester.js';
import { clock } from '../clock.js';
import { GrpcServer, type UnknownCall } from './grpc-http2.js';
import { HealthService } from './health-service.js';
import type { LoadReportStream } from './load-report-stream.js';
import { Polls, type OpenedPoll } from './polls.js';
import { RestDiscovery } from './rest-discovery.js';
import { Turns } from '../../authorities/index.js';
import { TlsFiles, type TlsMaterial } from './tls-files.js';

export interface XdsServerOptions {
  readonly host: string;
  readonly port: number;
  readonly tls: ServerTlsSpec | null;
  readonly keepalive: Keepalive;
  readonly limits: Limits;
  /** What each peer may take. */
  readonly quotas: Quotas;
  /** `clients` of the current map, which may bound a peer; absent: it has none. */
  readonly clientRules?: () => readonly ClientRule[] | undefined;
  /** Makes the shell of a new stream. */
  readonly makeStream: (
    flavour: Flavour,
    port: StreamPort,
    service: DiscoveryService,
    account: PeerAccount,
  ) => ClientStream;
  /** Makes the session of a client that polls; the last argument receives its events. */
  readonly makePoll: (
    service: DiscoveryService,
    port: StreamPort,
    onEvent: (event: ClientStreamEvent) => void,
    account: PeerAccount,
  ) => OpenedPoll;
  /** Tells clients apart; absent: by their certificates alone. */
  readonly authentication?: ClientAuthentication;
  /** Headers of clients that sources get; absent: none. */
  readonly forwardedHeaders?: () => readonly string[];
  /** A response to a client that polls by REST cannot be written as JSON. */
  readonly onUnwritable: (typeUrl: string, reason: string) => void;
  /** Makes the shell of a new stream of load reports; absent: the server has no such method. */
  readonly makeLoadStream?: (port: StreamPort, account: PeerAccount) => LoadReportStream;
  /** Whether the gateway is ready, for health checks; default: always. A draining server is never ready. */
  readonly isReady?: () => boolean;
  /** The certificate files of the listener changed: the new ones are in use, or were refused. */
  readonly onTls: (event: TlsEvent) => void;
  /** A client sent a message, valid or not. */
  readonly onRequest: () => void;
  /** A client called a method that the gateway does not have; once for each connection and method. */
  readonly onUnknownMethod: (call: UnknownCall) => void;
  /** Code of the gateway threw, or the listener failed; the process continues. */
  readonly onError: (error: unknown) => void;
}

const SHUTTING_DOWN: RpcStatus = {
  code: STATUS_CODE.unavailable,
  message: 'the gateway is shutting down',
};

/** A call whose client is known and may have one more stream. */
interface Admitted {
  readonly port: StreamPort;
  readonly account: PeerAccount;
  readonly requester: Requester;
}

const NO_HANDLERS: CallHandlers = {
  onMessage: () => undefined,
  onDrain: () => undefined,
  onEnd: () => undefined,
  onClosed: () => undefined,
};

/** A listener read its certificates again. */
export type TlsEvent = { readonly listener: 'client' | 'admin' } & (
  { readonly kind: 'reloaded' } | { readonly kind: 'refused'; readonly reason: string }
);

/** Streams end over this part of the grace time, so that clients do not all reconnect at once. */
const DRAIN_SPREAD = 0.8;

export class XdsServer {
  readonly #options: XdsServerOptions;
  readonly #streams = new Set<ClientStream>();
  readonly #loadStreams = new Set<LoadReportStream>();
  #server: GrpcServer | undefined;
  #tlsFiles: TlsFiles | undefined;
  #draining = false;

  readonly #polls: Polls;
  readonly #quotas: Quotas;
  readonly #accounts: ClientAccounts;
  readonly #authentication: ClientAuthentication;
  readonly #health: HealthService;
  /** All requests and new connections of clients. */
  readonly #turns: Turns;

  constructor(options: XdsServerOptions) {
    this.#options = options;
    this.#turns = new Turns(options.onError);
    this.#quotas = options.quotas;
    this.#accounts = new ClientAccounts(this.#quotas, options.clientRules ?? (() => undefined));
    this.#authentication = options.authentication ?? new ClientAuthentication(undefined);
    this.#health = new HealthService({
      services: servedServices(options),
      isReady: options.isReady ?? (() => true),
      clock,
    });
    this.#polls = new Polls({
      ...options.limits,
      open: options.makePoll,
      identify: (proof) => this.#authentication.identify(proof),
      onError: options.onError,
      forwardedHeaders: options.forwardedHeaders ?? (() => []),
      refusal: (account) => this.#refusal(account),
      paceMs: (account, bytes) => account.rate.takeOrWaitMs(clock(), costOf(bytes)),
      accounts: this.#accounts,
    });
  }

  get streams(): ReadonlySet<ClientStream> {
    return this.#streams;
  }

  get loadStreams(): ReadonlySet<LoadReportStream> {
    return this.#loadStreams;
  }

  /** The streams, and the clients that poll. */
  clients(): readonly ClientStream[] {
    return [...this.#streams, ...this.polling];
  }

  /** The clients that poll. */
  get polling(): readonly ClientStream[] {
    return this.#polls.streams;
  }

  /** The certificates in use. Undefined: none, or the server does not listen yet. */
  get tlsMaterial(): TlsMaterial | undefined {
    return this.#tlsFiles?.material;
  }

  /** @returns the bound port. Rejects with a `ListenError` if the address is unavailable. */
  async listen(): Promise<number> {
    const { host, port, limits, tls, onRequest, onUnwritable } = this.#options;
    this.#tlsFiles = tls ? this.#readTls(tls) : undefined;
    this.#server = new GrpcServer(
      {
        ...this.#options,
        maxMessageBytes: limits.maxRequestBytes,
        maxStreamsPerConnection: limits.maxStreamsPerConnection,
        writeAheadBytes: limits.writeAheadBytes,
        turns: this.#turns,
        quotas: this.#quotas,
        methods: this.#methods(),
        rest: new RestDiscovery({
          polls: this.#polls,
          maxBodyBytes: limits.maxRequestBytes,
          maxNamesPerRequest: limits.maxNamesPerRequest,
          quotas: this.#quotas,
          turns: this.#turns,
          onRequest,
          onUnwritable,
        }),
      },
      this.#tlsFiles?.material,
    );
    try {
      const bound = await this.#server.listen();
      this.#tlsFiles?.watch();
      return bound;
    } catch (error) {
      throw listenError({ host, port, setting: 'client' }, error);
    }
  }

  /** Reads the certificates now instead of at the next check. */
  refreshCertificates(): void {
    this.#tlsFiles?.refresh();
  }

  /**
   * Ends all streams, spread over most of the grace time, and cuts the rest at its end. GOAWAY alone
   * would not move clients: they keep their open stream.
   */
  async drain(graceMs: number): Promise<void> {
    this.#draining = true;
    this.#tlsFiles?.close();
    this.#health.handleDraining();
    const streams = [...this.#streams, ...this.#loadStreams, ...this.#health.watches];
    const stepMs = streams.length === 0 ? 0 : (graceMs * DRAIN_SPREAD) / streams.length;
    streams.forEach((stream, index) => {
      const jitterMs = Math.random() * stepMs;
      setTimeout(
        () => {
          stream.end(SHUTTING_DOWN);
        },
        stepMs * index + jitterMs,
      );
    });
    const closing = this.#server?.close(graceMs);
    // After that, so that the responses close their connections.
    this.#polls.close(SHUTTING_DOWN);
    await closing;
  }

  #readTls(spec: ServerTlsSpec): TlsFiles {
    const { onTls } = this.#options;
    return new TlsFiles(spec, {
      onChanged: (material) => {
        this.#server?.replaceTls(material);
        onTls({ listener: 'client', kind: 'reloaded' });
      },
      onRefused: (reason) => {
        onTls({ listener: 'client', kind: 'refused', reason });
      },
    });
  }

  /** By path. */
  #methods(): ReadonlyMap<string, Method> {
    const methods = new Map<string, Method>([...this.#loadMethods(), ...this.#healthMethods()]);
    for (const service of DISCOVERY_SERVICES) {
      const { stream, delta, fetch } = service.methods;
      methods.set(`/${service.service}/${stream}`, this.#method('sotw', service));
      methods.set(`/${service.service}/${delta}`, this.#method('delta', service));
      if (fetch === undefined) continue;
      const { onRequest } = this.#options;
      const method = fetchMethod(service, this.#polls, this.#quotas, onRequest);
      methods.set(`/${service.service}/${fetch}`, method);
    }
    return methods;
  }

  #method(flavour: Flavour, service: DiscoveryService): Method {
    return {
      refusal: (quotaKey) => this.#earlyRefusal(quotaKey),
      open: (call) => this.#admit(call, (admitted) => this.#open(flavour, service, call, admitted)),
    };
  }

  /**
   * Opens a call for its client, once that is known, on the client's account.
   *
   * @param start not called for a client that is refused
   */
  #admit(call: GrpcCall, start: (admitted: Admitted) => CallHandlers): CallHandlers {
    return this.#authentication.open(call, (port, client) => {
      const account = this.#accounts.of(client, call.quotaKey);
      const refusal = this.#refusal(account);
      if (!refusal) return start({ port, account, requester: client.requester });
      call.end(refusal);
      return NO_HANDLERS;
    });
  }

  #open(
    flavour: Flavour,
    service: DiscoveryService,
    call: GrpcCall,
    { port, account, requester }: Admitted,
  ): CallHandlers {
    const { makeStream, onRequest } = this.#options;
    const stream = makeStream(flavour, port, service, account);
    this.#streams.add(stream);
    const leave = this.#accounts.takeStream(account, requester);
    return {
      onMessage: (bytes) => {
        onRequest();
        if (!call.isPaused && stream.handleAck(bytes)) return;
        slowDown(call, account, bytes.length);
        // A client in sync goes before clients that connect.
        this.#take(call, bytes, { account, isUrgent: stream.hasWritten }, (message) => {
          stream.handleMessage(message);
        });
      },
      onDrain: () => {
        stream.handleDrain();
      },
      onEnd: () => {
        stream.end(undefined);
        this.#streams.delete(stream);
        leave();
      },
      onClosed: (reason, code) => {
        this.#streams.delete(stream);
        stream.handleClosed(reason, code);
        leave();
      },
    };
  }

  /** @param bytes valid now only */
  #take(
    call: GrpcCall,
    bytes: Buffer,
    { account, isUrgent }: { readonly account: PeerAccount; readonly isUrgent: boolean },
    handle: (message: Uint8Array) => void,
  ): void {
    let message: Uint8Array = bytes;
    let letGo = (): void => undefined;
    const work = (): void => {
      letGo();
      handle(message);
      if (message !== bytes) call.readOn();
    };
    const ran = this.#turns.runForStream(work, isUrgent, account);
    if (ran) return;
    message = Buffer.from(bytes);
    letGo = this.#quotas.account(call.quotaKey).holdRequest(bytes.length);
    call.pauseReading();
  }

  #loadMethods(): readonly [string, Method][] {
    const { makeLoadStream } = this.#options;
    if (!makeLoadStream) return [];
    const open: Method['open'] = (call) =>
      this.#admit(call, (admitted) =>
        this.#openLoads(makeLoadStream(admitted.port, admitted.account), call, admitted),
      );
    return [[LOAD_STATS_PATH, { refusal: (quotaKey) => this.#earlyRefusal(quotaKey), open }]];
  }

  #openLoads(
    stream: LoadReportStream,
    call: GrpcCall,
    { account, requester }: Admitted,
  ): CallHandlers {
    this.#loadStreams.add(stream);
    const leave = this.#accounts.takeStream(account, requester);
    return {
      onMessage: (bytes) => {
        slowDown(call, account, bytes.length);
        this.#take(call, bytes, { account, isUrgent: false }, (message) => {
          stream.handleMessage(message);
        });
      },
      onDrain: () => {
        stream.handleDrain();
      },
      onEnd: () => {
        stream.end(undefined);
        this.#loadStreams.delete(stream);
        leave();
      },
      onClosed: (reason) => {
        this.#loadStreams.delete(stream);
        stream.handleClosed(reason);
        leave();
      },
    };
  }

  /** Health checks need no right, and count as streams. */
  #healthMethods(): readonly [string, Method][] {
    const method = (open: (call: GrpcCall) => CallHandlers): Method => ({
      refusal: (quotaKey) => this.#earlyRefusal(quotaKey),
      open: (call) =>
        this.#admit(call, ({ account, requester }) => {
          const leave = this.#accounts.takeStream(account, requester);
          const handlers = open(call);
          return {
            ...handlers,
            onClosed: (reason) => {
              handlers.onClosed(reason);
              leave();
            },
          };
        }),
    });
    return [
      [`/${HEALTH_SERVICE}/Check`, method((call) => this.#health.check(call))],
      [`/${HEALTH_SERVICE}/Watch`, method((call) => this.#health.watch(call))],
    ];
  }

  /** What the gateway says in health checks. Call its `handleTimer` about once a second. */
  get health(): HealthService {
    return this.#health;
  }

  /** `clients` of the map changed: what each client may ask for, and how much it may take. */
  handleRulesChanged(): void {
    this.#accounts.handleRulesChanged();
    for (const client of this.clients()) client.handleRightsChanged();
  }

  /** Before the client is known, since a refusal at this point costs least. */
  #earlyRefusal(connectionKey: string): RpcStatus | undefined {
    const account = this.#quotas.account(connectionKey);
    const scope = account.exhaustedScope('streams');
    // With a token, the client has an account of its own. And an idle poll gives way to a known client only.
    const isUndecided =
      (scope === 'peer' && this.#authentication.readsTokens) ||
      (scope === 'global' && this.#polls.hasIdle);
    return isUndecided && !this.#draining ? undefined : this.#refusal(account);
  }

  #refusal(account: PeerAccount): RpcStatus | undefined {
    if (this.#draining) return SHUTTING_DOWN;
    // A client that polls and is idle loses little.
    const isFull = account.exhaustedScope('streams') === 'global';
    if (isFull && account.mayReplace('streams') && this.#polls.giveWay()) return undefined;
    return account.ask('streams');
  }
}

/** The full names of the services that clients may ask about in a health check. */
function servedServices({ makeLoadStream }: XdsServerOptions): readonly string[] {
  const loads = makeLoadStream ? [LOAD_STATS_PATH.split('/')[1] ?? ''] : [];
  return [...DISCOVERY_SERVICES.map(({ service }) => service), ...loads];
}

/** A request of this size counts as two: the names in it cost more than the request. Bytes. */
const REQUEST_COST_BYTES = 10_000;

/** In requests, for the rate of the peer. */
const costOf = (bytes: number): number => 1 + bytes / REQUEST_COST_BYTES;

/** Reads a client later that sends more than its peer's requests a second. */
function slowDown(call: GrpcCall, account: PeerAccount, bytes: number): void {
  const delayMs = account.rate.delayMs(clock(), costOf(bytes));
  if (delayMs < 1) return;
  call.pauseReading();
  setTimeout(() => {
    call.readOn();
  }, delayMs).unref();
}

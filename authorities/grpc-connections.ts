/**
 * Connections to management servers over gRPC: the streams of several node groups share one if they agree
 * in the source, its settings and the contents of its TLS files.
 *
 * A connection is never used again once it was lost: its channel would put its own backoff before ours
 * (it fails calls with the last error without connecting). Streams wait until it is ready, since only
 * then is the peer's bound of concurrent streams known: node:http2 queues further ones silently.
 */
import { createHash } from 'node:crypto';
import { isIP } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import * as grpc from '@grpc/grpc-js';
import type { GrpcSourceSpec } from '../config/model.js';
import type { DialIdentity } from './core/sources/client-identity.js';
import {
  chooseConnection,
  hasRoomFor,
  type ConnectionRoom,
} from './core/sources/connection-choice.js';
import { identityFilesInUse } from './identity-files.js';
import { checkSans, readTlsFiles, type TlsFiles } from './source-credentials.js';

const HEALTH_PATH = '/grpc.health.v1.Health/Check';
/** For this time the answer to the probe of one user counts for all users. Milliseconds. */
const PROBE_FRESH_MS = 1_000;

const { CONNECTING, IDLE, READY, SHUTDOWN } = grpc.connectivityState;

/** An attempt on a connection that others may use too. */
export interface ConnectionUser {
  /** HTTP/2 streams that it may open. */
  readonly streams: number;
  /**
   * Opens its streams: the connection is ready. Either this or `refused` is called, once, after `joinConnection`
   * has returned. Must not throw.
   */
  start(connection: GrpcConnection): void;
  /** The source refused the connection: each call on it fails at once, and its status tells why. Must not throw. */
  refused(): void;
  /** The old connection has no room after all, or was lost before the start. The user joins `connection` after this call. */
  moved(connection: GrpcConnection): void;
  /** There is no room for it, and no other connection can be opened. */
  fail(error: unknown): void;
}

/** Connections that take new streams, by the settings that all streams of a connection share. */
const open = new Map<string, Set<GrpcConnection>>();

/**
 * Takes the fullest connection that has room, or opens another.
 *
 * @throws Error if a credential file cannot be read
 */
export function joinConnection(
  source: GrpcSourceSpec,
  identity: DialIdentity,
  user: ConnectionUser,
): GrpcConnection {
  const files = tlsFilesOf(source, identity);
  const key = keyOf(source, files);
  const connection =
    chooseConnection(open.get(key) ?? [], user.streams) ?? opened(key, source, files);
  connection.add(user);
  return connection;
}

function opened(key: string, source: GrpcSourceSpec, files: TlsFiles | undefined): GrpcConnection {
  const others = open.get(key) ?? new Set();
  const made: GrpcConnection = new GrpcConnection(source, files, {
    onClosed: () => {
      others.delete(made);
      if (others.size === 0 && open.get(key) === others) open.delete(key);
    },
    another: (user) => {
      const { streams } = user;
      return chooseConnection(open.get(key) ?? [], streams) ?? opened(key, source, files);
    },
  });
  // Likely the same for all, and known earlier.
  for (const { peerMaxStreams } of others) made.peerMaxStreams ??= peerMaxStreams;
  open.set(key, others.add(made));
  return made;
}

function tlsFilesOf(source: GrpcSourceSpec, identity: DialIdentity): TlsFiles | undefined {
  const own = identityFilesInUse(source, identity);
  return source.tls ? readTlsFiles(source.tls, own) : undefined;
}

/** A digest of all settings of the connection and of the contents of its files. */
function keyOf(source: GrpcSourceSpec, files: TlsFiles | undefined): string {
  const { name, target, tls, timers, channelArgs, maxReceiveBytes } = source;
  const hash = createHash('sha256');
  hash.update(JSON.stringify([name, target, tls, timers, channelArgs, maxReceiveBytes]));
  for (const file of [files?.roots, files?.key, files?.certificates]) {
    hash.update(`\n${file?.length ?? 'none'}\n`);
    if (file) hash.update(file);
  }
  return hash.digest('base64');
}

/**
 * A target may have several addresses, all of one control plane. Its servers may bound their streams (Consul), or be out of
 * order each by itself, so each connection tries the addresses in another order (gRFC A62). `channel_args` may say otherwise.
 * grpc-js 1.14 leaves two addresses in their order, so those that the target itself lists are put in order here.
 */
const ANY_ADDRESS = JSON.stringify({
  loadBalancingConfig: [{ pick_first: { shuffleAddressList: true } }],
});

/** `ipv4:10.0.0.1:80,10.0.0.2:80` in a random order; any other target as it is. */
function inAnyOrder(target: string): string {
  const [, scheme, addresses] = /^(ipv[46]:)(.*)$/.exec(target) ?? [];
  if (scheme === undefined || addresses === undefined) return target;
  const left = addresses.split(',');
  const inOrder: string[] = [];
  while (left.length > 0) inOrder.push(...left.splice(Math.floor(Math.random() * left.length), 1));
  return scheme + inOrder.join(',');
}

interface ConnectionPort {
  /** It takes no more streams. Called once. */
  onClosed(): void;
  another(user: ConnectionUser): GrpcConnection;
}

export class GrpcConnection {
  readonly client: grpc.Client;
  readonly #port: ConnectionPort;
  /** The others start when the connection is ready. */
  readonly #users = new Map<ConnectionUser, 'waiting' | 'started'>();
  #startedStreams = 0;
  /** It takes no more streams: it was lost, or may lead nowhere. */
  #isRetired = false;
  /** It may not connect any more: it was connected once, or its last user left. */
  #isSpent = false;
  /** It has been asked twice to connect. */
  #wasIdle = false;
  reservedStreams = 0;
  peerMaxStreams: number | undefined;
  /** Messages received on all streams: whether it grows shows that the connection works. */
  messages = 0;
  #probe: Promise<boolean> | undefined;
  #answeredAtMs = -Infinity;
  #answeredTo: ConnectionUser | undefined;

  constructor(source: GrpcSourceSpec, files: TlsFiles | undefined, port: ConnectionPort) {
    this.#port = port;
    const { timers, tls } = source;
    const credentials = new PassingCredentials(credentialsOf(tls, files), () => this.#isSpent);
    this.client = new grpc.Client(inAnyOrder(source.target), credentials, {
      'grpc.use_local_subchannel_pool': 1,
      'grpc.initial_reconnect_backoff_ms': timers.backoffBaseMs,
      'grpc.max_reconnect_backoff_ms': timers.backoffMaxMs,
      'grpc.keepalive_time_ms': timers.keepaliveTimeMs,
      'grpc.keepalive_timeout_ms': timers.keepaliveTimeoutMs,
      'grpc.max_receive_message_length': source.maxReceiveBytes,
      'grpc.service_config': ANY_ADDRESS,
      ...(tls?.serverName === undefined ? {} : { 'grpc.ssl_target_name_override': tls.serverName }),
      ...source.channelArgs,
    });
    this.client.getChannel().getConnectivityState(true);
    this.#watch();
  }

  add(user: ConnectionUser): void {
    this.#users.set(user, 'waiting');
    this.reservedStreams += user.streams;
    const state = this.client.getChannel().getConnectivityState(false);
    if (state === IDLE || state === CONNECTING) return;
    // A source that goes away ends all its connections at once. The user of one must not start on another whose end is
    // here but not yet known: that would count as a failed attempt. The first turn reads the sockets, and closes
    // those that ended; before the second one ends, their connections are known as lost.
    setImmediate(() => {
      setImmediate(() => {
        this.#startWaiting();
      });
    });
  }

  /** A user leaves; without users the connection is closed. @param isDoubtful no new stream may use it */
  leave(user: ConnectionUser, isDoubtful: boolean): void {
    this.#forget(user);
    if (isDoubtful) this.#retire();
    this.#closeIfUnused();
  }

  #closeIfUnused(): void {
    if (this.#users.size > 0) return;
    this.#retire();
    this.#isSpent = true;
    // Not in this turn: a channel closed in the turn that created it gets its address afterwards
    // and retries for ever (grpc-js 1.14).
    setImmediate(() => {
      this.client.close();
    });
  }

  /**
   * Sends a liveness probe for all users of the connection.
   *
   * @returns false only if neither a response nor a message of a stream came within `timeoutMs`
   */
  probe(user: ConnectionUser, timeoutMs: number): Promise<boolean> {
    const isFresh = performance.now() - this.#answeredAtMs < PROBE_FRESH_MS;
    if (isFresh && this.#answeredTo !== user) return Promise.resolve(true);
    const messagesBefore = this.messages;
    this.#probe ??= this.#sendProbe(timeoutMs).then((isAnswered) => {
      this.#probe = undefined;
      // In a burst of many groups the answer may wait behind their responses.
      const isAlive = isAnswered || this.messages > messagesBefore;
      if (isAlive) {
        this.#answeredAtMs = performance.now();
        this.#answeredTo = user;
      } else this.#retire();
      return isAlive;
    });
    return this.#probe;
  }

  #sendProbe(timeoutMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      this.client.makeUnaryRequest(
        HEALTH_PATH,
        (bytes: Buffer) => bytes,
        (bytes: Buffer) => bytes,
        Buffer.alloc(0),
        new grpc.Metadata(),
        { deadline: Date.now() + timeoutMs },
        (error) => {
          resolve(error?.code !== grpc.status.DEADLINE_EXCEEDED);
        },
      );
    });
  }

  /** Follows the state of the channel until the first connection is lost. */
  #watch(): void {
    const channel = this.client.getChannel();
    const before = channel.getConnectivityState(false);
    channel.watchConnectivityState(before, Infinity, () => {
      const state = channel.getConnectivityState(false);
      if (state === SHUTDOWN) return;
      if (state === READY) {
        this.#isSpent = true;
        // grpc-js reports the state before it keeps the connection, whose settings tell the bound.
        queueMicrotask(() => {
          this.peerMaxStreams = peerMaxStreamsOf(channel);
          this.#startWaiting();
        });
      } else if (state === IDLE && before === CONNECTING && !this.#wasIdle) {
        // grpc-js now and then gives up an attempt without an error. It starts again when asked to.
        this.#wasIdle = true;
        channel.getConnectivityState(true);
      } else if (state !== CONNECTING || before === READY) {
        // GOAWAY, a lost connection or a refused one.
        this.#retire();
        this.#startWaiting();
        return;
      }
      this.#watch();
    });
  }

  #startWaiting(): void {
    const isReady = this.client.getChannel().getConnectivityState(false) === READY;
    const takesUsers = isReady && !this.#isRetired;
    let hasMoved = false;
    for (const [user, state] of [...this.#users]) {
      if (state === 'started' || !this.#users.has(user)) continue;
      const isRefused = this.#isRetired && !this.#isSpent;
      // The bound of the peer may be smaller than assumed.
      if (isRefused || (takesUsers && hasRoomFor(this.#room(), user.streams))) {
        this.#users.set(user, 'started');
        this.#startedStreams += user.streams;
        if (isRefused) user.refused();
        else user.start(this);
        continue;
      }
      this.#forget(user);
      this.#move(user);
      hasMoved = true;
    }
    if (hasMoved) this.#closeIfUnused();
  }

  #move(user: ConnectionUser): void {
    try {
      const other = this.#port.another(user);
      user.moved(other);
      other.add(user);
    } catch (error) {
      user.fail(error);
    }
  }

  #room(): ConnectionRoom {
    return { reservedStreams: this.#startedStreams, peerMaxStreams: this.peerMaxStreams };
  }

  #forget(user: ConnectionUser): void {
    const state = this.#users.get(user);
    if (!state) return;
    this.#users.delete(user);
    this.reservedStreams -= user.streams;
    if (state === 'started') this.#startedStreams -= user.streams;
  }

  #retire(): void {
    if (this.#isRetired) return;
    this.#isRetired = true;
    this.#port.onClosed();
  }
}

/**
 * grpc-js has no way to ask for it. This reads fields that are private there; with another version that
 * lacks them, the bound is unknown.
 */
function peerMaxStreamsOf(channel: unknown): number | undefined {
  const pools = fieldOf(fieldOf(fieldOf(channel, 'internalChannel'), 'subchannelPool'), 'pool');
  for (const entry of Object.values(pools ?? {}).flat() as unknown[]) {
    const transport = fieldOf(fieldOf(entry, 'subchannel'), 'transport');
    const settings = fieldOf(fieldOf(transport, 'session'), 'remoteSettings');
    const bound: unknown = fieldOf(settings, 'maxConcurrentStreams');
    if (typeof bound === 'number') return bound;
  }
  return undefined;
}

const fieldOf = (from: unknown, key: string): object | undefined =>
  typeof from === 'object' && from !== null
    ? ((from as Record<string, unknown>)[key] as object | undefined)
    : undefined;

function credentialsOf(
  tls: GrpcSourceSpec['tls'],
  files: TlsFiles | undefined,
): grpc.ChannelCredentials {
  if (tls === null || !files) return grpc.credentials.createInsecure();
  const { roots, key, certificates } = files;
  return grpc.credentials.createSsl(
    roots,
    key,
    certificates,
    tls.requiredSans.length === 0
      ? {}
      : {
          checkServerIdentity: (host, certificate) =>
            checkSans(tls.requiredSans, host, certificate),
        },
  );
}

type SecureConnector = ReturnType<grpc.ChannelCredentials['_createSecureConnector']>;

/**
 * Credentials that refuse to connect once their connection is spent. grpc-js 1.14 connects a channel again by
 * itself in two cases. A call that starts before the loss of a connection is known waits for the next one, as
 * does a probe after a GOAWAY: that connection would serve a few streams beside those that have room. And a
 * closed channel whose last try was refused tries once more after its backoff: nothing would ever close it.
 */
class PassingCredentials extends grpc.ChannelCredentials {
  readonly #inner: grpc.ChannelCredentials;
  readonly #isSpent: () => boolean;

  constructor(inner: grpc.ChannelCredentials, isSpent: () => boolean) {
    super();
    this.#inner = inner;
    this.#isSpent = isSpent;
  }

  override _isSecure(): boolean {
    return this.#inner._isSecure();
  }

  override _equals(other: grpc.ChannelCredentials): boolean {
    return this === other;
  }

  override _createSecureConnector(
    ...args: Parameters<grpc.ChannelCredentials['_createSecureConnector']>
  ): SecureConnector {
    const connector = this.#inner._createSecureConnector(...args);
    forgetNameOfAddress(connector);
    return {
      connect: (socket) => connector.connect(socket),
      waitForReady: () =>
        this.#isSpent()
          ? Promise.reject(new Error('the connection was lost'))
          : connector.waitForReady(),
      getCallCredentials: () => connector.getCallCredentials(),
      destroy: () => {
        connector.destroy();
      },
    };
  }
}

/**
 * grpc-js 1.14 sends the target's address as the TLS server name, which must not be one (RFC 6066, section 3): Node.js 26
 * refuses to connect. Without the name, Node compares the address with the certificate, as before.
 */
export function forgetNameOfAddress(connector: SecureConnector): void {
  const { connectionOptions } = connector as { connectionOptions?: ConnectionOptions };
  if (connectionOptions && isIP(connectionOptions.servername ?? '') > 0)
    connectionOptions.servername = '';
}

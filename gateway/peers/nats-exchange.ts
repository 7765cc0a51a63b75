/**
 * Exchanges messages with the peer instances over NATS: one subject, at-most-once delivery, no storage.
 * The only file that uses the NATS library, and loads it only to connect. Serving clients never waits for it: while the
 * connection is down or blocked, messages are dropped and counted.
 */
import type * as Nats from 'nats';
import type { Authenticator, ConnectionOptions, NatsConnection } from 'nats';
import type { NatsSettings } from '../../config/settings.js';
import { readNamedFile } from '../../config/unreadable-file.js';
import type { PeerExchange } from '../core/peers/peer-hints.js';

export interface NatsExchangeHandlers {
  onConnected(server: string): void;
  /** The connection was lost, or an attempt failed. The exchange keeps trying. */
  onDisconnected(reason: string): void;
  onMessage(bytes: Uint8Array): void;
  onSent(): void;
  onDropped(): void;
  /** The server denied something, e.g. a subject for which this user has no permission. */
  onRefused(reason: string): void;
  /** A handler of the gateway threw. */
  onError(error: unknown): void;
}

const RECONNECT_WAIT_MS = 500;
const RECONNECT_JITTER_MS = 1_000;
const CONNECT_TIMEOUT_MS = 5_000;
/** A hanging server is detected after `MAX_PINGS_OUT` intervals. */
const PING_INTERVAL_MS = 10_000;
const MAX_PINGS_OUT = 2;
/** Bound for bytes that the server has not received yet; above it messages are dropped. */
const MAX_UNSENT_BYTES = 1_024 * 1_024;
const DRAIN_TIMEOUT_MS = 1_000;
/** An operator may grant permissions while the gateway runs. */
const RESUBSCRIBE_MS = 30_000;

export class NatsPeerExchange implements PeerExchange {
  readonly #settings: NatsSettings;
  readonly #handlers: NatsExchangeHandlers;
  readonly subject: string;
  readonly #instance: string;
  readonly #resubscribeMs: number;
  #connection: NatsConnection | undefined;
  #isConnected = false;
  #toldDown = false;
  #closed = false;
  #unsentBytes = 0;
  #flushing = false;
  #retry: NodeJS.Timeout | undefined;
  #resubscribe: NodeJS.Timeout | undefined;

  constructor(
    settings: NatsSettings,
    instance: string,
    handlers: NatsExchangeHandlers,
    resubscribeMs = RESUBSCRIBE_MS,
  ) {
    this.#settings = settings;
    this.#instance = instance;
    this.#handlers = handlers;
    this.#resubscribeMs = resubscribeMs;
    this.subject = hintSubject(settings);
  }

  get isConnected(): boolean {
    return this.#isConnected;
  }

  /** Returns at once. Connects in the background, and reconnects for ever. */
  start(): void {
    void this.#start();
  }

  publish(bytes: Uint8Array): void {
    const connection = this.#connection;
    if (!connection || !this.#isConnected || this.#unsentBytes > MAX_UNSENT_BYTES) {
      this.#handlers.onDropped();
      return;
    }
    try {
      connection.publish(this.subject, bytes);
    } catch {
      this.#handlers.onDropped();
      return;
    }
    this.#handlers.onSent();
    this.#unsentBytes += bytes.length;
    void this.#awaitTaken(connection);
  }

  /** Waits until published messages have left, for at most `DRAIN_TIMEOUT_MS`. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    clearTimeout(this.#resubscribe);
    const connection = this.#connection;
    this.#isConnected = false;
    if (!connection || connection.isClosed()) return;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, DRAIN_TIMEOUT_MS)));
    const drained = connection.drain().catch(() => undefined);
    // `close` of the library ends with a write, which a hanging server may never receive.
    const closed = drained.then(() => connection.close()).catch(() => undefined);
    await Promise.race([closed, late]);
    clearTimeout(timer);
    if (!connection.isClosed()) void connection.close().catch(() => undefined);
  }

  async #start(): Promise<void> {
    try {
      const nats = await import('nats');
      const connection = await nats.connect(this.#options(nats));
      // `close` was called during the attempt.
      if (this.#closed) {
        await connection.close();
        return;
      }
      this.#connection = connection;
      this.#connected(connection);
      this.#follow(connection, nats).catch((error: unknown) => {
        this.#handlers.onError(error);
      });
      void connection.closed().then((error) => {
        this.#lost(error instanceof Error ? error.message : 'closed');
        this.#startLater();
      });
    } catch (error) {
      // Wrong files or addresses: an operator may correct them while the gateway runs.
      this.#lost(error instanceof Error ? error.message : String(error));
      this.#startLater();
    }
  }

  /** Subscribes, and repeats a denied subscription: the permission may be granted later. */
  #subscribe(connection: NatsConnection): void {
    if (this.#closed || connection.isClosed()) return;
    connection.subscribe(this.subject, {
      callback: (error, message) => {
        this.#guard(() => {
          if (error) this.#handlers.onRefused(error.message);
          else this.#handlers.onMessage(message.data);
        });
        if (!error) return;
        clearTimeout(this.#resubscribe);
        this.#resubscribe = setTimeout(() => {
          this.#guard(() => {
            this.#subscribe(connection);
          });
        }, this.#resubscribeMs);
        this.#resubscribe.unref();
      },
    });
  }

  #startLater(): void {
    if (this.#closed) return;
    this.#connection = undefined;
    const waitMs = RECONNECT_WAIT_MS + Math.random() * RECONNECT_JITTER_MS;
    this.#retry = setTimeout(() => void this.#start(), waitMs);
    this.#retry.unref();
  }

  async #follow(connection: NatsConnection, { Events }: typeof Nats): Promise<void> {
    for await (const { type, data } of connection.status()) {
      const detail = typeof data === 'string' ? data : JSON.stringify(data);
      if (type === Events.Disconnect) this.#lost(`connection to ${detail} lost`);
      if (type === Events.Error)
        this.#guard(() => {
          this.#handlers.onRefused(detail);
        });
    }
  }

  #connected(connection: NatsConnection): void {
    this.#isConnected = true;
    this.#toldDown = false;
    this.#unsentBytes = 0;
    this.#guard(() => {
      this.#subscribe(connection);
      this.#handlers.onConnected(connection.getServer());
    });
  }

  #lost(reason: string): void {
    this.#isConnected = false;
    // Report once per outage, not per attempt.
    if (this.#toldDown || this.#closed) return;
    this.#toldDown = true;
    this.#guard(() => {
      this.#handlers.onDisconnected(reason);
    });
  }

  /** The buffer of the library has no bound. A round trip shows which bytes the server has received. */
  async #awaitTaken(connection: NatsConnection): Promise<void> {
    if (this.#flushing) return;
    this.#flushing = true;
    try {
      // Loop while bytes are unsent. Above the bound `publish` drops messages, so it would not start
      // another round trip.
      while (this.#unsentBytes > 0 && connection === this.#connection) {
        const bytes = this.#unsentBytes;
        await connection.flush();
        this.#unsentBytes = Math.max(0, this.#unsentBytes - bytes);
      }
    } catch {
      // The connection was lost, with the messages in flight.
    } finally {
      this.#flushing = false;
    }
  }

  #guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#handlers.onError(error);
    }
  }

  #options(nats: typeof Nats): ConnectionOptions {
    const { servers, tls } = this.#settings;
    const authenticator = authenticatorOf(this.#settings, nats);
    return {
      servers: [...servers],
      name: `tributary ${this.#instance}`,
      noEcho: true,
      timeout: CONNECT_TIMEOUT_MS,
      // `#startLater` waits instead: the library cannot abort its wait for the first connection, and counts later waits by the
      // time of day, which may be set back.
      waitOnFirstConnect: false,
      reconnect: false,
      pingInterval: PING_INTERVAL_MS,
      maxPingOut: MAX_PINGS_OUT,
      // A NATS server may announce any address as a cluster member: never use those in plaintext.
      ignoreClusterUpdates: tls === null,
      ...(authenticator ? { authenticator } : {}),
      ...(tls
        ? {
            tls: {
              ...(tls.caFile === undefined ? {} : { caFile: tls.caFile }),
              ...(tls.certFile === undefined ? {} : { certFile: tls.certFile }),
              ...(tls.keyFile === undefined ? {} : { keyFile: tls.keyFile }),
            },
          }
        : {}),
    };
  }
}

/** The subject that an instance publishes and subscribes to; it needs no other permission. */
function hintSubject({ subjectPrefix, cluster }: NatsSettings): string {
  return `${subjectPrefix}.${cluster}.hint`;
}

/** Reads the files again for each connection, so that they can change while the gateway runs. */
function authenticatorOf(settings: NatsSettings, nats: typeof Nats): Authenticator | undefined {
  const { credentialsFile, user, passwordFile, tokenFile } = settings;
  if (credentialsFile !== undefined)
    return nats.credsAuthenticator(() => readNamedFile(credentialsFile));
  if (tokenFile !== undefined) return nats.tokenAuthenticator(() => lineOf(tokenFile));
  if (user === undefined || passwordFile === undefined) return undefined;
  return nats.usernamePasswordAuthenticator(user, () => lineOf(passwordFile));
}

const lineOf = (file: string): string => readNamedFile(file).toString().trimEnd();

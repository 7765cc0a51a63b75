/**
 * The way to the other instances over NATS: one subject, at most once, nothing stored. The only file
 * that knows the library. Nothing here is waited for by anybody who serves: while the connection is
 * down, or does not take what is written, messages are dropped and counted.
 */
import { readFileSync } from 'node:fs';
import {
  connect,
  credsAuthenticator,
  Events,
  tokenAuthenticator,
  usernamePasswordAuthenticator,
  type Authenticator,
  type ConnectionOptions,
  type NatsConnection,
  type Subscription,
} from 'nats';
import type { NatsSettings } from '../../config/settings.js';
import type { PeerExchange } from '../core/peers/peer-hints.js';

export interface NatsExchangeHandlers {
  onConnected(server: string): void;
  /** The connection was lost, or could not be had; it is tried again. */
  onDisconnected(reason: string): void;
  onMessage(bytes: Uint8Array): void;
  onSent(): void;
  onDropped(): void;
  /** What the server refuses, e.g. a subject that this user may not use. */
  onRefused(reason: string): void;
  /** Something of ours threw. */
  onError(error: unknown): void;
}

const RECONNECT_WAIT_MS = 500;
const RECONNECT_JITTER_MS = 1_000;
const CONNECT_TIMEOUT_MS = 5_000;
/** A server that hangs is noticed after two of these. */
const PING_INTERVAL_MS = 10_000;
const MAX_PINGS_OUT = 2;
/** What the server has not taken yet; above it nothing more is written. */
const MAX_UNSENT_BYTES = 1_024 * 1_024;
const DRAIN_TIMEOUT_MS = 1_000;
/** Permissions may be given while we run. */
const RESUBSCRIBE_MS = 30_000;

export class NatsPeerExchange implements PeerExchange {
  readonly #settings: NatsSettings;
  readonly #handlers: NatsExchangeHandlers;
  readonly subject: string;
  readonly #instance: string;
  readonly #resubscribeMs: number;
  #connection: NatsConnection | undefined;
  #subscription: Subscription | undefined;
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

  /** Comes back at once; the connection is made when it can be, and for ever again. */
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

  /** Lets what was published leave, for a second at most. */
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
    // The library closes by a last write, which a server that hangs may never take.
    const closed = drained.then(() => connection.close()).catch(() => undefined);
    await Promise.race([closed, late]);
    clearTimeout(timer);
    if (!connection.isClosed()) void connection.close().catch(() => undefined);
  }

  async #start(): Promise<void> {
    try {
      const connection = await connect(this.#options());
      // Closed while it was tried.
      if (this.#closed) {
        await connection.close();
        return;
      }
      this.#connection = connection;
      this.#connected();
      this.#follow(connection).catch((error: unknown) => {
        this.#handlers.onError(error);
      });
      void connection.closed().then((error) => {
        this.#lost(error instanceof Error ? error.message : 'closed');
        this.#startLater();
      });
    } catch (error) {
      // Wrong files or addresses: they may be mended while we run.
      this.#lost(error instanceof Error ? error.message : String(error));
      this.#startLater();
    }
  }

  /**
   * The library forgets a subscription that the server refuses, for the connections to come as well:
   * an instance that was given the permission later would never hear anybody.
   */
  #subscribe(connection: NatsConnection): void {
    if (this.#closed || connection.isClosed() || this.#subscription?.isClosed() === false) return;
    this.#subscription = connection.subscribe(this.subject, {
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

  async #follow(connection: NatsConnection): Promise<void> {
    for await (const { type, data } of connection.status()) {
      const detail = typeof data === 'string' ? data : JSON.stringify(data);
      if (type === Events.Disconnect) this.#lost(`connection to ${detail} lost`);
      if (type === Events.Reconnect) this.#connected();
      if (type === Events.Error)
        this.#guard(() => {
          this.#handlers.onRefused(detail);
        });
    }
  }

  #connected(): void {
    this.#isConnected = true;
    this.#toldDown = false;
    this.#unsentBytes = 0;
    this.#guard(() => {
      if (this.#connection) this.#subscribe(this.#connection);
      this.#handlers.onConnected(this.#connection?.getServer() ?? '');
    });
  }

  #lost(reason: string): void {
    this.#isConnected = false;
    // Once for each time that it is down, however often it is tried.
    if (this.#toldDown || this.#closed) return;
    this.#toldDown = true;
    this.#guard(() => {
      this.#handlers.onDisconnected(reason);
    });
  }

  /** The library's own buffer has no bound: a round trip shows what the server has taken. */
  async #awaitTaken(connection: NatsConnection): Promise<void> {
    if (this.#flushing) return;
    this.#flushing = true;
    try {
      // As long as anything waits: above the bound nothing more is published that would ask again.
      while (this.#unsentBytes > 0 && connection === this.#connection) {
        const bytes = this.#unsentBytes;
        await connection.flush();
        this.#unsentBytes = Math.max(0, this.#unsentBytes - bytes);
      }
    } catch {
      // The connection was lost, and with it what was on its way.
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

  #options(): ConnectionOptions {
    const { servers, tls } = this.#settings;
    const authenticator = authenticatorOf(this.#settings);
    return {
      servers: [...servers],
      name: `tributary ${this.#instance}`,
      noEcho: true,
      timeout: CONNECT_TIMEOUT_MS,
      // The library cannot be told to stop waiting for its first connection: we wait ourselves.
      waitOnFirstConnect: false,
      maxReconnectAttempts: -1,
      reconnectTimeWait: RECONNECT_WAIT_MS,
      reconnectJitter: RECONNECT_JITTER_MS,
      reconnectJitterTLS: RECONNECT_JITTER_MS,
      pingInterval: PING_INTERVAL_MS,
      maxPingOut: MAX_PINGS_OUT,
      // What a server tells of others of its cluster may be any address, which plaintext is not for.
      ignoreClusterUpdates: tls === null,
      // A password that is changed while we run is wrong for a while.
      ignoreAuthErrorAbort: true,
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

/** What an instance publishes to and subscribes: all the permissions that it needs. */
export function hintSubject({ subjectPrefix, cluster }: NatsSettings): string {
  return `${subjectPrefix}.${cluster}.hint`;
}

/** Files are read again for each connection, so that they can be changed while we run. */
function authenticatorOf(settings: NatsSettings): Authenticator | undefined {
  const { credentialsFile, user, passwordFile, tokenFile } = settings;
  if (credentialsFile !== undefined) return credsAuthenticator(() => readFileSync(credentialsFile));
  if (tokenFile !== undefined) return tokenAuthenticator(() => lineOf(tokenFile));
  if (user === undefined || passwordFile === undefined) return undefined;
  return usernamePasswordAuthenticator(user, () => lineOf(passwordFile));
}

const lineOf = (file: string): string => readFileSync(file, 'utf8').trimEnd();

/**
 * What the operator's authority map says, after it was read and checked: plain frozen data with
 * every default filled in. The words are TP1's (ConfigSource, authority, alternative).
 *
 * Durations are milliseconds, sizes are bytes; the names say so.
 */
import type { NodeField } from '../protos/node-scope.js';

/** One header that goes with every stream to a source. A secret stays in its file. */
export interface MetadataSpec {
  readonly key: string;
  /** Exactly one of `value` and `valueFile` is set. A file is read again when it changes. */
  readonly value?: string;
  /** Absolute path. */
  readonly valueFile?: string;
}

/** TLS towards a source. All paths are absolute; files are read again when they change. */
export interface ClientTlsSpec {
  /** CA bundle (PEM). Absent: the roots of the Node.js in use. */
  readonly rootCertsFile?: string;
  /** Client certificate and key (PEM), both or neither: mutual TLS. */
  readonly certChainFile?: string;
  readonly privateKeyFile?: string;
  /** The server's certificate must carry one of these SANs (DNS names or URIs); empty: the host name of the target. */
  readonly requiredSans: readonly string[];
  /** SNI and name to verify, when it is not the target's host. */
  readonly serverName?: string;
}

/** What the gateway says of itself to a source (`envoy.config.core.v3.Node`). */
export interface NodeSpec {
  readonly id: string;
  readonly cluster: string;
  readonly locality?: { readonly region: string; readonly zone: string; readonly subZone: string };
  /** A JSON object, sent as `google.protobuf.Struct`. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** By type URL: context parameters for the names of that type. */
  readonly dynamicParameters?: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** How the life of one source's stream is timed. One stream serves all authorities of a source, so these are per source. */
export interface SourceTimers {
  /** Reconnect backoff: base × 1.6ⁿ, full jitter, at most max. Defaults 500 and 30,000. */
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
  /** HTTP/2 keepalive. Defaults 30,000 and 10,000. */
  readonly keepaliveTimeMs: number;
  readonly keepaliveTimeoutMs: number;
  /** Unary health probe on the same channel. Defaults 10,000 and 3,000; interval 0: off. */
  readonly probeIntervalMs: number;
  readonly probeTimeoutMs: number;
  /** No first response on a stream with names outstanding. Default 15,000. */
  readonly firstResponseTimeoutMs: number;
  /** One name unanswered on a stream that lives (`initial_fetch_timeout`). Default 30,000. */
  readonly resourceTimeoutMs: number;
  /** A stream that lived shorter than this is "short-lived". Default 30,000. */
  readonly minStableMs: number;
  /** This many short-lived streams within the window trip the source. Defaults 3 and 300,000. */
  readonly shortStreamLimit: number;
  readonly shortStreamWindowMs: number;
  /** Consecutive attempts without a first response that trip the source. Default 2. */
  readonly failedAttemptLimit: number;
  /** Retry after a refusal that time does not mend (authentication, UNIMPLEMENTED). Default 300,000. */
  readonly refusedRetryMs: number;
  /** The stream is closed this long after the last subscription went. Default 30,000. */
  readonly lingerMs: number;
}

/** An `AGGREGATED_DELTA_GRPC` management server. */
export interface GrpcSourceSpec {
  readonly kind: 'grpc';
  readonly name: string;
  /** gRPC target, e.g. `cloud.example.com:443` or `unix:/run/xds.sock`; several addresses: `ipv4:a:1,b:2`. */
  readonly target: string;
  /** `null` is plaintext, which the operator wrote `insecure: true` for. */
  readonly tls: ClientTlsSpec | null;
  readonly initialMetadata: readonly MetadataSpec[];
  /** Extra grpc-js channel arguments (`grpc.*`), as the ConfigSource gave them. */
  readonly channelArgs: Readonly<Record<string, string | number>>;
  /** Requests to the source: a token bucket (`rate_limit_settings`). */
  readonly rateLimit?: { readonly maxTokens: number; readonly fillRatePerSecond: number };
  /** Largest response taken. Default 16 MiB. */
  readonly maxReceiveBytes: number;
  readonly timers: SourceTimers;
  /** Overrides the gateway's own Node for this source. */
  readonly node?: NodeSpec;
}

/** A directory (or one file) of YAML or JSON resources. */
export interface PathSourceSpec {
  readonly kind: 'path';
  readonly name: string;
  /** Absolute path. */
  readonly path: string;
  /** Absolute path of the directory whose atomic replacement signals a change (`watched_directory`). */
  readonly watchedDirectory?: string;
}

export type SourceSpec = GrpcSourceSpec | PathSourceSpec;

/**
 * Where the names of one authority (or of one path prefix of it) are to be had when its sources are
 * not. `<primary>/T/<fromPrefix>rest` is asked as `<authority>/T/<toPrefix>rest`, for every type T.
 */
export interface AlternativeSpec {
  readonly authority: string;
  /** Empty, or ends with `/`. Decoded (no percent-escapes). */
  readonly fromPrefix: string;
  readonly toPrefix: string;
}

/** TP1: "unreachable"; gRFC A71: "uncached"; between them: cached, but older than `staleAfterMs`. */
export type UseAlternativeWhen =
  | { readonly kind: 'unreachable' }
  | { readonly kind: 'uncached' }
  | { readonly kind: 'stale_after'; readonly staleAfterMs: number };

export interface FailoverPolicy {
  readonly useAlternativeWhen: UseAlternativeWhen;
  /** The primary must have been well for this long before names move back; doubles on relapse. Defaults 30,000; 600,000. */
  readonly holdMs: number;
  readonly holdMaxMs: number;
  /** So long in `primary` resets the doubling. Default 1,800,000. */
  readonly holdResetMs: number;
  /** A switch waits at most this long for the new side to be complete. Default 2,000. */
  readonly switchWaitMs: number;
  /** A name that no candidate can be asked for is told to be unavailable after this (gRFC A57's timer). Default 15,000. */
  readonly unavailableAfterMs: number;
  /** How much of the alternative is kept ready while it is not needed. Default `off`. */
  readonly prewarm: 'off' | 'connected' | 'subscribed';
  /** A group is `idle` this long after its last subscription. Default 30,000. */
  readonly lingerMs: number;
  /** Removals that would take at least this share and more than this count of what is held wait. Defaults 0.5, 10, 60,000. */
  readonly deletionGuard: DeletionGuard;
}

/** How removals are judged that may be a mistake of a source: what waits, for how long. */
export type RemovalPolicy = Pick<FailoverPolicy, 'deletionGuard' | 'switchWaitMs'>;

/** Removals at once of at least `share` of what is held, and of more names than `count`, wait. */
export interface DeletionGuard {
  readonly share: number;
  readonly count: number;
  readonly waitMs: number;
  /** What becomes of them after the wait. */
  readonly then: 'proceed' | 'keep';
}

export interface AuthoritySpec {
  /** `""` is the empty authority: names `xdstp:///…`. */
  readonly name: string;
  /** Names of sources, in order of preference; at least one. */
  readonly sources: readonly string[];
  /** Longest `fromPrefix` wins. At most one entry per prefix. */
  readonly alternatives: readonly AlternativeSpec[];
  readonly failover: FailoverPolicy;
  /** Removals by a source are kept back from clients; they show as ambient state. Default false. */
  readonly ignoreDeletion: boolean;
  /**
   * Authorities that redirects, lists and `#alt=` of this one's names may lead to, beside itself and
   * those of its alternatives. Default none.
   */
  readonly mayLeadTo?: readonly string[];
}

/**
 * Sources of old-style names that stand in for one another. What is said of an authority goes for it
 * too; its name is `old-style/<place in the list>`, which no authority can have.
 */
export interface OldStyleEntrySpec extends AuthoritySpec {
  /** Type URLs that it serves; undefined: every type. */
  readonly types: readonly string[] | undefined;
}

/** Names that are not `xdstp:` (xDS protocol: opaque names, and `*`). */
export interface OldStyleSpec {
  /** Node fields by which the sources' answers differ; none: they are the same for every client. */
  readonly differBy: readonly NodeField[];
  /** In order: what several have is taken from the first. */
  readonly servedBy: readonly OldStyleEntrySpec[];
}

export interface AuthorityMap {
  readonly sources: ReadonlyMap<string, SourceSpec>;
  readonly authorities: ReadonlyMap<string, AuthoritySpec>;
  /** Absent: old-style names are not served. */
  readonly oldStyle?: OldStyleSpec;
}

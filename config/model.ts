/**
 * The operator's authority map after parsing and validation: plain frozen data with every default
 * filled in. The terms are TP1's (ConfigSource, authority, alternative).
 *
 * Names that end in `Ms` are milliseconds, names that end in `Bytes` are bytes.
 */
import type { NodeFields } from '../protos/node-codec.js';
import type { AddressRange } from '../protos/address-range.js';
import type { NodeField, ScopeRule } from '../protos/node-scope.js';

/** One header of every stream to a source. A secret stays in its file. */
export interface MetadataSpec {
  readonly key: string;
  /** Exactly one of `value` and `valueFile` is set. Each attempt to connect reads the file. */
  readonly value?: string;
  /** Absolute path. */
  readonly valueFile?: string;
  /** Text before the content of the file, such as `Bearer `. */
  readonly prefix?: string;
  /** The file contains a JSON Web Token, which must not have expired (RFC 7519, 4.1.4). */
  readonly isJwt?: true;
}

/** TLS towards a source. All paths are absolute. The gateway reads the files for each new stream. */
export interface ClientTlsSpec {
  /** CA bundle (PEM). Absent: the root certificates built into Node.js. */
  readonly rootCertsFile?: string;
  /** Client certificate and key (PEM) for mutual TLS: both or neither. */
  readonly certChainFile?: string;
  readonly privateKeyFile?: string;
  /**
   * The server certificate must carry one of these SANs (DNS names or URIs). Empty: the host name
   * of the target.
   */
  readonly requiredSans: readonly string[];
  /** Name or address to compare with the certificate; a name is also sent as SNI. Absent: the host of the target. */
  readonly serverName?: string;
}

/** The Node that the gateway sends to a source (`envoy.config.core.v3.Node`). */
export type NodeSpec = Omit<NodeFields, 'userAgentName' | 'userAgentVersion'>;

/**
 * Timers of a source's stream. They are per source because one stream serves all authorities of a
 * source.
 */
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
  /** Deadline for the first response of a stream with outstanding names. Default 15,000. */
  readonly firstResponseTimeoutMs: number;
  /**
   * Deadline for one name on a live stream (`initial_fetch_timeout`); clients and failover then wait for it no longer, and
   * held content stays. Default 30,000.
   */
  readonly resourceTimeoutMs: number;
  /** A stream that ends before this age is short-lived. Default 30,000. */
  readonly minStableMs: number;
  /** This many short-lived streams within the window trip the source. Defaults 3 and 300,000. */
  readonly shortStreamLimit: number;
  readonly shortStreamWindowMs: number;
  /** Consecutive attempts without a first response that trip the source. Default 2. */
  readonly failedAttemptLimit: number;
  /**
   * Retry interval after UNIMPLEMENTED, and after some two minutes of refusals by authentication.
   * Default 300,000.
   */
  readonly refusedRetryMs: number;
  /** The gateway closes the stream this long after the last unsubscribe. Default 30,000. */
  readonly lingerMs: number;
}

/** How the gateway speaks with a management server (`ApiConfigSource.ApiType`). */
export type ApiType = 'AGGREGATED_DELTA_GRPC' | 'DELTA_GRPC' | 'AGGREGATED_GRPC' | 'GRPC' | 'REST';

/** A management server. */
export interface GrpcSourceSpec {
  readonly kind: 'grpc';
  readonly name: string;
  /** Default `AGGREGATED_DELTA_GRPC`. */
  readonly apiType: ApiType;
  /**
   * What a delta server does with `initial_resource_versions`: it honours them (`trusted`, the
   * default), or ignores them, so that a reconnect sends none and expects all resources (`fresh`).
   */
  readonly resume: 'trusted' | 'fresh';
  /**
   * Delta only. `forward`: the server knows TP2, so names with dynamic parameters are requested with them. Absent: they are requested
   * without, and content whose constraints the parameters meet is served.
   */
  readonly dynamicParameters?: 'forward';
  /** `REST` only: the time between two polls of a type (± 10 %), and the limit of each. */
  readonly rest?: { readonly refreshDelayMs: number; readonly requestTimeoutMs: number };
  /**
   * gRPC target, such as `cloud.example.com:443` or `unix:/run/xds.sock`; several addresses:
   * `ipv4:a:1,b:2`.
   */
  readonly target: string;
  /** `null`: plaintext, because the operator wrote `insecure: true`. */
  readonly tls: ClientTlsSpec | null;
  readonly initialMetadata: readonly MetadataSpec[];
  /** Extra grpc-js channel arguments (`grpc.*`), unchanged from the ConfigSource. */
  readonly channelArgs: Readonly<Record<string, string | number>>;
  /** Token bucket for requests to the source (`rate_limit_settings`). */
  readonly rateLimit?: { readonly maxTokens: number; readonly fillRatePerSecond: number };
  /** The largest response that the gateway accepts. Default 16 MiB. */
  readonly maxReceiveBytes: number;
  readonly timers: SourceTimers;
  /** Replaces the gateway's own Node for this source. */
  readonly node?: NodeSpec;
  /** Which requests of a stream carry the Node. Absent: the first one. */
  readonly nodeIn?: 'every_request';
  /** The part of a client's Node that the streams of its node group send. Absent: `differBy`. */
  readonly forwardNode?: 'all' | readonly NodeField[];
  /** Headers of clients that the streams of their node group carry. Lower case, in order. */
  readonly forwardHeaders?: readonly string[];
  /** The streams of a node group carry the names of its client certificate, as Envoy writes them. */
  readonly clientIdentity?: 'forward';
  /** Absolute path of a directory with a client certificate and key for each client identity. */
  readonly tlsByIdentity?: string;
  /** Streams carry tokens of Google's application default credentials. */
  readonly googleDefault?: true;
}

/** A directory (or one file) of resources (`config/resource-file.ts`). */
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
 * The alternative authority for one authority, or for one path prefix of it. During failover the
 * gateway subscribes to `<authority>/T/<toPrefix>rest` in place of `<primary>/T/<fromPrefix>rest`,
 * for every type T.
 */
export interface AlternativeSpec {
  readonly authority: string;
  /** Empty, or ends with `/`. Decoded (no percent-escapes). */
  readonly fromPrefix: string;
  readonly toPrefix: string;
}

/**
 * When a group may fail over. `unreachable` is TP1's rule, `uncached` is gRFC A71's. `stale_after` lies
 * between them: cached resources suffice until the served source has been lost for `staleAfterMs`.
 */
export type UseAlternativeWhen =
  | { readonly kind: 'unreachable' }
  | { readonly kind: 'uncached' }
  | { readonly kind: 'stale_after'; readonly staleAfterMs: number };

export interface FailoverPolicy {
  readonly useAlternativeWhen: UseAlternativeWhen;
  /**
   * The primary must be healthy for this long before the group fails back, and two switches are at least this long apart.
   * Doubles on relapse. Defaults 30,000; 600,000.
   */
  readonly holdMs: number;
  readonly holdMaxMs: number;
  /** This long in the state `primary` resets the doubling of the hold. Default 1,800,000. */
  readonly holdResetMs: number;
  /**
   * A group without content uses the alternative when an attempt at the primary has had no response for this
   * long. Default 10,000.
   */
  readonly coldWaitMs: number;
  /**
   * A failover or a force waits at most this long until the target is complete; a failback waits until it is. Removals
   * after a switch wait this long too. Default 2,000.
   */
  readonly switchWaitMs: number;
  /**
   * While every candidate is unreachable, the gateway reports an uncached name as UNAVAILABLE after
   * this (gRFC A57's timer). Default 15,000.
   */
  readonly unavailableAfterMs: number;
  /** What the gateway keeps open to the alternative before it is needed. Default `off`. */
  readonly prewarm: 'off' | 'connected' | 'subscribed';
  /** A group becomes `idle` this long after its last client left. Default 30,000. */
  readonly lingerMs: number;
  /** Delays mass removals. Defaults: share 0.5, count 10, wait 60,000. */
  readonly deletionGuard: DeletionGuard;
}

/** The part of the policy that delays removals which may be a mistake of a source. */
export type RemovalPolicy = Pick<FailoverPolicy, 'deletionGuard' | 'switchWaitMs'>;

/**
 * The guard delays a set of removals that takes all held resources, all of a type, or at least `share` of them and
 * more than `count` names.
 */
export interface DeletionGuard {
  readonly share: number;
  readonly count: number;
  readonly waitMs: number;
  /** What the guard does with the removals after the wait. */
  readonly then: 'proceed' | 'keep';
}

export interface AuthoritySpec {
  /** `""` is the empty authority, that of `xdstp:///…`. */
  readonly name: string;
  /** Names of sources, in order of preference; at least one. */
  readonly sources: readonly string[];
  /** Longest `fromPrefix` wins. At most one entry per prefix. */
  readonly alternatives: readonly AlternativeSpec[];
  readonly failover: FailoverPolicy;
  /** Clients keep resources that a source removes; the removal shows as ambient state. Default false. */
  readonly ignoreDeletion: boolean;
  /**
   * Authorities to which redirects, lists and `#alt=` of this authority may lead, beside itself and its
   * alternatives. Default none.
   */
  readonly mayLeadTo?: readonly string[];
}

/**
 * Interchangeable sources of old-style names. The gateway treats the entry like an authority. Its name
 * is `old-style/<index>`; the slash rules out a clash, since no authority name contains one.
 */
export interface OldStyleEntrySpec extends AuthoritySpec {
  /** Type URLs that the sources serve; undefined: every type. */
  readonly types: readonly string[] | undefined;
  /** The entry applies to clients whose Node meets all of these. Absent: to every client. */
  readonly when?: readonly NodeCondition[];
}

/** A field of a client's Node must equal a value. */
export interface NodeCondition {
  readonly field: NodeField;
  /** Below the field: `region`, `zone` or `subZone` of the locality. */
  readonly part?: 'region' | 'zone' | 'subZone';
  readonly equals: string | number | boolean;
}

/** Old-style names: opaque names and the wildcard `*` of the xDS protocol, without `xdstp:`. */
export interface OldStyleSpec {
  /** Node fields on which the sources' responses depend. Empty: every client gets the same responses. */
  readonly differBy: readonly NodeField[] | 'all';
  /**
   * All by which node groups differ: `differBy`, the conditions of the entries, and what sources get of
   * a client's identity. Absent: the fields of `differBy` alone.
   */
  readonly rule?: ScopeRule;
  /** In order of preference: the first entry wins a name that several entries serve. */
  readonly servedBy: readonly OldStyleEntrySpec[];
}

/** Selects clients. Every field that is present must hold. At least one is. */
export interface ClientMatch {
  /** A SPIFFE ID in the certificate. A `*` at the end stands for any rest. */
  readonly spiffe?: string;
  /** A DNS name in the certificate, in lower case. `*.` at the start stands for one label. */
  readonly dns?: string;
  /** Claims of the token. A `*` at the end of a text stands for any rest. */
  readonly jwt?: Readonly<Record<string, string | number | boolean>>;
  /** The client has neither a certificate with a name nor a token. */
  readonly anonymous?: true;
  readonly address?: AddressRange;
}

/** The ids of names: all that start with `prefix` (empty, or ends with `/`), or one id. */
export type PathPattern = { readonly prefix: string } | { readonly id: string };

/** Names that a client may ask for. Types are short names (`Cluster`) or message names, without `Collection`. */
export type ClientGrant =
  | {
      readonly kind: 'xdstp';
      /** `*`: every authority. */
      readonly authority: string;
      /** Undefined: every path. */
      readonly paths: readonly PathPattern[] | undefined;
      /** Undefined: every type but secrets. */
      readonly types: readonly string[] | undefined;
    }
  | { readonly kind: 'old_style'; readonly types: readonly string[] | undefined };

/** The most that one client of a rule may use. Undefined: the limits of the process alone. */
export interface ClientLimits {
  /** Concurrent streams. */
  readonly streams?: number;
  /** Subscribed names. */
  readonly names?: number;
  readonly requestsPerSecond?: number;
}

/** One entry of `clients`. The first entry that matches a client decides what it gets. */
export interface ClientRule {
  readonly match: ClientMatch;
  readonly allow: readonly ClientGrant[];
  readonly limits: ClientLimits;
  /** The id of the client's Node must fit: `*` stands for any text. Undefined: any Node. */
  readonly nodeIdMustMatch?: string;
  /** The client learns of a name that it may not ask for only that it does not exist. */
  readonly hideExistence: boolean;
}

export interface AuthorityMap {
  readonly sources: ReadonlyMap<string, SourceSpec>;
  readonly authorities: ReadonlyMap<string, AuthoritySpec>;
  /** Absent: the gateway refuses old-style names. */
  readonly oldStyle?: OldStyleSpec;
  /**
   * Serves the names of every authority that is not in `authorities`, all as one group. Its name is
   * `DEFAULT_AUTHORITY`; the slash rules out a clash. Absent: the gateway refuses such names.
   */
  readonly defaultSource?: AuthoritySpec;
  /** Which clients may ask for what. Absent: every client may ask for everything. */
  readonly clients?: readonly ClientRule[];
}

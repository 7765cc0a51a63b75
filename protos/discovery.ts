/** The request and response messages of xDS: names and versions decoded, resource bodies opaque. */
import type { ParameterizedName } from './dynamic-parameters.js';

/** `google.rpc.Status` without details. The codes are gRPC's. */
export interface RpcStatus {
  readonly code: number;
  readonly message: string;
  /** Only of a refused call: it may come again after this time (`google.rpc.RetryInfo`). Milliseconds. */
  readonly retryAfterMs?: number;
}

export const STATUS_CODE = {
  cancelled: 1,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const;

/**
 * TP3: in a resource error, NOT_FOUND and PERMISSION_DENIED mean that this client has no such resource.
 * All other codes leave the data unknown: a cached resource stays.
 */
export const isDataError = ({ code }: RpcStatus): boolean =>
  code === STATUS_CODE.notFound || code === STATUS_CODE.permissionDenied;

/** `envoy.service.discovery.v3.DeltaDiscoveryRequest`. */
export interface DeltaRequest {
  /** The encoded Node; only in the first request of a stream. */
  readonly node: Uint8Array | undefined;
  readonly typeUrl: string;
  readonly subscribe: readonly string[];
  readonly unsubscribe: readonly string[];
  /** TP2 locators; absent: the request has none. */
  readonly locators?: {
    readonly subscribe: readonly ParameterizedName[];
    readonly unsubscribe: readonly ParameterizedName[];
  };
  /** Resource name → version that the sender has cached. */
  readonly initialVersions: ReadonlyMap<string, string>;
  /** How many further versions the request has, which were not read; absent: none. */
  readonly versionsLeftOut?: number;
  /** Empty in a spontaneous request, which is neither ACK nor NACK. */
  readonly responseNonce: string;
  /** Present: a NACK of the response with that nonce. */
  readonly errorDetail: RpcStatus | undefined;
}

/** `envoy.service.discovery.v3.DiscoveryRequest` (state of the world). */
export interface SotwRequest {
  /** Version of the last accepted response; empty: none. */
  readonly versionInfo: string;
  /** The encoded Node; at least in the first request of a stream. */
  readonly node: Uint8Array | undefined;
  readonly typeUrl: string;
  /** All subscribed names of the type from now on. */
  readonly names: readonly string[];
  /** All subscribed TP2 locators from now on; absent: none. */
  readonly locators?: readonly ParameterizedName[];
  /**
   * The encoded `resource_names`, a view of the request: copy it to keep it. Absent: they are not in one
   * piece, or there are locators.
   */
  readonly encodedNames?: Uint8Array;
  /** Empty in the first request of a type on a stream. */
  readonly responseNonce: string;
  /** Present: a NACK of the response with that nonce. */
  readonly errorDetail: RpcStatus | undefined;
}

/** `envoy.service.discovery.v3.Resource` as received. */
export interface WireResource {
  /** In state of the world: the name in the payload if there is no other; empty: it has none. */
  readonly name: string;
  readonly version: string;
  /** Type URL of the Any; empty without an Any. */
  readonly typeUrl: string;
  /**
   * Value of the Any; `undefined`: a heartbeat (xDS protocol, "TTL"). A view of the received bytes:
   * copy it to keep it.
   */
  readonly body: Uint8Array | undefined;
  readonly ttlMs: number | undefined;
  /** TP2: the encoded constraints of this variant (parameter-constraints.ts), a view. Absent: none. */
  readonly constraints?: Uint8Array;
}

/** TP2 `ResourceName`: a variant of a resource. */
export interface VariantName {
  readonly name: string;
  /** Encoded; empty: none. */
  readonly constraints: Uint8Array;
}

/** TP3 `ResourceError`. */
export interface ResourceError {
  readonly name: string;
  readonly status: RpcStatus;
}

/** `envoy.service.discovery.v3.DeltaDiscoveryResponse`. */
export interface DeltaResponse {
  readonly typeUrl: string;
  readonly nonce: string;
  readonly systemVersion: string;
  readonly resources: readonly WireResource[];
  readonly removed: readonly string[];
  /** TP2 `removed_resource_names`; absent: none. */
  readonly removedVariants?: readonly VariantName[];
  readonly errors: readonly ResourceError[];
}

/** `envoy.service.discovery.v3.DiscoveryResponse` (state of the world). */
export interface SotwResponse {
  readonly versionInfo: string;
  readonly typeUrl: string;
  readonly nonce: string;
  readonly resources: readonly WireResource[];
  readonly errors: readonly ResourceError[];
}

/** The result of decoding: the message, or the reason why the bytes are invalid. Decoders never throw. */
export type Decoded<T> =
  | { readonly ok: true; readonly message: T }
  | { readonly ok: false; readonly code: 'malformed' | 'too_many'; readonly reason: string };

/** The envelope messages of the xDS transport as the gateway sees them: names and versions decoded, bodies left alone. */

/** `google.rpc.Status`, without details. Codes are those of gRPC. */
export interface RpcStatus {
  readonly code: number;
  readonly message: string;
}

export const STATUS_CODE = {
  cancelled: 1,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  permissionDenied: 7,
  resourceExhausted: 8,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const;

/**
 * TP3: of the codes of a resource error these two say that the data are not there for this client; all
 * others say nothing of the data, so that what is held stays.
 */
export const isDataError = ({ code }: RpcStatus): boolean =>
  code === STATUS_CODE.notFound || code === STATUS_CODE.permissionDenied;

/** `envoy.service.discovery.v3.DeltaDiscoveryRequest`. */
export interface DeltaRequest {
  /** The encoded Node, first request of a stream only. */
  readonly node: Uint8Array | undefined;
  readonly typeUrl: string;
  readonly subscribe: readonly string[];
  readonly unsubscribe: readonly string[];
  /** Names of the TP2 locators that are subscribed; absent: the request has no locators at all. */
  readonly locators?: readonly string[];
  /** Name → version that the sender holds. */
  readonly initialVersions: ReadonlyMap<string, string>;
  /** Empty on a spontaneous request. */
  readonly responseNonce: string;
  /** Present: the response of that nonce is refused (NACK). */
  readonly errorDetail: RpcStatus | undefined;
}

/** `envoy.service.discovery.v3.DiscoveryRequest` (state of the world). */
export interface SotwRequest {
  /** Of the last response that was accepted; empty: the sender has none. */
  readonly versionInfo: string;
  /** The encoded Node, first request of a stream at least. */
  readonly node: Uint8Array | undefined;
  readonly typeUrl: string;
  /** All names of the type that are wanted from now on. */
  readonly names: readonly string[];
  /** Names of all TP2 locators that are wanted from now on; absent: none. */
  readonly locators?: readonly string[];
  /** Empty in the first request of a type on a stream. */
  readonly responseNonce: string;
  /** Present: the response of that nonce is refused (NACK). */
  readonly errorDetail: RpcStatus | undefined;
}

/** `envoy.service.discovery.v3.Resource` as it came: `body` and `typeUrl` are views of the message. */
export interface WireResource {
  readonly name: string;
  readonly version: string;
  /** Type URL inside the Any; empty where there was none. */
  readonly typeUrl: string;
  /** Value of the Any; `undefined` is a heartbeat (xDS protocol, "TTL"). A view: copy what is kept. */
  readonly body: Uint8Array | undefined;
  readonly ttlMs: number | undefined;
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
  readonly errors: readonly ResourceError[];
}

/** What decoding gives: a message, or why the bytes are not one. Never an exception. */
export type Decoded<T> =
  | { readonly ok: true; readonly message: T }
  | { readonly ok: false; readonly code: 'malformed' | 'too_many'; readonly reason: string };

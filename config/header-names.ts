/** Names of gRPC metadata. */

/**
 * May an application send this header (gRPC over HTTP/2, "Custom-Metadata")?
 *
 * @param key in lower case
 */
export const isGrpcHeaderName = (key: string): boolean =>
  /^[0-9a-z_.-]+$/.test(key) && !key.startsWith('grpc-');

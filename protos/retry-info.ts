/** The details of a refused call that say when to come again (`google.rpc.RetryInfo`). */
import protobuf from 'protobufjs/minimal.js';
import type { RpcStatus } from './discovery.js';

const TYPE_URL = 'type.googleapis.com/google.rpc.RetryInfo';

/** @returns a `google.rpc.Status` with the status and one `RetryInfo`, for `grpc-status-details-bin` */
export function encodeRetryStatus({ code, message }: RpcStatus, retryAfterMs: number): Uint8Array {
  const writer = protobuf.Writer.create();
  writer.uint32(0x08).int32(code).uint32(0x12).string(message);
  writer.uint32(0x1a).fork().uint32(0x0a).string(TYPE_URL).uint32(0x12).fork();
  // RetryInfo.retry_delay, a Duration.
  const seconds = Math.floor(retryAfterMs / 1_000);
  const nanos = Math.round((retryAfterMs - seconds * 1_000) * 1e6);
  writer.uint32(0x0a).fork().uint32(0x08).int64(seconds).uint32(0x10).int32(nanos).ldelim();
  return writer.ldelim().ldelim().finish();
}

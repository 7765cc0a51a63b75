/** The headers of gRPC calls (gRPC, PROTOCOL-HTTP2.md): reads those of requests, makes those of responses. */
import { constants, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http2';
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import { encodeRetryStatus } from '../../protos/retry-info.js';

/** The parts of a request's headers that the gateway needs. */
export interface CallHeaders {
  readonly path: string;
  /** Empty: none. */
  readonly userAgent: string;
  /** Infinity: the call has no deadline. */
  readonly timeoutMs: number;
  /** Names and values, alternating. */
  readonly rawHeaders: readonly string[];
}

export type HeadersReading =
  | { readonly ok: true; readonly headers: CallHeaders }
  /** The headers of the whole response. */
  | { readonly ok: false; readonly response: OutgoingHttpHeaders };

/** Names and values, with 32 bytes for each pair (RFC 9113, 6.5.2). The gateway refuses more. */
export const MAX_HEADER_BYTES = 16_384;
const HEADER_PAIR_BYTES = 32;

/** "application/grpc", with the message format that the gateway reads, or with parameters. */
const GRPC_CONTENT = /^application\/grpc(\+proto)?(;|$)/;
const TIMEOUT = /^(\d{1,8})([HMSmun])$/;
const UNIT_MS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};

/** Headers of each response. */
export const RESPONSE_HEADERS: OutgoingHttpHeaders = Object.freeze({
  ':status': constants.HTTP_STATUS_OK,
  'content-type': 'application/grpc+proto',
  'grpc-accept-encoding': 'identity',
});

export function headerBytesOf(rawHeaders: readonly string[]): number {
  return rawHeaders.reduce(
    (sum, text) => sum + text.length,
    (rawHeaders.length / 2) * HEADER_PAIR_BYTES,
  );
}

/** @param rawHeaders names and values, alternating */
export function readCallHeaders(
  headers: IncomingHttpHeaders,
  rawHeaders: readonly string[],
): HeadersReading {
  if (headerBytesOf(rawHeaders) > MAX_HEADER_BYTES) {
    return httpError(constants.HTTP_STATUS_REQUEST_HEADER_FIELDS_TOO_LARGE);
  }
  if (!GRPC_CONTENT.test(headers['content-type'] ?? '')) {
    return httpError(constants.HTTP_STATUS_UNSUPPORTED_MEDIA_TYPE);
  }
  if (headers[':method'] !== 'POST') {
    return httpError(constants.HTTP_STATUS_METHOD_NOT_ALLOWED, { allow: 'POST' });
  }
  const encoding = headers['grpc-encoding'] ?? 'identity';
  if (encoding !== 'identity') {
    const message = `the grpc-encoding ${String(encoding)} is not supported, only identity is`;
    return refused({ code: STATUS_CODE.unimplemented, message });
  }
  const timeoutMs = readTimeout(headers['grpc-timeout']);
  if (timeoutMs === undefined) {
    return refused({ code: STATUS_CODE.internal, message: 'the grpc-timeout cannot be read' });
  }
  const path = headers[':path'] ?? '';
  const userAgent = headers['user-agent'] ?? '';
  return { ok: true, headers: { path, userAgent, timeoutMs, rawHeaders } };
}

function readTimeout(value: string | readonly string[] | undefined): number | undefined {
  if (value === undefined) return Infinity;
  const [, digits = '', unit = ''] = TIMEOUT.exec(String(value)) ?? [];
  const unitMs = UNIT_MS[unit];
  return unitMs === undefined ? undefined : Number(digits) * unitMs;
}

const httpError = (status: number, headers: OutgoingHttpHeaders = {}): HeadersReading => ({
  ok: false,
  response: { ':status': status, ...headers },
});

const refused = (status: RpcStatus): HeadersReading => ({
  ok: false,
  response: trailersOnly(status),
});

/** The response of a call that ends before its first message. */
export function trailersOnly(status: RpcStatus | undefined): OutgoingHttpHeaders {
  return { ...RESPONSE_HEADERS, ...trailersOf(status) };
}

/** @param status `undefined` is OK */
export function trailersOf(status: RpcStatus | undefined): OutgoingHttpHeaders {
  if (!status) return { 'grpc-status': '0' };
  const { code, message, retryAfterMs } = status;
  const trailers = { 'grpc-status': String(code), 'grpc-message': percentEncoded(message) };
  if (retryAfterMs === undefined) return trailers;
  const details = Buffer.from(encodeRetryStatus(status, retryAfterMs)).toString('base64');
  return { ...trailers, 'grpc-status-details-bin': details };
}

/** Also spaces at both ends, which HTTP/2 does not allow there (RFC 9113, 8.2.1). */
const ENCODED = /^ | $|[^\x20-\x24\x26-\x7e]+/g;

function percentEncoded(text: string): string {
  return text.replace(ENCODED, (run) =>
    Buffer.from(run).toString('hex').toUpperCase().replace(/../g, '%$&'),
  );
}

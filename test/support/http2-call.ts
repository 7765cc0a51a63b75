/** One call of a gRPC client that is nothing but node:http2, so that a test sees each header. */
import {
  constants,
  type ClientHttp2Session,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http2';
import { MessageReader } from '../../gateway/clients/message-reader.js';
import { until } from './until.js';

const ADS_PATH = '/envoy.service.discovery.v3.AggregatedDiscoveryService';

export interface Http2Call {
  /** Headers of the response; undefined before they come. */
  readonly response: IncomingHttpHeaders | undefined;
  readonly trailers: IncomingHttpHeaders | undefined;
  readonly messages: readonly string[];
  /** The code of the RST_STREAM that closed the stream. */
  readonly resetCode: number | undefined;
  write(bytes: Buffer): void;
  /** Ends the client's side. */
  end(): void;
  /** Resolves when the stream has closed. */
  closed(): Promise<void>;
}

export function openHttp2Call(
  session: ClientHttp2Session,
  change: OutgoingHttpHeaders = {},
): Http2Call {
  // node:http2 leaves out what is undefined.
  const stream = session.request({
    ':method': 'POST',
    ':path': `${ADS_PATH}/DeltaAggregatedResources`,
    'content-type': 'application/grpc',
    te: 'trailers',
    ...change,
  });
  let response: IncomingHttpHeaders | undefined;
  let trailers: IncomingHttpHeaders | undefined;
  let resetCode: number | undefined;
  const messages: string[] = [];
  const reader = new MessageReader(Infinity);
  stream.on('response', (got) => (response = got));
  stream.on('trailers', (got: IncomingHttpHeaders) => (trailers = got));
  stream.on('data', (chunk: Buffer) => {
    reader.push(chunk, (message) => messages.push(message.toString()));
  });
  stream.on('error', () => undefined);
  stream.on('close', () => (resetCode = stream.rstCode));
  return {
    get response() {
      return response;
    },
    get trailers() {
      return trailers;
    },
    messages,
    get resetCode() {
      return resetCode;
    },
    write: (bytes) => {
      stream.write(bytes);
    },
    end: () => {
      stream.end();
    },
    closed: async () => {
      await until('the stream has closed', () => resetCode !== undefined, { everyMs: 5 });
    },
  };
}

export const NO_ERROR = constants.NGHTTP2_NO_ERROR;

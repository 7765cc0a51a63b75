/** A stream of the discovery service over a connection of its own, as raw bytes. */
import * as grpc from '@grpc/grpc-js';

export interface StreamStatus {
  readonly code: number;
  readonly details: string;
}

export interface AdsCallOptions {
  /** The port of the server, on loopback. */
  readonly port: number;
  readonly method: 'DeltaAggregatedResources' | 'StreamAggregatedResources';
  /** `/SERVICE/METHOD`, instead of `method` of ADS. */
  readonly path?: string;
  /** The HTTP/2 window; default: the initial 64 KiB. */
  readonly windowBytes?: number;
  /** The limit of one message; default: none. */
  readonly maxMessageBytes?: number;
  /** Headers of the stream. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Default: plaintext. */
  readonly credentials?: grpc.ChannelCredentials;
  readonly onMessage: (bytes: Buffer) => void;
}

export interface AdsCall {
  /** How it ended, or `undefined` while it is open. */
  readonly status: StreamStatus | undefined;
  write(bytes: Uint8Array): void;
  /** Ends the stream and the connection. */
  close(): void;
}

const asBuffer = (bytes: Buffer): Buffer => bytes;

export function openAdsCall(options: AdsCallOptions): AdsCall {
  const {
    port,
    method,
    path,
    windowBytes,
    maxMessageBytes = -1,
    headers = {},
    onMessage,
  } = options;
  const { credentials = grpc.credentials.createInsecure() } = options;
  const channel = new grpc.Client(`127.0.0.1:${port}`, credentials, {
    'grpc.use_local_subchannel_pool': 1,
    'grpc.max_receive_message_length': maxMessageBytes,
    'grpc.max_send_message_length': -1,
    ...(windowBytes === undefined ? {} : { 'grpc-node.flow_control_window': windowBytes }),
  });
  const adsPath = `/envoy.service.discovery.v3.AggregatedDiscoveryService/${method}`;
  const metadata = new grpc.Metadata();
  for (const [key, value] of Object.entries(headers)) metadata.set(key, value);
  const call = channel.makeBidiStreamRequest<Buffer, Buffer>(
    path ?? adsPath,
    asBuffer,
    asBuffer,
    metadata,
  );
  let status: StreamStatus | undefined;
  call.on('error', () => undefined);
  call.on('status', ({ code, details }: grpc.StatusObject) => {
    status = { code, details };
  });
  call.on('data', onMessage);
  return {
    get status() {
      return status;
    },
    write: (bytes) => {
      call.write(Buffer.from(bytes));
    },
    close: () => {
      call.cancel();
      channel.close();
    },
  };
}

/** Calls of gRPC on the admin port, by grpc-js, with messages as JSON or as bytes. */
import { fromBinary, fromJson, toBinary, toJson, type JsonValue } from '@bufbuild/protobuf';
import * as grpc from '@grpc/grpc-js';
import type { Test } from 'tap';
import { envoyRegistry } from '../../protos/envoy-registry.js';

/** `code` is 0 for OK. `hex` has the bytes of the response. */
export interface GrpcReply {
  readonly code: number;
  readonly details: string;
  readonly hex: string;
}

const asIs = (bytes: Buffer): Buffer => bytes;

export class AdminGrpcClient {
  readonly client: grpc.Client;
  readonly #metadata = new grpc.Metadata();

  /** @param address host:port. The teardown of the test closes it. */
  constructor(
    t: Test,
    address: string,
    options: {
      readonly credentials?: grpc.ChannelCredentials;
      /** More than one: several headers. */
      readonly authorization?: readonly string[];
    } = {},
  ) {
    const { credentials = grpc.credentials.createInsecure(), authorization = [] } = options;
    this.client = new grpc.Client(address, credentials, {
      'grpc.use_local_subchannel_pool': 1,
      'grpc.max_receive_message_length': -1,
    });
    for (const value of authorization) this.#metadata.add('authorization', value);
    t.teardown(() => {
      this.client.close();
    });
  }

  unary(path: string, request: Uint8Array): Promise<GrpcReply> {
    return new Promise((resolve) => {
      this.client.makeUnaryRequest<Buffer, Buffer>(
        path,
        asIs,
        asIs,
        Buffer.from(request),
        this.#metadata,
        { deadline: Date.now() + 20_000 },
        (error, response) => {
          const { code = 0, details = '' } = error ?? {};
          resolve({ code, details, hex: response?.toString('hex') ?? '' });
        },
      );
    });
  }

  stream(path: string): grpc.ClientDuplexStream<Buffer, Buffer> {
    const call = this.client.makeBidiStreamRequest<Buffer, Buffer>(
      path,
      asIs,
      asIs,
      this.#metadata,
    );
    call.on('error', () => undefined);
    return call;
  }

  /** `FetchClientStatus`. @returns the response as JSON, or how the call failed */
  async clientStatus(request: JsonValue = {}): Promise<unknown> {
    const reply = await this.unary(CSDS_FETCH, encodeMessage(CSDS_REQUEST, request));
    return reply.code === 0 ? decodeMessage(CSDS_RESPONSE, Buffer.from(reply.hex, 'hex')) : reply;
  }
}

const CSDS = 'envoy.service.status.v3';
export const CSDS_FETCH = `/${CSDS}.ClientStatusDiscoveryService/FetchClientStatus`;
export const CSDS_STREAM = `/${CSDS}.ClientStatusDiscoveryService/StreamClientStatus`;
export const CSDS_REQUEST = `${CSDS}.ClientStatusRequest`;
export const CSDS_RESPONSE = `${CSDS}.ClientStatusResponse`;

const descOf = (name: string) => {
  const desc = envoyRegistry().getMessage(name);
  if (!desc) throw new Error(`no message ${name}`);
  return desc;
};

export function encodeMessage(name: string, message: JsonValue): Buffer {
  const desc = descOf(name);
  return Buffer.from(toBinary(desc, fromJson(desc, message, { registry: envoyRegistry() })));
}

export function decodeMessage(name: string, bytes: Uint8Array): unknown {
  const desc = descOf(name);
  return toJson(desc, fromBinary(desc, bytes), {
    registry: envoyRegistry(),
    useProtoFieldName: true,
  });
}

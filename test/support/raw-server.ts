/**
 * A gRPC server that speaks delta ADS, or delta streams of one type, as raw bytes. The test scripts all
 * of it, for behaviour that no real control plane shows on purpose.
 */
import * as grpc from '@grpc/grpc-js';
import { bytesMethod, DELTA_ADS_PATH } from './bytes-method.js';

export type RawCall = grpc.ServerDuplexStream<Buffer, Buffer>;

export interface RawServer {
  readonly port: number;
  /** All streams so far. */
  readonly calls: readonly RawCall[];
  /** All requests in order of arrival, over all streams. */
  readonly requests: readonly Buffer[];
  readonly stop: () => void;
}

/**
 * @param onRequest called for each request of each stream
 * @param paths of the methods that it serves; default: delta ADS
 */
export async function startRawServer(
  credentials: grpc.ServerCredentials,
  onRequest: (call: RawCall, request: Buffer) => void = () => undefined,
  paths: readonly string[] = [DELTA_ADS_PATH],
): Promise<RawServer> {
  const calls: RawCall[] = [];
  const requests: Buffer[] = [];
  const server = new grpc.Server();
  const serve = (call: RawCall): void => {
    calls.push(call);
    call.on('error', () => undefined);
    call.on('end', () => {
      call.end();
    });
    call.on('data', (bytes: Buffer) => {
      requests.push(bytes);
      onRequest(call, bytes);
    });
  };
  server.addService(
    Object.fromEntries(paths.map((path) => [path, bytesMethod(path)])),
    Object.fromEntries(paths.map((path) => [path, serve])),
  );
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', credentials, (error, bound) => {
      if (error) reject(error);
      else resolve(bound);
    });
  });
  return {
    port,
    calls,
    requests,
    stop: () => {
      server.forceShutdown();
    },
  };
}

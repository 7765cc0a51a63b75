import { connect, type ClientHttp2Session } from 'node:http2';

const adsPath = '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources';

/**
 * A delta ADS stream whose responses are never read, so that the HTTP/2 window closes. A gRPC
 * library would not do: it reads some messages ahead.
 *
 * @param request the bytes of the only request.
 */
export function openUnreadStream(port: number, request: Uint8Array): ClientHttp2Session {
  const session = connect(`http://127.0.0.1:${port}`);
  session.on('error', () => undefined);
  const stream = session.request({
    ':method': 'POST',
    ':path': adsPath,
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  stream.on('error', () => undefined);
  // gRPC over HTTP/2, "Length-Prefixed-Message": not compressed, length, message.
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(request.length, 1);
  stream.write(Buffer.concat([prefix, request]));
  return session;
}

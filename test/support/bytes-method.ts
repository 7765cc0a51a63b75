import type * as grpc from '@grpc/grpc-js';

const asIs = (bytes: Buffer): Buffer => bytes;

/** A method of bidirectional streams whose messages are bytes, as a test server encodes them itself. */
export const bytesMethod = (path: string): grpc.MethodDefinition<Buffer, Buffer> => ({
  path,
  requestStream: true,
  responseStream: true,
  requestSerialize: asIs,
  requestDeserialize: asIs,
  responseSerialize: asIs,
  responseDeserialize: asIs,
});

export const DELTA_ADS_PATH =
  '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources';

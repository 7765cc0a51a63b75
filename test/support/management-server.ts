/** The machine of one gRPC source that may publish every name, tested alone. */
import {
  ManagementServer,
  type ManagementServerOptions,
} from '../../authorities/core/sources/management-server.js';
import type { GrpcSourceSpec } from '../../config/model.js';
import { mapOf } from './federation-driver.js';

/**
 * @param spec what differs from the defaults of the map
 * @param options what differs from the options below
 */
export function managementServerOf(
  spec: Partial<GrpcSourceSpec> = {},
  options: Partial<ManagementServerOptions> = {},
): ManagementServer {
  const sketched = mapOf({ authorities: { c: { sources: ['s'] } } }).sources.get('s');
  if (sketched?.kind !== 'grpc') throw new Error('the sketch has one gRPC source');
  return new ManagementServer({
    spec: { ...sketched, ...spec },
    id: 's',
    node: Buffer.alloc(0),
    mayServe: () => true,
    maxResourcesPerResponse: 100,
    random: () => 0,
    lastEpoch: 0,
    ...options,
  });
}

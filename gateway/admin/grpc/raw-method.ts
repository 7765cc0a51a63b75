/** What the gateway's own services on the admin port have in common: messages are bytes for grpc-js. */
import type { MethodDefinition } from '@grpc/grpc-js';
import type { RpcStatus } from '../../../protos/discovery.js';

const asIs = (bytes: Buffer): Buffer => bytes;

export function rawMethod(
  service: string,
  name: string,
  streams: Pick<MethodDefinition<Buffer, Buffer>, 'requestStream' | 'responseStream'>,
): MethodDefinition<Buffer, Buffer> {
  return {
    path: `/${service}/${name}`,
    ...streams,
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  };
}

/** As grpc-js takes a status. */
export const errorOf = ({ code, message }: RpcStatus) => ({ code, details: message });

/** Chooses the transport of a source by its `api_type`. */
import { grpcTransport } from './grpc-transport.js';
import { restTransport } from './rest-transport.js';
import type { Transport } from './transport.js';

export const sourceTransport: Transport = {
  dial(source, identity, handlers) {
    const transport = source.apiType === 'REST' ? restTransport : grpcTransport;
    return transport.dial(source, identity, handlers);
  },
};

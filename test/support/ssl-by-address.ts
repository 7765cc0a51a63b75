import * as grpc from '@grpc/grpc-js';
import { forgetNameOfAddress } from '../../authorities/grpc-connections.js';

type Ssl = typeof grpc.credentials.createSsl;

/** TLS credentials of a client whose target is an address, which grpc-js 1.14 cannot connect to on Node.js 26. */
export function sslByAddress(...args: Parameters<Ssl>): ReturnType<Ssl> {
  const credentials = grpc.credentials.createSsl(...args);
  const create = credentials._createSecureConnector.bind(credentials);
  credentials._createSecureConnector = (...target) => {
    const connector = create(...target);
    forgetNameOfAddress(connector);
    return connector;
  };
  return credentials;
}

import type { Test } from 'tap';

import { createCertificateAuthority } from '../../support/certificates.js';
import type { ControlPlaneTls } from './control-plane.js';

/** Mutual TLS for all connections of one test. */
export interface Security {
  readonly server: ControlPlaneTls;
  /** Arguments for the gateway's command line. */
  readonly gatewayArgs: readonly string[];
  readonly client: { readonly ca: string; readonly cert: string; readonly key: string };
}

export async function createSecurity(t: Test): Promise<Security> {
  const ca = await createCertificateAuthority();
  t.teardown(() => ca.remove());
  const server = await ca.issue({ name: 'server', ipAddresses: ['127.0.0.1'] });
  const uris = ['spiffe://example.com/client'];
  const client = await ca.issue({ name: 'client', uris });
  const files = { cert: server.cert, key: server.key, 'client-ca': ca.ca };
  return {
    server: { ...server, clientCa: ca.ca },
    gatewayArgs: Object.entries(files).flatMap(([name, path]) => [`--client-tls-${name}`, path]),
    client: { ca: ca.ca, ...client },
  };
}

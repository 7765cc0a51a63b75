/** A delta client that refuses every response. */
import type { Test } from 'tap';
import { decodeDeltaResponse, encodeDeltaRequest } from '../../protos/delta-codec.js';
import { encodeNode } from '../../protos/node-codec.js';
import { openAdsCall } from './ads-call.js';

export interface RefusingClientOptions {
  readonly port: number;
  readonly nodeId: string;
  readonly typeUrl: string;
  readonly names: readonly string[];
  /** Of its NACKs. */
  readonly message: string;
}

/** The teardown of the test ends it. */
export function openRefusingClient(t: Test, options: RefusingClientOptions): void {
  const { port, nodeId, typeUrl, names, message } = options;
  const request = { typeUrl, unsubscribe: [], initialVersions: new Map<string, string>() };
  const call = openAdsCall({
    port,
    method: 'DeltaAggregatedResources',
    onMessage: (bytes) => {
      const decoded = decodeDeltaResponse(bytes, 100);
      if (!decoded.ok) throw new Error(decoded.reason);
      const { nonce } = decoded.message;
      const errorDetail = { code: 3, message };
      const refused = { ...request, subscribe: [], responseNonce: nonce, errorDetail };
      call.write(encodeDeltaRequest({ ...refused, node: undefined }));
    },
  });
  t.teardown(() => {
    call.close();
  });
  const node = encodeNode({
    id: nodeId,
    cluster: 'edge',
    userAgentName: 'test',
    userAgentVersion: '1',
  });
  const first = { ...request, subscribe: names, responseNonce: '', errorDetail: undefined };
  call.write(encodeDeltaRequest({ ...first, node }));
}

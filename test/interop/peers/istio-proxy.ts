import { createHmac } from 'node:crypto';

/** The key of the look-alike of istiod, in control-plane/like_istio.go. */
const istioKey = 'the key of the istio look-alike';

const encoded = (json: unknown): string => Buffer.from(JSON.stringify(json)).toString('base64url');

/** The value of `authorization` for a proxy: a JWT (HS256) that is valid for one hour. */
export function istioBearer(namespace: string, account: string, key = istioKey): string {
  const exp = Math.round(Date.now() / 1_000) + 3_600;
  const signed = `${encoded({ alg: 'HS256' })}.${encoded({ namespace, account, exp })}`;
  const signature = createHmac('sha256', key).update(signed).digest('base64url');
  return `Bearer ${signed}.${signature}`;
}

export interface IstioProxy {
  readonly nodeId: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * The Node and the headers of a sidecar as Istio's bootstrap has them, with nested metadata.
 *
 * @param more of the metadata
 */
export function istioProxy(
  name: string,
  namespace: string,
  more: Readonly<Record<string, unknown>> = {},
): IstioProxy {
  const account = 'default';
  return {
    nodeId: `sidecar~10.0.0.1~${name}.${namespace}~${namespace}.svc.cluster.local`,
    metadata: {
      NAME: name,
      NAMESPACE: namespace,
      SERVICE_ACCOUNT: account,
      CLUSTER_ID: 'Kubernetes',
      ISTIO_VERSION: '1.30.0',
      INTERCEPTION_MODE: 'REDIRECT',
      LABELS: { app: name, 'service.istio.io/canonical-name': name },
      PROXY_CONFIG: { concurrency: 2, proxyMetadata: { ISTIO_META_DNS_CAPTURE: 'true' } },
      PILOT_SAN: ['istiod.istio-system.svc'],
      ...more,
    },
    headers: { authorization: istioBearer(namespace, account) },
  };
}

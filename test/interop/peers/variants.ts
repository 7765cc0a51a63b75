import type { EnvoyOptions } from './envoy.js';

/** A variant of the protocol between an Envoy and a control plane. */
export interface Variant {
  readonly title: string;
  readonly envoy: Pick<EnvoyOptions, 'apiType' | 'over'>;
  /** The method of each of its streams. */
  readonly method: RegExp;
}

export const grpcVariants: readonly Variant[] = [
  {
    title: 'delta ADS',
    envoy: { apiType: 'DELTA_GRPC' },
    method: /\.AggregatedDiscoveryService\/DeltaAggregatedResources$/,
  },
  {
    title: 'state-of-the-world ADS',
    envoy: { apiType: 'GRPC' },
    method: /\.AggregatedDiscoveryService\/StreamAggregatedResources$/,
  },
  {
    title: 'delta streams of each type',
    envoy: { apiType: 'DELTA_GRPC', over: 'per-type' },
    method: /\.(Cluster|Endpoint|Listener|Route)DiscoveryService\/Delta/,
  },
  {
    title: 'state-of-the-world streams of each type',
    envoy: { apiType: 'GRPC', over: 'per-type' },
    method: /\.(Cluster|Endpoint|Listener|Route)DiscoveryService\/Stream/,
  },
];

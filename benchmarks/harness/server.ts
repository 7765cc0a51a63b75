export const SERVER_NAMES = ['floor', 'linear', 'tributary'] as const;
export type ServerName = (typeof SERVER_NAMES)[number];

export const AUTHORITY = 'bench';
/** LinearCache has no glob collections, and Tributary serves no `*`; the floor takes either. */
export const GLOB = `xdstp://${AUTHORITY}/envoy.config.endpoint.v3.ClusterLoadAssignment/all/*`;

/** A server under test that is ready. */
export interface Server {
  /** The process that is measured. */
  readonly pid: number;
  readonly target: string;
  /** Where changes are made: at the server itself or, for a gateway, at its control plane. */
  readonly control: string;
  /** What a client subscribes that wants everything. */
  readonly wildcard: string;
  /** A gateway's control plane, and the process to kill to cut it off. */
  readonly upstream?: { readonly target: string; readonly pid: number };
  /** How the process ended, if it did. */
  obituary(): string | undefined;
  stop(): Promise<void>;
}

export interface ServerOptions {
  readonly resources: number;
  /** A gateway gets a second control plane, for an alternative authority, whose origin is `B`. */
  readonly withAlternative?: boolean;
}

/** In the order of the report. `figures.ts` says which servers are compared with which floors. */
export const SERVER_NAMES = ['floor', 'floor-http2', 'floor-go', 'linear', 'tributary'] as const;
export type ServerName = (typeof SERVER_NAMES)[number];

export const AUTHORITY = 'bench';
/** LinearCache has no glob collections, and Tributary serves no `*` of xdstp names. */
export const GLOB = `xdstp://${AUTHORITY}/envoy.config.endpoint.v3.ClusterLoadAssignment/all/*`;

export const WILDCARD = '*';

/** A server under test, ready for clients. */
export interface Server {
  /** The measured process. */
  readonly pid: number;
  readonly target: string;
  /** The control port for changes: that of the server or, for a gateway, of its control plane. */
  readonly control: string;
  /** The name that subscribes all resources. */
  readonly wildcard: string;
  /** A gateway's control plane, and the process to kill to cut it off. */
  readonly upstream?: { readonly target: string; readonly pid: number };
  /** How the process ended, if it did. */
  obituary(): string | undefined;
  stop(): Promise<void>;
}

export interface ServerOptions {
  readonly resources: number;
  /** Names without `xdstp://`; their wildcard is `*`. */
  readonly oldStyle?: boolean;
  /** State of the world instead of delta. A floor serves one of them, the others both. */
  readonly sotw?: boolean;
  /** The gateway gets a second control plane for an alternative authority, with origin `B`. */
  readonly withAlternative?: boolean;
}

/** What connections need: the clock, the dice of the network, and the parties at their ends. */
import type { EventQueue } from './heap.js';
import type { Instance } from './instance.js';
import type { Oracle } from './oracle.js';
import type { Random } from './random.js';
import type { TtlWatch } from './ttl-watch.js';
import type { Upstream } from './upstream.js';
import type { WorldSpec } from './world.js';

export interface Site {
  readonly spec: WorldSpec;
  readonly queue: EventQueue;
  readonly netDice: Random;
  readonly oracle: Oracle;
  /** Undefined: this world has no TTLs. */
  readonly ttls: TtlWatch | undefined;
  readonly upstreams: ReadonlyMap<string, Upstream>;
  readonly instances: readonly Instance[];
  log(line: string): void;
  /** Adds a line for humans; not part of the hash. */
  explain(line: () => string): void;
  /** Adds bytes to the hash without a line. */
  logBytes(bytes: Uint8Array): void;
}

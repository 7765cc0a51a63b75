/** What connections run through: the clock, the dice of the network, and what stands at their ends. */
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
  /** Undefined: nothing of this world has a TTL. */
  readonly ttls: TtlWatch | undefined;
  readonly upstreams: ReadonlyMap<string, Upstream>;
  readonly instances: readonly Instance[];
  log(line: string): void;
  /** For people alone, who read the log. */
  explain(line: () => string): void;
  /** Part of the log as bytes, not as a line. */
  logBytes(bytes: Uint8Array): void;
}

/** The simulated machine as its parts see it: what exists, and what can be done to it. */
import type { AuthorityMap } from '../../config/model.js';
import type { ClientLink } from './client-link.js';
import type { MachineClock } from './clocks.js';
import type { Directory } from './directory.js';
import type { Disk } from './disk.js';
import type { PeerNet } from './peer.js';
import type { Site } from './site.js';
import type { SourceLinks } from './source-links.js';

/** For faults, workloads and checks that need all of it. */
export interface Scene extends Site {
  readonly map: AuthorityMap;
  readonly clients: readonly ClientLink[];
  readonly links: SourceLinks;
  /** By instance. */
  readonly machineClocks: readonly MachineClock[];
  readonly directories: readonly Directory[];
  readonly disks: readonly Disk[];
  readonly peerNet: PeerNet | undefined;
  /** The process dies and restarts later with the contents of its disk. */
  crash(index: number, awayMs: number): void;
  reload(map: AuthorityMap): void;
}

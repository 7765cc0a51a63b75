/** The kinds of faults; each seed enables some of them. */
export const FAULTS = [
  // The network between the gateway and its sources.
  'cut',
  'refuse',
  'reject',
  'black_hole',
  'half_open',
  'stall',
  'partition',
  // The sources.
  'slow',
  'mute_names',
  'forget',
  'state_of_the_world',
  'hostile',
  'malformed',
  'flap',
  'oversize',
  'delete_many',
  // The clients.
  'nack',
  'pause',
  'leave',
  'move',
  'forget_versions',
  'odd_requests',
  'idle',
  // The gateway and its operator.
  'crash',
  'reload',
  'force',
] as const;

/** Added later: each has its own dice, so that the other faults stay as they were. */
export const LATER_FAULTS = ['lie', 'spoil'] as const;

export type Fault = (typeof FAULTS)[number] | (typeof LATER_FAULTS)[number];

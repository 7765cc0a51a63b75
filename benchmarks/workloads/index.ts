import { flood, paused } from './floods.js';
import { cut, throughGateway } from './gateway.js';
import { hints } from './instances.js';
import { memory } from './memory.js';
import { RESUMES } from './resume.js';
import { STORMS } from './storms.js';
import { WATCHES } from './watches.js';
import type { Workload } from './workload.js';

/** In the order of the report. */
export const WORKLOADS: readonly Workload[] = [
  ...STORMS,
  ...WATCHES,
  ...RESUMES,
  flood,
  paused,
  cut,
  throughGateway,
  hints,
  memory,
];

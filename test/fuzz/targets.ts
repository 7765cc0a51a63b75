/** The table of fuzz targets. */
import { CLIENT_TARGETS } from './client-targets.js';
import { ENVELOPE_TARGETS } from './envelope-targets.js';
import { FRAMING_TARGETS } from './framing-target.js';
import { PAYLOAD_TARGETS } from './payload-targets.js';
import type { Target } from './target.js';
import { UPSTREAM_TARGETS } from './upstream-target.js';
import { REST_TARGETS } from './rest-target.js';
import { TEXT_TARGETS } from './text-targets.js';

export const TARGETS: readonly Target[] = [
  ...ENVELOPE_TARGETS,
  ...PAYLOAD_TARGETS,
  ...TEXT_TARGETS,
  ...CLIENT_TARGETS,
  ...UPSTREAM_TARGETS,
  ...FRAMING_TARGETS,
  ...REST_TARGETS,
];

export function targetOf(name: string): Target {
  const target = TARGETS.find((one) => one.name === name);
  if (!target)
    throw new Error(`no target ${name}; there are ${TARGETS.map((one) => one.name).join(', ')}`);
  return target;
}

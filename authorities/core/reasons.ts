/** Why nothing can be said of a name, for people. */
import { isOldStyle, type ResourceName } from '../../protos/resource-name.js';

/** The authority map says nothing of it. */
export function unroutedReason(name: ResourceName): string {
  return isOldStyle(name)
    ? 'no source of the authority map serves old-style names of this type'
    : `no authority "${name.authority}" in the authority map`;
}

export function unreachableReason(name: ResourceName): string {
  const whose = isOldStyle(name) ? 'old-style names' : `authority "${name.authority}"`;
  return `no source of ${whose} can be reached`;
}

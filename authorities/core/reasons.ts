/** Why nothing can be said of a name, for people. */
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import { withoutEntry } from '../../protos/list-collection.js';
import { isOldStyle, type ResourceName } from '../../protos/resource-name.js';

/** The authority map says nothing of it. */
export function unrouted(name: ResourceName): RpcStatus {
  return { code: STATUS_CODE.notFound, message: unroutedReason(name) };
}

function unroutedReason(name: ResourceName): string {
  if (isOldStyle(name)) return 'no source of the authority map serves old-style names of this type';
  // All other directives are taken off on the way to a source.
  return withoutEntry(name) !== name
    ? `${name.resourceType} is no list of the type that is asked for, so it has no entries`
    : `no authority "${name.authority}" in the authority map`;
}

/** No source can be asked. */
export function unreachable(name: ResourceName): RpcStatus {
  const whose = isOldStyle(name) ? 'old-style names' : `authority "${name.authority}"`;
  return { code: STATUS_CODE.unavailable, message: `no source of ${whose} can be reached` };
}

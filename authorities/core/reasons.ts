/** Error statuses for names that no source could answer, with messages for humans. */
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import { withoutEntry } from '../../protos/list-collection.js';
import { isOldStyle, type ResourceName } from '../../protos/resource-name.js';

/** The authority map has no route for the name. */
export function unrouted(name: ResourceName): RpcStatus {
  return { code: STATUS_CODE.notFound, message: unroutedReason(name) };
}

function unroutedReason(name: ResourceName): string {
  if (isOldStyle(name)) return 'no source of the authority map serves old-style names of this type';
  // The other directives are removed before a name is routed.
  return withoutEntry(name) !== name
    ? `${name.resourceType} is not a list of the requested type, so it has no entries`
    : `no authority "${name.authority}" in the authority map`;
}

/** No source of the name is reachable. */
export function unreachable(name: ResourceName): RpcStatus {
  const whose = isOldStyle(name) ? 'old-style names' : `authority "${name.authority}"`;
  return { code: STATUS_CODE.unavailable, message: `no source of ${whose} can be reached` };
}

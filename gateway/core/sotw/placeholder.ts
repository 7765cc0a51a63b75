/**
 * The placeholder of a cluster that no source has: a cluster with endpoints from ADS, and an
 * assignment without endpoints. A gRPC channel that waits for a cluster applies no other change.
 * With the placeholder only calls to that cluster fail, and they recover when the real one arrives
 * (GRPC 8).
 */
import type { Projection } from '../../../authorities/index.js';
import { encodeResourceField } from '../../../protos/resource-field.js';
import { isOldStyle, wireText, type ResourceName } from '../../../protos/resource-name.js';
import { encodeEdsCluster, encodeEmptyAssignment } from '../../../protos/placeholder-messages.js';
import { TYPE_URL, TYPE_URL_PREFIX } from '../../../protos/type-urls.js';

/** Cannot equal a content hash, which has 22 characters. */
const VERSION = 'placeholder';

function projectionOf(
  name: ResourceName,
  typeUrl: string,
  body: Uint8Array,
  edsKey?: string,
): Projection {
  const field = encodeResourceField(wireText(name.key), VERSION, typeUrl, body);
  return { name, typeUrl, version: VERSION, field, edsKey };
}

/**
 * Key of the assignment: same authority and id as the cluster. For an old-style cluster it is the
 * cluster's own name.
 */
function assignmentKeyOf(name: ResourceName): string {
  if (isOldStyle(name)) return name.key;
  const type = TYPE_URL.clusterLoadAssignment.slice(TYPE_URL_PREFIX.length);
  // Directives are cut off. Types are not escaped in names, so the first match is the resource
  // type.
  return name.key.replace(/#.*$/s, '').replace(`/${name.resourceType}/`, `/${type}/`);
}

export function placeholderCluster(name: ResourceName): Projection {
  const edsKey = assignmentKeyOf(name);
  // xDS requires `service_name` if the cluster's name is an xdstp name.
  const serviceName = isOldStyle(name) ? '' : wireText(edsKey);
  const body = encodeEdsCluster(wireText(name.key), serviceName);
  return projectionOf(name, TYPE_URL.cluster, body, edsKey);
}

export function emptyAssignment(name: ResourceName): Projection {
  const body = encodeEmptyAssignment(wireText(name.key));
  return projectionOf(name, TYPE_URL.clusterLoadAssignment, body);
}

/**
 * What stands in for a cluster that cannot be had: one that takes its endpoints from ADS, and there are
 * none. A gRPC channel that waits for a cluster applies nothing else meanwhile; with this, only the
 * calls to that cluster fail, and they heal when the true one comes.
 */
import type { Projection } from '../../../authorities/index.js';
import { encodeResourceField } from '../../../protos/resource-field.js';
import { isOldStyle, wireText, type ResourceName } from '../../../protos/resource-name.js';
import { encodeEdsCluster, encodeEmptyAssignment } from '../../../protos/placeholder-messages.js';
import { TYPE_URL, TYPE_URL_PREFIX } from '../../../protos/type-urls.js';

/** No content's hash, which has 22 characters. */
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

/** The assignment of the same authority and id; an old-style cluster's has the cluster's own name. */
function assignmentKeyOf(name: ResourceName): string {
  if (isOldStyle(name)) return name.key;
  const type = TYPE_URL.clusterLoadAssignment.slice(TYPE_URL_PREFIX.length);
  // Without directives, and types are not escaped in names, so that the first place is the right one.
  return name.key.replace(/#.*$/s, '').replace(`/${name.resourceType}/`, `/${type}/`);
}

export function placeholderCluster(name: ResourceName): Projection {
  const edsKey = assignmentKeyOf(name);
  // xDS wants a service_name where the cluster's own is an xdstp name.
  const serviceName = isOldStyle(name) ? '' : edsKey;
  const body = encodeEdsCluster(wireText(name.key), serviceName);
  return projectionOf(name, TYPE_URL.cluster, body, edsKey);
}

export function emptyAssignment(name: ResourceName): Projection {
  const body = encodeEmptyAssignment(wireText(name.key));
  return projectionOf(name, TYPE_URL.clusterLoadAssignment, body);
}

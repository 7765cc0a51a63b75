import type { JsonObject } from '@bufbuild/protobuf';
import { resourceFromJson } from '../../protos/json-resources.js';
import { TYPE_URLS } from '../support/mesh.js';

/** So many endpoints are 0.8 MB in binary form, and 2.8 MB as JSON. */
export const MANY_ENDPOINTS = 30_000;

/** An endpoint is some 27 bytes in binary form, and 90 as JSON. */
export function assignmentJson(name: string, portValue: number, endpoints: number): JsonObject {
  const lbEndpoints = Array.from({ length: endpoints }, (_, at) => ({
    endpoint: { address: { socketAddress: { address: `10.0.${at >> 8}.${at & 255}`, portValue } } },
  }));
  return { '@type': TYPE_URLS.assignment, clusterName: name, endpoints: [{ lbEndpoints }] };
}

export function assignmentBody(name: string, portValue: number, endpoints: number): Uint8Array {
  const read = resourceFromJson(assignmentJson(name, portValue, endpoints));
  if (!read.ok) throw new Error(read.message);
  return read.body;
}

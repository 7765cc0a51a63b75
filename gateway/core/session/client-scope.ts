/**
 * Determines the node group of a client, and whether the limit of node groups allows it. The stream
 * keeps the Node as it was read; the authority map in effect decides by which Node fields groups
 * differ.
 */
import { isDeepStrictEqual } from 'node:util';
import type { OldStyleSpec } from '../../../config/model.js';
import { STATUS_CODE } from '../../../protos/discovery.js';
import { readClientNode, type ClientNode } from '../../../protos/node-codec.js';
import { metadataKeysOf, scopeOf, type NodeField } from '../../../protos/node-scope.js';
import type { ClientScope } from './asked-name.js';

/** Characters. The scope is a part of the key of each of the group's names. */
const MAX_SCOPE_LENGTH = 1_024;

/** A client's Node, and the fields it was read for (`differ_by` at that time). */
export interface GroupedNode {
  readonly node: ClientNode & { readonly isMissing?: true };
  readonly differBy: readonly NodeField[];
}

export interface NodeGroupRoom {
  readonly maxNodeGroups: number;
  /** Number of groups for which the cache holds names. */
  readonly scopeCount: number;
  hasScope(scope: string): boolean;
}

const NO_NODE: GroupedNode['node'] = {
  id: '',
  cluster: '',
  userAgentName: '',
  metadata: {},
  malformed: false,
  isMissing: true,
};

/** @param bytes the encoded Node of the first request, if it had one. */
export function readGroupedNode(
  bytes: Uint8Array | undefined,
  oldStyle: OldStyleSpec | undefined,
): GroupedNode {
  const differBy = oldStyle?.differBy ?? [];
  return { node: bytes ? readClientNode(bytes, metadataKeysOf(differBy)) : NO_NODE, differBy };
}

export function clientScopeOf(
  { node, differBy }: GroupedNode,
  oldStyle: OldStyleSpec | undefined,
  room: NodeGroupRoom,
): ClientScope {
  if (!oldStyle) return { kind: 'not_served' };
  if (!isDeepStrictEqual(differBy, oldStyle.differBy)) {
    return refused(STATUS_CODE.unavailable, 'the node groups changed: reconnect');
  }
  if (node.malformed && differBy.length > 0) {
    return refused(STATUS_CODE.invalidArgument, 'the Node cannot be read');
  }
  const scope = scopeOf(node, differBy);
  if (scope.length > MAX_SCOPE_LENGTH) {
    const most = `${MAX_SCOPE_LENGTH} characters`;
    return refused(
      STATUS_CODE.invalidArgument,
      `the Node fields ${differBy.join(', ')} exceed ${most} together`,
    );
  }
  if (!room.hasScope(scope) && room.scopeCount >= room.maxNodeGroups) {
    return refused(
      STATUS_CODE.resourceExhausted,
      `more than ${room.maxNodeGroups} node groups (old_style_names.differ_by: ${differBy.join(', ')})`,
    );
  }
  return { kind: 'scope', scope };
}

const refused = (code: number, message: string): ClientScope => ({
  kind: 'refused',
  status: { code, message },
});

/** Which entries of old-style names apply to a client (`served_by[].for`). */
import type { NodeCondition, OldStyleEntrySpec } from '../../../config/model.js';
import type { ScopeFields } from '../../../protos/node-scope.js';

/** @param node at least the fields of the conditions */
export function appliesTo({ when = [] }: OldStyleEntrySpec, node: ScopeFields): boolean {
  return when.every((condition) => valueOf(condition, node) === condition.equals);
}

const METADATA = 'metadata.';

/** A text field that the Node lacks is empty (proto3). */
function valueOf({ field, part }: NodeCondition, node: ScopeFields): unknown {
  if (field === 'id' || field === 'cluster') return node[field] ?? '';
  if (field === 'locality') return part && (node.locality?.[part] ?? '');
  const { metadata = {} } = node;
  const key = field.slice(METADATA.length);
  return Object.hasOwn(metadata, key) ? metadata[key] : undefined;
}

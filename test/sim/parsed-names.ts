/** Names in the form that the cores use. */
import { parseResourceName, type ResourceName } from '../../protos/resource-name.js';

export function parsedName(text: string): ResourceName {
  const parsed = parseResourceName(text);
  if (!parsed.ok) throw new Error(`no name: ${text}`);
  return parsed.value;
}

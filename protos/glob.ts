/** Which collection a name belongs to: `xdstp:` globs, and the wildcard of old-style names. */
import { isOldStyle, wildcardKeyOf } from './old-style-name.js';
import type { ResourceName } from './resource-urn.js';

/**
 * The key of the one glob whose member this name would be: one level, so the same authority, type,
 * parameters and path up to the last `/` (TP1 "Glob"; cncf/xds issue 91). For a glob: its own key.
 * Every old-style name may be a member of its scope's wildcard.
 */
export function globKeyOf(name: ResourceName): string {
  const { key } = name;
  if (isOldStyle(name)) return wildcardKeyOf(name);
  const question = name.contextParams.length === 0 ? key.length : key.indexOf('?');
  const slash = key.lastIndexOf('/', question);
  return `${key.slice(0, slash + 1)}*${key.slice(question)}`;
}

/** Whether `glob` is a glob and `name` a resource in it. Globs are not members of globs. */
export function isMemberOf(name: ResourceName, glob: ResourceName): boolean {
  return glob.isGlob && !name.isGlob && globKeyOf(name) === glob.key;
}

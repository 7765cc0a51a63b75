/** Membership in collections: `xdstp:` globs and the wildcard of old-style names. */
import { isOldStyle, wildcardKeyOf } from './old-style-name.js';
import type { ResourceName } from './resource-urn.js';

/**
 * The key of the only glob that can have this name as a member. A glob spans one level: it has the same
 * authority, type, parameters and path up to the last `/` (TP1 "Glob"; cncf/xds issue 91). For a glob:
 * its own key. For an old-style name: the wildcard of its scope.
 */
export function globKeyOf(name: ResourceName): string {
  const { key } = name;
  if (isOldStyle(name)) return wildcardKeyOf(name);
  const question = name.contextParams.length === 0 ? key.length : key.indexOf('?');
  const slash = key.lastIndexOf('/', question);
  return `${key.slice(0, slash + 1)}*${key.slice(question)}`;
}

/** Whether `name` is a member of `glob`; false if `glob` is not a glob. A glob is never a member. */
export function isMemberOf(name: ResourceName, glob: ResourceName): boolean {
  return glob.isGlob && !name.isGlob && globKeyOf(name) === glob.key;
}

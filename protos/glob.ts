/** Membership in collections: `xdstp:` globs and the wildcard of old-style names. */
import { keyWithParameters } from './dynamic-parameters.js';
import { parametersOfKey, plainKeyOf, scopeOfKey, wildcardKeyOf } from './old-style-name.js';
import type { ResourceName } from './resource-urn.js';

/**
 * The last name, and the last folder. One input asks about the same name some thirty times, and names come
 * in runs of one collection: to find the string costs a tenth of building and hashing it again.
 */
let lastName: ResourceName | undefined;
let lastKey = '';
let lastFolder = '';
let lastFolderKey = '*';

/**
 * The key of the only glob that can have this name as a member. A glob spans one level: it has the same
 * authority, type, parameters and path up to the last `/` (TP1 "Glob"; cncf/xds issue 91). For a glob:
 * its own key. For an old-style name: the wildcard of its scope.
 */
export function globKeyOf(name: ResourceName): string {
  if (name !== lastName) {
    lastName = name;
    lastKey = globKeyOfKey(name.key);
  }
  return lastKey;
}

/** As `globKeyOf`, of the name's key. */
export function globKeyOfKey(key: string): string {
  const parameters = parametersOfKey(key);
  if (parameters !== '') return keyWithParameters(globKeyOfKey(plainKeyOf(key)), parameters);
  const scope = scopeOfKey(key);
  if (scope !== undefined) return wildcardKeyOf(scope);
  // A canonical text has its only `?` before the parameters.
  const question = key.indexOf('?');
  return question === -1 ? globKeyOfText(key) : `${folderOf(key, question)}*${key.slice(question)}`;
}

/** The glob key of an `xdstp:` name without parameters, by its canonical text. */
export function globKeyOfText(text: string): string {
  const folder = folderOf(text, text.length);
  if (folder !== lastFolder) {
    lastFolder = folder;
    lastFolderKey = `${folder}*`;
  }
  return lastFolderKey;
}

const folderOf = (key: string, end: number): string => key.slice(0, key.lastIndexOf('/', end) + 1);

const GLOB = /(?:^|\/|%2F)\*(?=$|[?#])/i;

/** Whether a requested text could be a glob, by its characters alone: true for each glob, and for a few other texts. */
export const mayBeGlob = (text: string): boolean => GLOB.test(text);

/** Whether `name` is a member of `glob`; false if `glob` is not a glob. A glob is never a member. */
export function isMemberOf(name: ResourceName, glob: ResourceName): boolean {
  return glob.isGlob && !name.isGlob && globKeyOf(name) === glob.key;
}

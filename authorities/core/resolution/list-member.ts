/** Under which names the entries of a list are served, as ordinary resources of its type. */
import { messageOf, type ListEntry } from '../../../protos/list-collection.js';
import { ownNameOf } from '../../../protos/payload-names.js';
import {
  makeResourceName,
  parseResourceName,
  type ResourceLocator,
  type ResourceName,
} from '../../../protos/resource-name.js';
import type { ReferenceMapping } from '../projection.js';

type InlineEntry = Extract<ListEntry, { kind: 'inline' }>;

/**
 * An inline resource that names itself by a URN of the list's authority has that name (TP1, "List").
 * Any other is a member of a directory called like the list: `xdstp://a/T/<list>/<entry>`, where an
 * anonymous entry goes by the name in its payload, or by its place.
 */
export function inlineMemberName(
  list: ResourceName,
  typeUrl: string,
  { name, body }: InlineEntry,
  place: number,
  mapEntry: ReferenceMapping = (published) => published,
): ResourceName | undefined {
  const ownName = ownNameOf(typeUrl, body) ?? '';
  const parsed = ownName.startsWith('xdstp:') ? parseResourceName(ownName) : undefined;
  const own = parsed?.ok ? mapEntry(parsed.value) : undefined;
  const isOwn =
    own !== undefined &&
    !own.isGlob &&
    own.authority === list.authority &&
    own.resourceType === messageOf(typeUrl);
  if (isOwn) return own;
  for (const segment of [name, ownName, `entry-${place}`]) {
    const made = segment === '' ? undefined : entryName(list, typeUrl, segment);
    if (made) return made;
  }
  return undefined;
}

/** Of an entry that is a locator: what it leads to, without directives. */
export function locatedMemberName(
  { name, entries: [entry] }: ResourceLocator,
  typeUrl: string,
): ResourceName | undefined {
  return entry === undefined ? name : entryName(name, typeUrl, entry);
}

function entryName(
  { authority, id, contextParams }: ResourceName,
  typeUrl: string,
  segment: string,
): ResourceName | undefined {
  const made = makeResourceName({
    authority,
    resourceType: messageOf(typeUrl),
    id: `${id}/${segment}`,
    contextParams,
    isGlob: false,
  });
  return made.ok ? made.value : undefined;
}

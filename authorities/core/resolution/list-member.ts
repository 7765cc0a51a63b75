/**
 * The names under which the entries of a list are served as ordinary resources of its element type.
 */
import type { ListEntry } from '../../../protos/list-collection.js';
import { ownNameOf } from '../../../protos/payload-names.js';
import {
  makeResourceName,
  parseResourceName,
  type ResourceLocator,
  type ResourceName,
} from '../../../protos/resource-name.js';
import { messageOf } from '../../../protos/type-urls.js';
import type { ReferenceMapping } from '../projection.js';

type InlineEntry = Extract<ListEntry, { kind: 'inline' }>;

/**
 * An inline resource keeps its own name if that is a URN of the list's authority (TP1, "List"). Any
 * other is served as `xdstp://a/T/<list>/<entry>`, in a directory with the list's name. An
 * anonymous entry uses the name in its payload, or its index.
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

/** The name that a locator entry leads to, without directives. */
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

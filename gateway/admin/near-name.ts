/** What an operator probably meant by a name under which nothing is served. */
import type { FailoverGroup, Source } from '../../authorities/index.js';
import { nearestWord } from '../../config/nearest.js';
import { likelyType } from '../../config/type-names.js';
import { nameOfKey, type ResourceName } from '../../protos/resource-name.js';

/** More names of a source are not compared. A count. */
const MAX_COMPARED = 10_000;

/**
 * @param group that of the name
 * @returns e.g. `did you mean "xdstp://…"?`; undefined: no name and no type is near
 */
export function nearName(
  group: FailoverGroup,
  typeUrl: string,
  name: ResourceName,
): string | undefined {
  if (name.id.includes('*')) return 'a glob has its * at the end, after a slash';
  const type = likelyType(typeUrl);
  if (type !== undefined) return `the type is unknown to Envoy: did you mean "${type}"?`;
  const [first] = group.candidates;
  if (!first) return undefined;
  const keysById = new Map<string, string>();
  for (const key of namesOf(first.source, typeUrl)) {
    if (keysById.size === MAX_COMPARED) break;
    const other = nameOfKey(key);
    // The same name with other parameters is no correction.
    if (other?.authority !== name.authority || other.parameters !== undefined) continue;
    if (key !== name.key) keysById.set(other.id, key);
  }
  const nearest = nearestWord(name.id, keysById.keys());
  return nearest === undefined ? undefined : `did you mean "${keysById.get(nearest) ?? ''}"?`;
}

function* namesOf(source: Source, typeUrl: string): Iterable<string> {
  if (source.names) yield* source.names(typeUrl);
  else for (const { projection } of source.contents.entries(typeUrl)) yield projection.name.key;
}

/** `/resources/<name>?type=TYPE`: an old-style resource, as each node group is served it. */
import type { FederationView, Projection } from '../../authorities/index.js';
import { readType } from '../../config/type-names.js';
import { oldStyleName } from '../../protos/resource-name.js';
import { failure, jsonText, type AdminContext, type Reply } from './reply.js';
import { shownJson, withJson } from './shown-resource.js';

/** Different contents in one answer. A count. */
const MAX_CONTENTS = 20;

/** The same content for all of these node groups. */
interface ServedContent {
  readonly projection: Projection;
  /** The entry of `old_style_names`, and its source. */
  readonly entry: string;
  readonly source: string | null;
  readonly nodeGroup: string;
  /** Number of node groups. */
  nodeGroups: number;
}

/**
 * 404 if no node group is served it. The gateway holds an old-style name only while a client
 * subscribes to it, by name or by wildcard: an operator's question has no Node to ask a source with.
 *
 * @param type as `readType` takes it
 */
export async function oldStyleResource(
  { gateway }: AdminContext,
  text: string,
  type: string,
): Promise<Reply> {
  const read = readType(type);
  if (!read.ok) return failure(400, `type: ${read.message}`, { hint: read.remedy });
  const { typeUrl } = read;
  const contents = contentsOf(gateway.upstream.view, typeUrl, text);
  if (contents.length === 0) {
    return failure(404, `no node group is served the old-style name "${text}" of type ${typeUrl}`, {
      hint: 'the gateway holds an old-style name while a client subscribes to it: see tributary explain NAME --type TYPE',
    });
  }
  const shown: string[] = [];
  for (const { projection, ...where } of contents.slice(0, MAX_CONTENTS)) {
    const fields = { version: projection.version, ...where };
    shown.push(withJson(fields, 'resource', await shownJson(projection)));
  }
  const fields = { name: text, typeUrl, count: contents.length };
  return jsonText(200, withJson(fields, 'contents', `[${shown.join(',')}]`));
}

function contentsOf(
  { nodeGroups }: FederationView,
  typeUrl: string,
  text: string,
): readonly ServedContent[] {
  const contents = new Map<string, ServedContent>();
  for (const nodeGroup of nodeGroups.all) {
    const served = nodeGroup.served(typeUrl, oldStyleName(nodeGroup.scope, text));
    if (!served) continue;
    const { projection, group, from } = served;
    const entry = group.spec.name;
    const source = group.candidates[from]?.source.name ?? null;
    const key = `${projection.version} ${entry} ${source ?? ''}`;
    const known = contents.get(key);
    if (known) known.nodeGroups++;
    else
      contents.set(key, { projection, entry, source, nodeGroup: nodeGroup.scope, nodeGroups: 1 });
  }
  return [...contents.values()];
}

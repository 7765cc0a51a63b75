/** `/resources/<urn>` and `/explain/<urn>`: the resource of one name, and its explanation. */
import type { FailoverGroup } from '../../authorities/index.js';
import { readType } from '../../config/type-names.js';
import { isMemberOf, oldStyleName, type ResourceName } from '../../protos/resource-name.js';
import { elementTypeOf, isListName } from '../../protos/list-collection.js';
import { AS_FORMS, explainRights, type DescribedClient } from './explain-rights.js';
import { explainOldStyle } from './explain-old-style.js';
import { explainName, nameFrom, servedAs } from './explain.js';
import { LOG_START } from '../core/cache/change-log.js';
import type { NameState } from '../core/cache/entries.js';
import { DeltaSubscriptions } from '../core/delta/delta-subscriptions.js';
import { SotwSubscriptions } from '../core/sotw/sotw-subscriptions.js';
import { lookUp } from './look-up.js';
import { noAuthority } from './known-authority.js';
import { nearName } from './near-name.js';
import { oldStyleResource } from './old-style-resource.js';
import {
  failure,
  json,
  jsonText,
  type AdminContext,
  type AdminRequest,
  type Reply,
} from './reply.js';
import { shownJson, withJson } from './shown-resource.js';
import { detailsOf, troublesOf } from './source-details.js';

/** Maximum number of listed members of a glob; `count` is always exact. */
const MAX_LISTED = 1_000;

/** How long to wait for a name that no client subscribes to. */
const LOOK_UP_MS = 3_000;
/** The same for an explanation, which is of use without a response too. */
const EXPLAIN_LOOK_UP_MS = 1_000;

export function resource(context: AdminContext, request: AdminRequest): Reply | Promise<Reply> {
  const type = request.query.get('type');
  // In an unencoded xdstp name, `type` is a context parameter of the name.
  if (type !== null && !request.path.startsWith('/resources/xdstp:/'))
    return oldStyleResource(context, nameText({ ...request, rawQuery: '' }, '/resources/'), type);
  return withName<Reply | Promise<Reply>>(context, request, '/resources/', async (found) => {
    const { group, name, typeUrl } = found;
    await lookUp(context.gateway.cache, typeUrl, name, LOOK_UP_MS);
    if (name.isGlob) {
      const clients = clientsOf(context, name, typeUrl);
      return json(200, { name: name.key, typeUrl, clients, ...membersOf(context, typeUrl, name) });
    }
    const state = context.gateway.cache.stateOf(typeUrl, name);
    if (state?.kind !== 'present') {
      const reason = whyNotServed(context, found, state);
      const troubles = troublesOf(group.candidates, detailsOf(context));
      const why = [reason, ...troubles].join('; ');
      return failure(404, `no resource is served under this name: ${why}`, {
        name: name.key,
        hint: nearName(group, typeUrl, name),
      });
    }
    const { projection } = state;
    const fields = {
      name: name.key,
      typeUrl,
      ...servedAs(group, typeUrl, name, projection),
      group: group.id,
      state: group.failover.kind,
      hops: context.gateway.upstream.view.hops(typeUrl, name),
      clients: clientsOf(context, name, typeUrl),
      ...(await listMembers(context, typeUrl, name)),
    };
    return jsonText(200, withJson(fields, 'resource', await shownJson(projection)));
  });
}

/** Asks for the name, as `get` does: otherwise nothing would be served of a name without clients. */
export function explain(context: AdminContext, request: AdminRequest): Reply | Promise<Reply> {
  const type = request.query.get('type');
  // In an unencoded xdstp name, `type` is a context parameter of the name.
  if (type !== null && !request.path.startsWith('/explain/xdstp:/'))
    return explainOpaque(context, request, type);
  return withName<Reply | Promise<Reply>>(context, request, '/explain/', async (found) => {
    const { name, typeUrl } = found;
    const { upstream, cache } = context.gateway;
    await lookUp(cache, typeUrl, name, EXPLAIN_LOOK_UP_MS);
    const state = cache.stateOf(typeUrl, name);
    const held = state?.kind === 'present' ? state.projection : undefined;
    const explanation = explainName(upstream.view, name, detailsOf(context), held);
    return withRights(context, request, typeUrl, name, { ...explanation });
  });
}

/** Adds whether the client of `as` may ask for the name, if the query has one. */
function withRights(
  { gateway }: AdminContext,
  { path, query }: AdminRequest,
  typeUrl: string,
  name: ResourceName,
  explanation: object,
): Reply {
  // In an unencoded xdstp name, `as` is a context parameter of the name.
  const as = path.startsWith('/explain/xdstp:/') ? null : query.get('as');
  if (as === null) return json(200, explanation);
  const client: DescribedClient = {
    as,
    address: query.get('address') ?? '',
    nodeId: query.get('node_id') ?? '',
  };
  const rights = explainRights(gateway.upstream.view.map.clients, typeUrl, name, client);
  if (rights) return json(200, { ...explanation, rights });
  return failure(400, 'as is not an identity', { hint: `write ${AS_FORMS}` });
}

/** Explains an old-style name: only those need the query parameter `type`. */
function explainOpaque(context: AdminContext, request: AdminRequest, type: string): Reply {
  const { upstream } = context.gateway;
  const read = readType(type);
  if (!read.ok) return failure(400, `type: ${read.message}`, { hint: read.remedy });
  const text = nameText({ ...request, rawQuery: '' }, '/explain/');
  const explanation = explainOldStyle(upstream.view, text, read.typeUrl, detailsOf(context));
  if (explanation) {
    const { typeUrl } = explanation;
    return withRights(context, request, typeUrl, oldStyleName('', text), explanation);
  }
  return failure(404, `no source serves old-style names of type ${type}`, {
    hint: 'see old_style_names in the authority map',
  });
}

/** The name in a path, and the group that serves it. */
export interface Found {
  readonly group: FailoverGroup;
  readonly name: ResourceName;
  readonly typeUrl: string;
}

/** 400 if the path has no name that can be served, 404 if the map lacks its authority. */
export function withName<R extends Reply | Promise<Reply>>(
  context: AdminContext,
  request: AdminRequest,
  prefix: string,
  handle: (found: Found) => R,
): R | Reply {
  const named = nameFrom(nameText(request, prefix));
  if (!named.ok) return failure(400, named.message);
  const { name, typeUrl } = named;
  const group = context.gateway.upstream.view.groupFor(name);
  if (group) return handle({ group, name, typeUrl });
  return noAuthority(context, name.authority);
}

/** The name in the path is either literal or percent-encoded as a whole. */
function nameText({ path, rawQuery }: AdminRequest, prefix: string): string {
  const text = path.slice(prefix.length);
  if (text.startsWith('xdstp:/')) return text + rawQuery;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

interface Members {
  readonly count: number;
  readonly members: readonly { readonly name: string; readonly version: string }[];
}

/** The members of a collection as clients receive them, up to `MAX_LISTED`. */
function membersOf({ gateway }: AdminContext, typeUrl: string, glob: ResourceName): Members {
  const collection = gateway.cache.collectionOf(typeUrl, glob);
  const members: { name: string; version: string }[] = [];
  for (const { projection } of collection?.members.since(LOG_START) ?? []) {
    if (members.length === MAX_LISTED) break;
    members.push({ name: projection.name.key, version: projection.version });
  }
  return { count: collection?.members.size ?? 0, members };
}

/** The members of a list; undefined if the name is not a list. */
async function listMembers(
  context: AdminContext,
  typeUrl: string,
  list: ResourceName,
): Promise<Members | undefined> {
  const memberType = elementTypeOf(typeUrl);
  if (memberType === undefined || !isListName(memberType, list)) return undefined;
  const asCollection = { ...list, isGlob: true };
  await lookUp(context.gateway.cache, memberType, asCollection, LOOK_UP_MS);
  return membersOf(context, memberType, asCollection);
}

/** @param state undefined: no client subscribes to the name by itself */
function whyNotServed(
  { gateway }: AdminContext,
  { group, name, typeUrl }: Found,
  state: Exclude<NameState, { readonly kind: 'present' }> | undefined,
): string {
  if (state?.kind === 'absent') {
    return state.status?.message ?? 'the source reports that it does not exist';
  }
  if (state?.kind === 'error') return state.status.message;
  if (state) {
    return `requested, but no source has responded yet (group is ${group.failover.kind})`;
  }
  const covered = [...gateway.cache.globs()].some(
    (entry) => entry.typeUrl === typeUrl && isMemberOf(name, entry.collection.glob),
  );
  return covered ? 'it is not in the served collection' : 'no client subscribes to it';
}

/**
 * Number of clients that subscribe to a name. Each client has one subscriptions object per type (and, for
 * delta, authority), which may subscribe to both the name and its glob: count objects, not entries.
 */
function clientsOf({ gateway }: AdminContext, name: ResourceName, typeUrl: string): number {
  const allSubscriptions = new Set<object>();
  for (const entry of gateway.cache.names()) {
    if (entry.typeUrl !== typeUrl || entry.name.key !== name.key) continue;
    for (const one of entry.subscribers) if (isClientSubscriptions(one)) allSubscriptions.add(one);
  }
  for (const entry of gateway.cache.globs()) {
    const { glob } = entry.collection;
    const covers = name.isGlob ? glob.key === name.key : isMemberOf(name, glob);
    if (entry.typeUrl !== typeUrl || !covers) continue;
    for (const one of entry.subscribers) if (isClientSubscriptions(one)) allSubscriptions.add(one);
  }
  return allSubscriptions.size;
}

const isClientSubscriptions = (one: object): boolean =>
  one instanceof DeltaSubscriptions || one instanceof SotwSubscriptions;

/** `/status`: for each client and type, whether it holds what the gateway serves, and from where. */
import type { FailoverGroup, FederationView, NodeGroup } from '../../authorities/index.js';
import { shortTypeOf } from '../../protos/type-urls.js';
import type { ClientStream } from '../clients/client-stream.js';
import type { SubscriptionsView } from '../core/session/stream-session.js';
import { groupedBy } from '../grouped-by.js';
import { identityText } from '../core/rights/requester.js';
import { wallTime } from '../clock.js';
import { shownText } from '../telemetry/line-fields.js';
import { clientPage } from './client-pages.js';
import { jsonPieces } from './pieces.js';
import type { AdminContext, AdminRequest, Reply } from './reply.js';
import { subscriptionsState } from './sync-states.js';

/** Groups of one authority in the same state and at the same source. */
export interface ServedFrom {
  /** The authority, or the entry of `old_style_names`, such as `old-style/0`. */
  readonly authority: string;
  /** The source in use; null: none, or one that the map no longer has for these names. */
  readonly source: string | null;
  /** The failover state. */
  readonly failover: string;
  /** Number of failover groups. */
  readonly groups: number;
}

export interface TypeStatus {
  readonly type: string;
  /** Absent for old-style names. */
  readonly authority?: string;
  readonly names: number;
  readonly state: 'SYNCED' | 'STALE' | 'NACK' | 'NOT SENT';
  /** Of STALE and NACK. */
  readonly since?: string;
  /** Of NACK: the words of the client. */
  readonly reason?: string;
  readonly servedFrom: readonly ServedFrom[];
}

export interface ClientStatus {
  readonly id: number;
  readonly peer: string;
  readonly identity: string;
  readonly node: { readonly id: string; readonly cluster: string } | null;
  readonly protocol: string;
  readonly types: readonly TypeStatus[];
}

export async function status(context: AdminContext, request: AdminRequest): Promise<Reply> {
  const origins = new Origins(context.gateway.upstream.view);
  return clientPage(context, request, (stream) => clientStatus(stream, origins));
}

function clientStatus(stream: ClientStream, origins: Origins): IterableIterator<string> {
  const head: Omit<ClientStatus, 'types'> = {
    id: stream.id,
    peer: stream.peer,
    identity: identityText(stream.requester.identity),
    node: stream.node ?? null,
    protocol: stream.flavour,
  };
  const { allSubscriptions } = stream.session;
  return jsonPieces(head, 'types', allSubscriptions, (one) => typeStatus(stream, one, origins));
}

function typeStatus(
  stream: ClientStream,
  subscriptions: SubscriptionsView,
  origins: Origins,
): TypeStatus {
  const { typeUrl, authority, authorities, nameCount } = subscriptions;
  const state = subscriptionsState(stream, subscriptions);
  const { nodeGroup } = stream;
  return {
    type: shortTypeOf(typeUrl),
    ...(authority === nodeGroup ? {} : { authority }),
    names: nameCount,
    state: state.kind,
    ...('sinceMs' in state ? { since: wallTime(state.sinceMs) } : {}),
    ...('reason' in state ? { reason: shownText(state.reason) } : {}),
    servedFrom: authorities.flatMap((one) =>
      one === nodeGroup ? origins.ofNodeGroup(one, typeUrl) : origins.ofAuthority(one),
    ),
  };
}

/** Where names come from at this moment, looked up once for all clients of a page. */
class Origins {
  readonly #groups: ReadonlyMap<string, readonly FailoverGroup[]>;
  readonly #nodeGroups = new Map<string, NodeGroup>();
  readonly #ofAuthority = new Map<string, readonly ServedFrom[]>();
  /** By node group and type. */
  readonly #ofNodeGroup = new Map<string, readonly ServedFrom[]>();

  constructor({ groups, nodeGroups }: FederationView) {
    this.#groups = groupedBy(groups, ({ spec }) => spec.name);
    for (const nodeGroup of nodeGroups.all) this.#nodeGroups.set(nodeGroup.scope, nodeGroup);
  }

  ofAuthority(authority: string): readonly ServedFrom[] {
    let known = this.#ofAuthority.get(authority);
    if (known) return known;
    known = originsOf(this.#groups.get(authority) ?? []);
    this.#ofAuthority.set(authority, known);
    return known;
  }

  ofNodeGroup(scope: string, typeUrl: string): readonly ServedFrom[] {
    const key = `${typeUrl} ${scope}`;
    let known = this.#ofNodeGroup.get(key);
    if (known) return known;
    known = originsOf(this.#nodeGroups.get(scope)?.groupsFor(typeUrl) ?? []);
    this.#ofNodeGroup.set(key, known);
    return known;
  }
}

function originsOf(groups: readonly FailoverGroup[]): readonly ServedFrom[] {
  const found = new Map<string, ServedFrom>();
  for (const { activeSource, failover, spec } of groups) {
    const source = activeSource?.name ?? null;
    const key = `${failover.kind} ${source ?? ''}`;
    const count = (found.get(key)?.groups ?? 0) + 1;
    found.set(key, { authority: spec.name, source, failover: failover.kind, groups: count });
  }
  return [...found.values()];
}

/**
 * Old-style names for one node group: one failover group for each entry of the map, and the union of
 * what they serve. Within an entry one source stands in for the other, and all names move as one;
 * across entries they add up. Of a name that several entries have, the first in order is served, and
 * the next one when that one loses it by a deletion. Bulk machine without IO.
 *
 * The groups hold the content; what is kept here is only what each has answered.
 */
import type {
  AuthoritySpec,
  OldStyleEntrySpec,
  OldStyleSpec,
  SourceSpec,
} from '../../../config/model.js';
import { STATUS_CODE, type RpcStatus } from '../../../protos/discovery.js';
import { COMMON_SCOPE } from '../../../protos/node-scope.js';
import type { ResourceName } from '../../../protos/resource-name.js';
import { TypedMap } from '../../../protos/typed-map.js';
import type { Candidate } from '../failover/candidate.js';
import type { FailoverGroup, GroupEvent } from '../failover/failover-group.js';
import type { Groups } from '../failover/groups.js';
import type { ViewEvent } from '../failover/group-resources.js';
import { scopeMapping } from '../resolution/name-mapping.js';
import type { Projection } from '../projection.js';
import type { Served } from '../failover/served-names.js';
import type { Source } from '../sources/source.js';

/** What a group has said of a name or wildcard that it does not (or not only) serve. */
interface Answer {
  readonly kind: 'absent' | 'complete' | 'unavailable';
  readonly isProof?: boolean;
  readonly status?: RpcStatus | undefined;
}

const UNREACHABLE: RpcStatus = {
  code: STATUS_CODE.unavailable,
  message: 'a source of old-style names cannot be reached',
};

interface Entry {
  readonly spec: OldStyleEntrySpec;
  readonly group: FailoverGroup;
}

/** Is this what the map says of an entry of old-style names, and not of an authority? */
export const isOldStyleEntry = (spec: AuthoritySpec): spec is OldStyleEntrySpec => 'types' in spec;

export const servesType = ({ types }: OldStyleEntrySpec, typeUrl: string): boolean =>
  types?.includes(typeUrl) ?? true;

/** May a source publish old-style names of this type? @param isOne whether a name of the map is its */
export function mayServeOldStyle(
  spec: OldStyleSpec | undefined,
  isOne: (name: string) => boolean,
  typeUrl: string,
): boolean {
  return (spec?.servedBy ?? []).some(
    (entry) => entry.sources.some(isOne) && servesType(entry, typeUrl),
  );
}

/** The scope of the stream that this source answers a node group on: it may tell everybody the same. */
export function scopeAtSource(spec: SourceSpec, scope: string): string {
  return spec.kind === 'path' || spec.node !== undefined ? COMMON_SCOPE : scope;
}

/**
 * Of a source that answers one node group on a stream of its own; with the common scope it is the
 * source's name.
 */
export function sourceIdOf(name: string, scope: string): string {
  return scope === COMMON_SCOPE ? name : `${name}\n${scope}`;
}

/** The name of a source, out of its id. */
export function sourceNameOf(id: string): string {
  const end = id.indexOf('\n');
  return end < 0 ? id : id.slice(0, end);
}

/** The node group that a source answers, out of its id; the common scope for all of them. */
export function scopeOfSource(id: string): string {
  return id.slice(sourceNameOf(id).length + 1);
}

export class NodeGroup {
  readonly scope: string;
  readonly #entries: readonly Entry[];
  readonly #answers = new TypedMap<Map<FailoverGroup, Answer>>();

  /** @param sourceAt a source, and the scope of the stream on which it answers this node group. */
  constructor(
    scope: string,
    { servedBy }: OldStyleSpec,
    sourceAt: (name: string) => { readonly source: Source; readonly scope: string } | undefined,
    groups: Groups,
  ) {
    this.scope = scope;
    this.#entries = servedBy.map((spec) => {
      const candidates = new Map<Source, Candidate>();
      for (const name of spec.sources) {
        const at = sourceAt(name);
        if (!at || candidates.has(at.source)) continue;
        const { source, scope: authority } = at;
        candidates.set(source, { source, authority, mapping: scopeMapping(scope, authority) });
      }
      return {
        spec,
        group: groups.make(oldStyleGroupId(spec.name, scope), spec, [...candidates.values()]),
      };
    });
  }

  get groups(): readonly FailoverGroup[] {
    return this.#entries.map(({ group }) => group);
  }

  /** Ids of the sources that answer this node group alone. */
  get ownSources(): ReadonlySet<string> {
    const sources = this.groups.flatMap(({ candidates }) => candidates.map(({ source }) => source));
    return new Set(sources.flatMap(({ id, name }) => (id === name ? [] : [id])));
  }

  /** What a group has, and another one before it serves. */
  shadowedCount(group: FailoverGroup): number {
    let count = 0;
    for (const { typeUrl, name } of group.servedResources()) {
      if (this.served(typeUrl, name)?.group !== group) count++;
    }
    return count;
  }

  servedResources(): readonly Projection[] {
    return this.groups.flatMap((group) => [...group.servedResources()]);
  }

  /** Nobody asks it anything, and nothing is kept for those who may come back. */
  get isIdle(): boolean {
    return this.groups.every(
      ({ demandCount, failover }) => demandCount === 0 && failover.kind === 'idle',
    );
  }

  /** Those that are asked for names of a type, in order. */
  groupsFor(typeUrl: string): readonly FailoverGroup[] {
    return this.#entries.flatMap(({ spec, group }) => (servesType(spec, typeUrl) ? [group] : []));
  }

  want(typeUrl: string, name: ResourceName, nowMs: number): void {
    if (!this.#answers.has(typeUrl, name.key)) this.#answers.set(typeUrl, name.key, new Map());
    for (const group of this.groupsFor(typeUrl)) group.want(typeUrl, name, nowMs);
  }

  unwant(typeUrl: string, name: ResourceName, nowMs: number): void {
    this.#answers.delete(typeUrl, name.key);
    for (const group of this.groupsFor(typeUrl)) group.unwant(typeUrl, name, nowMs);
  }

  /** Asks the sources about a name once more. */
  revalidate(typeUrl: string, name: ResourceName, nowMs: number): void {
    for (const group of this.groupsFor(typeUrl)) group.revalidate(typeUrl, name, nowMs);
  }

  /** What is served under a name, and by which group. */
  served(
    typeUrl: string,
    name: ResourceName,
  ): (Served & { readonly group: FailoverGroup }) | undefined {
    return this.#having(typeUrl, name)[0];
  }

  /**
   * Takes over what a node group of the same scope served before the map was changed.
   *
   * @returns what no entry serves any more.
   */
  adopt(before: NodeGroup): readonly Projection[] {
    for (const old of before.groups) {
      const heir = this.groups.find(({ spec }) =>
        spec.sources.some((source) => old.spec.sources.includes(source)),
      );
      heir?.adopt(old, () => true);
    }
    return before
      .servedResources()
      .filter(({ typeUrl, name }) => this.served(typeUrl, name) === undefined);
  }

  /** What watchers are told, now that one of the groups said this. */
  merge(group: FailoverGroup, event: GroupEvent): readonly GroupEvent[] {
    switch (event.kind) {
      case 'changed':
        return this.#mergeChanged(group, event.projection);
      case 'removed':
        return this.#mergeRemoved(group, event);
      case 'absent':
      case 'complete':
      case 'unavailable':
        return this.#mergeAnswer(group, event);
      default:
        return [event];
    }
  }

  #mergeChanged(group: FailoverGroup, projection: Projection): readonly GroupEvent[] {
    const { typeUrl, name } = projection;
    this.#answers.get(typeUrl, name.key)?.delete(group);
    const [first, ...others] = this.#having(typeUrl, name);
    // It went since then, or a group before this one has it.
    if (first?.group !== group) {
      return first ? [{ kind: 'shadowed', group, typeUrl, name }] : [];
    }
    return [
      { kind: 'changed', projection },
      ...others.map((other) => ({ kind: 'shadowed', group: other.group, typeUrl, name }) as const),
    ];
  }

  #mergeRemoved(
    group: FailoverGroup,
    event: Extract<ViewEvent, { kind: 'removed' }>,
  ): readonly GroupEvent[] {
    const { typeUrl, name } = event;
    this.#answers.get(typeUrl, name.key)?.set(group, { kind: 'absent', status: event.status });
    const first = this.served(typeUrl, name);
    if (!first) return [event];
    const isBehind = this.groups.indexOf(first.group) > this.groups.indexOf(group);
    return isBehind ? [{ kind: 'changed', projection: first.projection }] : [];
  }

  /**
   * Of what nobody has, "absent" is said only when all say so. A wildcard is complete when all but those
   * that cannot be asked are; it is no proof then, since these may have more.
   */
  #mergeAnswer(
    group: FailoverGroup,
    event: Extract<ViewEvent, { kind: Answer['kind'] }>,
  ): readonly GroupEvent[] {
    const { typeUrl, name } = event;
    const answers = this.#answers.get(typeUrl, name.key)?.set(group, event);
    if (!answers || this.served(typeUrl, name)) return [];
    const all = this.groupsFor(typeUrl).map((one) => answers.get(one));
    if (all.includes(undefined)) return [];
    const silent = all.some((answer) => answer?.kind === 'unavailable');
    const spoken = all.findLast((answer) => answer !== undefined && answer.kind !== 'unavailable');
    if (!spoken || (silent && !name.isGlob)) {
      const said = all.find((answer) => answer?.kind === 'unavailable' && answer.status);
      return [{ kind: 'unavailable', typeUrl, name, status: said?.status }];
    }
    if (!name.isGlob) return [{ kind: 'absent', typeUrl, name, status: spoken.status }];
    const isProof = all.every((answer) => answer?.isProof === true);
    const status = silent ? UNREACHABLE : spoken.status;
    return [{ kind: 'complete', typeUrl, name, isProof, status }];
  }

  #having(
    typeUrl: string,
    name: ResourceName,
  ): readonly (Served & { readonly group: FailoverGroup })[] {
    return this.groupsFor(typeUrl).flatMap((group) => {
      const served = group.served(typeUrl, name);
      return served ? [{ ...served, group }] : [];
    });
  }
}

/** Stable and readable, as an authority's group ids are. */
function oldStyleGroupId(entry: string, scope: string): string {
  return scope === COMMON_SCOPE ? entry : `${entry} ${scope}`;
}

/**
 * Old-style names of a simulated world: the entries of its map, the node of each client, and what
 * each source publishes for which node. Uses its own dice.
 */
import { DEFAULT_FAILOVER } from '../../config/defaults.js';
import type {
  AuthorityMap,
  GrpcSourceSpec,
  NodeSpec,
  OldStyleEntrySpec,
  SourceSpec,
} from '../../config/model.js';
import { scopeRuleOf } from '../../config/scope-rule.js';
import type { Extra } from './extras.js';
import { CDS, EDS, nameText, oldAuthority } from './names.js';
import { Random } from './random.js';
import {
  COMMON_NODE,
  differByOf,
  HEADER,
  MARKS,
  NODES,
  toldOf,
  type Mark,
  type Told,
} from './told-apart.js';

/** Share among the worlds without features that would have to know of nodes. */
const SHARE_OF_WORLDS = 0.4;
const NOT_BESIDE: readonly Extra[] = ['nats', 'ttls', 'files'];
const COMMON: NodeSpec = { id: COMMON_NODE, cluster: '' };

export class OldStyle {
  readonly map: AuthorityMap;
  /** What tells clients apart; the id of the Node if nothing does. */
  readonly mark: Mark;
  readonly #dice: Random;

  /**
   * @param beside the other features of the world; undefined: it has no old-style names.
   * @param hasMarks the world may have other marks than the id of the Node
   * @param isCertain the world has old-style names, whatever the dice say
   */
  constructor(
    seed: number,
    map: AuthorityMap,
    beside: ReadonlySet<Extra> | undefined,
    hasMarks: boolean,
    isCertain: boolean,
  ) {
    const mark = hasMarks ? new Random(seed, 'marks').pick(MARKS) : 'id';
    this.#dice = new Random(seed, 'old-style');
    const isThere = this.#dice.chance(SHARE_OF_WORLDS) || isCertain;
    const isAlone = beside !== undefined && !NOT_BESIDE.some((extra) => beside.has(extra));
    this.map = isThere && isAlone ? this.#extended(map, mark) : map;
    this.mark = differs(this.map) ? mark : 'id';
  }

  /** The node of the next client. */
  nextNode(): string | undefined {
    if (!this.map.oldStyle) return undefined;
    return differs(this.map) ? this.#dice.pick(NODES) : COMMON_NODE;
  }

  /** @param node of the client */
  toldOf(node: string | undefined): Told {
    return toldOf(this.mark, node ?? COMMON_NODE);
  }

  #extended(map: AuthorityMap, mark: Mark): AuthorityMap {
    const sources = new Map<string, SourceSpec>(map.sources);
    const [like] = map.sources.values();
    const count = this.#dice.pick([1, 2, 2]);
    const servedBy = Array.from({ length: count }, (_, index) => {
      const entry = this.#entry(index, map);
      // It sends every node the same resources, on one stream.
      const isCommon = index > 0 && this.#dice.chance(0.3);
      for (const name of entry.sources) {
        if (sources.has(name)) continue;
        const target = `${name}.example.com:443`;
        const node = isCommon ? { node: COMMON } : {};
        sources.set(name, { ...(like as GrpcSourceSpec), ...node, name, target });
      }
      return entry;
    });
    if (!this.#dice.chance(0.8)) return { ...map, sources, oldStyle: { differBy: [], servedBy } };
    if (mark === 'header') {
      for (const name of servedBy.flatMap((entry) => entry.sources)) {
        const spec = sources.get(name);
        if (spec?.kind === 'grpc' && !spec.node)
          sources.set(name, { ...spec, forwardHeaders: [HEADER] });
      }
    }
    const differBy = differByOf(mark);
    const servers = [...sources.values()].filter((spec) => spec.kind === 'grpc');
    const rule = scopeRuleOf(differBy, servedBy, servers);
    return { ...map, sources, oldStyle: { differBy, servedBy, ...(rule ? { rule } : {}) } };
  }

  #entry(index: number, map: AuthorityMap): OldStyleEntrySpec {
    const own = [`o${index}1`, `o${index}2`];
    const shared = index === 0 && this.#dice.chance(0.4) ? [...map.sources.keys()].slice(0, 1) : [];
    const holdMs = this.#dice.pick([2_000, 10_000]);
    return {
      name: `old-style/${index}`,
      sources: [...shared, ...own.slice(0, this.#dice.pick([1, 2]))],
      alternatives: [],
      failover: {
        ...DEFAULT_FAILOVER,
        holdMs,
        holdMaxMs: 3 * holdMs,
        holdResetMs: 20 * holdMs,
        switchWaitMs: 500,
        lingerMs: this.#dice.pick([1_000, 30_000]),
        deletionGuard: { share: 0.5, count: 10, waitMs: 5_000, then: 'proceed' },
      },
      ignoreDeletion: false,
      types: this.#dice.chance(0.2) ? [CDS, EDS] : undefined,
    };
  }
}

/** Does the map tell clients apart? */
const differs = ({ oldStyle }: AuthorityMap): boolean =>
  oldStyle !== undefined && (oldStyle.differBy.length > 0 || oldStyle.rule !== undefined);

interface Published {
  readonly types: readonly string[];
  readonly ids: readonly string[];
}

/** The names that a source may publish, for each node that it distinguishes. */
export function oldNamesOf(spec: Published, map: AuthorityMap, source: string): readonly string[] {
  const { servedBy = [] } = map.oldStyle ?? {};
  const entry = servedBy.find(({ sources }) => sources.includes(source));
  if (!entry) return [];
  const at = map.sources.get(source);
  const isCommon = !differs(map) || (at?.kind === 'grpc' && at.node !== undefined);
  const types = spec.types.filter((typeUrl) => entry.types?.includes(typeUrl) ?? true);
  return (isCommon ? [COMMON_NODE] : NODES).flatMap((node) =>
    types.flatMap((typeUrl) => spec.ids.map((id) => nameText(oldAuthority(node), typeUrl, id))),
  );
}

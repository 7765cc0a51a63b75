/**
 * A small random world for one seed: authorities, their sources and alternatives, names, types,
 * clients, settings, and the kinds of faults that are enabled. Each seed enables only some faults
 * (swarm testing): a seed with all of them at once finds less than many with a few each.
 */
import { DEFAULT_FAILOVER, DEFAULT_PROTOCOL, DEFAULT_TIMERS } from '../../config/defaults.js';
import type {
  AlternativeSpec,
  AuthorityMap,
  AuthoritySpec,
  FailoverPolicy,
  GrpcSourceSpec,
  SourceTimers,
} from '../../config/model.js';
import { AckHabits, type AckManners } from './ack-manners.js';
import { extrasOf, type Extra, type Part } from './extras.js';
import { FAULTS, LATER_FAULTS, type Fault } from './fault-kinds.js';
import { TYPES } from './names.js';
import { Random } from './random.js';
import { hasLateContent as startsLate } from './missing.js';
import { PieceHabits } from './pieces.js';
import { RARE, rareFeaturesOf, rareWorldOf, type RareWorld } from './rare-worlds.js';
import { LONG_SEEDS } from './seeds.js';
import { isWholeType } from './upstream-wire.js';
import { OldStyle } from './old-style.js';
import type { Mark, Told } from './told-apart.js';
import { makeRules } from './rights.js';
import { Flavours, type SotwManners, type SotwSettings } from './sotw-manners.js';

export interface ClientSpec {
  readonly name: string;
  /** Also sends the versions of glob members in `initial_resource_versions`; Envoy does not. */
  readonly resumesMembers: boolean;
  /** Responses that the connection buffers before the client must read. */
  readonly windowResponses: number;
  /** How it uses the state-of-the-world protocol; undefined: it uses delta. */
  readonly sotw: SotwManners | undefined;
  /** When it sends ACKs; undefined: at once and in order. */
  readonly acks: AckManners | undefined;
  /** Key of its Node in worlds with old-style names: the map separates clients by it. */
  readonly node: string | undefined;
  /** What it says of itself. */
  readonly told: Told;
}

export interface WorldSpec {
  readonly seed: number;
  readonly map: AuthorityMap;
  readonly types: readonly string[];
  /** Ids that are published and requested at every authority. */
  readonly ids: readonly string[];
  readonly instances: number;
  readonly clients: readonly ClientSpec[];
  /** What tells the clients of two nodes apart. */
  readonly mark: Mark;
  readonly faults: ReadonlySet<Fault>;
  /** Features that only some worlds have. */
  readonly extras: ReadonlySet<Extra>;
  /** Duration of the phase with faults. */
  readonly faultsMs: number;
  /** Mean time between two actions of the workload, and between two faults. */
  readonly workloadEveryMs: number;
  readonly faultEveryMs: number;
  readonly latencyMs: number;
  /** The types of names that may be redirects. */
  readonly redirects: readonly string[];
  readonly hasLists: boolean;
  /** Some lists have inline entries. */
  readonly hasEntries: boolean;
  /** Its kind, if it is made for one trouble. */
  readonly rare: RareWorld | undefined;
  /** Clients request globs and wildcards, and no single names. */
  readonly asksGlobsOnly: boolean;
  /** How long an instance keeps a subscription that no client has. */
  readonly unsubscribedLingerMs: number;
  /** Maximum number of such names. */
  readonly maxUnsubscribedNames: number;
  /** Authorities that clients request, but that the map lacks. */
  readonly strangers: readonly string[];
  readonly hasStateFile: boolean;
  /** Each machine keeps the content of its instances on its disk. */
  readonly keepsContent: boolean;
  readonly chunkBytes: number;
  readonly silentAbsentRoutes: boolean;
  readonly sotw: SotwSettings;
  /** Which servers split a response into several messages. */
  readonly pieces: PieceHabits;
  /** Some servers start without their full content. */
  readonly hasLateContent: boolean;
  /** Assignments have endpoints. */
  readonly hasEndpoints: boolean;
  /** Some servers start without endpoints. */
  readonly hasBareStarts: boolean;
  /**
   * Instances may start with a state file that is not their own, and clients resume in every way.
   */
  readonly hasColdStarts: boolean;
  /** Clients fall back to another server and return. */
  readonly hasFallbacks: boolean;
  /** Are the rules of cold starts and paced ACKs checked? */
  readonly hasColdRules: boolean;
  /** Requests of clients and responses of sources are handled name by name, and more happens in between. */
  readonly hasSmallPortions: boolean;
  /** A timer of an instance comes so much later than its last input, if it is due before. */
  readonly turnMs: number;
}

/** A message of a source may wait so many turns for others, since each has some portions. A count. */
export const WAITING_TURNS = 300;

export const ACK_DEADLINE_MS = 16_000;
/** Shortens the phase of faults in a world with many new features. */
const BUSY_SHARE = 0.6;

/** Ids are in three directories. An alternative may serve one of them, under another prefix. */
const IDS = ['x', 'y', 'e/x', 'e/y', 'f/x', 'f/y', 'g/1', 'g/2', 'g/3'];
const GLOBS = ['*', 'e/*', 'f/*', 'g/*'];

export const globsOf = (spec: WorldSpec): readonly string[] =>
  GLOBS.filter((glob) => spec.ids.some((id) => directoryOf(id) === directoryOf(glob)));

const directoryOf = (id: string): string => id.slice(0, id.lastIndexOf('/') + 1);

/**
 * @param switchedOff faults, extras and parts to leave out: a recorded seed found its bug before
 * they existed.
 */
export function makeWorld(seed: number, switchedOff: ReadonlySet<string>): WorldSpec {
  const dice = new Random(seed, 'world');
  const faultDice = new Random(seed, 'swarm');
  const share = faultDice.pick([0, 0.15, 0.3, 0.6]);
  const fallen: Fault[] = FAULTS.filter(() => faultDice.chance(share));
  fallen.push(...LATER_FAULTS.filter((fault) => new Random(seed, fault).chance(share)));
  const has = (part: Part): boolean => !switchedOff.has(part);
  const rare = rareWorldOf(seed, has);
  const kind = rare && RARE[rare];
  const isLossy =
    kind?.isLossy === true || (has('losses') && new Random(seed, 'losses').chance(0.1));
  if (isLossy && !fallen.includes('forget')) fallen.push('forget');
  const faults = new Set((kind?.faults ?? fallen).filter((fault) => !switchedOff.has(fault)));
  const extras = extrasOf(seed, new Set([...switchedOff, ...(kind?.notBeside ?? [])]));
  const alone = isLossy ? withoutAlternatives(makeMap(dice)) : makeMap(dice);
  const plain = kind?.mapOf?.(alone) ?? alone;
  const map = extras.has('files') ? withDirectories(plain, new Random(seed, 'files')) : plain;
  const flavours = new Flavours(seed, has('sotw'));
  const besides = has('old_style') ? extras : undefined;
  const oldStyle = new OldStyle(seed, map, besides, has('marks'), rare === 'wildcards');
  const ordinary = typesOf(dice);
  const types = kind?.types ? new Random(seed, 'types of a kind').pick(kind.types) : ordinary;
  const served = has('sotw_sources')
    ? withSotwSources(oldStyle.map, new Random(seed, 'sotw sources'), kind?.hasSotwSources)
    : oldStyle.map;
  const isPlain = served === oldStyle.map;
  const mayHaveLists = has('lists') && (isPlain || has('sotw_lists'));
  const hasSotwRedirects = has('sotw_redirects') && new Random(seed, 'redirects').chance(0.5);
  // A redirect to a name that a source of the state of the world lacks is answered only in types
  // with whole sets (docs/SPEC.md).
  const redirects = isPlain ? types : hasSotwRedirects ? types.filter(isWholeType) : [];
  const habits = new AckHabits(seed, has('late_acks'), types);
  const hasSmallPortions = has('portions') && new Random(seed, 'portions').chance(0.2);
  const spec = {
    seed,
    map: served,
    types,
    ids: dice.chance(0.3) ? IDS : dice.some(IDS, 0.6).concat('e/x', 'g/1').filter(isFirst),
    instances: dice.pick([1, 1, 2, 2, 3]),
    clients: Array.from({ length: dice.between(1, 4) }, (_, index) => {
      const node = oldStyle.nextNode();
      return {
        name: `client${index}`,
        resumesMembers: dice.chance(0.4),
        windowResponses: dice.pick([1, 2, 8]),
        sotw: flavours.next(),
        acks: habits.next(),
        node,
        told: oldStyle.toldOf(node),
      };
    }),
    mark: oldStyle.mark,
    faults,
    extras,
    faultsMs: dice.pick(
      LONG_SEEDS.includes(seed)
        ? [20_000, 60_000, 120_000, 240_000]
        : [20_000, 45_000, 80_000, 150_000],
    ),
    workloadEveryMs: dice.pick([300, 1_000, 3_000]),
    faultEveryMs: dice.pick([2_000, 5_000, 15_000]),
    latencyMs: dice.pick([1, 10, 100]),
    redirects: dice.chance(0.4) ? redirects : [],
    rare,
    asksGlobsOnly: false,
    unsubscribedLingerMs: has('no_linger')
      ? new Random(seed, 'linger').pick([0, 30_000, 30_000])
      : 30_000,
    maxUnsubscribedNames: has('few_kept') && new Random(seed, 'kept').chance(0.1) ? 2 : 1_000,
    hasLists: mayHaveLists && new Random(seed, 'has lists').chance(0.25),
    hasEntries: has('entries') && new Random(seed, 'has entries').chance(0.5),
    strangers: dice.chance(0.2) ? ['stranger'] : [],
    hasStateFile: dice.chance(0.6),
    keepsContent: has('content') && new Random(seed, 'content').chance(0.3),
    chunkBytes: dice.pick([1, 400, 1_000_000, 1_000_000]),
    silentAbsentRoutes: dice.chance(0.3),
    sotw: flavours.settings,
    hasLateContent: startsLate(seed, has('late_content')),
    hasEndpoints: has('endpoints'),
    hasBareStarts: has('endpoints') && has('bare_starts'),
    hasColdStarts: has('cold_starts') && new Random(seed, 'has cold starts').chance(0.3),
    hasFallbacks: has('fallback') && new Random(seed, 'has fallbacks').chance(0.3),
    hasColdRules: has('cold_rules'),
    hasSmallPortions,
    turnMs: hasSmallPortions ? new Random(seed, 'turns').pick([1, 200]) : 1,
  };
  const pieces = new PieceHabits(seed, has('pieces'), oldStyle.map, spec.latencyMs);
  const { hasLateContent, hasColdStarts, hasFallbacks } = spec;
  const isBusy = habits.areThere || pieces.areThere || hasLateContent || hasColdStarts;
  // Such a world has more events per second.
  const faultsMs = isBusy || hasFallbacks ? BUSY_SHARE * spec.faultsMs : spec.faultsMs;
  const hasRights = has('rights') && !spec.hasLists && spec.map.oldStyle === undefined;
  const whole = { ...(hasRights ? withRights(spec) : spec), faultsMs, pieces };
  return { ...whole, ...rareFeaturesOf(whole) };
}

/** In some worlds, clients may ask for different names. */
function withRights<Spec extends Pick<WorldSpec, 'seed' | 'map' | 'clients'>>(spec: Spec): Spec {
  const dice = new Random(spec.seed, 'rights');
  if (!dice.chance(0.3)) return spec;
  const names = spec.clients.map(({ name }) => name);
  return { ...spec, map: { ...spec.map, clients: makeRules(dice, spec.map, names) } };
}

const isFirst = (id: string, at: number, all: readonly string[]): boolean => all.indexOf(id) === at;

function typesOf(dice: Random): readonly string[] {
  if (dice.chance(0.4)) return TYPES;
  const [cds, eds, lds, rds] = TYPES as [string, string, string, string];
  return dice.pick([[cds, eds], [cds], [lds, rds], [cds, eds, lds], [eds], [rds]]);
}

const NAMES = ['a', 'b', 'c'] as const;

function makeMap(dice: Random): AuthorityMap {
  const timers = makeTimers(dice);
  const count = dice.pick([1, 2, 2, 2, 3]);
  const authorities = new Map<string, AuthoritySpec>();
  for (const name of NAMES.slice(0, count)) {
    const others = NAMES.slice(0, count).filter((other) => other !== name);
    authorities.set(name, makeAuthority(dice, name, others));
  }
  const sources = new Map<string, GrpcSourceSpec>();
  for (const spec of authorities.values()) {
    for (const source of spec.sources) sources.set(source, sourceSpec(source, timers));
  }
  return { sources, authorities };
}

/** Content that a source loses is in no other source. */
function withoutAlternatives({ sources, authorities }: AuthorityMap): AuthorityMap {
  const alone = [...authorities].map(([name, spec]) => {
    return [name, { ...spec, sources: spec.sources.slice(0, 1), alternatives: [] }] as const;
  });
  return { sources, authorities: new Map(alone) };
}

/** Turns some sources into directories, but not all. */
function withDirectories(
  { sources, authorities, ...rest }: AuthorityMap,
  dice: Random,
): AuthorityMap {
  const changed = new Map(sources);
  for (const name of [...sources.keys()].slice(dice.below(2))) {
    const path = { kind: 'path', name, path: `/${name}` } as const;
    if (dice.chance(0.5)) changed.set(name, path);
  }
  const [[first, spec] = []] = sources;
  const isAll = [...changed.values()].every(({ kind }) => kind === 'path');
  if (isAll && first !== undefined && spec) changed.set(first, spec);
  return { ...rest, sources: changed, authorities };
}

/** Some management servers speak state of the world. */
function withSotwSources(map: AuthorityMap, dice: Random, isAll = false): AuthorityMap {
  const share = isAll ? 1 : dice.pick([0, 0, 0, 0.5, 1]);
  if (share === 0) return map;
  const changed = [...map.sources].map(([name, spec]) => {
    const isSotw = spec.kind === 'grpc' && dice.chance(share);
    return [name, isSotw ? { ...spec, apiType: 'AGGREGATED_GRPC' as const } : spec] as const;
  });
  return { ...map, sources: new Map(changed) };
}

function sourceSpec(name: string, timers: SourceTimers): GrpcSourceSpec {
  return {
    kind: 'grpc',
    name,
    ...DEFAULT_PROTOCOL,
    target: `${name}.example.com:443`,
    tls: null,
    initialMetadata: [],
    channelArgs: {},
    maxReceiveBytes: 16 * 1_024 * 1_024,
    timers,
  };
}

function makeAuthority(dice: Random, name: string, others: readonly string[]): AuthoritySpec {
  const sources = dice.chance(0.4) ? [`${name}1`, `${name}2`] : [`${name}1`];
  // Another authority's source serves these names too.
  if (others.length > 0 && dice.chance(0.15)) sources.push(`${dice.pick(others)}1`);
  const alternatives: AlternativeSpec[] = [];
  if (others.length > 0 && dice.chance(0.6)) {
    const authority = dice.pick(others);
    const one = dice.pick([
      { fromPrefix: '', toPrefix: '' },
      { fromPrefix: 'e/', toPrefix: 'e/' },
      { fromPrefix: 'e/', toPrefix: 'f/' },
      { fromPrefix: 'g/', toPrefix: '' },
    ]);
    alternatives.push({ authority, ...one });
  }
  return {
    name,
    sources,
    alternatives,
    failover: makePolicy(dice),
    ignoreDeletion: dice.chance(0.06),
    mayLeadTo: dice.some(others, 0.5),
  };
}

function makePolicy(dice: Random): FailoverPolicy {
  const holdMs = dice.pick([2_000, 10_000, 30_000]);
  return {
    ...DEFAULT_FAILOVER,
    useAlternativeWhen: dice.pick([
      { kind: 'unreachable' },
      { kind: 'unreachable' },
      { kind: 'uncached' },
      { kind: 'stale_after', staleAfterMs: 5_000 },
    ] as const),
    holdMs,
    holdMaxMs: 3 * holdMs,
    holdResetMs: 20 * holdMs,
    // Not picked, so that each seed keeps its world.
    coldWaitMs: holdMs / 2,
    switchWaitMs: dice.pick([500, 2_000]),
    prewarm: dice.pick(['off', 'off', 'connected', 'subscribed'] as const),
    lingerMs: dice.pick([1_000, 30_000]),
    deletionGuard: {
      share: 0.5,
      count: dice.pick([1, 3, 10]),
      waitMs: dice.pick([5_000, 60_000]),
      then: dice.chance(0.8) ? 'proceed' : 'keep',
    },
  };
}

/** Timers of every management server. */
export function timersOf({ map }: WorldSpec): SourceTimers {
  const server = [...map.sources.values()].find((source) => source.kind === 'grpc');
  if (!server) throw new Error('no source is a management server');
  return server.timers;
}

function makeTimers(dice: Random): SourceTimers {
  return {
    ...DEFAULT_TIMERS,
    refusedRetryMs: 60_000,
    minStableMs: dice.pick([5_000, 30_000]),
    backoffMaxMs: dice.pick([5_000, 30_000]),
    lingerMs: dice.pick([1_000, 30_000]),
  };
}

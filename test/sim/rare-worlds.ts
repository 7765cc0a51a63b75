/**
 * Kinds of worlds that are made for one trouble, where it takes several features that few other worlds
 * have together. Uses its own dice, so all other worlds stay as they are.
 *
 * - `set_losses`: sources of the state of the world, each alone for its names, lose everything.
 * - `cold_sets`: such sources restart without content together with the gateway, which has a state file.
 * - `wildcards`: clients request the wildcard of old-style names, and no other such name, of such
 *   sources, and leave it before it is answered (`wildcard-toggles.ts`).
 * - `roll_backs`: clusters change and change back (`roll-backs.ts`) while their clients acknowledge no
 *   endpoints.
 */
import type { AuthorityMap } from '../../config/model.js';
import type { AckManners } from './ack-manners.js';
import { RARE_PARTS, type Extra, type Part } from './extras.js';
import type { Fault } from './fault-kinds.js';
import { CDS, EDS, LDS, RDS } from './names.js';
import { Random } from './random.js';
import type { SotwSettings } from './sotw-manners.js';

export type RareWorld = (typeof RARE_PARTS)[number];

/** What a kind has instead of what the dice gave the world. */
interface Kind {
  /** It needs these parts. */
  readonly needs: readonly Part[];
  readonly faults: readonly Fault[];
  /** Features that would keep the trouble away. */
  readonly notBeside: readonly Extra[];
  /** One of these. */
  readonly types: readonly (readonly string[])[];
  /** All of its management servers speak state of the world. */
  readonly hasSotwSources: boolean;
  /** What a source loses is in no other source. */
  readonly isLossy: boolean;
  readonly mapOf?: (map: AuthorityMap) => AuthorityMap;
}

const SHARE_OF_WORLDS = 0.03;

export const RARE: Readonly<Record<RareWorld, Kind>> = {
  set_losses: {
    needs: ['losses', 'sotw_sources'],
    faults: ['forget', 'cut'],
    notBeside: ['files'],
    types: [[CDS], [LDS]],
    hasSotwSources: true,
    isLossy: true,
  },
  cold_sets: {
    needs: ['losses', 'sotw_sources', 'late_content', 'cold_starts'],
    faults: [],
    notBeside: ['files', 'disk', 'clocks'],
    types: [
      [CDS, EDS],
      [LDS, RDS],
    ],
    hasSotwSources: true,
    isLossy: true,
    mapOf: withHighGuards,
  },
  wildcards: {
    needs: ['old_style', 'sotw_sources', 'no_linger'],
    faults: [],
    notBeside: ['nats', 'ttls', 'files'],
    types: [
      [CDS, EDS],
      [LDS, RDS],
    ],
    hasSotwSources: true,
    isLossy: false,
  },
  roll_backs: {
    needs: ['late_acks'],
    faults: ['cut'],
    notBeside: ['files'],
    types: [[CDS, EDS]],
    hasSotwSources: false,
    isLossy: false,
  },
};

/** @param has may the world have this part? */
export function rareWorldOf(seed: number, has: (part: Part) => boolean): RareWorld | undefined {
  return RARE_PARTS.find((kind) => {
    const mayBe = has(kind) && RARE[kind].needs.every(has);
    return mayBe && new Random(seed, kind).chance(SHARE_OF_WORLDS);
  });
}

/** The guard acts only if all is lost that its source can prove to be gone. */
function withHighGuards(map: AuthorityMap): AuthorityMap {
  const authorities = [...map.authorities].map(([name, spec]) => {
    const deletionGuard = { ...spec.failover.deletionGuard, count: 10 };
    return [name, { ...spec, failover: { ...spec.failover, deletionGuard } }] as const;
  });
  return { ...map, authorities: new Map(authorities) };
}

/** In one directory: the client of its glob holds most of what a source has. */
const DIRECTORY = {
  ids: ['g/1', 'g/2', 'g/3', 'g/4', 'g/5', 'g/6'],
  asksGlobsOnly: true,
} as const;
/** Sources publish little, so that nothing else repairs the harm. */
const CALM = { faultsMs: 120_000, workloadEveryMs: 30_000 } as const;

interface Ordinary<Client> {
  readonly rare: RareWorld | undefined;
  readonly clients: readonly Client[];
  readonly sotw: SotwSettings;
}

/** @returns what replaces the features of the world */
export function rareFeaturesOf<Client extends object>({ rare, clients, sotw }: Ordinary<Client>) {
  switch (rare) {
    case 'set_losses':
      return { ...DIRECTORY, hasLateContent: false };
    case 'cold_sets': {
      const restarts = { hasStateFile: true, hasLateContent: true, hasColdStarts: true };
      const together = { instances: 1, faultEveryMs: 5_000, hasFallbacks: false };
      return { ...DIRECTORY, ...CALM, ...restarts, ...together };
    }
    case 'wildcards':
      // A stream that ends as unanswerable, again and again, would be no trouble of the source.
      return { ...CALM, unsubscribedLingerMs: 0, sotw: { ...sotw, endsUnanswerable: false } };
    case 'roll_backs':
      // Few ids: clients have clusters together with their endpoints.
      return { ids: ['x', 'y'], clients: clients.map(withoutAcksOfEndpoints) };
    case undefined:
      return {};
  }
}

/** Until the faults are healed. */
function withoutAcksOfEndpoints<Client extends object>(client: Client) {
  const late = { staysMute: false, lateShare: 0, lateMs: 0, keepsOrder: true };
  const acks: AckManners = { ...late, mutedType: EDS };
  return { ...client, sotw: undefined, acks };
}

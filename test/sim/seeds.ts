/** Seeds that once found something, run first for ever. What each found stands beside it. */
import { EXTRAS, LATE_PARTS, PARTS } from './extras.js';

/** A seed, and what its world has to do without. */
export interface SeedSpec {
  readonly seed: number;
  /** Faults, extras and parts. */
  readonly without: readonly string[];
}

/** Worlds lasted longer when these did, and these still do. */
export const LONG_SEEDS: readonly number[] = [
  10, // a circle of redirects that nobody asks for any more stayed watched
  34, // a member that became a redirect to nothing was not removed
  52, // who came second to a redirect to nothing was not answered
  1079, // those behind a circle of redirects stayed behind it when it ended
  1081, // a member left as a name came twice in one answer of several responses
  1268, // a redirect told to nobody was followed for ever
  2592, // a name that a client held as a member was removed beside additions
  2848, // and so was one that it left as a name
  3067, // a redirect that replaced one to itself
  10627, // a name that the client never had was no news when it came as a member
  40016, // the answer to a name passed for the whole answer to its glob, asked meanwhile
  984, // a glob of which an alternative has only redirects to nothing was told to be empty
  4768, // a redirect told to nobody was served as it is to who asked next
  1312, // a cluster that changed and changed back was not followed by its assignment
  232, // a placeholder came back when the content went that it had stood in for
  9824, // a glob asked for again was not sent again what a resume had named
  4417, // a response on its way when its glob was left and asked again passed for the whole answer
  7590, // and so did one on its way for a name that was left when its glob was asked
  834, // what a resuming client was told to be gone was not sent when it returned as it was
  8302, // a resumed member of another authority than its list's was forgotten
  5774, // a route that was asked for again went silently, though it had been sent
  26, // what a guard held back outlived its TTL
  1979, // and so did what was kept over a reload
  // Who asked for names that did not exist never learned by digests that they do; and a third instance,
  // as late as we are, undid what another one had told.
  188,
  197, // of a file that was half written when we started all names were told absent
  1426, // what was kept of a collection that its primary answered late stayed for ever
];

const plain = (seed: number): SeedSpec => ({ seed, without: [] });

/**
 * Worlds became richer, and what a seed shows is in the world that it had. Whoever adds a part switches
 * it off here for seeds that would lose what they found by it.
 */
const SIMPLE = [...EXTRAS, ...PARTS];

const KEPT: readonly SeedSpec[] = [
  ...LONG_SEEDS.map((seed) => ({ seed, without: ['losses'] })),
  { seed: 4417, without: SIMPLE },
  { seed: 7590, without: [...SIMPLE, 'lie'] },
  { seed: 40016, without: [...SIMPLE, 'lie'] },
  { seed: 834, without: SIMPLE },
  { seed: 8302, without: SIMPLE.filter((part) => part !== 'lists') },
  // A route that went as a member was left with who had it, where its own absence is silent.
  { seed: 2505, without: [...SIMPLE, 'lie'] },
  plain(903144), // a route that was left and asked for again while it was on its way stayed when it went
  plain(1012575), // and so did one that was on its way as a member of a glob that was left
  // A name that a client held from before, and left before it was answered, stayed as a member of its glob.
  plain(501477),
  plain(412772), // what a tripped source had answered was told to be out of reach when its alternative tripped
  plain(229136), // a member that was back was told removed, when its collection was left
  plain(116672), // who came to a circle of redirects was not told when it ended where it began
  plain(119190), // a glob in doubt counted as whole before a slow source had answered
  // Streams were ended before a collection in doubt was whole, each time anew: their clients had no response.
  plain(138470),
  plain(141625),
  plain(83519), // a member that changed before it was sent for the first time was not new to its client
  // A bit that the disk flipped in the state file removed a name that nobody had; 83995 did while the file
  // was shorter by its digest.
  plain(4659),
  plain(94463), // what was on its way for a name that was left answered for the glob asked beside it
  // What was guarded already did not count with what went next.
  { seed: 52019, without: [...EXTRAS, 'lists', 'lie'] },
  // With state-of-the-world clients and old-style names, the same as the first three of these.
  { seed: 2053, without: ['losses'] },
  { seed: 6546, without: ['losses'] },
  { seed: 10332, without: ['losses'] }, // what a glob had before it was answered stayed in the version when it was left
  plain(62154), // who connected right after another one's digest was answered was not told what it missed
  // The answer to a name that does not exist passed for that to the wildcard asked meanwhile: all went.
  plain(64535),
  { seed: 51803, without: [...EXTRAS, 'lists', 'lie'] },
  { seed: 53799, without: [...EXTRAS, 'lists', 'lie'] },
  // What was on its way to a name that was left stayed, deleted, as a member of a glob asked meanwhile.
  { seed: 51082, without: [...EXTRAS, 'lists', 'lie'] },
];

/** They are all from before these parts. */
export const KEPT_SEEDS: readonly SeedSpec[] = KEPT.map(({ seed, without }) => ({
  seed,
  without: [...new Set([...without, 'few_kept', ...LATE_PARTS])],
}));

export function seedsFrom(first: number, count: number): readonly SeedSpec[] {
  return Array.from({ length: count }, (_, index) => plain(first + index));
}

/** The command that runs it alone. */
export function replayOf({ seed, without }: SeedSpec): string {
  const switches = without.length === 0 ? '' : ` --without ${without.join()}`;
  return `npm run sim -- --seed ${seed}${switches}`;
}

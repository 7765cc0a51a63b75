/** Seeds that once found a bug and run first for ever, each with the bug that it found. */
import {
  EXTRAS,
  LATE_PARTS,
  LATEST_PARTS,
  CONTENT_PARTS,
  ENDPOINT_PARTS,
  LIST_PARTS,
  PARTS,
  PORTION_PARTS,
  RARE_PARTS,
  RIGHTS_PARTS,
  VARIANT_PARTS,
} from './extras.js';

/** A seed, and the features that its world leaves out. */
export interface SeedSpec {
  readonly seed: number;
  /** Faults, extras and parts. */
  readonly without: readonly string[];
}

/** Found when worlds ran for longer; these seeds still do. */
export const LONG_SEEDS: readonly number[] = [
  10, // a cycle of redirects stayed watched after its last client left
  34, // a member that became a redirect to nothing was not removed
  52, // the second subscriber of a redirect to nothing got no response
  1079, // redirects that lead to a cycle kept its problem after the cycle ended
  1081, // a member unsubscribed as a name came twice in a response of several parts
  1268, // a redirect without watchers was followed for ever
  2592, // a name that a client held as a member was removed beside additions
  2848, // so was a member that the client unsubscribed as a name
  3067, // a redirect that replaced a redirect to itself
  10627, // a name that the client never had did not count as new when it came as a member
  40016, // the response to a name counted as that to its glob, subscribed meanwhile
  984, // a glob was reported empty because an alternative had only redirects to nothing in it
  4768, // a redirect without watchers was itself served to the next subscriber
  1312, // a cluster that changed and changed back was not followed by its assignment
  232, // a placeholder returned when the content that replaced it was removed
  9824, // subscribing a glob again did not resend the resources that a resume had claimed
  4417, // a response on its way when its glob was resubscribed counted as the complete response
  7590, // so did one on its way for a name unsubscribed when its glob was subscribed
  834, // a resource that was removed at a resume was not sent when it returned unchanged
  8302, // a resumed member of another authority than its list's was forgotten
  5774, // a route that was subscribed again got no removal, though it had been sent
  26, // content held back by the deletion guard outlived its TTL
  1979, // so did content kept over a reload
  // Subscribers of names that did not exist never learned from digests that they exist now; and a
  // third instance, as stale as this one, undid what another had sent.
  188,
  197, // a file that was half written at the start made all its names absent
  1426, // kept members stayed for ever when the primary answered their collection late
];

const plain = (seed: number): SeedSpec => ({ seed, without: [] });

/**
 * Worlds gain features, and a seed shows its bug only in the world that it had. A new feature is
 * left out here for every seed that would lose its bug by it.
 */
const SIMPLE = [...EXTRAS, ...PARTS];

const KEPT: readonly SeedSpec[] = [
  ...LONG_SEEDS.map((seed) => ({ seed, without: ['losses'] })),
  { seed: 4417, without: SIMPLE },
  { seed: 7590, without: [...SIMPLE, 'lie'] },
  { seed: 40016, without: [...SIMPLE, 'lie'] },
  { seed: 834, without: SIMPLE },
  { seed: 8302, without: SIMPLE.filter((part) => part !== 'lists') },
  // A route removed as a member stayed with clients for which its own absence is silent.
  { seed: 2505, without: [...SIMPLE, 'lie'] },
  plain(903144), // a route resubscribed while it was on its way stayed after its removal
  plain(1012575), // so did one on its way as a member of an unsubscribed glob
  // A name held from before and unsubscribed before its response stayed as a member of its glob.
  plain(501477),
  plain(412772), // names answered by a tripped source became UNAVAILABLE when its alternative tripped
  plain(229136), // a member that had returned was removed when its collection was unsubscribed
  plain(116672), // a watcher behind a cycle of redirects got no event when the cycle ended
  plain(119190), // a doubted glob counted as whole before a slow source had responded
  // Streams were ended again and again before a doubted collection was whole: clients had no
  // response.
  plain(138470),
  plain(141625),
  plain(83519), // a member that changed before it was first sent was not new to its client
  // A bit flip in the state file removed a name that no source had. 83995 did the same while the
  // file had no digest.
  plain(4659),
  plain(94463), // a response for an unsubscribed name answered the glob subscribed with it
  // Names already held by the deletion guard did not count with the next ones.
  { seed: 52019, without: [...EXTRAS, 'lists', 'lie'] },
  // With state-of-the-world clients and old-style names, like the first three of these.
  { seed: 2053, without: ['losses'] },
  { seed: 6546, without: ['losses'] },
  { seed: 10332, without: ['losses'] }, // members held before a glob's response stayed in the version
  plain(62154), // an instance that connected after a digest reply to another missed the changes
  // The response to a name that does not exist emptied the wildcard subscribed meanwhile.
  plain(64535),
  { seed: 51803, without: [...EXTRAS, 'lists', 'lie'] },
  { seed: 53799, without: [...EXTRAS, 'lists', 'lie'] },
  // A response on its way for an unsubscribed name stayed, deleted, as a member of a glob.
  { seed: 51082, without: [...EXTRAS, 'lists', 'lie'] },
];

/** Found with all features. */
const LATEST: readonly SeedSpec[] = [
  plain(409), // removals did not wait for the last response of several that brought something new
  // Each finds a bug that is planted in cold starts, and that the first seeds do not find.
  plain(2096),
  plain(2636), // the same for members of a glob that are subscribed by name
  plain(4283),
  plain(4527),
  plain(5114), // a member subscribed by name answered its glob
  plain(7808),
  plain(9200), // the same for the members of a resumed list
  plain(21164), // a collection whose parts came for longer than the quiet time counted as whole
];

/** Found with sources of the state of the world. */
const OF_SOTW_SOURCES: readonly SeedSpec[] = [
  plain(741), // a name that was left delayed the answer of its collection
  // A collection that its source never proves to be whole held up the removal of all other claims.
  plain(2301),
  plain(2867),
  plain(9584),
  plain(2677), // a member whose TTL ended here, and not at its source, never came back
  plain(5003), // the same for a type without whole sets
];

const withoutPortions = (seed: number): SeedSpec => ({ seed, without: PORTION_PARTS });

/** Found with rules for clients, or once the other worlds had them beside such sources. */
const OF_RIGHTS: readonly SeedSpec[] = [
  // A member that was removed and came back before its client was sent either stayed after its right.
  withoutPortions(6800),
  withoutPortions(8541),
  withoutPortions(9707), // a right that came and went brought an unchanged set
  // Routes that a source can never prove to be gone hid that it had lost everything else.
  withoutPortions(4214),
];

/** Found with entries of lists. */
const OF_LISTS: readonly SeedSpec[] = [
  // The entry of a list whose source was away for a while stayed unknown, and held up all listeners.
  withoutPortions(1111),
];

/** Found with all features, when hundreds of thousands of seeds ran. */
const OF_LONG_RUNS: readonly SeedSpec[] = [
  // A member of a collection that was never whole stayed for ever: its own name was unsubscribed on the next stream.
  plain(6004814),
];

/** Found with endpoints, and with sources that start without any. */
const OF_ENDPOINTS: readonly SeedSpec[] = [
  plain(459), // an assignment that never had endpoints seemed to show that its source had found the others
  plain(787), // so did members that the source had not sent yet
  plain(301859), // a claimed name that was removed for a reason hid that the source had lost all others
  plain(4783), // what the primary has stayed unknown when the endpoints of its alternative expired
];

/** Found with all features. */
const OF_VARIANTS: readonly SeedSpec[] = [
  plain(54291), // names that a resuming client gave up hid that its source had lost all others
  plain(25423), // a member that was subscribed by its name too counted twice, and hid that another one was lost
  plain(12159), // a name that no source had hid that a collection of a resuming client had lost all members
  plain(301796), // a collection that was subscribed again while a set was read in portions counted as whole without its first part
  plain(421393), // a claim that its client subscribed again hid that a cold source had lost all others
];

const AFTER_LISTS = [...CONTENT_PARTS, ...RARE_PARTS, ...ENDPOINT_PARTS];
const AFTER_RIGHTS = [...LIST_PARTS, ...AFTER_LISTS];
const AFTER_SOTW_SOURCES = [...LATEST_PARTS, ...RIGHTS_PARTS, ...PORTION_PARTS, ...AFTER_RIGHTS];
const AFTER_LATEST = [...VARIANT_PARTS, ...AFTER_SOTW_SOURCES];

/** The earlier ones are from before these features. */
export const KEPT_SEEDS: readonly SeedSpec[] = [
  ...KEPT.map(({ seed, without }) => ({
    seed,
    without: [...new Set([...without, 'few_kept', ...LATE_PARTS, ...AFTER_LATEST])],
  })),
  ...LATEST.map(({ seed }) => ({ seed, without: AFTER_LATEST })),
  ...OF_SOTW_SOURCES.map(({ seed }) => ({ seed, without: AFTER_SOTW_SOURCES })),
  ...OF_RIGHTS.map(({ seed, without }) => ({ seed, without: [...without, ...AFTER_RIGHTS] })),
  ...OF_LISTS.map(({ seed, without }) => ({ seed, without: [...without, ...AFTER_LISTS] })),
  ...OF_LONG_RUNS.map(({ seed, without }) => ({ seed, without: [...without, ...ENDPOINT_PARTS] })),
  ...OF_ENDPOINTS,
  ...OF_VARIANTS,
].map(({ seed, without }) => ({ seed, without: [...without, 'spoil'] }));

/** @param without features that the worlds leave out */
export function seedsFrom(
  first: number,
  count: number,
  without: readonly string[] = [],
): readonly SeedSpec[] {
  return Array.from({ length: count }, (_, index) => ({ seed: first + index, without }));
}

/** The command that runs this seed alone. */
export function replayOf({ seed, without }: SeedSpec): string {
  const switches = without.length === 0 ? '' : ` --without ${without.join()}`;
  return `npm run sim -- --seed ${seed}${switches}`;
}

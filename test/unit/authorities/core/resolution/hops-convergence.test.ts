/**
 * Goal: whatever redirects, lists, alternatives, faults and maps do, in the end every watcher holds
 * exactly the content of the primaries, sources have only needed subscriptions, and faults alone
 * remove nothing.
 * Method: random histories (fast-check prints the seed), compared with an oracle that resolves
 * names by a plain walk over the published content.
 */
import fc from 'fast-check';
import t from 'tap';
import type { AuthorityMap } from '../../../../../config/model.js';
import {
  inlineEntry,
  listBytes,
  REDIRECT,
  textEntry,
} from '../../../../support/collection-messages.js';
import { textLocatorBytes } from '../../../../support/collection-messages.js';
import type { RecordingWatcher } from '../../../../support/federation-driver.js';
import { FederationDriver, mapOf, THING, thing } from '../../../../support/federation-driver.js';

const LISTS = `${THING}Collection`;
const listName = (authority: string, id: string): string =>
  `xdstp://${authority}/test.v1.ThingCollection/${id}`;

const SOURCES = { cloud: 'c', onprem: 'o', third: 't' } as const;
type Authority = keyof typeof SOURCES;
const AUTHORITIES = Object.keys(SOURCES) as readonly Authority[];
const IDS = ['a', 'b', 'g/x', 'g/y'];
const NAMES = AUTHORITIES.flatMap((authority) => IDS.map((id) => thing(authority, id)));
/** A list leads only to later ones in this order: where a cycle is cut depends on history. */
const LIST_NAMES = [
  listName('cloud', 'l1'),
  listName('cloud', 'l2'),
  listName('onprem', 'l1'),
  listName('third', 'l1'),
];
const GLOBS = AUTHORITIES.map((authority) => thing(authority, 'g/*'));
const WATCHED = [
  thing('cloud', 'a'),
  thing('cloud', 'g/x'),
  thing('cloud', 'g/*'),
  `${thing('cloud', 'a')}#alt=${thing('onprem', 'b')}`,
  `${thing('cloud', 'b')}#alt=${thing('onprem', 'b')}%23alt=${thing('third', 'a')}`,
  thing('onprem', 'a'),
  LIST_NAMES[0]!,
  LIST_NAMES[1]!,
  `${LIST_NAMES[1]!}#entry=x`,
  LIST_NAMES[2]!,
];

type Leads = Partial<Record<Authority, readonly Authority[]>>;
function map(leads: Leads, withAlternative: boolean, without?: Authority): AuthorityMap {
  const all = AUTHORITIES.filter((authority) => authority !== without);
  const entries = all.map((authority) => [
    authority,
    {
      sources: [SOURCES[authority]],
      mayLeadTo: (leads[authority] ?? []).filter((one) => one !== without),
      ...(authority === 'cloud' && withAlternative && { alternatives: [{ authority: 'onprem' }] }),
    },
  ]);
  return mapOf({ authorities: Object.fromEntries(entries) as Record<string, never> });
}
const OPEN: Leads = {
  cloud: ['onprem', 'third'],
  onprem: ['cloud', 'third'],
  third: ['cloud', 'onprem'],
};
const MAPS = [
  map(OPEN, true),
  map(OPEN, false),
  map({ cloud: ['third'], onprem: ['third'] }, true),
  map({}, false),
  map(OPEN, false, 'third'),
];

const authorityOf = (name: string): Authority => name.split('/')[2] as Authority;
const sourceOf = (name: string): string => SOURCES[authorityOf(name)];

type Entry = { readonly to: string } | { readonly inline: string; readonly body: string };
type Truth = ReadonlyMap<string, string>;

/** Existing content, by a walk over published content; `undefined`: absent, or does not resolve. */
class Oracle {
  readonly needed = new Set<string>();
  /** Names that do not resolve: content held under them before may stay. */
  readonly broken = new Set<string>();
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  /** @param byGlob whether a glob brings the name, so that no subscription by name is needed */
  one(asked: string, byGlob = false): string | undefined {
    const [name = '', fragment = ''] = asked.split('#');
    const entry = /entry=(.*)$/.exec(fragment)?.[1];
    if (entry !== undefined) return this.#entry(name, entry);
    let at = name;
    for (let hops = 0; hops <= 4; hops++) {
      if (hops > 0 || !byGlob) this.#need(at);
      const to = this.#world.redirects.get(at);
      if (to === undefined) return this.#world.contents.get(at);
      if (!this.#mayLead(at, to)) break;
      at = to;
    }
    this.broken.add(asked);
    return undefined;
  }

  #entry(list: string, wanted: string): string | undefined {
    this.#need(list);
    const entries = this.#world.lists.get(list) ?? [];
    return entries.flatMap((one) =>
      'inline' in one && one.inline === wanted ? [one.body] : [],
    )[0];
  }

  all(asked: string): Truth {
    const truth = new Map<string, string>();
    if (asked.includes('Collection')) this.#addList(asked, truth);
    else this.#addGlob(asked, truth);
    return truth;
  }

  #addGlob(glob: string, truth: Map<string, string>): void {
    this.#need(glob);
    for (const name of NAMES) {
      if (!name.startsWith(glob.slice(0, -1)) || !this.#world.isPublished(name)) continue;
      this.#put(name, truth, true);
    }
  }

  #put(name: string, truth: Map<string, string>, byGlob = false): void {
    const content = this.one(name, byGlob);
    if (content !== undefined) truth.set(name, content);
  }

  #addList(list: string, truth: Map<string, string>): void {
    this.#need(list);
    for (const entry of this.#world.lists.get(list) ?? []) {
      if ('inline' in entry) {
        truth.set(`${list.replace('Collection', '')}/${entry.inline}`, entry.body);
        continue;
      }
      if (!this.#mayLead(list, entry.to)) continue;
      if (entry.to.includes('Collection')) this.#addList(entry.to, truth);
      else if (entry.to.endsWith('*')) this.#addGlob(entry.to, truth);
      else this.#put(entry.to, truth);
    }
  }

  #mayLead(from: string, to: string): boolean {
    const { authorities } = this.#world.map;
    const [here, there] = [authorityOf(from), authorityOf(to)];
    const spec = authorities.get(here);
    if (!spec || !authorities.has(there)) return false;
    return (
      here === there ||
      spec.mayLeadTo?.includes(there) === true ||
      spec.alternatives.some(({ authority }) => authority === there)
    );
  }

  #need(name: string): void {
    this.needed.add(name);
  }
}

const source = fc.constantFrom(...Object.values(SOURCES));
const name = fc.constantFrom(...NAMES);
const watched = fc.constantFrom(...WATCHED);
const entry: fc.Arbitrary<Entry> = fc.oneof(
  fc.record({ to: fc.oneof(name, fc.constantFrom(...GLOBS, ...LIST_NAMES)) }),
  fc.record({ inline: fc.constantFrom('x', 'z'), body: fc.constantFrom('in 1', 'in 2') }),
);
const fault = fc.oneof(
  fc.record({ kill: source }),
  fc.record({ hang: source }),
  fc.record({ revive: source }),
  fc.record({ cut: source }),
  fc.record({ afterMs: fc.integer({ min: 1, max: 100_000 }) }),
  fc.record({ publish: name }),
);
const happening = fc.oneof(
  fault,
  fc.record({ redirect: name, to: name }),
  fc.record({ remove: name }),
  fc.record({
    list: fc.constantFrom(...LIST_NAMES),
    entries: fc.uniqueArray(entry, { maxLength: 4, selector: (one) => JSON.stringify(one) }),
  }),
  fc.record({ removeList: fc.constantFrom(...LIST_NAMES) }),
  fc.record({ watch: watched }),
  fc.record({ unwatch: watched }),
  fc.record({ reload: fc.nat({ max: MAPS.length - 1 }) }),
);
type Happening = typeof happening extends fc.Arbitrary<infer T> ? T : never;

class World {
  map: AuthorityMap = MAPS[0]!;
  readonly driver = new FederationDriver(MAPS[0]!);
  readonly watchers = new Map<string, RecordingWatcher>();
  readonly contents = new Map<string, string>();
  readonly redirects = new Map<string, string>();
  readonly lists = new Map<string, readonly Entry[]>();
  #bodies = 0;

  isPublished(one: string): boolean {
    return this.contents.has(one) || this.redirects.has(one);
  }

  happens(what: Happening): void {
    const { driver } = this;
    if ('publish' in what) this.#publish(what.publish);
    else if ('redirect' in what) this.#redirect(what.redirect, what.to);
    else if ('remove' in what) {
      this.contents.delete(what.remove);
      this.redirects.delete(what.remove);
      this.#delete(what.remove, THING);
    } else if ('list' in what) this.publishList(what.list, what.entries);
    else if ('removeList' in what) {
      this.lists.delete(what.removeList);
      this.#delete(what.removeList, LISTS);
    } else if ('kill' in what) driver.kill(what.kill);
    else if ('hang' in what) {
      driver.server(what.hang).reachability = 'black_hole';
      driver.cut(what.hang, { detectedBy: 'probe' });
    } else if ('revive' in what) driver.revive(what.revive);
    else if ('cut' in what) driver.cut(what.cut);
    else if ('watch' in what) this.watch(what.watch);
    else if ('unwatch' in what) this.unwatch(what.unwatch);
    else if ('reload' in what) {
      this.map = MAPS[what.reload]!;
      driver.reload(this.map);
    } else driver.advance(what.afterMs);
  }

  #publish(one: string): void {
    const body = `${one} ${++this.#bodies}`;
    this.redirects.delete(one);
    this.contents.set(one, body);
    this.#set(one, THING, Buffer.from(body));
  }

  #redirect(one: string, to: string): void {
    this.contents.delete(one);
    this.redirects.set(one, to);
    this.driver.server(sourceOf(one)).set(THING, one, textLocatorBytes(to), REDIRECT);
    this.driver.announce(sourceOf(one), THING, one);
  }

  publishList(list: string, wanted: readonly Entry[]): void {
    const named = new Set<string>();
    const entries = wanted.filter((one) => {
      if ('to' in one) {
        return (
          LIST_NAMES.indexOf(one.to) < 0 || LIST_NAMES.indexOf(one.to) > LIST_NAMES.indexOf(list)
        );
      }
      const isNew = !named.has(one.inline);
      named.add(one.inline);
      return isNew;
    });
    this.lists.set(list, entries);
    const bytes = entries.map((one) =>
      'to' in one ? textEntry(one.to) : inlineEntry(one.inline, THING, one.body),
    );
    this.#set(list, LISTS, listBytes(...bytes));
  }

  #set(one: string, typeUrl: string, body: Uint8Array): void {
    this.driver.server(sourceOf(one)).set(typeUrl, one, body);
    this.driver.announce(sourceOf(one), typeUrl, one);
  }

  #delete(one: string, typeUrl: string): void {
    this.driver.server(sourceOf(one)).delete(typeUrl, one);
    this.driver.announce(sourceOf(one), typeUrl, one);
  }

  watch(one: string): void {
    if (this.watchers.has(one)) return;
    this.watchers.set(one, this.driver.watching(one));
  }

  unwatch(one: string): void {
    const watcher = this.watchers.get(one);
    if (!watcher) return;
    this.watchers.delete(one);
    this.driver.unwatch(one, watcher);
  }

  heal(): void {
    for (const one of Object.values(SOURCES)) this.driver.revive(one);
    this.driver.advance(3_600_000);
  }

  /** Names that are subscribed now, at any source. */
  subscribed(): readonly string[] {
    const connected = Object.values(SOURCES).filter((one) => this.driver.isConnected(one));
    return connected
      .flatMap((one) => {
        const { stream } = this.driver.server(one);
        return [...stream.subscribed(THING), ...stream.subscribed(LISTS)];
      })
      .sort();
  }
}

const isCollection = (asked: string): boolean =>
  asked.endsWith('/*') || (asked.includes('Collection') && !asked.includes('#'));

function check(world: World): void {
  const oracle = new Oracle(world);
  for (const [asked, watcher] of world.watchers) {
    if (!world.map.authorities.has(authorityOf(asked))) continue;
    const content = isCollection(asked) ? undefined : oracle.one(asked);
    const truth: Truth = isCollection(asked)
      ? oracle.all(asked)
      : new Map(content === undefined ? [] : [[asked, content]]);
    const sorted = (of: Truth): string =>
      JSON.stringify([...of].filter(([key]) => !oracle.broken.has(key)).sort());
    if (sorted(watcher.held) !== sorted(truth)) {
      throw new Error(`${asked}: held ${sorted(watcher.held)}, not ${sorted(truth)}`);
    }
  }
  const needed = JSON.stringify([...oracle.needed].sort());
  const subscribed = JSON.stringify(world.subscribed());
  if (subscribed !== needed) throw new Error(`subscribed ${subscribed}, not ${needed}`);
}

t.test(
  'whatever hops, faults and maps do: healed, each watcher holds existing content, and only needed names are subscribed (invariants 2, 9, 12)',
  (t) => {
    fc.assert(
      fc.property(fc.array(happening, { maxLength: 60, size: 'max' }), (happenings) => {
        const world = new World();
        for (const one of NAMES) if (!one.endsWith('b')) world.happens({ publish: one });
        for (const what of happenings) world.happens(what);
        world.heal();
        check(world);
        for (const asked of [...world.watchers.keys()]) world.unwatch(asked);
        world.driver.advance(3_600_000);
        check(world);
      }),
      { numRuns: 100 },
    );
    t.end();
  },
);

const twin = (authority: Authority): readonly Entry[] => [
  { to: thing(authority, 'a') },
  { to: thing('third', 'a') },
  { to: thing(authority, 'g/*') },
  { to: LIST_NAMES[3]! },
];
/** While the alternative is served, its list replaces the list; so it has the same members here. */
const SOUND: readonly (readonly [list: string, entries: readonly Entry[]])[] = [
  [LIST_NAMES[0]!, twin('cloud')],
  [LIST_NAMES[1]!, [{ inline: 'x', body: 'in 1' }, { to: LIST_NAMES[3]! }]],
  [LIST_NAMES[2]!, twin('onprem')],
  [LIST_NAMES[3]!, [{ to: thing('third', 'a') }]],
];

t.test(
  'whatever fails, behind redirects and lists too: nothing is removed (invariants 3 and 17)',
  (t) => {
    const moves = fc.record({ redirect: fc.constantFrom('b', 'g/y'), to: fc.nat({ max: 5 }) });
    const step = fc.oneof(fault, moves, fc.record({ watch: watched }));
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
        const world = new World();
        for (const one of NAMES) world.happens({ publish: one });
        for (const [list, entries] of SOUND) world.publishList(list, entries);
        world.happens({ redirect: thing('cloud', 'g/x'), to: thing('onprem', 'a') });
        for (const asked of WATCHED) world.watch(asked);
        const ends = NAMES.filter((one) => one.endsWith('/a'));
        for (const what of steps) {
          if ('redirect' in what) {
            const one = thing('cloud', what.redirect);
            world.happens({ redirect: one, to: ends[what.to % ends.length]! });
          } else world.happens(what);
        }
        for (const [asked, { told }] of world.watchers) {
          const lost = told.filter((line) => /^(removed|absent|gone)/.test(line));
          if (lost.length > 0) throw new Error(`${asked}: ${lost.join()}`);
        }
        world.heal();
        check(world);
      }),
      { numRuns: 80 },
    );
    t.end();
  },
);

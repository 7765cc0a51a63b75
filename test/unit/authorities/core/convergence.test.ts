import fc from 'fast-check';
import t from 'tap';
import {
  FederationDriver,
  mapOf,
  RecordingWatcher,
  THING,
  thing,
} from '../../../support/federation-driver.js';

const ids = ['a', 'b', 'x/m', 'x/n', 'x/o'];
const asked = ['a', 'b', 'x/*', 'x/m'];
const SOURCES = ['c', 'd', 'o'] as const;
const authorityOf = (source: string): string => (source === 'o' ? 'onprem' : 'cloud');

const source = fc.constantFrom(...SOURCES);
const happening = fc.oneof(
  fc.record({ publish: source, id: fc.constantFrom(...ids) }),
  fc.record({ remove: source, id: fc.constantFrom(...ids) }),
  fc.record({ kill: source }),
  fc.record({ hang: source }),
  fc.record({ revive: source }),
  fc.record({ cut: source }),
  fc.record({ watch: fc.constantFrom(...asked) }),
  fc.record({ unwatch: fc.constantFrom(...asked) }),
  fc.record({ force: fc.nat({ max: 2 }), forMs: fc.integer({ min: 1, max: 100_000 }) }),
  fc.record({ afterMs: fc.integer({ min: 1, max: 100_000 }) }),
);
type Happening = typeof happening extends fc.Arbitrary<infer T> ? T : never;

class World {
  readonly driver = new FederationDriver(
    mapOf({
      authorities: {
        cloud: { sources: ['c', 'd'], alternatives: [{ authority: 'onprem' }] },
        onprem: { sources: ['o'] },
      },
    }),
  );
  readonly watchers = new Map<string, RecordingWatcher>();
  #bodies = 0;

  /** All names are published by all sources, and watched. */
  constructor() {
    for (const id of ids) {
      for (const name of SOURCES) {
        this.driver.server(name).set(THING, thing(authorityOf(name), id), `${name}0`);
      }
    }
    for (const id of asked) this.happens({ watch: id });
  }

  /** A change made while a server has no stream is sent on its next stream. */
  happens(what: Happening): void {
    const { driver } = this;
    if ('publish' in what) {
      const name = thing(authorityOf(what.publish), what.id);
      driver.server(what.publish).set(THING, name, `${what.publish}${++this.#bodies}`);
      driver.announce(what.publish, THING, name);
    } else if ('remove' in what) {
      const name = thing(authorityOf(what.remove), what.id);
      driver.server(what.remove).delete(THING, name);
      driver.announce(what.remove, THING, name);
    } else if ('kill' in what) driver.kill(what.kill);
    else if ('hang' in what) this.#hang(what.hang);
    else if ('revive' in what) driver.revive(what.revive);
    else if ('cut' in what) driver.cut(what.cut);
    else if ('watch' in what) this.#watch(what.watch);
    else if ('unwatch' in what) this.#unwatch(what.unwatch);
    else if ('force' in what) driver.force('cloud/*', what.force, what.forMs);
    else driver.advance(what.afterMs);
  }

  heal(): void {
    for (const name of SOURCES) this.driver.revive(name);
    this.driver.advance(3_600_000);
  }

  /** For each watch: the held content and the content of the primary. */
  compare(): readonly { readonly held: object; readonly published: object }[] {
    return [...this.watchers].map(([id, watcher]) => ({
      held: Object.fromEntries([...watcher.held].sort()),
      published: Object.fromEntries(this.#published(id).sort()),
    }));
  }

  #published(id: string): [string, string][] {
    const server = this.driver.server('c');
    return server
      .names(THING)
      .filter((name) => name === thing('cloud', id) || (id === 'x/*' && name.includes('/x/')))
      .map((name) => [name, Buffer.from(server.get(THING, name)!.body).toString()]);
  }

  /** Its streams hang too, until keepalive detects it. */
  #hang(name: string): void {
    this.driver.server(name).reachability = 'black_hole';
    this.driver.cut(name, { detectedBy: 'probe' });
  }

  #watch(id: string): void {
    if (this.watchers.has(id)) return;
    const watcher = new RecordingWatcher();
    this.watchers.set(id, watcher);
    this.driver.watch(thing('cloud', id), watcher);
  }

  #unwatch(id: string): void {
    const watcher = this.watchers.get(id);
    if (!watcher) return;
    this.watchers.delete(id);
    this.driver.unwatch(thing('cloud', id), watcher);
  }
}

t.test('after any faults, healed: every watcher holds exactly the content of the primary', (t) => {
  fc.assert(
    fc.property(fc.array(happening, { maxLength: 100, size: 'max' }), (happenings) => {
      const world = new World();
      for (const what of happenings) world.happens(what);
      world.heal();
      for (const { held, published } of world.compare()) {
        if (JSON.stringify(held) !== JSON.stringify(published)) {
          throw new Error(`held ${JSON.stringify(held)}, not ${JSON.stringify(published)}`);
        }
      }
    }),
    { numRuns: 150 },
  );
  t.end();
});

t.test('whatever fails: a watcher loses a name only by a deletion (invariants 3 and 17)', (t) => {
  fc.assert(
    fc.property(fc.array(happening, { maxLength: 100, size: 'max' }), (happenings) => {
      const world = new World();
      for (const what of happenings) {
        if (!('remove' in what) && !('unwatch' in what)) world.happens(what);
      }
      for (const [id, { told }] of world.watchers) {
        const lost = told.filter((what) => /^(removed|absent)/.test(what));
        if (lost.length > 0) throw new Error(`${id}: ${lost.join()}`);
      }
    }),
    { numRuns: 150 },
  );
  t.end();
});

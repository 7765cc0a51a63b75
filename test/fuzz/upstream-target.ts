/**
 * Messages of a management server for the whole upstream side. A second source serves another
 * authority: its watchers must not be affected, and must get everything that it publishes.
 */
import assert from 'node:assert/strict';
import { parseResourceName } from '../../protos/resource-name.js';
import { FederationDriver, mapOf, RecordingWatcher } from '../support/federation-driver.js';
import { DELTA_RESPONSES, LISTS, LOCATORS } from './envelope-seeds.js';
import type { Subject, Target } from './target.js';
import { mutateWire } from './wire-mutator.js';
import { ALL_WORD_BYTES, name, THING } from './words.js';

const HOSTILE = 'hostile';
const HONEST = 'honest';
const LIST = name('a', 'list', 'test.v1.ThingCollection');

const GLOBS_ANSWERED_MS = 60_000;

const MAP = mapOf({
  authorities: { a: { sources: [HOSTILE] }, b: { sources: [HONEST] } },
});

class World implements Subject {
  readonly #driver = new FederationDriver(MAP, { maxResources: 50 });
  readonly #ofHostile = new RecordingWatcher();
  readonly #ofHonest = new RecordingWatcher();
  #changes = 0;

  constructor() {
    for (const id of ['1', '2']) {
      this.#driver.server(HOSTILE).set(THING, name('a', id), id);
      this.#driver.server(HONEST).set(THING, name('b', id), id);
    }
    for (const id of ['1', '2', '3', '4', '5?a=b&c=d', '*'])
      this.#watch(name('a', id), this.#ofHostile);
    this.#watch(LIST, this.#ofHostile);
    for (const id of ['1', '*']) this.#watch(name('b', id), this.#ofHonest);
    assert.equal(this.#ofHonest.held.size, 2);
    // A glob is answered completely once its source sends nothing new for some seconds.
    this.#driver.advance(GLOBS_ANSWERED_MS);
    this.#ofHonest.take();
    this.#driver.server(HOSTILE).isDeaf = true;
  }

  #watch(text: string, watcher: RecordingWatcher): void {
    this.#driver.watch(text, watcher, THING);
  }

  take(message: Uint8Array, dice: number): boolean {
    this.#connect();
    this.#driver.sendBytes(HOSTILE, message);
    const accepted = this.#driver.isConnected(HOSTILE);
    if (dice % 16 === 1) this.#driver.advance(1_000);
    if (dice % 64 === 3) this.#driver.advance(40_000);
    if (dice % 64 === 5) this.#driver.cut(HOSTILE);
    this.#driver.takeEffects();
    assert.deepEqual(
      this.#ofHonest.take(),
      [],
      'messages of another source do not reach these watchers',
    );
    this.#checkRights();
    if (dice % 32 === 7) this.#publish(HONEST, 'b', this.#ofHonest);
    return accepted;
  }

  /** It may publish only names of its own, and others through redirects and lists. */
  #checkRights(): void {
    for (const told of this.#ofHostile.take()) {
      const text = /xdstp:\S*/.exec(told)?.[0] ?? '';
      const parsed = parseResourceName(text.split('#')[0]!);
      assert.ok(
        parsed.ok && parsed.value.authority === 'a',
        `a watcher received ${told} (invariants 11, 12)`,
      );
    }
  }

  #connect(): void {
    for (let waits = 0; !this.#driver.isConnected(HOSTILE); waits++) {
      assert.ok(waits < 100, 'the gateway reconnects to a source with subscriptions');
      this.#driver.advance(10_000);
    }
  }

  #publish(source: string, authority: string, watcher: RecordingWatcher): void {
    const content = `content ${++this.#changes}`;
    this.#driver.publish(source, name(authority, '1'), content);
    assert.equal(watcher.held.get(name(authority, '1')), content, `content of ${source} arrives`);
    watcher.take();
  }

  end(): void {
    this.#publish(HONEST, 'b', this.#ofHonest);
    // Whatever it sent before, a new stream must work.
    this.#driver.server(HOSTILE).isDeaf = false;
    this.#driver.cut(HOSTILE);
    this.#driver.advance(100_000);
    this.#connect();
    this.#publish(HOSTILE, 'a', this.#ofHostile);
    for (const id of ['1', '2', '3', '4', '5?a=b&c=d', '*'])
      this.#unwatch(name('a', id), this.#ofHostile);
    this.#unwatch(LIST, this.#ofHostile);
    for (const id of ['1', '*']) this.#unwatch(name('b', id), this.#ofHonest);
    this.#driver.advance(600_000);
    assert.ok(!this.#driver.isConnected(HOSTILE) && !this.#driver.isConnected(HONEST));
    assert.equal(this.#driver.federation.nextDeadlineMs(this.#driver.nowMs), undefined, 'no timer');
  }

  #unwatch(text: string, watcher: RecordingWatcher): void {
    this.#driver.unwatch(text, watcher, THING);
  }
}

const words = [...ALL_WORD_BYTES, ...LOCATORS, ...LISTS];

export const UPSTREAM_TARGETS: readonly Target[] = [
  {
    name: 'upstream',
    messages: 1_000_000,
    perCase: 400,
    valid: 0.25,
    cost: 60,
    prepare: () => ({
      seeds: DELTA_RESPONSES,
      mutate: (random, known) => mutateWire(random, { seeds: known, words }, 0.03),
      open: () => new World(),
    }),
  },
];

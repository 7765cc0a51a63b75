/**
 * Goal: whatever peer instances send, the content of clients changes only through a source.
 * Method: the cores of a whole instance (sources, groups, cache, hints) on a fake management
 * server, under a manual clock.
 */
import fc from 'fast-check';
import t from 'tap';
import { PeerHints } from '../../../../../gateway/core/peers/peer-hints.js';
import {
  encodePeerMessage,
  type PeerMessage,
} from '../../../../../gateway/core/peers/peer-message.js';
import { ResourceCache } from '../../../../../gateway/core/cache/resource-cache.js';
import { listBytes, textEntry } from '../../../../support/collection-messages.js';
import {
  askedName,
  FederationDriver,
  mapOf,
  nameOf,
  THING,
  thing,
} from '../../../../support/federation-driver.js';

const there = thing('cloud', 'there');
const absent = thing('cloud', 'absent');
const glob = thing('cloud', 'x/*');
const member = thing('cloud', 'x/1');
const emptyGlob = thing('cloud', 'y/*');
const list = 'xdstp://cloud/test.v1.ThingCollection/all';
const NAMES = [there, absent, member, thing('cloud', 'x/2'), thing('cloud', 'y/1')];

class HintedInstance {
  readonly driver = new FederationDriver(mapOf({ authorities: { cloud: { sources: ['s'] } } }));
  readonly cache: ResourceCache;
  readonly hints: PeerHints;
  /** How often subscribers were notified. */
  told = 0;

  constructor() {
    const { driver } = this;
    this.cache = new ResourceCache(driver.directory, {
      tombstonesPerCollection: 10,
      tombstoneMaxAgeMs: 60_000,
      unsubscribedLingerMs: 30_000,
      maxUnsubscribedNames: 1_000,
      onHeld: (change) => {
        this.hints.handleHeld(change, driver.nowMs);
      },
      onAsked: (typeUrl, name, change) => {
        this.hints.handleAsked(typeUrl, name, change);
      },
    });
    this.hints = new PeerHints({
      instance: 'me',
      graceMs: 1_000,
      held: this.cache.held.bind(this.cache),
      random: () => 0.5,
    });
    for (const name of [there, member]) driver.server('s').set(THING, name, '1');
    const tell = (): void => {
      this.told++;
    };
    const names = { handleNameChanged: tell };
    const globs = { handleGlobChanged: tell };
    for (const text of [there, absent]) this.cache.subscribeName(THING, nameOf(text), names);
    for (const text of [glob, emptyGlob]) this.cache.subscribeGlob(THING, nameOf(text), globs);
    driver.pump();
    this.hints.handleConnected(driver.nowMs);
    // Until the empty glob is known to be empty.
    this.after(3_000);
    this.told = 0;
  }

  hears(message: PeerMessage): void {
    this.hints.handleMessage(encodePeerMessage('other', message), this.driver.nowMs);
    this.#perform();
  }

  after(ms: number): void {
    const untilMs = this.driver.nowMs + ms;
    for (;;) {
      const dueMs = Math.max(this.hints.nextDeadlineMs() ?? Infinity, this.driver.nowMs);
      this.driver.advance(Math.min(dueMs, untilMs) - this.driver.nowMs);
      if (dueMs > untilMs) return;
      this.hints.handleTimer(this.driver.nowMs);
      this.#perform();
    }
  }

  #perform(): void {
    const { federation, nowMs } = this.driver;
    for (const effect of this.hints.takeEffects()) {
      if (effect.kind === 'revalidate') federation.revalidate(effect.typeUrl, effect.name, nowMs);
      if (effect.kind === 'revalidate_authority') this.driver.group('cloud').revalidateAll(nowMs);
      if (effect.kind.startsWith('nudge')) this.driver.group('cloud').nudge(nowMs);
    }
    this.driver.pump();
  }

  held(): readonly unknown[] {
    return NAMES.map((text) => this.cache.held(THING, nameOf(text)));
  }
}

const hintOf = (text: string, version: string | null): PeerMessage => ({
  kind: 'changes',
  hints: [{ typeUrl: THING, name: nameOf(text), version }],
});

t.test('a revalidation after a hint brings new content to clients (invariant 14)', (t) => {
  const instance = new HintedInstance();
  const { driver, cache } = instance;
  const versionOf = (text: string): string | undefined => cache.held(THING, nameOf(text))?.version;
  const before = versionOf(there);
  // The server answers requests, but announces no changes by itself.
  driver.server('s').set(THING, there, '2');
  driver.server('s').set(THING, absent, '1');
  driver.server('s').set(THING, thing('cloud', 'y/1'), '1');
  for (const text of [there, absent, thing('cloud', 'y/1')]) instance.hears(hintOf(text, 'new'));
  instance.after(999);
  t.equal(instance.told, 0);
  instance.after(1);
  t.not(versionOf(there), before);
  t.ok(versionOf(absent));
  t.ok(versionOf(thing('cloud', 'y/1')), 'a member of a glob that was empty');
  driver.server('s').delete(THING, there);
  instance.after(10_000);
  instance.hears(hintOf(there, null));
  instance.after(1_000);
  t.match(cache.held(THING, nameOf(there)), { kind: 'absent' });
  t.end();
});

t.test(
  'whatever peers send, clients see no change while sources do not change (invariant 14)',
  (t) => {
    const text = fc.constantFrom(...NAMES);
    const step = fc.oneof(
      fc
        .tuple(text, fc.constantFrom('x', '', null))
        .map(([name, version]) => hintOf(name, version)),
      fc.constantFrom<PeerMessage>(
        ...[...NAMES, glob, emptyGlob].map((name) => ({
          kind: 'invalidate' as const,
          typeUrl: THING,
          name: nameOf(name),
        })),
        { kind: 'invalidate_authority', authority: 'cloud' },
        { kind: 'switched', group: 'cloud', to: 's' },
        {
          kind: 'digest',
          isQuestion: true,
          rows: [{ typeUrl: THING, authority: 'cloud', count: 9, hash: 'x' }],
        },
      ),
      fc.nat(5_000),
      fc.constantFrom('kill' as const, 'revive' as const),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const instance = new HintedInstance();
        const held = JSON.stringify(instance.held());
        for (const one of steps) {
          if (typeof one === 'number') instance.after(one);
          else if (one === 'kill') instance.driver.kill('s');
          else if (one === 'revive') instance.driver.revive('s');
          else for (const message of [one, one]) instance.hears(message);
        }
        instance.driver.revive('s');
        instance.after(120_000);
        const [row, ...others] = instance.hints.digest();
        const isDigestTrue = row?.count === 2 && others.length === 0;
        return isDigestTrue && JSON.stringify(instance.held()) === held;
      }),
      { numRuns: 200 },
    );
    t.end();
  },
);

t.test('members of a list are published, compared and revalidated by their own names', (t) => {
  const instance = new HintedInstance();
  const { driver, cache, hints } = instance;
  const one = thing('cloud', 'listed');
  const other = 'type.googleapis.com/test.v1.Other';
  driver.server('s').set(THING, one, '1');
  driver.publish('s', list, listBytes(textEntry(one)), `${THING}Collection`);
  const subscriber = { handleGlobChanged: () => undefined };
  const entry = cache.subscribeGlob(THING, askedName(list), subscriber);
  const otherList = askedName('xdstp://cloud/test.v1.OtherCollection/all', other);
  cache.subscribeGlob(other, otherList, subscriber);
  driver.pump();
  const listed = nameOf(one);
  const before = cache.held(THING, listed);
  t.match(before, { kind: 'present', asked: listed, inCollection: false });
  t.match(cache.held(THING, askedName(list)), { asked: askedName(list) });
  t.equal(hints.digest().find(({ typeUrl }) => typeUrl === THING)?.count, 3);
  driver.server('s').set(THING, one, '2');
  instance.hears(hintOf(one, 'new'));
  instance.after(1_000);
  t.not(cache.held(THING, listed)?.version, before?.version);
  driver.publish('s', list, listBytes(), `${THING}Collection`);
  t.equal(cache.held(THING, listed), undefined);
  t.equal(hints.digest().find(({ typeUrl }) => typeUrl === THING)?.count, 2);
  cache.unsubscribeGlob(entry, subscriber, 'disconnected', driver.nowMs);
  t.end();
});

/**
 * Goal: the session knows of each resource whether the client subscribes to it, by name, glob or list, and when a source
 * has answered.
 */
import t from 'tap';
import { Collection } from '../../../../../gateway/core/cache/collection.js';
import type { GlobEntry, NameEntry, NameState } from '../../../../../gateway/core/cache/entries.js';
import { SubscribedNames } from '../../../../../gateway/core/delta/subscribed-names.js';
import {
  newGlobSubscription,
  type NameSubscription,
} from '../../../../../gateway/core/delta/subscription.js';
import {
  MAYBE_HELD,
  NOT_HELD,
  PossiblyHeld,
  type Held,
} from '../../../../../gateway/core/session/holdings.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { nameOf, projectionOf } from '../../../../support/fake-directory.js';
import { CDS, cds } from '../../../../support/mesh-names.js';

const member = projectionOf(CDS, cds('g/a'), 'v1');
const elsewhere = projectionOf(CDS, cds('other/b'), 'v1');
const shared = { typeUrl: CDS, subscribers: new Set<never>(), payer: undefined };
const status = { code: STATUS_CODE.permissionDenied, message: 'not yours' };
const denial = { status, isHidden: false };

function named(held: Held, state: NameState, entry: Partial<NameEntry> = {}): NameSubscription {
  const told = { isClaim: false, toldAbsent: false, lastErrorCode: undefined };
  const { name } = member;
  return { asked: 'a', held, ...told, entry: { ...shared, name, state, ...entry } };
}

function globEntry(text: string, entry: Partial<GlobEntry> = {}): GlobEntry {
  const limits = { tombstonesPerCollection: 1, tombstoneMaxAgeMs: 1 };
  return {
    ...shared,
    collection: new Collection(nameOf(text), limits),
    error: undefined,
    ...entry,
  };
}

function subscribedTo(...globs: GlobEntry[]): SubscribedNames {
  const subscribed = new SubscribedNames();
  for (const entry of globs) subscribed.addGlob(newGlobSubscription(entry, 'glob'), false);
  return subscribed;
}

t.test('a name subscribed by itself has been sent in one version only', (t) => {
  const subscribed = new SubscribedNames();
  t.equal(subscribed.standingOf(member), 'not_asked');
  const one = named(NOT_HELD, { kind: 'present', projection: member });
  subscribed.names.set(member.name.key, one);
  t.ok(subscribed.has(member.name));
  t.ok(subscribed.covers(member.name.key));
  t.equal(subscribed.standingOf(member), 'unsent');
  one.held = member.version;
  t.equal(subscribed.standingOf(member), 'sent');
  t.equal(subscribed.size, 1);
  t.end();
});

t.test('a member of a glob was sent up to the place of the client', (t) => {
  const entry = globEntry(cds('g/*'));
  const subscribed = subscribedTo(entry);
  t.equal(subscribed.standingOf(member), 'unsent', 'still to come');
  t.notOk(subscribed.covers(member.name.key));
  entry.collection.put(member);
  t.ok(subscribed.covers(member.name.key));
  t.equal(subscribed.standingOf(member), 'unsent');
  const [glob] = subscribed.globs.values();
  if (glob) glob.sentSeq = entry.collection.members.lastSeq;
  t.equal(subscribed.standingOf(member), 'sent');
  t.notOk(subscribed.has(member.name), 'not by itself');
  t.ok(subscribed.has(entry.collection.glob));
  t.end();
});

t.test('a list covers its members only, under any name', (t) => {
  const entry = globEntry(cds('list'));
  const subscribed = new SubscribedNames();
  const list = newGlobSubscription(entry, 'list');
  subscribed.addGlob(list, true);
  t.strictSame([...subscribed.lists], [list]);
  t.equal(subscribed.globOf(elsewhere.name), undefined);
  entry.collection.put(elsewhere);
  t.equal(subscribed.globOf(elsewhere.name), list);
  t.equal(subscribed.globOf(member.name), undefined);
  subscribed.deleteGlob(list);
  t.equal(subscribed.lists.size, 0);
  t.equal(subscribed.size, 0);
  t.end();
});

t.test('a denied cluster does not hold up its endpoints (SECURITY)', (t) => {
  const byName = new SubscribedNames();
  byName.names.set(member.name.key, named(NOT_HELD, { kind: 'absent' }, { denial }));
  t.equal(byName.standingOf(member), 'not_asked');
  t.equal(subscribedTo(globEntry(cds('g/*'), { denial })).standingOf(member), 'not_asked');
  t.end();
});

t.test('sources answer one subscription, and are silent about another', (t) => {
  const subscribed = subscribedTo(globEntry(cds('g/*')));
  const facts = () => [subscribed.isWaiting, subscribed.isUnderWay];
  t.strictSame(facts(), [true, false]);
  subscribed.names.set('a', named(NOT_HELD, { kind: 'absent' }));
  t.strictSame(facts(), [true, true]);
  for (const { entry } of subscribed.globs.values()) entry.collection.handleComplete(true);
  t.strictSame(facts(), [false, true]);
  subscribed.names.set('a', named(NOT_HELD, { kind: 'waiting' }));
  t.strictSame(facts(), [true, true], 'the glob is answered');
  t.end();
});

t.test('a wildcard waits for its first response, an xdstp glob does not (ENVOY 13)', (t) => {
  t.notOk(subscribedTo(globEntry(cds('g/*'))).awaitsWildcard);
  const subscribed = subscribedTo(globEntry('\nscope\n*'));
  t.ok(subscribed.awaitsWildcard);
  const [wildcard] = subscribed.globs.values();
  if (wildcard) wildcard.toldEmpty = true;
  t.notOk(subscribed.awaitsWildcard, 'an empty response is one');
  t.end();
});

t.test('a client has missed removals if tombstones were dropped that it had not read', (t) => {
  const entry = globEntry(cds('g/*'));
  const subscribed = subscribedTo(entry);
  t.notOk(subscribed.hasMissedRemovals);
  for (const id of ['g/a', 'g/b']) entry.collection.put(projectionOf(CDS, cds(id), 'v1'));
  for (const id of ['g/a', 'g/b']) entry.collection.remove(nameOf(cds(id)).key, 0);
  t.ok(subscribed.hasMissedRemovals, 'one tombstone is kept');
  t.end();
});

t.test('claims are open while a source may still tell whether the names exist', (t) => {
  const possiblyHeld = new PossiblyHeld();
  const entry = globEntry(cds('g/*'));
  const subscribed = subscribedTo(entry);
  const { key } = entry.collection.glob;
  const isOpen = (isPending = false, isCurrent = false) => {
    const pending = new Set(isPending ? subscribed.globs.values() : []);
    return subscribed.hasOpenClaims(possiblyHeld, pending, () => isCurrent);
  };
  t.notOk(isOpen(), 'the client claims nothing');
  possiblyHeld.note(key, member.name.key, { held: MAYBE_HELD, isClaim: true });
  t.ok(isOpen());
  t.equal([...subscribed.globsClaimedBy(member.name.key, possiblyHeld)].length, 1);
  t.strictSame([...subscribed.globsClaimedBy(elsewhere.name.key, possiblyHeld)], []);
  entry.error = status;
  t.notOk(isOpen(), 'an unreachable source tells nothing');
  t.ok(isOpen(false, true), 'it answers again, and has not sent all yet (seed 2980)');
  entry.error = undefined;
  entry.collection.handleComplete(false);
  t.notOk(isOpen(), 'nothing is left to tell without a proof');
  entry.collection.handleComplete(true);
  t.ok(isOpen(true), 'the next response has the missing members');
  t.notOk(isOpen());
  subscribed.names.set('a', { ...named(MAYBE_HELD, { kind: 'waiting' }), isClaim: true });
  t.ok(isOpen());
  t.end();
});

t.test('content is held from a glob, or as the client brought it, whatever the suffix', (t) => {
  const subscribed = subscribedTo(globEntry(cds('g/*')));
  t.notOk(subscribed.isHeld);
  const state: NameState = { kind: 'present', projection: member };
  subscribed.names.set('a', named('another', state));
  t.notOk(subscribed.isHeld);
  subscribed.names.set('a', named(`${member.version}.suffix`, state));
  t.ok(subscribed.isHeld);
  subscribed.names.clear();
  for (const glob of subscribed.globs.values()) glob.sentSeq = 1;
  t.ok(subscribed.isHeld);
  t.end();
});

t.test('a member went if its removal is later than the last one that the client was sent', (t) => {
  const entry = globEntry(cds('g/*'));
  const subscribed = subscribedTo(entry);
  entry.collection.put(member);
  t.notOk(subscribed.wentAsMember(member.name));
  entry.collection.remove(member.name.key, 0);
  t.ok(subscribed.wentAsMember(member.name));
  for (const glob of subscribed.globs.values())
    glob.removedSeq = entry.collection.tombstones.lastSeq;
  t.notOk(subscribed.wentAsMember(member.name));
  t.notOk(subscribed.wentAsMember(elsewhere.name));
  t.end();
});

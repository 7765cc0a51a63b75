/**
 * Goal: instances send each other few and short messages, and received messages lead to a bounded
 * number of requests to the instance's own sources (invariant 14, docs/INSTANCES.md).
 * Method: the core under a manual clock, over a map of held content.
 */
import fc from 'fast-check';
import t from 'tap';
import {
  encodePeerMessage,
  MAX_MESSAGE_BYTES,
  type PeerMessage,
} from '../../../../../gateway/core/peers/peer-message.js';
import type { ResourceName } from '../../../../../protos/resource-name.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import { nameOf } from '../../../../support/fake-directory.js';
import { GRACE_MS, hintOf, HintsDriver } from '../../../../support/hints-driver.js';
import { CDS, EDS, cds } from '../../../../support/mesh-names.js';

const A = nameOf(cds('g/a'));
const B = nameOf(cds('g/b'));
const GLOB = nameOf(cds('g/*'));

t.test('changes are published together, merged by name, within 50 ms', (t) => {
  const me = new HintsDriver();
  me.sees(A, '1').sees(A, '2').sees(B, '1').sees(B, undefined);
  t.strictSame(me.words(), []);
  me.after(50);
  t.strictSame(me.words(), ['tell g/a=2 g/b=null']);
  me.after(50);
  t.strictSame(me.words(), [], 'once');
  t.end();
});

t.test('a version that a peer published first is not published again', (t) => {
  const me = new HintsDriver().holds(A, { version: '0' });
  me.hears(hintOf(A, '1')).sees(A, '1').after(50);
  t.strictSame(me.words(), []);
  me.sees(A, '2').hears(hintOf(A, '2')).after(50);
  t.strictSame(me.words(), [], 'nor is one that was about to be published');
  me.sees(A, '3').hears(hintOf(A, '2')).after(50);
  t.strictSame(me.words(), ['tell g/a=3']);
  t.end();
});

t.test('a pending version that a peer has superseded is not published', (t) => {
  const me = new HintsDriver().holds(A, { version: '1' });
  me.sees(A, '2').hears(hintOf(A, '3')).sees(A, '3').after(50);
  t.strictSame(me.words(), [], 'peers know 3, and would request 2');
  me.sees(B, '1').sees(B, undefined, { cause: 'dropped' }).sees(B, '1', { cause: 'first' });
  me.after(50);
  t.strictSame(me.words(), ['tell g/b=1'], 'a version that no peer published is');
  t.end();
});

t.test('content dropped for lack of subscribers is not published', (t) => {
  const me = new HintsDriver().holds(A, { version: '1' });
  me.sees(A, undefined, { cause: 'dropped' }).after(1_000);
  t.strictSame(me.words(), []);
  t.end();
});

t.test(
  'first answers of a catalogue are published while there is room, changes until the limit',
  (t) => {
    const me = new HintsDriver();
    const name = (at: number): ResourceName => nameOf(cds(`g/${at}`));
    for (let at = 0; at < 600; at++) me.sees(name(at), '1', { cause: 'first' });
    for (let at = 0; at < 2_100; at++) me.sees(name(at), '2');
    t.equal(me.take().filter(({ kind }) => kind === 'not_told').length, 100);
    me.sees(name(3), '3');
    me.after(50);
    const messages = me.messages();
    const hints = messages.flatMap((one) => (one.kind === 'changes' ? one.hints : []));
    t.equal(hints.length, 2_000);
    t.equal(hints.find((one) => one.name.key === name(3).key)?.version, '3');
    for (const message of messages) {
      t.ok(encodePeerMessage('me', message).length <= MAX_MESSAGE_BYTES);
    }
    t.end();
  },
);

t.test('a Secret is published by its name alone, and is in no digest (invariant 13)', (t) => {
  const me = new HintsDriver();
  me.sees(A, 'hash-of-a-secret', { typeUrl: TYPE_URL.secret });
  me.sees(A, 'another-hash', { typeUrl: TYPE_URL.secret }).after(50);
  const [message, ...others] = me.take();
  t.notMatch(message?.kind === 'publish' && Buffer.from(message.bytes).toString(), /hash/);
  t.strictSame(others, []);
  me.sees(A, 'third-hash', { typeUrl: TYPE_URL.secret }).after(50);
  t.strictSame(me.words(), ['tell g/a=']);
  t.strictSame(me.hints.digest(), []);
  me.hears(hintOf(A, '', TYPE_URL.secret)).after(5_000);
  t.strictSame(me.words(), [], 'there is no version to compare');
  me.holds(B, { kind: 'absent' }, TYPE_URL.secret).hears(hintOf(B, '', TYPE_URL.secret));
  me.after(5_000);
  t.strictSame(me.words(), [`revalidate ${B.key} for hint`], 'only its existence');
  t.end();
});

t.test('a hint that agrees, or concerns an unsubscribed name, has no effect', (t) => {
  const me = new HintsDriver().holds(A, { version: '1' });
  me.hears(hintOf(A, '1')).hears(hintOf(B, '1'));
  me.holds(B, { kind: 'absent' }).hears(hintOf(B, null)).after(10_000);
  t.strictSame(me.words(), []);
  t.end();
});

t.test('a hint that disagrees leads to one request, after the grace time', (t) => {
  const me = new HintsDriver().holds(A, { version: '1' });
  me.hears(hintOf(A, '2')).hears(hintOf(A, '2')).hears(hintOf(A, '3'));
  me.after(GRACE_MS - 1);
  t.strictSame(me.words(), []);
  me.after(1);
  t.strictSame(me.words(), [`revalidate ${A.key} for hint`]);
  me.hears(hintOf(A, '4')).after(GRACE_MS);
  t.strictSame(me.words(), [], 'no second one in 10 s');
  me.after(10_000).hears(hintOf(A, '5')).after(GRACE_MS);
  t.strictSame(me.words(), [`revalidate ${A.key} for hint`]);
  t.end();
});

t.test('a change that the own source sends within the grace time is not requested', (t) => {
  const me = new HintsDriver().holds(A, { version: '1' }).hears(hintOf(A, '2'));
  me.after(500).holds(A, { version: '2' }).after(500);
  t.strictSame(me.words(), []);
  me.hears(hintOf(A, '3')).hears(hintOf(A, '2')).after(GRACE_MS);
  t.strictSame(me.words(), [], 'nor one where the latest hint agrees');
  me.hears(hintOf(A, '3')).held.clear();
  me.after(GRACE_MS);
  t.strictSame(me.words(), [], 'nor an unsubscribed name');
  t.end();
});

t.test('absent names and errors are revalidated, and names that a peer reports removed', (t) => {
  for (const kind of ['absent', 'error', 'waiting'] as const) {
    const me = new HintsDriver().holds(A, { kind }).hears(hintOf(A, '1')).after(GRACE_MS);
    t.strictSame(me.words(), [`revalidate ${A.key} for hint`], kind);
  }
  const me = new HintsDriver().holds(A, { version: '1' }).hears(hintOf(A, null)).after(GRACE_MS);
  t.strictSame(me.words(), [`revalidate ${A.key} for hint`]);
  t.end();
});

t.test('a held collection is not requested again for one member: its source is nudged', (t) => {
  const me = new HintsDriver().holds(A, { version: '1', asked: GLOB, inCollection: true });
  me.holds(B, { kind: 'absent', asked: GLOB, inCollection: true });
  me.hears(hintOf(A, '2')).hears(hintOf(B, '1')).after(GRACE_MS);
  t.strictSame(me.words(), [`nudge sources of ${GLOB.key}`], 'once for all its members');
  const empty = new HintsDriver().holds(A, { kind: 'absent', asked: GLOB });
  empty.hears(hintOf(A, '1')).after(GRACE_MS);
  t.strictSame(empty.words(), [`revalidate ${GLOB.key} for hint`]);
  t.end();
});

t.test('a storm of forged hints costs 100 requests per second, and memory is bounded', (t) => {
  const me = new HintsDriver();
  const names = Array.from({ length: 5_000 }, (_, at) => nameOf(cds(`g/${at}`)));
  for (const name of names) me.holds(name, { version: 'true' });
  for (let ms = 0; ms < 2_000; ms += 100) {
    for (let at = 0; at < names.length; at += 50) {
      const hints = names
        .slice(at, at + 50)
        .map((name) => ({ typeUrl: CDS, name, version: `${ms}` }));
      me.hears({ kind: 'changes', hints });
    }
    me.after(100);
  }
  const counts = new Map<string, number>();
  for (const effect of me.take()) {
    const key = effect.kind === 'ignored' ? effect.reason : effect.kind;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const asked = counts.get('revalidate') ?? 0;
  t.ok(asked >= 150 && asked <= 210, `${asked} in the second after the grace time`);
  t.ok((counts.get('too_many_names') ?? 0) > 0);
  t.ok((counts.get('too_fast') ?? 0) > 0);
  t.strictSame([...counts.keys()].sort(), ['revalidate', 'too_fast', 'too_many_names']);
  t.end();
});

t.test('a switch at a peer nudges the sources of the group, once in 5 s', (t) => {
  const me = new HintsDriver();
  const switched: PeerMessage = { kind: 'switched', group: 'cloud', to: 'onprem' };
  me.hears(switched)
    .hears(switched)
    .hears({ ...switched, group: 'other' });
  t.strictSame(me.words(), ['nudge cloud', 'nudge other']);
  me.after(5_000).hears(switched);
  t.strictSame(me.words(), ['nudge cloud']);
  me.hints.handleSwitched('cloud', 'onprem');
  t.strictSame(me.messages(), [switched], 'a switch here is published at once');
  t.end();
});

t.test('an operator’s invalidation is unbounded here, and bounded at peers', (t) => {
  const me = new HintsDriver().holds(A, { version: '1' });
  t.equal(me.hints.invalidate(CDS, A), true);
  t.equal(me.hints.invalidate(CDS, A), true);
  t.strictSame(me.words(), [
    'tell invalidate',
    `revalidate ${A.key} for invalidation`,
    'tell invalidate',
    `revalidate ${A.key} for invalidation`,
  ]);
  t.equal(me.hints.invalidate(CDS, B), false, 'not subscribed here, but maybe at peers');
  t.strictSame(me.words(), ['tell invalidate']);
  me.hints.invalidateAuthority('cloud');
  t.strictSame(me.words(), ['tell invalidate_authority']);
  const order: PeerMessage = { kind: 'invalidate', typeUrl: CDS, name: A };
  me.hears(order)
    .hears(order)
    .hears({ ...order, name: B });
  t.strictSame(me.words(), [`revalidate ${A.key} for invalidation`]);
  const all: PeerMessage = { kind: 'invalidate_authority', authority: 'cloud' };
  me.hears(all).hears(all);
  t.strictSame(me.words(), ['revalidate all of cloud']);
  me.after(30_000).hears(order).after(29_999).hears(all);
  t.strictSame(
    me.words().filter((word) => word.startsWith('reval')),
    [`revalidate ${A.key} for invalidation`],
    'it covers all its names, so not again within a minute',
  );
  me.after(1).hears(all);
  t.strictSame(
    me.words().filter((word) => word.startsWith('reval')),
    ['revalidate all of cloud'],
  );
  me.after(60_000).hears(order).hears(all);
  t.strictSame(
    me.words().filter((word) => word.startsWith('reval')),
    [`revalidate ${A.key} for invalidation`, 'revalidate all of cloud'],
  );
  const member = new HintsDriver().holds(A, { version: '1', asked: GLOB, inCollection: true });
  member.hears(order);
  t.strictSame(member.words(), [`revalidate ${GLOB.key} for invalidation`], 'its glob, in full');
  t.end();
});

t.test('own and unreadable messages are counted, and have no other effect', (t) => {
  const me = new HintsDriver().holds(A, { version: '1' });
  me.hears(hintOf(A, '2'), 'me').hearsBytes(Buffer.from('{'));
  me.hearsBytes(Buffer.from('{"v":2,"from":"x"}')).hearsBytes(Buffer.alloc(20_000, 32));
  t.strictSame(me.words(), [
    'ignored: own',
    'ignored: malformed',
    'ignored: unknown_format',
    'ignored: oversize',
  ]);
  me.after(10_000);
  t.strictSame(me.words(), []);
  t.end();
});

t.test('messages beyond the rate bound are dropped unread', (t) => {
  const me = new HintsDriver();
  const bytes = encodePeerMessage('other', hintOf(A, '1'));
  for (let at = 0; at < 600; at++) me.hearsBytes(bytes);
  t.equal(me.words().filter((word) => word === 'ignored: too_fast').length, 100);
  me.after(1_000).hearsBytes(bytes);
  t.strictSame(me.words(), [], 'and read again afterwards');
  t.end();
});

t.test('while disconnected, no hint is queued; after that, digests are compared', (t) => {
  const [one, two] = [new HintsDriver('one'), new HintsDriver('two')];
  for (const each of [one, two]) each.sees(A, '1').sees(B, '1').after(50).take();
  const exchange = (): void => {
    for (let round = 0; round < 4; round++) {
      for (const message of one.messages()) two.hears(message, 'one');
      for (const message of two.messages()) one.hears(message, 'two');
    }
  };
  one.hints.handleDisconnected();
  one.sees(A, '2').sees(B, undefined);
  t.strictSame(one.words(), ['not told: 1', 'not told: 1']);
  t.equal(one.hints.nextDeadlineMs(), undefined);
  t.notSame(one.hints.digest(), two.hints.digest());
  one.hints.handleConnected(one.nowMs);
  one.after(0);
  exchange();
  two.after(GRACE_MS);
  t.strictSame(
    two.words().filter((word) => word.startsWith('reval')),
    [`revalidate ${A.key} for hint`, `revalidate ${B.key} for hint`],
  );
  two.sees(A, '2').sees(B, undefined);
  t.strictSame(one.hints.digest(), two.hints.digest());
  t.end();
});

t.test('equal digests get no reply, nor does the same question twice in a second', (t) => {
  const [one, two] = [new HintsDriver('one').sees(A, '1'), new HintsDriver('two').sees(A, '1')];
  const question = (): PeerMessage => ({
    kind: 'digest',
    isQuestion: true,
    rows: one.hints.digest(),
  });
  two.after(50).take();
  two.hears(question());
  t.strictSame(two.words(), []);
  one.sees(A, '2');
  two.hears(question()).hears(question());
  t.strictSame(two.words(), ['tell digest of 1', 'tell g/a=1']);
  two.after(1_000);
  t.strictSame(two.words(), ['tell digest of 1', 'tell g/a=1'], 'but afterwards');
  two.after(1_000).hears({ ...question(), isQuestion: false } as PeerMessage);
  t.strictSame(two.words(), ['tell g/a=1'], 'a reply gets no digest in return');
  two.hears({ kind: 'digest', isQuestion: true, rows: [] });
  const strange = { typeUrl: EDS, authority: 'a', count: 1, hash: 'x' };
  two.hears({ kind: 'digest', isQuestion: true, rows: [strange] });
  t.strictSame(two.words(), []);
  two.hints.handleConnected(two.nowMs);
  two.after(0);
  t.strictSame(two.words(), ['tell digest? of 1']);
  two.after(60_000);
  t.strictSame(two.words(), ['tell digest? of 1'], 'and periodically, since messages get lost');
  t.end();
});

t.test(
  'a digest has a row per type and authority, in an order that does not depend on time',
  (t) => {
    const other = nameOf('xdstp://other/envoy.config.cluster.v3.Cluster/x');
    const all = [
      [EDS, A],
      [CDS, other],
      [CDS, A],
    ] as const;
    const [one, two] = [new HintsDriver(), new HintsDriver()];
    for (const [typeUrl, name] of all) one.sees(name, '1', { typeUrl });
    for (const [typeUrl, name] of [...all].reverse()) two.sees(name, '1', { typeUrl });
    t.equal(one.hints.digest().length, 3);
    t.strictSame(one.hints.digest(), two.hints.digest());
    two.sees(A, '2').sees(A, '1');
    t.strictSame(one.hints.digest(), two.hints.digest(), 'there and back');
    two.sees(A, undefined).sees(other, undefined);
    t.equal(two.hints.digest().length, 1);
    t.end();
  },
);

t.test('of recently changed names, only held ones are published, up to a bound', (t) => {
  const me = new HintsDriver();
  const name = (at: number): ResourceName => nameOf(cds(`g/${at}`));
  for (let at = 0; at < 4_500; at++) me.sees(name(at), '1');
  me.sees(nameOf('xdstp://other/envoy.config.cluster.v3.Cluster/x'), '1');
  me.after(100).take();
  me.held.delete(`${CDS} ${name(4_499).key}`);
  me.holds(name(4_498), { kind: 'error' });
  const rows = [{ ...me.hints.digest()[0]!, hash: 'other' }];
  me.hears({ kind: 'digest', isQuestion: false, rows });
  const hints = me.messages().flatMap((one) => (one.kind === 'changes' ? one.hints : []));
  t.equal(hints.length, 1_000);
  t.equal(hints.at(-1)?.name.key, name(4_497).key);
  t.end();
});

t.test('whatever peers send, in any order: only bounded requests follow (invariant 14)', (t) => {
  const names = [A, B, GLOB, nameOf(cds('h/x'))];
  const anyName = fc.constantFrom(...names);
  const version = fc.constantFrom('1', '2', '', null);
  const message: fc.Arbitrary<PeerMessage> = fc.oneof(
    fc
      .array(fc.record({ typeUrl: fc.constantFrom(CDS, EDS), name: anyName, version }))
      .map((hints) => ({ kind: 'changes' as const, hints })),
    fc.record({ kind: fc.constant('switched' as const), group: fc.string(), to: fc.string() }),
    fc.record({
      kind: fc.constant('invalidate' as const),
      typeUrl: fc.constant(CDS),
      name: anyName,
    }),
    fc.record({ kind: fc.constant('invalidate_authority' as const), authority: fc.string() }),
    fc.record({
      kind: fc.constant('digest' as const),
      isQuestion: fc.boolean(),
      rows: fc.array(
        fc.record({
          typeUrl: fc.constant(CDS),
          authority: fc.constantFrom('cloud.example.com', 'x'),
          count: fc.nat(),
          hash: fc.string(),
        }),
      ),
    }),
  );
  const step = fc.oneof(
    message.map((one) => encodePeerMessage('other', one)),
    fc.uint8Array({ maxLength: 64 }),
    fc.nat(3_000),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const me = new HintsDriver().holds(A, { version: '1' }).holds(B, { kind: 'absent' });
      me.sees(A, '1').after(100).take();
      const held = JSON.stringify([...me.held]);
      const digest = me.hints.digest();
      let passedMs = 0;
      for (const one of steps) {
        if (typeof one === 'number') passedMs += one;
        if (typeof one === 'number') me.after(one);
        else me.hearsBytes(one).hearsBytes(one);
      }
      me.after(10_000);
      const asked = me.take().filter(({ kind }) => kind === 'revalidate');
      const rounds = 1 + (passedMs + 10_000) / 10_000;
      return (
        asked.length <= 2 * rounds &&
        JSON.stringify([...me.held]) === held &&
        JSON.stringify(me.hints.digest()) === JSON.stringify(digest)
      );
    }),
  );
  t.end();
});

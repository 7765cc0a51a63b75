import t from 'tap';
import {
  alternativeMapping,
  IDENTITY_MAPPING,
} from '../../../../../authorities/core/resolution/name-mapping.js';
import {
  project,
  reproject,
  withAlternatives,
  type Projection,
} from '../../../../../authorities/core/projection.js';
import { RemovalHold } from '../../../../../authorities/core/failover/removal-hold.js';
import { ServedNames } from '../../../../../authorities/core/failover/served-names.js';
import { SourceContents } from '../../../../../authorities/core/sources/source-contents.js';
import { DEFAULT_FAILOVER } from '../../../../../config/defaults.js';
import { oldStyleName, parseResourceLocator } from '../../../../../protos/resource-name.js';
import { bodyOf } from '../../../../../protos/resource-field.js';
import { TYPE_URL } from '../../../../../protos/type-urls.js';
import { nameOf, THING, thing } from '../../../../support/federation-driver.js';

const a = nameOf(thing('cloud', 'x/a'));
const b = nameOf(thing('cloud', 'x/b'));
const glob = nameOf(thing('cloud', 'x/*'));
const elsewhere = nameOf(thing('cloud', 'y/a'));
const [me, you] = [{}, {}];

function projectionOf(name = a, body = '1'): Projection {
  const projected = project(name, THING, Buffer.from(body));
  if (!projected.ok) throw new Error(projected.reason);
  return projected.projection;
}
const entryOf = (name = a, body = '1'): { projection: Projection; upstreamVersion: string } => ({
  projection: projectionOf(name, body),
  upstreamVersion: `v${body}`,
});
const told = (contents: SourceContents): readonly string[] =>
  contents.takeChanges().map(({ kind, name }) => `${kind} ${name.id}`);

t.test('content, refused content and an error end the silence about a name', (t) => {
  for (const end of ['content', 'refused', 'error', 'nothing'] as const) {
    const contents = new SourceContents();
    t.notOk(contents.isSilentAbout(THING, a), 'the source was not asked');
    contents.subscribe(THING, a, me);
    t.ok(contents.isSilentAbout(THING, a));
    if (end === 'content') contents.put(entryOf(a));
    if (end === 'refused') contents.refuse(THING, a);
    if (end === 'error') contents.fail(THING, a, { code: 13, message: 'broken' });
    const one = contents.subscription(THING, a);
    if (end === 'nothing' && one) contents.timeOut(one);
    t.equal(contents.isSilentAbout(THING, a), end === 'nothing', end);
  }
  t.end();
});

t.test('what is not held any more takes no room, whichever way it went', (t) => {
  const contents = new SourceContents();
  for (let round = 0; round < 2; round++) {
    contents.subscribe(THING, glob, me);
    contents.subscribe(THING, a, me);
    for (const name of [a, b]) contents.put(entryOf(name));
    contents.put(entryOf(b, 'a longer body'));
    contents.remove(THING, a, false);
    contents.put(entryOf(a));
    const { bytes } = contents.budget;
    for (let time = 0; time < 2; time++) {
      contents.unsubscribe(THING, glob, me);
      t.equal(contents.budget.resources, 1);
      t.ok(contents.budget.bytes > 0 && contents.budget.bytes < bytes);
      contents.subscribe(THING, glob, me);
    }
    contents.unsubscribe(THING, glob, me);
    contents.unsubscribe(THING, a, me);
    t.strictSame([contents.budget.resources, contents.budget.bytes], [0, 0]);
  }
  t.end();
});

t.test(
  'a name is subscribed once for all its listeners, and unsubscribed with the last one',
  (t) => {
    const contents = new SourceContents();
    t.ok(contents.subscribe(THING, a, me));
    t.equal(contents.subscribe(THING, a, you), undefined);
    t.equal(contents.subscriptionCount, 1);
    t.equal(contents.unsubscribe(THING, a, me), undefined);
    t.equal(contents.unsubscribe(THING, a, me), undefined);
    t.ok(contents.unsubscribe(THING, a, you));
    t.equal(contents.subscriptionCount, 0);
    t.equal(contents.unsubscribe(THING, b, me), undefined);
    t.end();
  },
);

t.test('a name that is subscribed or held is known by its text, and others are not', (t) => {
  const contents = new SourceContents();
  contents.subscribe(THING, a, me);
  t.equal(contents.knownName(THING, a.key), a, 'subscribed');
  t.equal(contents.knownName(THING, b.key), undefined, 'in the same directory');
  t.equal(contents.knownName(THING, elsewhere.key), undefined, 'in another one');
  t.equal(contents.knownName(`${THING}2`, a.key), undefined, 'of another type');
  contents.subscribe(THING, glob, me);
  t.equal(contents.knownName(THING, glob.key), undefined, 'a glob');
  const member = entryOf(b);
  contents.put(member);
  t.equal(contents.knownName(THING, b.key), b, 'a member that is held');
  t.end();
});

t.test('a name beside a subscribed one, sent unasked, is told to no listener', (t) => {
  const contents = new SourceContents();
  contents.subscribe(THING, a, me);
  contents.put(entryOf(b));
  t.match(contents.takeChanges(), [{ kind: 'present', name: b, listeners: [] }]);
  t.end();
});

t.test('content without a subscription is not kept', (t) => {
  const contents = new SourceContents();
  contents.put(entryOf());
  contents.remove(THING, a, false);
  contents.subscribe(THING, a, me);
  contents.put(entryOf(elsewhere));
  t.equal(contents.entry(THING, elsewhere), undefined);
  t.strictSame([...contents.entries('other')], []);
  t.strictSame([...contents.subscriptions('other')], []);
  t.notOk(contents.isWanted(THING, elsewhere));
  t.strictSame(told(contents), []);
  t.end();
});

t.test('a name is answered by itself, or as a member of a subscribed glob', (t) => {
  const contents = new SourceContents();
  t.equal(contents.answerFor(THING, a), 'timed_out', 'no subscription: silence');
  const single = contents.subscribe(THING, a, me)!;
  t.equal(contents.answerFor(THING, a), 'requested');
  contents.timeOut(single);
  t.equal(contents.answerFor(THING, a), 'timed_out');
  const collection = contents.subscribe(THING, glob, me)!;
  t.equal(contents.answerFor(THING, a), 'requested');
  contents.put(entryOf(b));
  contents.settle(collection);
  t.equal(
    contents.answerFor(THING, a),
    'absent',
    'the glob is answered, and the name is not a member',
  );
  t.equal(contents.answerFor(THING, b), 'present');
  contents.remove(THING, a, false);
  t.equal(contents.answerFor(THING, a), 'absent');
  t.end();
});

t.test('the same content again is not a change; a settled glob is notified last', (t) => {
  const contents = new SourceContents();
  const collection = contents.subscribe(THING, glob, me)!;
  contents.put(entryOf(a));
  contents.settle(collection);
  contents.put(entryOf(b));
  t.strictSame(told(contents), ['present x/a', 'present x/b', 'settled x/*']);
  contents.put(entryOf(a));
  contents.remove(THING, glob, false);
  t.strictSame(told(contents), []);
  contents.put(entryOf(a, '2'));
  t.strictSame(told(contents), ['present x/a']);
  t.strictSame([...contents.members(THING, glob)].length, 2);
  t.equal(contents.memberCount(THING, glob), 2);
  const unknown = nameOf(thing('cloud', 'z/*'));
  t.strictSame([...contents.members(THING, unknown)], []);
  t.equal(contents.memberCount(THING, unknown), 0);
  t.end();
});

t.test(
  'a glob without a subscription does not settle, and a timeout after an answer has no effect',
  (t) => {
    const contents = new SourceContents();
    const single = contents.subscribe(THING, a, me)!;
    contents.remove(THING, glob, false);
    contents.put(entryOf());
    t.strictSame(told(contents), ['present x/a'], 'the answer to a name is its content');
    contents.timeOut(single);
    t.equal(single.status, 'present');
    t.strictSame(told(contents), []);
    t.end();
  },
);

t.test(
  'each listener gets changes of its own names only; a glob’s listener those of known members',
  (t) => {
    const contents = new SourceContents();
    contents.subscribe(THING, a, me);
    contents.subscribe(THING, glob, you);
    contents.put(entryOf());
    const [present] = contents.takeChanges();
    t.strictSame(new Set(present?.listeners), new Set([me, you]));
    contents.remove(THING, b, false);
    t.strictSame(told(contents), [], 'the removal of an unknown member is not notified');
    contents.remove(THING, a, true);
    const [removed] = contents.takeChanges();
    t.match(removed, { kind: 'removed', isDoubtful: true });
    t.equal(removed?.listeners.length, 2);
    t.end();
  },
);

t.test(
  'the first answer for a name on a stream is doubtful, and what the source sends later is not',
  (t) => {
    for (const by of [a, glob]) {
      const contents = new SourceContents('state of the world');
      const subscription = contents.subscribe(THING, by, me)!;
      const doubtsAbout = (body: string): readonly unknown[] => {
        contents.put(entryOf(a, body));
        contents.settle(subscription);
        return contents
          .takeChanges()
          .flatMap(({ kind, isDoubtful }) => (kind === 'present' ? [isDoubtful] : []));
      };
      t.strictSame(doubtsAbout('1'), [true]);
      t.strictSame(doubtsAbout('2'), [false]);
      contents.restart();
      t.strictSame(doubtsAbout('3'), [true]);
      contents.restart();
      contents.timeOut(subscription);
      t.strictSame(doubtsAbout('4'), [true]);
      t.strictSame(doubtsAbout('5'), [false]);
    }
    t.end();
  },
);

t.test('served names: counted once, found singly and by glob, forgotten without a trace', (t) => {
  const served = new ServedNames();
  served.set({ projection: projectionOf(a), from: 0 });
  served.set({ projection: projectionOf(a, '2'), from: 1 });
  served.set({ projection: projectionOf(b), from: 0 });
  t.equal(served.count, 2);
  t.equal(served.get(THING, a)?.from, 1);
  t.strictSame([...served.members(THING, glob).keys()], [a.key, b.key]);
  t.ok(served.holds(THING, glob) && served.holds(THING, a) && !served.holds(THING, elsewhere));
  t.ok(served.delete(THING, a));
  t.notOk(served.delete(THING, a));
  t.notOk(served.delete(THING, elsewhere));
  t.ok(served.delete(THING, b));
  t.equal(served.count, 0);
  t.equal(served.members(THING, glob).size, 0);
  served.set({ projection: projectionOf(a), from: 0 });
  served.clear();
  t.equal(served.count, 0);
  t.strictSame([...served.all()], []);
  t.end();
});

t.test(
  'held removals: due at their deadline, cancelled by a return, first deadline counts',
  (t) => {
    const hold = new RemovalHold(DEFAULT_FAILOVER.deletionGuard);
    hold.cancel(THING, a);
    t.equal(hold.nextDeadlineMs(), undefined);
    hold.add({ typeUrl: THING, name: a }, 200);
    hold.add({ typeUrl: THING, name: b }, 100);
    hold.add({ typeUrl: THING, name: b }, 900);
    t.equal(hold.nextDeadlineMs(), 100);
    t.strictSame(
      hold.takeDue(() => 3, 99),
      { due: [], guarded: undefined, kept: [] },
    );
    t.strictSame(
      hold.takeDue(() => 3, 100).due.map(({ name }) => name),
      [b],
    );
    hold.cancel(THING, a);
    t.strictSame(hold.takeDue(() => 3, 999).due, []);
    hold.add({ typeUrl: THING, name: a }, 1);
    hold.clear();
    t.equal(hold.nextDeadlineMs(), undefined);
    t.end();
  },
);

t.test('names of an alternative: one prefix for another, parameters kept, and back', (t) => {
  const mapping = alternativeMapping('cloud', {
    authority: 'onprem',
    fromPrefix: 'x/',
    toPrefix: 'deep/er/',
  });
  const asked = nameOf(`${thing('cloud', 'x/a/b')}?k=v`);
  const there = nameOf(`${thing('onprem', 'deep/er/a/b')}?k=v`);
  t.strictSame(mapping.toSource(asked), there);
  t.strictSame(mapping.toAsked(there), [asked]);
  t.strictSame(mapping.toReference(there), asked);
  t.strictSame(mapping.toSource(glob), nameOf(thing('onprem', 'deep/er/*')));
  const outside = [thing('onprem', 'deep/x'), thing('third', 'deep/er/x')].map(nameOf);
  for (const name of outside)
    t.strictSame(mapping.toAsked(name), [name], 'names outside the prefix stay');
  t.equal(IDENTITY_MAPPING.toSource(a), a);
  t.strictSame(IDENTITY_MAPPING.toAsked(a), [a]);
  t.equal(IDENTITY_MAPPING.toReference(a), a);
  t.end();
});

t.test('a resource’s own alternatives take precedence over known ones', (t) => {
  const known = parseResourceLocator(`${a.key}#alt=${b.key}`);
  if (!known.ok) throw new Error(known.error.message);
  const plain = projectionOf(a);
  t.equal(withAlternatives(plain, undefined), plain);
  const told = withAlternatives(plain, [known.value]);
  t.strictSame(told.alternatives, [known.value]);
  t.equal(withAlternatives(told, [{ ...known.value }]), told);
  t.end();
});

t.test('a version is a hash of type and content, and of nothing else (invariant 4)', (t) => {
  t.equal(projectionOf(a).version, projectionOf(b).version);
  t.not(projectionOf(a, '1').version, projectionOf(a, '2').version);
  const other = project(a, 'type.googleapis.com/test.v1.Other', Buffer.from('1'));
  t.not(other.ok && other.projection.version, projectionOf(a).version);
  t.equal(projectionOf(a).version.length, 22);
  t.end();
});

t.test('references in payloads become canonical; other texts stay unchanged', (t) => {
  const route = (cluster: string): Buffer => {
    const field = (tag: number, content: Buffer): Buffer =>
      Buffer.concat([Buffer.from([tag, content.length]), content]);
    // RouteConfiguration.name and .virtual_hosts.routes.route.cluster
    const action = field(0x0a, Buffer.from(cluster));
    const hosts = field(0x12, field(0x1a, field(0x12, action)));
    return Buffer.concat([field(0x0a, Buffer.from('xdstp://cloud/x')), hosts]);
  };
  const name = nameOf('xdstp://cloud/envoy.config.route.v3.RouteConfiguration/r');
  const cluster = 'xdstp://cloud/envoy.config.cluster.v3.Cluster/c';
  const seen = (text: string): string => {
    const projected = project(name, TYPE_URL.routeConfiguration, route(text));
    if (!projected.ok) throw new Error(projected.reason);
    return bodyOf(projected.projection.field).toString('latin1');
  };
  t.match(seen(`${cluster}?b=2&a=1`), `${cluster}?a=1&b=2`);
  t.notMatch(seen(`${cluster}#alt=xdstp://x/envoy.config.cluster.v3.Cluster/c`), /alt/);
  t.match(seen('xdstp:not a name'), 'xdstp:not a name');
  t.match(seen('plain'), 'plain');
  const first = project(name, TYPE_URL.routeConfiguration, route(cluster));
  const mapped = first.ok && reproject(first.projection, name, (one) => ({ ...one, key: 'K' }));
  t.ok(mapped && mapped.ok && bodyOf(mapped.projection.field).toString('latin1').includes('K'));
  t.end();
});

t.test('the payload of an old-style resource keeps its own name', (t) => {
  const body = Buffer.concat([Buffer.from([0x0a, 3]), Buffer.from('own')]);
  const projected = project(oldStyleName('node', 'asked'), TYPE_URL.cluster, body);
  t.ok(projected.ok && bodyOf(projected.projection.field).equals(body));
  t.end();
});

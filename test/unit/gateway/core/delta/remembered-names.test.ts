/**
 * Goal: remembered names of a collection (from a state file, or of clients that disconnected) are
 * removed late, and not all at once, when a source that has just started lacks them (invariants 3,
 * 18).
 * Method: an instance that knows names of an earlier process, model clients, and a clock.
 */
import t from 'tap';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import type { HeldBack } from '../../../../../gateway/core/cache/missing-names.js';
import { ROUTE_WAIT_MS } from '../../../../../gateway/core/session/push-order.js';
import { nameOf, projectionOf } from '../../../../support/fake-directory.js';
import { CDS, LDS, RDS, cds, lds, rds } from '../../../../support/mesh-names.js';
import {
  gist,
  GUARD_WAIT_MS,
  Instance,
  SWITCH_WAIT_MS,
} from '../../../../support/session-driver.js';
import { said, SotwClient } from '../../../../support/sotw-driver.js';

/** Shorter than the wait for a doubted name. */
const LINGER_MS = 1_000;
const DENIED = { code: STATUS_CODE.permissionDenied, message: 'not for you' };

/** An instance whose state file lists members of globs that do not exist yet. */
function remembering(...members: readonly (readonly [typeUrl: string, name: string])[]) {
  const heldBack: HeldBack[] = [];
  const onHeldBack = (held: HeldBack): void => {
    heldBack.push(held);
  };
  const instance = new Instance({ onHeldBack, unsubscribedLingerMs: LINGER_MS });
  const globs = new Map<string, { typeUrl: string; keys: string[] }>();
  for (const [typeUrl, text] of members) {
    const glob = text.slice(0, text.lastIndexOf('/') + 1) + '*';
    const one = globs.get(glob) ?? { typeUrl, keys: [] };
    one.keys.push(text);
    globs.set(glob, one);
  }
  instance.cache.restoreCollections(
    [...globs].map(([glob, { typeUrl, keys }]) => ({
      typeUrl,
      glob: nameOf(glob),
      members: keys,
      removed: [],
      knownAtMs: 0,
    })),
    0,
  );
  return { instance, directory: instance.directory, heldBack };
}

/** A client of a collection that had two names; the source has one of them, and has not answered yet. */
function oneOfTwo() {
  const { instance, directory } = remembering([CDS, cds('g/stays')], [CDS, cds('g/goes')]);
  directory.put(CDS, cds('g/stays'), 'v1');
  const client = instance.connect();
  client.subscribe(CDS, cds('g/*'));
  return { instance, directory, client };
}

/** A client of a cluster and two routes that no source has. The source has answered the cluster alone. */
function clusterAnswered() {
  const { instance, directory, heldBack } = remembering(
    [CDS, cds('g/a')],
    [RDS, rds('r/a')],
    [RDS, rds('r/b')],
  );
  const client = instance.connect();
  client.subscribe(CDS, cds('g/*'));
  client.subscribe(RDS, rds('r/*'));
  directory.answer((_, typeUrl) => typeUrl === CDS);
  return { directory, client, heldBack };
}

const clusters = (resources: readonly string[], removed: readonly string[] = []): unknown => ({
  type: 'Cluster',
  resources,
  removed,
});

t.test('a remembered name that the source lacks is removed after switch_wait', (t) => {
  const { instance, directory, client } = oneOfTwo();
  directory.answer();
  t.strictSame(client.settle().map(gist), [clusters([cds('g/stays')])]);
  t.equal(instance.cache.nextDeadlineMs(), SWITCH_WAIT_MS);
  t.strictSame(client.settleAfter(SWITCH_WAIT_MS - 1), []);
  t.strictSame(client.settleAfter(1).map(gist), [clusters([], [cds('g/goes')])]);
  t.equal(instance.cache.nextDeadlineMs(), undefined, 'all names are judged');
  t.end();
});

// The cache once took the time of its last tick (seed 7808 with a planted bug).
t.test('switch_wait begins with the response of the source, not with the last tick', (t) => {
  const { instance, directory, client } = oneOfTwo();
  instance.nowMs = directory.nowMs = 100_000;
  directory.answer();
  t.strictSame(client.settle().map(gist), [clusters([cds('g/stays')])]);
  t.strictSame(client.settleAfter(SWITCH_WAIT_MS - 1).map(gist), []);
  t.strictSame(client.settleAfter(1).map(gist), [clusters([], [cds('g/goes')])]);
  t.end();
});

t.test('a remembered name that the source sends meanwhile is not lost', (t) => {
  const { instance, directory } = remembering([CDS, cds('g/a')], [CDS, cds('g/late')]);
  directory.put(CDS, cds('g/a'), 'v1');
  const client = instance.connect();
  client.subscribe(CDS, cds('g/*'));
  directory.answer();
  client.settle();
  directory.put(CDS, cds('g/late'), 'v1');
  t.strictSame(client.settle().map(gist), [clusters([cds('g/late')])]);
  t.strictSame(client.settleAfter(SWITCH_WAIT_MS), []);
  t.end();
});

t.test(
  'losing all names of an authority at once waits for the guard, of all types together',
  (t) => {
    const { instance, directory, heldBack } = remembering(
      [CDS, cds('g/a')],
      [LDS, lds('g/l')],
      [CDS, cds('g/b', 'other')],
      [CDS, cds('g/c', 'other')],
    );
    directory.put(CDS, cds('g/b', 'other'), 'v1');
    const client = instance.connect();
    client.subscribe(CDS, cds('g/*'), cds('g/*', 'other'));
    client.subscribe(LDS, lds('g/*'));
    directory.answer();
    client.settle();
    const removed = (ms: number): readonly string[] =>
      client.settleAfter(ms).flatMap((response) => response.removed);
    t.strictSame(
      removed(SWITCH_WAIT_MS),
      [cds('g/c', 'other')],
      'authorities are judged separately',
    );
    const untilMs = SWITCH_WAIT_MS + GUARD_WAIT_MS;
    t.strictSame(heldBack, [{ authority: 'cloud', names: 2, untilMs }]);
    t.strictSame(removed(GUARD_WAIT_MS - 1), []);
    t.strictSame(removed(1), [lds('g/l')], 'then they are removed, as configured');
    t.strictSame(removed(ROUTE_WAIT_MS), [cds('g/a')]);
    t.end();
  },
);

// Seed 4214: a source of the state of the world never proves that its routes are gone.
t.test(
  'names that no source can prove to be gone do not hide that an authority lost all others (invariant 3)',
  (t) => {
    const { directory, client, heldBack } = clusterAnswered();
    directory.answerWithoutProof();
    client.settle();
    t.strictSame(client.settleAfter(SWITCH_WAIT_MS), []);
    t.match(heldBack, [{ names: 1 }]);
    t.end();
  },
);

t.test(
  'an authority is judged when its collections are answered, or their sources are out of reach (invariant 3)',
  (t) => {
    const { directory, client, heldBack } = clusterAnswered();
    client.settle();
    t.strictSame(client.settleAfter(10 * SWITCH_WAIT_MS), []);
    t.strictSame(heldBack, [], 'the routes may be there');
    const status = { code: STATUS_CODE.unavailable, message: 'out of reach' };
    directory.fail(RDS, rds('r/*'), status);
    t.strictSame(
      client.settleAfter(SWITCH_WAIT_MS).flatMap(({ removed }) => removed),
      [],
    );
    t.match(heldBack, [{ names: 1 }], 'all that is known of it is lost');
    t.end();
  },
);

t.test('the guard holds removals back without an onHeldBack listener too', (t) => {
  const instance = new Instance();
  const glob = nameOf(cds('g/*'));
  const names = { typeUrl: CDS, glob, members: [cds('g/a')], removed: [], knownAtMs: 0 };
  instance.cache.restoreCollections([names], 0);
  const client = instance.connect();
  client.subscribe(CDS, cds('g/*'));
  instance.directory.answer();
  client.settle();
  t.strictSame(client.settleAfter(SWITCH_WAIT_MS), []);
  t.strictSame(client.settleAfter(GUARD_WAIT_MS).map(gist), [clusters([], [cds('g/a')])]);
  t.end();
});

t.test('an alternative judges no remembered name (invariant 3)', (t) => {
  const { instance, directory } = remembering([CDS, cds('g/a')], [CDS, cds('g/primary')]);
  directory.put(CDS, cds('g/a'), 'v1');
  const client = instance.connect();
  client.subscribe(CDS, cds('g/*'));
  directory.answerWithoutProof();
  client.settle();
  t.equal(instance.cache.nextDeadlineMs(), undefined);
  t.strictSame(client.settleAfter(SWITCH_WAIT_MS + GUARD_WAIT_MS), []);
  t.end();
});

t.test('a denied collection loses its remembered names at once (invariant 12)', (t) => {
  const { instance, directory } = remembering([CDS, cds('g/a')]);
  const client = instance.connect();
  client.subscribe(CDS, cds('g/*'));
  directory.fail(CDS, cds('g/*'), DENIED);
  t.strictSame(
    client.settle().flatMap(({ removed }) => removed),
    [cds('g/*'), cds('g/a')],
  );
  t.end();
});

t.test(
  'a collection that goes dormant in doubt is judged anew when it is subscribed again',
  (t) => {
    const { instance, directory } = remembering([CDS, cds('g/a')], [CDS, cds('g/b')]);
    directory.put(CDS, cds('g/a'), 'v1');
    const first = instance.connect();
    first.subscribe(CDS, cds('g/*'));
    directory.answer();
    first.settle();
    first.disconnect();
    const stays = instance.connect();
    for (const id of ['h/a', 'h/b']) directory.put(CDS, cds(id), 'v1');
    stays.subscribe(CDS, cds('h/*'));
    directory.answer();
    instance.advance(LINGER_MS);
    t.strictSame(directory.watched, [cds('h/*')], 'it sleeps');
    instance.advance(SWITCH_WAIT_MS);
    const again = instance.connect();
    again.subscribe(CDS, cds('g/*'));
    directory.answer();
    const removed = (ms: number): readonly string[] =>
      again.settleAfter(ms).flatMap((response) => response.removed);
    t.strictSame(removed(0), []);
    t.strictSame(removed(SWITCH_WAIT_MS), [cds('g/b')]);
    t.end();
  },
);

t.test(
  'a state-of-the-world response waits until missing remembered names are judged (invariant 19)',
  (t) => {
    const { instance, directory } = remembering([CDS, cds('g/a')], [CDS, cds('g/b')]);
    directory.put(CDS, cds('g/a'), 'v1');
    const client = new SotwClient(instance);
    client.ask(CDS, cds('g/*'));
    directory.answer();
    t.strictSame(client.settle(), []);
    directory.put(CDS, cds('g/a'), 'v2');
    t.strictSame(client.settle(), [], 'whatever changes');
    instance.advance(SWITCH_WAIT_MS);
    t.strictSame(client.settle().map(said), [['Cluster', 'g/a=v2']]);
    t.end();
  },
);

t.test('a judged name that comes back is sent, and names of other globs do not count', (t) => {
  const { instance, directory } = remembering(
    [CDS, cds('g/a')],
    [CDS, cds('h/b')],
    [CDS, cds('h/c')],
  );
  for (const id of ['g/a', 'h/b']) directory.put(CDS, cds(id), 'v1');
  const client = instance.connect();
  client.subscribe(CDS, cds('g/*'), cds('h/*'));
  directory.answer();
  client.settle();
  t.strictSame(client.settleAfter(SWITCH_WAIT_MS).map(gist), [clusters([], [cds('h/c')])]);
  instance.cache.onChanged(projectionOf(CDS, cds('h/c'), 'v1'));
  t.strictSame(client.settle().map(gist), [clusters([cds('h/c')])]);
  t.end();
});

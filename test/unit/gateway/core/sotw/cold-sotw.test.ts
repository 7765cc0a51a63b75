/**
 * Goal: a process that has just started, before sources that may just have started too, sends no
 * set of listeners or clusters that deletes resources of a state-of-the-world client, and no empty
 * set while something is unknown (invariants 3, 19).
 * Method: model clients that connect with and without versions, and a clock.
 */
import t from 'tap';
import { FIRST_ANSWER_WAIT_MS } from '../../../../../gateway/core/sotw/responses.js';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { nameOf, projectionOf } from '../../../../support/fake-directory.js';
import { CDS, LDS, RDS, SDS, cds, lds, rds, sds } from '../../../../support/mesh-names.js';
import { resumed, setUp } from '../../../../support/cold-sotw.js';
import { GUARD_WAIT_MS, Instance, SWITCH_WAIT_MS } from '../../../../support/session-driver.js';
import { said, SotwClient } from '../../../../support/sotw-driver.js';

const UNREACHABLE = { code: STATUS_CODE.unavailable, message: 'no source' };
const UNREADABLE = { code: STATUS_CODE.internal, message: 'cannot be read' };
const DENIED = { code: STATUS_CODE.permissionDenied, message: 'not for you' };
/** A removal waits so long. */
const QUIET_MS = 1_000;

t.test('a version encodes the number of resources in its set', (t) => {
  const { client, directory } = setUp();
  for (const id of ['a', 'b']) directory.put(CDS, cds(id), 'v1');
  directory.put(LDS, lds('g/a'), 'v1');
  client.ask(CDS, cds('a'), cds('b'));
  client.ask(LDS, lds('g/*'));
  directory.answer();
  t.match(client.settle(), [{ versionInfo: /^[^.]+\.2$/ }, { versionInfo: /^[^.]+\.1$/ }]);
  t.end();
});

t.test(
  'a removed resource that stays for a while is not in the number: its source lacks it',
  (t) => {
    const { client, directory } = setUp();
    for (const id of ['a', 'b', 'c']) directory.put(CDS, cds(`g/${id}`), 'v1');
    client.ask(CDS, cds('g/*'));
    directory.answer();
    t.match(client.settle(), [{ versionInfo: /\.3$/ }]);
    directory.put(CDS, cds('g/d'), 'v1');
    directory.remove(CDS, cds('g/a'));
    const [set] = client.pollAll();
    t.strictSame(set && said(set), ['Cluster', 'g/a=v1', 'g/b=v1', 'g/c=v1', 'g/d=v1']);
    t.match(set?.versionInfo, /\.3$/);
    t.end();
  },
);

// ---- clients without a version ------------------------------------------------------------------

t.test('a client without a version may hold its first names: it waits at most 3 s', (t) => {
  const { client, directory, saidAfter } = setUp();
  directory.put(CDS, cds('a'), 'v1');
  directory.put(CDS, cds('g/b'), 'v1');
  client.ask(CDS, cds('a'), cds('g/*'));
  directory.answer(({ isGlob }) => !isGlob);
  t.strictSame(saidAfter(FIRST_ANSWER_WAIT_MS - 1), []);
  t.equal(client.session.nextDeadlineMs, FIRST_ANSWER_WAIT_MS);
  t.strictSame(saidAfter(1), [['Cluster', 'a=v1']]);
  directory.answer();
  t.strictSame(saidAfter(0), [['Cluster', 'a=v1', 'g/b=v1']]);
  t.end();
});

t.test('a client whose pending names are all unreachable does not wait', (t) => {
  for (const down of [cds('b', 'down'), cds('g/*', 'down')]) {
    const { client, directory } = setUp();
    directory.put(CDS, cds('a'), 'v1');
    client.ask(CDS, cds('a'), down);
    directory.answer(({ authority }) => authority !== 'down');
    t.strictSame(client.settle(), []);
    directory.fail(CDS, down, UNREACHABLE);
    t.strictSame(client.settle().map(said), [['Cluster', 'a=v1']]);
  }
  t.end();
});

t.test('no empty set goes out while anything is unknown, however long (invariant 19)', (t) => {
  const { client, directory, saidAfter } = setUp();
  client.ask(CDS, cds('absent'), cds('b', 'down'), cds('g/*'));
  directory.answer(({ authority }) => authority !== 'down');
  t.strictSame(saidAfter(FIRST_ANSWER_WAIT_MS), []);
  directory.fail(CDS, cds('b', 'down'), UNREACHABLE);
  t.strictSame(saidAfter(600_000), []);
  t.equal(client.session.nextDeadlineMs, undefined);
  directory.put(CDS, cds('g/a'), 'v1');
  t.strictSame(saidAfter(0), [['Cluster', 'g/a=v1']], 'it is no longer empty');
  t.end();
});

t.test('an empty set is sent when everything is known', (t) => {
  const { client, directory, saidAfter } = setUp();
  client.ask(CDS, cds('absent'), cds('g/*'));
  directory.answer();
  t.strictSame(saidAfter(0), [['Cluster']]);
  t.end();
});

t.test('an incomplete glob does not count as content', (t) => {
  const { client, cache, saidAfter } = setUp();
  client.ask(CDS, cds('g/*'), cds('h/*'));
  cache.onChanged(projectionOf(CDS, cds('g/a'), 'v1'));
  t.strictSame(saidAfter(FIRST_ANSWER_WAIT_MS), [], 'half a collection does not count');
  cache.onComplete(CDS, nameOf(cds('g/*')), false);
  t.strictSame(saidAfter(0), [['Cluster', 'g/a=v1']]);
  t.end();
});

t.test('names added after the first request delay no set', (t) => {
  const { client, directory, saidAfter } = setUp();
  directory.put(CDS, cds('a'), 'v1');
  client.ask(CDS, cds('a'));
  client.ask(CDS, cds('a'), cds('later', 'down'));
  directory.answer(({ authority }) => authority !== 'down');
  t.strictSame(saidAfter(0), [['Cluster', 'a=v1']]);
  t.end();
});

// ---- clients with a version ---------------------------------------------------------------------

t.test('a set with losses waits for `switch_wait` (invariant 3)', (t) => {
  const names = [cds('a'), cds('b')];
  const { client, directory, saidAfter } = resumed(
    new Map([[CDS, names]]),
    names.map((text) => [CDS, text] as const),
  );
  directory.put(CDS, cds('a'), 'v1');
  directory.answer();
  t.strictSame(saidAfter(0), []);
  t.equal(client.session.nextDeadlineMs, SWITCH_WAIT_MS);
  directory.put(CDS, cds('a'), 'v2');
  t.strictSame(saidAfter(SWITCH_WAIT_MS - 1), []);
  t.strictSame(saidAfter(1), [['Cluster', 'a=v2']]);
  t.end();
});

t.test(
  'a client that returns keeps what it holds while only the disk has other content (FAILOVER, "Content on disk")',
  (t) => {
    const asked = new Map([
      [CDS, [cds('a')]],
      [RDS, [rds('r')]],
    ]);
    const { instance, cache, saidAfter } = resumed(asked, [
      [CDS, cds('a')],
      [RDS, rds('r')],
    ]);
    const kept = [projectionOf(CDS, cds('a'), 'v0'), projectionOf(RDS, rds('r'), 'v0')];
    for (const one of kept) cache.onChanged({ ...one, isRestored: true });
    t.strictSame(saidAfter(600_000), []);
    const fresh = new SotwClient(instance);
    for (const [type, names] of asked) fresh.ask(type, ...names);
    const all = [
      ['Cluster', 'a=v0'],
      ['RouteConfiguration', 'r=v0'],
    ];
    t.strictSame(fresh.settle().map(said), all, 'a new client gets it');
    fresh.ask(RDS, rds('r'), rds('later'));
    cache.onChanged({ ...projectionOf(RDS, rds('later'), 'v0'), isRestored: true });
    t.strictSame(fresh.settle().map(said), [['RouteConfiguration', 'later=v0']]);
    for (const one of kept) cache.onConfirmed(one);
    t.strictSame(saidAfter(0), all, 'a source has it');
    t.strictSame(fresh.settle().map(said), []);
    cache.onChanged(projectionOf(RDS, rds('r'), 'v2'));
    t.strictSame(saidAfter(0), [['RouteConfiguration', 'r=v2']]);
    t.end();
  },
);

t.test('a source that sends the rest meanwhile completes the set at once', (t) => {
  const { client, directory, saidAfter } = resumed(
    new Map([[CDS, [cds('g/*')]]]),
    ['g/a', 'g/b'].map((id) => [CDS, cds(id)] as const),
  );
  directory.put(CDS, cds('g/a'), 'v1');
  directory.answer();
  t.strictSame(saidAfter(1_000), []);
  directory.put(CDS, cds('g/b'), 'v2');
  t.strictSame(saidAfter(0), [['Cluster', 'g/a=v1', 'g/b=v2']]);
  t.strictSame(client.session.nextDeadlineMs, undefined);
  t.end();
});

t.test('the guard judges listeners and clusters of a client together (invariant 3)', (t) => {
  const { client, directory, saidAfter } = resumed(
    new Map([
      [CDS, [cds('g/*')]],
      [LDS, [lds('l')]],
    ]),
    [
      [CDS, cds('g/a')],
      [CDS, cds('g/b')],
      [LDS, lds('l')],
    ],
  );
  directory.answer();
  t.strictSame(saidAfter(0), []);
  client.session.takeEvents();
  t.strictSame(saidAfter(SWITCH_WAIT_MS), []);
  const untilMs = SWITCH_WAIT_MS + GUARD_WAIT_MS;
  t.strictSame(client.session.takeEvents(), [
    { kind: 'held_back', authority: 'cloud', names: 3, untilMs },
  ]);
  t.equal(client.session.nextDeadlineMs, untilMs);
  t.strictSame(saidAfter(GUARD_WAIT_MS - 1), []);
  t.strictSame(saidAfter(1), [['Cluster'], ['Listener']], 'then they are removed, as configured');
  t.end();
});

t.test('names added while a set waits are nothing that its client could lose (seed 17551)', (t) => {
  const held = lds('l');
  for (const added of [['m', 'n'], ['m/*']]) {
    const { client, directory, saidAfter } = resumed(new Map([[LDS, [held]]]), [[LDS, held]]);
    directory.answer();
    t.strictSame(saidAfter(0), []);
    for (const id of ['m', 'n', 'm/1']) directory.put(LDS, lds(id), 'v1');
    client.ask(LDS, held, ...added.map((id) => lds(id)));
    directory.answer();
    t.strictSame(saidAfter(SWITCH_WAIT_MS), [], 'it may still come');
    const brought = added.length === 1 ? ['m/1=v1'] : ['m=v1', 'n=v1'];
    t.strictSame(saidAfter(GUARD_WAIT_MS), [['Listener', ...brought]]);
  }
  t.end();
});

/**
 * A client resumes at a cold gateway, whose state file has one cluster, and whose source has nothing.
 *
 * @param held by type: the collection of the client, then its members
 * @param clusters that the client requests by name, and the source has
 */
function resumedBesideStateFile(
  held: Readonly<Record<string, readonly string[]>>,
  ...clusters: readonly string[]
) {
  const { instance, client, directory, saidAfter } = setUp();
  const before = new Instance();
  client.reconnect(before);
  for (const [typeUrl, [glob = '', ...members]] of Object.entries(held)) {
    for (const member of members) before.directory.put(typeUrl, member, 'v1');
    client.ask(typeUrl, glob, ...(typeUrl === CDS ? clusters : []));
  }
  for (const one of [before, instance]) {
    for (const cluster of clusters) one.directory.put(CDS, cluster, 'v1');
  }
  before.directory.answer();
  client.settle();
  client.disconnect();
  const glob = nameOf(cds('g/*'));
  const remembered = { typeUrl: CDS, glob, members: [cds('g/a')], removed: [], knownAtMs: 0 };
  instance.cache.restoreCollections([remembered], 0);
  client.reconnect(instance);
  return { client, cache: instance.cache, directory, saidAfter };
}

t.test(
  'a client waits once, if the guard holds back names for all clients too (seed 8148)',
  (t) => {
    const held = { [CDS]: [cds('g/*'), cds('g/a'), cds('g/b')] };
    const { directory, saidAfter } = resumedBesideStateFile(held);
    directory.answer();
    t.strictSame(saidAfter(0), []);
    t.strictSame(saidAfter(SWITCH_WAIT_MS), []);
    t.strictSame(saidAfter(GUARD_WAIT_MS - 1), []);
    t.strictSame(saidAfter(1), [['Cluster']]);
    t.end();
  },
);

t.test('a wait for one authority counts for losses of another (seed 72527)', (t) => {
  const held = {
    [CDS]: [cds('g/*'), cds('g/a')],
    [LDS]: [lds('l/*', 'two'), lds('l/a', 'two')],
  };
  const { directory, saidAfter } = resumedBesideStateFile(held, cds('n', 'three'));
  directory.answer();
  t.strictSame(saidAfter(0), []);
  t.strictSame(saidAfter(SWITCH_WAIT_MS), []);
  t.strictSame(saidAfter(GUARD_WAIT_MS - 1), []);
  t.strictSame(saidAfter(1), [['Cluster', 'three:n=v1'], ['Listener']]);
  t.end();
});

t.test(
  'a source that returns with less before the first set is waited for again (seed 76313)',
  (t) => {
    const held = { [CDS]: [cds('g/*'), cds('g/a'), cds('g/b')] };
    const { cache, client, directory, saidAfter } = resumedBesideStateFile(held);
    client.ask(CDS, cds('g/*'), cds('h/*'));
    directory.put(CDS, cds('g/b'), 'v1');
    directory.answer(({ id }) => id === 'g/*');
    t.strictSame(saidAfter(0), [], 'h/* may have clusters too');
    directory.isAway = true;
    t.strictSame(saidAfter(GUARD_WAIT_MS), []);
    directory.isAway = false;
    cache.onComplete(CDS, nameOf(cds('g/*')), true);
    directory.put(CDS, cds('h/c'), 'v1');
    directory.answer();
    t.strictSame(saidAfter(0), [], 'a set without g/* would delete g/b');
    t.strictSame(saidAfter(SWITCH_WAIT_MS + GUARD_WAIT_MS), [['Cluster', 'g/b=v1', 'h/c=v1']]);
    t.end();
  },
);

t.test('an authority that is out of reach meanwhile has a wait of its own (invariant 3)', (t) => {
  const held = {
    [CDS]: [cds('g/*'), cds('g/a')],
    [LDS]: [lds('l/*', 'two'), lds('l/a', 'two')],
  };
  const { cache, directory, saidAfter } = resumedBesideStateFile(held);
  const gone = nameOf(lds('l/*', 'two'));
  directory.answer((_, typeUrl) => typeUrl === CDS);
  cache.onResourceError(LDS, gone, UNREACHABLE);
  t.strictSame(saidAfter(0), []);
  t.strictSame(saidAfter(SWITCH_WAIT_MS), []);
  t.strictSame(saidAfter(GUARD_WAIT_MS - 1_000), []);
  directory.answer();
  t.strictSame(saidAfter(0), []);
  t.strictSame(saidAfter(GUARD_WAIT_MS - 1), []);
  t.strictSame(saidAfter(1), [['Cluster'], ['Listener']]);
  t.end();
});

t.test('a loss that shows only after such a wait has a wait of its own (invariant 3)', (t) => {
  const held = { [CDS]: [cds('g/*'), cds('g/a')], [LDS]: [lds('l/*'), lds('l/a')] };
  const { directory, saidAfter } = resumedBesideStateFile(held);
  directory.answer((_, typeUrl) => typeUrl === CDS);
  t.strictSame(saidAfter(0), [], 'listeners are unknown');
  t.strictSame(saidAfter(SWITCH_WAIT_MS), []);
  t.strictSame(saidAfter(GUARD_WAIT_MS - 1_000), []);
  directory.answer();
  t.strictSame(saidAfter(0), [], 'the loss of a listener shows');
  t.strictSame(saidAfter(1_000), [], 'the wait for all clients ends');
  t.strictSame(saidAfter(GUARD_WAIT_MS - 1_001), []);
  t.strictSame(saidAfter(1), [['Cluster'], ['Listener']], 'a wait since the listener showed');
  t.end();
});

t.test('routes wait with the clusters that the guard holds back: they may name new ones', (t) => {
  const { client, directory, saidAfter } = setUp();
  for (const [typeUrl, name, versionInfo] of [
    [CDS, cds('g/*'), 'abc.30'],
    [RDS, rds('r'), 'abc.1'],
  ] as const) {
    client.type(typeUrl).names = [name];
    client.send({ typeUrl, versionInfo, names: [name] });
  }
  directory.put(CDS, cds('g/new'), 'v1');
  directory.put(RDS, rds('r'), 'v2');
  directory.answer();
  t.strictSame(saidAfter(0), []);
  t.strictSame(saidAfter(SWITCH_WAIT_MS), []);
  t.strictSame(saidAfter(GUARD_WAIT_MS - 1), []);
  t.strictSame(saidAfter(1), [
    ['Cluster', 'g/new=v1'],
    ['RouteConfiguration', 'r=v2'],
  ]);
  t.end();
});

t.test('the guards of two authorities wait at the same time (seed 6979)', (t) => {
  const cluster = cds('c', 'two');
  const { client, directory, cache, saidAfter } = resumed(
    new Map([
      [LDS, [lds('l')]],
      [CDS, [cluster]],
    ]),
    [
      [LDS, lds('l')],
      [CDS, cluster],
    ],
  );
  directory.answer((_, typeUrl) => typeUrl === LDS);
  cache.onResourceError(CDS, nameOf(cluster), UNREACHABLE);
  t.strictSame(saidAfter(0), []);
  t.strictSame(saidAfter(SWITCH_WAIT_MS), []);
  cache.onDoesNotExist(CDS, nameOf(cluster));
  t.strictSame(saidAfter(0), []);
  t.equal(client.session.nextDeadlineMs, 2 * SWITCH_WAIT_MS, 'not the end of the first guard');
  t.end();
});

t.test('a type without losses does not wait for one with losses', (t) => {
  const { directory, saidAfter } = resumed(
    new Map([
      [CDS, [cds('a')]],
      [LDS, [lds('l')]],
    ]),
    [
      [CDS, cds('a')],
      [LDS, lds('l')],
    ],
  );
  directory.put(LDS, lds('l'), 'v1');
  directory.answer();
  t.strictSame(saidAfter(0), [['Listener', 'l=v1']]);
  const later = [saidAfter(SWITCH_WAIT_MS), saidAfter(GUARD_WAIT_MS)].flat();
  t.strictSame(later, [['Cluster']]);
  t.end();
});

t.test('a version from another server proves that a collection was not empty', (t) => {
  for (const isThere of [true, false]) {
    const { client, directory, saidAfter } = setUp();
    client.type(CDS).names = [cds('g/*')];
    client.send({ typeUrl: CDS, versionInfo: 'of old', names: [cds('g/*')] });
    if (isThere) directory.put(CDS, cds('g/a'), 'v1');
    directory.answer();
    t.strictSame(saidAfter(0), isThere ? [['Cluster', 'g/a=v1']] : []);
    if (isThere) continue;
    t.strictSame(saidAfter(SWITCH_WAIT_MS), []);
    t.strictSame(saidAfter(GUARD_WAIT_MS), [['Cluster']]);
  }
  t.end();
});

t.test('removals that this process saw, and lost permissions, are not losses to wait for', (t) => {
  const { client, directory, instance } = resumed(new Map([[CDS, [cds('a'), cds('b')]]]), [
    [CDS, cds('a')],
    [CDS, cds('b')],
  ]);
  const watcher = instance.connect();
  watcher.subscribe(CDS, cds('a'));
  directory.put(CDS, cds('a'), 'v1');
  directory.answer(({ id }) => id === 'a');
  client.disconnect();
  directory.remove(CDS, cds('a'));
  client.reconnect();
  directory.fail(CDS, cds('b'), DENIED);
  t.strictSame(client.settle().map(said), [['Cluster', 'a=v1']], 'it goes after what needs it');
  instance.advance(QUIET_MS);
  t.strictSame(client.settle().map(said), [['Cluster']]);
  t.end();
});

t.test(
  'a wildcard or glob of the same version gets no response, names get a full one (GRPC 6)',
  (t) => {
    const contents = [
      [CDS, cds('g/a')],
      [SDS, sds('s')],
    ] as const;
    const { client, directory } = resumed(
      new Map([
        [CDS, [cds('g/*')]],
        [SDS, [sds('s')]],
      ]),
      contents,
    );
    for (const [typeUrl, text] of contents) directory.put(typeUrl, text, 'v1');
    directory.answer(({ id }) => id === 's');
    t.strictSame(client.settle().map(said), [['Secret', 's=v1']]);
    directory.answer();
    t.strictSame(
      client.settle(),
      [],
      'the stream had a response, and the client has these clusters',
    );
    directory.put(CDS, cds('g/a'), 'v2');
    t.strictSame(client.settle().map(said), [['Cluster', 'g/a=v2']]);
    t.end();
  },
);

t.test('names are answered in full after other responses, too (GRPC 6)', (t) => {
  const { client, directory } = resumed(
    new Map([
      [CDS, [cds('g/*')]],
      [LDS, [lds('l')]],
    ]),
    [
      [CDS, cds('g/a')],
      [LDS, lds('l')],
    ],
  );
  directory.put(CDS, cds('g/a'), 'v1');
  directory.put(LDS, lds('l'), 'v1');
  directory.answer(({ isGlob }) => isGlob);
  t.strictSame(client.settle().map(said), [['Cluster', 'g/a=v1']], 'the first of the stream');
  directory.answer();
  t.strictSame(client.settle().map(said), [['Listener', 'l=v1']]);
  t.end();
});

t.test('a deletion after the first set is not a loss to wait for', (t) => {
  const { directory, saidAfter } = resumed(
    new Map([[CDS, [cds('g/*')]]]),
    ['g/a', 'g/b'].map((id) => [CDS, cds(id)] as const),
  );
  for (const id of ['g/a', 'g/b']) directory.put(CDS, cds(id), 'v1');
  directory.answer();
  t.strictSame(saidAfter(0), [['Cluster', 'g/a=v1', 'g/b=v1']]);
  directory.remove(CDS, cds('g/a'));
  directory.remove(CDS, cds('g/b'));
  t.strictSame([...saidAfter(0), ...saidAfter(1_000)], [['Cluster']], 'after a second of quiet');
  t.end();
});

t.test('an error alone sends no set; it is sent with the next change (invariant 19)', (t) => {
  const { client, directory } = setUp();
  directory.put(CDS, cds('a'), 'v1');
  client.ask(CDS, cds('a'), cds('b'));
  directory.answer();
  t.match(client.settle(), [{ errors: [{ name: cds('b'), code: STATUS_CODE.notFound }] }]);
  directory.fail(CDS, cds('b'), DENIED);
  t.strictSame(client.settle(), []);
  client.ask(CDS, cds('a'), cds('b'), 'xdstp://broken');
  t.strictSame(client.settle(), [], 'nor does a refused name');
  directory.put(CDS, cds('a'), 'v2');
  const [response] = client.settle();
  t.strictSame(said(response), ['Cluster', 'a=v2']);
  t.strictSame(
    response?.errors.map(({ name, code }) => [name, code]),
    [
      ['xdstp://broken', STATUS_CODE.invalidArgument],
      [cds('b'), STATUS_CODE.permissionDenied],
    ],
  );
  t.end();
});

t.test('a client is never told that the source of a glob is unreachable or unreadable', (t) => {
  for (const status of [UNREACHABLE, UNREADABLE]) {
    for (const [typeUrl, name] of [
      [CDS, cds],
      [SDS, sds],
    ] as const) {
      const { client, directory } = setUp();
      client.ask(typeUrl, name('g/*'));
      directory.fail(typeUrl, name('g/*'), status);
      t.strictSame(client.settle(), []);
      directory.put(typeUrl, name('g/a'), 'v1');
      directory.answer();
      t.match(client.settle(), [{ resources: [{ name: name('g/a') }], errors: [] }]);
      directory.fail(typeUrl, name('g/*'), DENIED);
      directory.put(typeUrl, name('g/a'), 'v2');
      t.match(client.settle(), [{ errors: [{ name: name('g/*'), code: DENIED.code }] }]);
    }
  }
  t.end();
});

t.test('placeholders replace clusters when all of them are unavailable (GRPC 8)', (t) => {
  const { client, saidAfter, directory } = setUp({ placeholderAfterMs: 5_000 });
  client.ask(CDS, cds('a'), cds('b'));
  t.strictSame(saidAfter(FIRST_ANSWER_WAIT_MS), []);
  t.equal(client.session.nextDeadlineMs, 5_000);
  saidAfter(2_000);
  t.strictSame([...client.type(CDS).held.keys()], [cds('a'), cds('b')]);
  directory.put(CDS, cds('a'), 'v1');
  directory.answer(({ id }) => id === 'a');
  client.settle();
  t.equal(client.type(CDS).held.get(cds('a')), 'v1');
  t.end();
});

t.test('no placeholder replaces a cluster that a resuming client holds (GRPC 8)', (t) => {
  const { client, saidAfter, directory } = resumed(
    new Map([[CDS, [cds('a')]]]),
    [[CDS, cds('a')]],
    { placeholderAfterMs: 5_000 },
  );
  t.strictSame(saidAfter(5_000), []);
  directory.answer();
  for (const waitMs of [0, SWITCH_WAIT_MS]) t.strictSame(saidAfter(waitMs), []);
  t.strictSame([...client.type(CDS).held.values()], ['v1']);
  t.strictSame(saidAfter(GUARD_WAIT_MS)[0], ['Cluster'], 'it went');
  t.end();
});

// ---- the pace of ACKs ---------------------------------------------------------------------------

t.test(
  'a resuming client gets the placeholder of a name that is found absent late (GRPC 8)',
  (t) => {
    const asked = new Map([[CDS, [cds('g/*')]]]);
    const { client, saidAfter, directory } = resumed(asked, [], { placeholderAfterMs: 5_000 });
    directory.answer();
    saidAfter(0);
    client.ask(CDS, cds('g/*'), cds('late'));
    t.strictSame(saidAfter(5_000), [], 'it may exist');
    directory.answer();
    saidAfter(0);
    t.strictSame([...client.type(CDS).held.keys()], [cds('late')], 'at once (seed 67443)');
    t.end();
  },
);

t.test('without an ACK four answers of a type follow one second apart (invariant 5)', (t) => {
  const { client, directory, instance } = setUp();
  directory.put(CDS, cds('a'), 'v0');
  client.ask(CDS, cds('a'));
  directory.answer();
  t.strictSame(client.pollAll().map(said), [['Cluster', 'a=v0']]);
  for (const content of ['v1', 'v2', 'v3']) {
    directory.put(CDS, cds('a'), 'skipped');
    directory.put(CDS, cds('a'), content);
    instance.advance(999);
    t.strictSame(client.pollAll(), []);
    t.equal(client.session.nextDeadlineMs, instance.nowMs + 1);
    instance.advance(1);
    t.strictSame(client.pollAll().map(said), [['Cluster', `a=${content}`]]);
  }
  directory.put(CDS, cds('a'), 'v4');
  instance.advance(600_000);
  t.strictSame(client.pollAll(), [], 'a client that ACKs nothing gets no more');
  t.ok(client.ackNewest(CDS));
  t.strictSame(
    client.pollAll().map(said),
    [['Cluster', 'a=v4']],
    'an ACK covers the earlier responses',
  );
  client.session.takeEvents();
  for (let late = 0; late < 3; late++) t.ok(client.ackLate(CDS));
  t.strictSame(
    client.session.takeEvents().map(({ kind }) => kind),
    ['ack', 'ack', 'ack'],
    'and their late ACKs are not stale',
  );
  t.end();
});

t.test(
  'a collection that only an alternative answered holds back no other authority, and no route',
  (t) => {
    const { client, directory, saidAfter } = setUp();
    const elsewhere = cds('g/*').replace('cloud', 'other');
    for (const one of ['a', 'b']) directory.put(LDS, lds(`g/${one}`), 'v1');
    directory.put(RDS, rds('r'), 'v1');
    const asked = [
      [CDS, elsewhere, 'abc.1'],
      [LDS, lds('g/*'), 'abc.3'],
      [RDS, rds('r'), 'abc.1'],
    ] as const;
    for (const [typeUrl, name, versionInfo] of asked) {
      client.type(typeUrl).names = [name];
      client.send({ typeUrl, versionInfo, names: [name] });
    }
    directory.answer((_, typeUrl) => typeUrl !== CDS);
    directory.answerWithoutProof();
    const first = [...client.settle().map(said), ...saidAfter(SWITCH_WAIT_MS)];
    t.strictSame(first.sort(), [
      ['Listener', 'g/a=v1', 'g/b=v1'],
      ['RouteConfiguration', 'r=v1'],
    ]);
    directory.put(RDS, rds('r'), 'v2');
    t.equal(saidAfter(0).length, 1);
    t.end();
  },
);

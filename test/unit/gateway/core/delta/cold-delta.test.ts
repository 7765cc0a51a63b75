/**
 * Goal: a process that has just started removes nothing from delta clients only because its
 * sources, which may have just started too, do not have it yet; and it sends nothing that an Envoy
 * would take for "empty".
 * Method: model clients that resume at an instance which never saw them, and a clock.
 */
import t from 'tap';
import { STATUS_CODE } from '../../../../../protos/discovery.js';
import { nameOf, projectionOf } from '../../../../support/fake-directory.js';
import {
  CDS,
  EDS,
  LDS,
  RDS,
  SDS,
  cds,
  eds,
  lds,
  rds,
  sds,
} from '../../../../support/mesh-names.js';
import { request } from '../../../../support/model-client.js';
import {
  gist,
  GUARD_WAIT_MS,
  Instance,
  SWITCH_WAIT_MS,
  type ConnectedClient,
} from '../../../../support/session-driver.js';

const ACK_DEADLINE_MS = 16_000;
const DENIED = { code: STATUS_CODE.permissionDenied, message: 'not for you' };

/** A client that held the given names from an earlier process, and resumes at a new one. */
function resumed(...asked: readonly (readonly [typeUrl: string, name: string])[]) {
  return resumedAs({ resumesMembers: true }, ...asked);
}

function resumedAs(
  manners: { readonly resumesMembers: boolean },
  ...asked: readonly (readonly [typeUrl: string, name: string])[]
) {
  const before = new Instance();
  const client = before.connect(manners);
  for (const [typeUrl, text] of asked) {
    if (!text.endsWith('*')) before.directory.put(typeUrl, text, 'v1');
  }
  const globs = asked.filter(([, text]) => text.endsWith('*'));
  for (const [typeUrl, text] of asked) {
    const isMember = globs.some(
      ([type, glob]) => type === typeUrl && text !== glob && text.startsWith(glob.slice(0, -1)),
    );
    if (!isMember) client.subscribe(typeUrl, text);
  }
  before.directory.answer();
  client.settle();
  client.disconnect();
  const instance = new Instance();
  client.reconnect(instance);
  return { instance, directory: instance.directory, client };
}

const removed = (client: ConnectedClient, ms = 0): readonly string[] =>
  client.settleAfter(ms).flatMap((response) => response.removed);

t.test('a name that only the client has, and no source, is removed after switch_wait', (t) => {
  const { directory, client, instance } = resumed([SDS, sds('stays')], [SDS, sds('goes')]);
  directory.put(SDS, sds('stays'), 'v1');
  directory.answer();
  t.strictSame(removed(client), []);
  t.equal(client.session.nextDeadlineMs, SWITCH_WAIT_MS);
  t.strictSame(removed(client, SWITCH_WAIT_MS - 1), []);
  t.strictSame(removed(client, 1), [sds('goes')]);
  directory.put(SDS, sds('goes'), 'v1');
  t.strictSame(client.settle().map(gist), [
    { type: 'Secret', resources: [sds('goes')], removed: [] },
  ]);
  directory.remove(SDS, sds('goes'));
  t.strictSame(
    removed(client),
    [sds('goes')],
    'a name that this process has seen is not a claim any more',
  );
  instance.advance(SWITCH_WAIT_MS);
  t.strictSame(client.settle(), []);
  t.end();
});

t.test(
  'routes of a client that returns to a new process wait for the first answer of its clusters, which may bring theirs ' +
    '(invariant 6)',
  (t) => {
    for (const ending of ['answer', 'error', 'deadline'] as const) {
      // Envoy brings no versions for the members of a glob.
      const { instance, directory, client } = resumedAs(
        { resumesMembers: false },
        [CDS, cds('g/*')],
        [CDS, cds('g/a')],
        [RDS, rds('r')],
      );
      directory.put(CDS, cds('g/a'), 'v1');
      directory.put(CDS, cds('g/new'), 'v1');
      directory.put(RDS, rds('r'), 'v2');
      directory.answer((_, typeUrl) => typeUrl !== CDS);
      t.strictSame(client.pollAll(), []);
      if (ending === 'answer') {
        directory.answer();
        t.match(client.pollAll().map(gist), [{ type: 'Cluster' }]);
        client.ack(CDS);
      } else if (ending === 'error') directory.fail(CDS, cds('g/*'), DENIED);
      else instance.advance(ACK_DEADLINE_MS);
      t.match(client.pollAll().map(gist).at(-1), { resources: [rds('r')] }, ending);
    }
    t.end();
  },
);

t.test('the routes of a new client do not wait for the first answer of its clusters', (t) => {
  const instance = new Instance();
  const { directory } = instance;
  const client = instance.connect();
  client.subscribe(CDS, cds('g/*'));
  client.subscribe(RDS, rds('r'));
  directory.put(RDS, rds('r'), 'v1');
  directory.answer((_, typeUrl) => typeUrl !== CDS);
  t.match(client.pollAll().map(gist), [{ resources: [rds('r')] }]);
  t.end();
});

// Seed 81896: its removal was due, and then it no longer counted as a cluster that may be new.
t.test('listeners wait for the ACK of a cluster that the client may lack (invariant 6)', (t) => {
  const instance = new Instance();
  const { directory } = instance;
  const client = instance.connect({ resumesMembers: true });
  directory.put(CDS, cds('held'), 'v1');
  const initialVersions = new Map([[cds('held'), 'another']]);
  client.send(request({ typeUrl: CDS, subscribe: [cds('held'), cds('late')], initialVersions }));
  client.subscribe(LDS, lds('l'));
  directory.put(LDS, lds('l'), 'v1');
  directory.answer();
  client.pollAll();
  instance.advance(SWITCH_WAIT_MS);
  t.strictSame(
    client.pollAll(),
    [],
    'the removal of the cluster waits for the ACK of the listener',
  );
  directory.put(CDS, cds('late'), 'v1');
  directory.put(LDS, lds('l'), 'v2');
  t.strictSame(client.pollAll().map(gist), [
    { type: 'Cluster', resources: [cds('late')], removed: [] },
  ]);
  client.ack(CDS);
  client.ack(CDS);
  t.strictSame(client.pollAll().map(gist), [
    { type: 'Listener', resources: [lds('l')], removed: [] },
  ]);
  t.end();
});

t.test('a name that the source sends meanwhile is kept, by name and as a member', (t) => {
  const { directory, client } = resumed(
    [SDS, sds('late')],
    [SDS, sds('g/*')],
    [SDS, sds('g/late')],
    [SDS, sds('g/stays')],
    [SDS, sds('h/*')],
    [SDS, sds('h/goes')],
  );
  directory.put(SDS, sds('g/stays'), 'v1');
  directory.answer();
  t.strictSame(removed(client), [sds('h/*')]);
  for (const id of ['late', 'g/late']) directory.put(SDS, sds(id), 'v1');
  // The client does not read before the time is over.
  t.strictSame(
    client.settleAfter(SWITCH_WAIT_MS).map(gist),
    [{ type: 'Secret', resources: [], removed: [sds('h/goes')] }],
    'the client already has the current content',
  );
  t.strictSame(
    [...client.model.type(SDS).held.keys()].sort(),
    [sds('g/late'), sds('g/stays'), sds('late')].sort(),
  );
  t.end();
});

t.test(
  'losing all claims of a client on an authority is too much at once, of all types together',
  (t) => {
    const { directory, client, instance } = resumed(
      [CDS, cds('a')],
      [EDS, eds('a')],
      [CDS, cds('b', 'other')],
      [CDS, cds('c', 'other')],
    );
    directory.put(CDS, cds('b', 'other'), 'v1');
    directory.answer();
    client.settle();
    client.session.takeEvents();
    t.strictSame(
      removed(client, SWITCH_WAIT_MS),
      [cds('c', 'other')],
      'authorities are judged separately',
    );
    const untilMs = SWITCH_WAIT_MS + GUARD_WAIT_MS;
    const heldBack = client.session.takeEvents().filter(({ kind }) => kind === 'held_back');
    t.strictSame(heldBack, [{ kind: 'held_back', authority: 'cloud', names: 2, untilMs }]);
    t.strictSame(removed(client, GUARD_WAIT_MS - 1), []);
    directory.put(EDS, eds('a'), 'v1');
    client.settle();
    t.strictSame(removed(client, 1), [cds('a')], 'names still missing are removed then');
    t.equal(instance.nowMs, untilMs);
    t.end();
  },
);

t.test('the guard waits anew for a source that failed during its wait (seed 410808)', (t) => {
  const { directory, client } = resumed([SDS, sds('a')], [SDS, sds('g/*')], [SDS, sds('g/b')]);
  directory.answer();
  t.strictSame(removed(client), [sds('g/*')], 'at once: it is empty');
  t.strictSame(removed(client, SWITCH_WAIT_MS), []);
  directory.wellSinceMs = GUARD_WAIT_MS;
  t.strictSame(removed(client, GUARD_WAIT_MS), []);
  t.strictSame(removed(client, GUARD_WAIT_MS - SWITCH_WAIT_MS - 1), []);
  t.strictSame(removed(client, 1).toSorted(), [sds('a'), sds('g/b')]);
  t.end();
});

t.test('a claim that this stream confirmed no longer counts as a claim', (t) => {
  const { directory, client, instance } = resumed([SDS, sds('a')], [SDS, sds('b')]);
  for (const id of ['a', 'b']) directory.put(SDS, sds(id), 'v1');
  directory.answer();
  client.settle();
  instance.cache.onDoesNotExist(SDS, nameOf(sds('a')));
  t.strictSame(removed(client), [sds('a')]);
  t.end();
});

t.test('a source that is lost before a claim is judged proves nothing about it', (t) => {
  const { directory, client, instance } = resumed([SDS, sds('a')], [SDS, sds('b')]);
  directory.put(SDS, sds('b'), 'v1');
  directory.answer();
  client.settle();
  directory.fail(SDS, sds('a'), { code: STATUS_CODE.unavailable, message: 'no source' });
  t.strictSame(removed(client, SWITCH_WAIT_MS), []);
  instance.cache.onDoesNotExist(SDS, nameOf(sds('a')));
  t.strictSame(removed(client), [], 'it may have restarted');
  t.strictSame(removed(client, SWITCH_WAIT_MS), [sds('a')]);
  t.end();
});

t.test('with `then: keep`, a name that no source has is kept', (t) => {
  const { directory, client } = resumed([SDS, sds('a')]);
  const { deletionGuard } = directory.removalPolicy;
  // The policy is read with the first claim; so the client reconnects.
  directory.removalPolicy = {
    ...directory.removalPolicy,
    deletionGuard: { ...deletionGuard, then: 'keep' },
  };
  client.disconnect();
  client.reconnect();
  directory.answer();
  t.strictSame(removed(client, SWITCH_WAIT_MS), []);
  t.strictSame(removed(client, SWITCH_WAIT_MS), []);
  t.strictSame(removed(client, 10 * GUARD_WAIT_MS), []);
  t.end();
});

t.test(
  'a removal that this process saw, or a lost permission, removes a claim at once (invariant 12)',
  (t) => {
    const { directory, client, instance } = resumed([SDS, sds('seen')], [SDS, sds('denied')]);
    const watcher = instance.connect();
    watcher.subscribe(SDS, sds('seen'));
    directory.put(SDS, sds('seen'), 'v1');
    directory.answer(({ id }) => id === 'seen');
    t.strictSame(removed(client), []);
    client.disconnect();
    directory.remove(SDS, sds('seen'));
    client.reconnect();
    directory.fail(SDS, sds('denied'), DENIED);
    t.strictSame([...removed(client)].sort(), [sds('denied'), sds('seen')]);
    t.end();
  },
);

t.test(
  'losing the permission for a glob removes its claimed members at once (invariant 12)',
  (t) => {
    const { directory, client } = resumed([SDS, sds('g/*')], [SDS, sds('g/a')]);
    directory.fail(SDS, sds('g/*'), DENIED);
    t.strictSame(removed(client), [sds('g/*'), sds('g/a')]);
    t.end();
  },
);

t.test(
  'a removal by a live source is sent at once, although its collection is not complete yet',
  (t) => {
    const instance = new Instance();
    const client = instance.connect();
    client.subscribe(SDS, sds('g/*'));
    for (const id of ['g/a', 'g/b']) {
      instance.cache.onChanged(instance.directory.put(SDS, sds(id), 'v1'));
    }
    client.settle();
    instance.directory.remove(SDS, sds('g/a'));
    t.strictSame(removed(client), [sds('g/a')]);
    t.end();
  },
);

t.test('earlier removals wait until the collection is complete (invariant 3)', (t) => {
  const instance = new Instance({ unsubscribedLingerMs: 0 });
  const { directory, cache } = instance;
  const client = instance.connect();
  for (const id of ['g/a', 'g/b', 'g/c']) directory.put(SDS, sds(id), 'v1');
  client.subscribe(SDS, sds('g/*'));
  directory.answer();
  client.settle();
  client.disconnect();
  for (const id of ['g/a', 'g/b']) directory.remove(SDS, sds(id));
  instance.advance(1);
  client.reconnect();
  cache.onChanged(projectionOf(SDS, sds('g/c'), 'v1'));
  t.strictSame(removed(client), [], 'a removed member may exist again');
  cache.onChanged(directory.put(SDS, sds('g/b'), 'v1'));
  directory.answer();
  t.strictSame(removed(client), [sds('g/a')]);
  t.end();
});

// ---- responses that an Envoy would take for empty -----------------------------------------------

const SCOPE = '{"id":"a"}';
const key = (text: string): string => `\n${SCOPE}\n${text}`;
const scoped = (): Instance => new Instance({ scopeOf: () => ({ kind: 'scope', scope: SCOPE }) });

t.test('a client is never told that the source of a glob is unreachable or unreadable', (t) => {
  for (const code of [STATUS_CODE.unavailable, STATUS_CODE.internal]) {
    const instance = scoped();
    const client = instance.connect();
    client.subscribe(CDS, '*', cds('g/*'));
    for (const glob of [key('*'), cds('g/*')]) {
      instance.directory.fail(CDS, glob, { code, message: 'no source' });
    }
    t.strictSame(client.settle(), []);
    instance.directory.put(CDS, key('x'), 'v1');
    instance.directory.answer();
    t.strictSame(client.settle().map(gist), [
      { type: 'Cluster', resources: ['x'], removed: [] },
      { type: 'Cluster', resources: [], removed: [cds('g/*')] },
    ]);
  }
  t.end();
});

t.test('an empty glob that gets an error later sends it, once', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  client.subscribe(SDS, sds('g/*'));
  instance.directory.answer();
  t.strictSame(removed(client), [sds('g/*')]);
  for (let round = 0; round < 2; round++) instance.directory.fail(SDS, sds('g/*'), DENIED);
  t.match(client.settle(), [{ removed: [], errors: [{ name: sds('g/*'), status: DENIED }] }]);
  instance.directory.fail(SDS, sds('g/*'), DENIED);
  t.strictSame(client.settle(), []);
  t.end();
});

t.test('before its wildcard is answered, a client gets no response without resources', (t) => {
  const { unavailable } = STATUS_CODE;
  const instance = scoped();
  const { directory } = instance;
  const client = instance.connect();
  client.subscribe(CDS, '*', 'absent', 'down', cds('absent'), cds('g/*'));
  // An empty name is refused.
  client.subscribe(CDS, '');
  directory.fail(CDS, key('down'), { code: unavailable, message: 'no source' });
  directory.answer(
    ({ isGlob, authority, id }) => id !== 'down' && (!isGlob || authority === 'cloud'),
  );
  t.strictSame(client.settle(), []);
  client.subscribe(EDS, eds('a'));
  directory.answer(({ authority }) => authority === 'cloud');
  t.strictSame(
    client.settle().map(({ typeUrl }) => typeUrl),
    [EDS],
    'other types are not affected',
  );
  directory.answer(({ id }) => id === '*');
  const [first, ...more] = client.settle();
  t.strictSame(
    gist(first),
    { type: 'Cluster', resources: [], removed: [] },
    'the answer to the wildcard',
  );
  t.strictSame(
    more.flatMap((response) => response.removed).sort(),
    ['', 'absent', cds('absent'), cds('g/*')].sort(),
  );
  t.match(
    more.flatMap(({ errors }) => errors).find(({ name }) => name === 'down'),
    { status: { code: unavailable } },
  );
  t.end();
});

t.test('known members answer a wildcard, although there may be more', (t) => {
  const instance = scoped();
  const client = instance.connect();
  instance.directory.put(CDS, key('x'), 'v1');
  client.subscribe(CDS, '*', 'x', 'absent');
  instance.directory.answer(({ isGlob }) => !isGlob);
  t.strictSame(client.settle().map(gist), [
    { type: 'Cluster', resources: ['x'], removed: [] },
    { type: 'Cluster', resources: [], removed: ['absent'] },
  ]);
  t.end();
});

t.test('a wildcard that only an alternative reports empty gets no empty response', (t) => {
  const instance = scoped();
  const client = instance.connect();
  client.subscribe(CDS, '*');
  instance.directory.answerWithoutProof();
  t.strictSame(client.settle(), []);
  instance.directory.answer();
  instance.cache.onComplete(CDS, nameOf(key('*')), true);
  t.strictSame(client.settle().map(gist), [{ type: 'Cluster', resources: [], removed: [] }]);
  t.end();
});

// ---- the pace of ACKs ---------------------------------------------------------------------------

t.test(
  'without an ACK four answers follow one second apart, each with new content (invariant 5)',
  (t) => {
    const instance = new Instance();
    const { directory } = instance;
    const client = instance.connect({ maxUnacknowledged: 4 });
    directory.put(SDS, sds('a'), 'v0');
    client.subscribe(SDS, sds('a'), sds('b'));
    directory.answer();
    const read = (): readonly string[] =>
      client.pollAll().flatMap(({ resources }) => resources.map(({ body }) => String(body)));
    t.strictSame(read(), ['v0']);
    for (const content of ['v1', 'v2', 'v3']) {
      directory.put(SDS, sds('a'), 'skipped');
      directory.put(SDS, sds('a'), content);
      instance.advance(999);
      t.strictSame(read(), []);
      t.equal(client.session.nextDeadlineMs, instance.nowMs + 1);
      instance.advance(1);
      t.strictSame(read(), [content]);
    }
    directory.put(SDS, sds('a'), 'v4');
    instance.advance(600_000);
    t.strictSame(read(), [], 'a client that ACKs nothing gets no more');
    t.equal(client.session.nextDeadlineMs, undefined);
    client.send(client.model.ackNewest(SDS));
    t.strictSame(read(), ['v4'], 'an ACK covers the earlier responses');
    client.session.takeEvents();
    for (let late = 0; late < 3; late++) client.ack(SDS);
    t.strictSame(
      client.session.takeEvents().map(({ kind }) => kind),
      ['ack', 'ack', 'ack'],
      'and their late ACKs are not stale',
    );
    t.end();
  },
);

t.test('refusals keep the same pace (invariant 5)', (t) => {
  const instance = new Instance();
  const client = instance.connect();
  client.subscribe(SDS, 'bad-1');
  t.strictSame(client.pollAll().length, 1);
  client.subscribe(SDS, 'bad-2');
  t.strictSame(client.pollAll(), []);
  t.equal(client.session.nextDeadlineMs, 1_000);
  instance.advance(1_000);
  t.match(client.pollAll(), [{ removed: ['bad-2'] }]);
  t.end();
});

t.test('a cluster that never warms delays no removal behind it', (t) => {
  const instance = new Instance();
  const { directory } = instance;
  const client = instance.connect();
  directory.put(CDS, cds('a'), 'v1');
  directory.put(RDS, rds('r'), 'v1');
  client.subscribe(CDS, cds('a'), cds('cold'));
  client.subscribe(RDS, rds('r'));
  directory.answer();
  client.settle();
  directory.put(CDS, cds('cold'), 'v1');
  client.pollAll();
  directory.remove(CDS, cds('a'));
  directory.remove(RDS, rds('r'));
  const gone: string[] = [];
  for (let second = 0; second < 3; second++) {
    gone.push(...client.pollAll().flatMap((response) => response.removed));
    const isRead = client.model.unacknowledged.some(({ typeUrl }) => typeUrl === RDS);
    if (isRead) client.ack(RDS);
    instance.advance(1_000);
  }
  t.strictSame(gone, [rds('r'), cds('a')]);
  t.end();
});

// ---- a resuming client with overlapping subscriptions -------------------------------------------

t.test(
  'a claimed member that is also subscribed by name is answered as a name, and not removed',
  (t) => {
    const { directory, client } = resumed([SDS, sds('g/*')], [SDS, sds('g/a')], [SDS, sds('g/b')]);
    for (const id of ['g/a', 'g/b']) directory.put(SDS, sds(id), 'v1');
    client.subscribe(SDS, sds('g/a'));
    directory.answer();
    t.strictSame(client.settle().map(gist), [
      { type: 'Secret', resources: [sds('g/a')], removed: [] },
    ]);
    t.strictSame(removed(client, SWITCH_WAIT_MS + GUARD_WAIT_MS), []);
    t.end();
  },
);

t.test('a claim that is unsubscribed meanwhile is not judged', (t) => {
  const { directory, client } = resumed([SDS, sds('a')], [SDS, sds('b')], [SDS, sds('c')]);
  for (const id of ['b', 'c']) directory.put(SDS, sds(id), 'v1');
  directory.answer();
  client.settle();
  client.unsubscribe(SDS, sds('a'));
  t.strictSame(removed(client, SWITCH_WAIT_MS), []);
  client.send(request({ typeUrl: SDS, subscribe: [sds('a')] }));
  directory.answer();
  t.strictSame(removed(client), [sds('a')], 'a new subscription is answered like any name');
  t.end();
});

t.test(
  'an answer that a source gave before it became unreachable removes nothing (invariant 3)',
  (t) => {
    const { directory, client } = resumed(
      [SDS, sds('stays')],
      [SDS, sds('goes')],
      [SDS, sds('g/*')],
      [SDS, sds('g/stays')],
      [SDS, sds('g/goes')],
    );
    for (const id of ['stays', 'g/stays']) directory.put(SDS, sds(id), 'v1');
    directory.answer();
    client.settle();
    directory.isAway = true;
    for (let times = 0; times < 5; times++) t.strictSame(removed(client, SWITCH_WAIT_MS), []);
    directory.isAway = false;
    t.strictSame(removed(client, SWITCH_WAIT_MS).toSorted(), [sds('g/goes'), sds('goes')]);
    t.end();
  },
);

t.test('claims are judged once the existence of each of them is known', (t) => {
  const { directory, client } = resumed(
    [SDS, sds('late')],
    [SDS, sds('goes')],
    [SDS, sds('g/*')],
    [SDS, sds('g/stays')],
    [SDS, sds('away/*')],
    [SDS, sds('away/stays')],
    [SDS, sds('of no claim/*')],
  );
  const answer = (text: string): void => {
    directory.answer(({ key }) => key === nameOf(text).key);
  };
  for (const id of ['late', 'g/stays']) directory.put(SDS, sds(id), 'v1');
  directory.fail(SDS, sds('away/*'), { code: STATUS_CODE.unavailable, message: 'out of reach' });
  answer(sds('goes'));
  t.strictSame(removed(client), []);
  t.strictSame(removed(client, SWITCH_WAIT_MS), [], 'a name is unanswered');
  answer(sds('late'));
  t.strictSame(removed(client, SWITCH_WAIT_MS), [], 'a collection is unanswered');
  answer(sds('g/*'));
  client.settle();
  t.strictSame(
    removed(client, SWITCH_WAIT_MS),
    [sds('goes')],
    'an unreachable source does not delay the judgement',
  );
  t.end();
});

t.test('claims that the client gave up do not hide that all others are lost (seed 54291)', (t) => {
  for (const left of [[sds('left')], [sds('g/*'), sds('g/member')]]) {
    const claims = [sds('goes'), ...left].map((text) => [SDS, text] as const);
    const { directory, client } = resumed(...claims);
    client.unsubscribe(SDS, left[0]!);
    directory.answer();
    t.strictSame(removed(client), []);
    t.strictSame(removed(client, SWITCH_WAIT_MS), [], 'the guard holds it back');
    t.strictSame(removed(client, GUARD_WAIT_MS), [sds('goes')]);
  }
  t.end();
});

t.test('nor do claims of names that the client subscribes again (seed 421393)', (t) => {
  const { directory, client } = resumed([SDS, sds('goes')], [SDS, sds('again')]);
  client.subscribe(SDS, sds('again'));
  directory.answer(({ key }) => key !== sds('again'));
  t.strictSame(removed(client), []);
  t.strictSame(removed(client, SWITCH_WAIT_MS), [], 'the guard holds it back');
  t.strictSame(removed(client, GUARD_WAIT_MS), [sds('goes')]);
  t.end();
});

t.test('a claim that is unsubscribed and subscribed again no longer counts as a claim', (t) => {
  const { directory, client } = resumed([SDS, sds('stays')], [SDS, sds('goes')]);
  directory.put(SDS, sds('stays'), 'v1');
  directory.answer();
  client.settle();
  client.unsubscribe(SDS, sds('goes'));
  client.subscribe(SDS, sds('goes'));
  t.strictSame(removed(client), [sds('goes')], 'answered at once');
  t.strictSame(removed(client, SWITCH_WAIT_MS), [], 'and once');
  t.end();
});

t.test(
  'a collection whose source never proves that it is whole holds up no other claim (seed 2301)',
  (t) => {
    const { directory, client } = resumed(
      [EDS, eds('g/*')],
      [EDS, eds('g/goes')],
      [EDS, eds('g/stays')],
      [CDS, cds('stays')],
      [CDS, cds('goes')],
    );
    directory.put(CDS, cds('stays'), 'v1');
    directory.answer((_, typeUrl) => typeUrl === CDS);
    client.settle();
    t.strictSame(removed(client, SWITCH_WAIT_MS), [], 'the collection is still to come');
    directory.put(EDS, eds('g/stays'), 'v1');
    directory.answerWithoutProof();
    client.settle();
    t.strictSame(removed(client, SWITCH_WAIT_MS), [cds('goes')]);
    t.ok(client.model.type(EDS).held.has(eds('g/goes')), 'it may still exist');
    t.end();
  },
);

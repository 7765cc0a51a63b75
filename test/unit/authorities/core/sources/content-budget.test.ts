/**
 * Goal: what the gateway keeps of a source is bounded in resources and bytes, and beyond the bound the
 * source gets a NACK that names the limit (docs/SECURITY.md, "Quotas").
 * Method: the budget itself, and the state machine of one management server.
 */
import t from 'tap';
import {
  ContentBudget,
  ContentTotal,
  RESOURCE_COST_BYTES,
  type ContentLimits,
} from '../../../../../authorities/core/sources/content-budget.js';
import {
  decodeRequest,
  encodeResponse,
  type ReceivedRequest,
} from '../../../../support/discovery-messages.js';
import { nameOf, THING, thing } from '../../../../support/federation-driver.js';
import { managementServerOf } from '../../../../support/management-server.js';

const LISTENER = {};
const KIB = 1_024;

t.test('a budget counts resources and their bytes, and gives them back', (t) => {
  const total = new ContentTotal(100 * KIB);
  const budget = new ContentBudget({ maxResources: 4, maxBytes: 10 * KIB }, total);
  budget.add(KIB, undefined);
  t.equal(budget.resources, 1);
  t.equal(budget.bytes, KIB + RESOURCE_COST_BYTES);
  t.equal(budget.fullness, 0.25);
  budget.add(3 * KIB, KIB);
  t.equal(budget.bytes, 3 * KIB + RESOURCE_COST_BYTES, 'a replaced resource costs the difference');
  t.equal(budget.fullness, 0.4);
  t.equal(total.bytes, budget.bytes);
  budget.remove(3 * KIB);
  t.equal(budget.resources, 0);
  t.equal(total.bytes, 0);
  t.end();
});

t.test('each bound refuses with its own setting', (t) => {
  const full = new ContentTotal(4 * KIB);
  const few = new ContentBudget({ maxResources: 1, maxBytes: Infinity });
  few.add(1, undefined);
  t.match(few.refusal(1, undefined), /max_resources_per_source/);
  t.equal(few.refusal(100, 1), undefined, 'a held resource may change');
  const small = new ContentBudget({ maxResources: 9, maxBytes: 2 * KIB });
  t.equal(small.refusal(KIB, undefined), undefined, 'exactly');
  t.match(small.refusal(KIB + 1, undefined), /max_content_per_source/);
  const shared = new ContentBudget(undefined, full);
  t.match(shared.refusal(4 * KIB, undefined), /limits.max_content\)/);
  let isShort = true;
  const short = new ContentBudget(undefined, new ContentTotal(Infinity, () => isShort));
  t.match(short.refusal(1, undefined), /short of memory/);
  t.equal(short.refusal(100, 1), undefined, 'what is served may change while memory is short');
  t.equal(short.refusal(1, 100), undefined, 'and shrink');
  isShort = false;
  t.equal(short.refusal(1, undefined), undefined);
  t.equal(new ContentBudget().refusal(1, undefined), undefined, 'no bound by default');
  t.end();
});

t.test('a closed source gives the total back, once', (t) => {
  const total = new ContentTotal();
  const budget = new ContentBudget(undefined, total);
  budget.add(1, undefined);
  budget.close();
  budget.close();
  t.equal(total.bytes, 0);
  budget.remove(1);
  t.equal(total.bytes, 0, 'late unsubscribes change nothing');
  t.end();
});

function start(contentLimits: ContentLimits, contentTotal = new ContentTotal()) {
  const server = managementServerOf(
    {},
    { maxResourcesPerResponse: 100_000, portionBytes: Infinity, contentLimits, contentTotal },
  );
  const sent: ReceivedRequest[] = [];
  let nonce = 0;
  const send = (ids: readonly string[], removed: readonly string[] = []): string | undefined => {
    const resources = ids.map((id) => ({
      name: thing('c', id),
      version: '1',
      body: Buffer.alloc(KIB),
    }));
    const bytes = encodeResponse({
      typeUrl: THING,
      nonce: `${++nonce}`,
      resources,
      removed: removed.map((id) => thing('c', id)),
    });
    server.handleMessage(server.health.epoch, bytes, 0);
    while (server.isMidResponse) server.continueResponse(0);
    pump();
    return sent.at(-1)?.error?.message;
  };
  const pump = (): void => {
    for (const effect of server.takeEffects(0)) {
      if (effect.kind === 'send') sent.push(decodeRequest(effect.bytes));
    }
  };
  const ask = (id: string): void => {
    server.subscribe(THING, nameOf(thing('c', id)), LISTENER, 0);
    pump();
  };
  return { server, send, ask, pump };
}

t.test('members beyond the budget get a NACK, and nothing proves their absence', (t) => {
  const { server, send, ask } = start({ maxResources: 2, maxBytes: Infinity });
  ask('x/*');
  t.match(send(['x/a', 'x/b', 'x/c']), /x\/c exceeds the source's budget of 2 resources/);
  const { contents } = server;
  const glob = nameOf(thing('c', 'x/*'));
  t.equal(contents.budget.resources, 2);
  t.notOk(contents.isWhole(THING, glob));
  t.equal(contents.answerFor(THING, nameOf(thing('c', 'x/c'))), 'timed_out');
  t.equal(send([], ['x/a', 'x/c']), undefined, 'deletions pass');
  t.ok(contents.isWhole(THING, glob), 'the rejected member is gone too');
  t.equal(send(['x/c']), undefined, 'and there is room again');
  server.unsubscribe(THING, glob, LISTENER, 0);
  t.equal(contents.budget.resources, 0, 'an unsubscribed collection is given back');
  t.end();
});

t.test('an unsubscribed name that was rejected is forgotten', (t) => {
  const { server, send, ask } = start({ maxResources: 1, maxBytes: Infinity });
  ask('x/a');
  ask('x/b');
  t.match(send(['x/a', 'x/b']), /budget/);
  server.unsubscribe(THING, nameOf(thing('c', 'x/a')), LISTENER, 0);
  server.unsubscribe(THING, nameOf(thing('c', 'x/b')), LISTENER, 0);
  ask('x/b');
  t.equal(send(['x/b']), undefined);
  t.equal(server.contents.answerFor(THING, nameOf(thing('c', 'x/b'))), 'present');
  t.end();
});

t.test('a resource that grows beyond the bytes of the source keeps its last content', (t) => {
  const { server, send, ask } = start({ maxResources: 9, maxBytes: 3 * KIB });
  ask('x/a');
  t.equal(send(['x/a']), undefined);
  const before = server.contents.entry(THING, nameOf(thing('c', 'x/a')));
  const bytes = encodeResponse({
    typeUrl: THING,
    nonce: 'large',
    resources: [{ name: thing('c', 'x/a'), version: '2', body: Buffer.alloc(4 * KIB) }],
  });
  server.handleMessage(server.health.epoch, bytes, 0);
  t.equal(server.contents.entry(THING, nameOf(thing('c', 'x/a'))), before);
  t.end();
});

t.test(
  'the names of 10,000 rejected members are remembered, and of further ones that they exist',
  (t) => {
    const { server, send, ask, pump } = start({ maxResources: 1, maxBytes: Infinity });
    ask('x/*');
    ask('y/*');
    send(Array.from({ length: 10_002 }, (_, at) => `x/${at}`));
    send(['x/10001']);
    const { contents } = server;
    const forgotten = nameOf(thing('c', 'x/10001'));
    const glob = nameOf(thing('c', 'x/*'));
    // The glob counts as answered, but the name may exist.
    contents.settle(contents.subscription(THING, glob)!);
    t.equal(contents.answerFor(THING, forgotten), 'timed_out');
    t.notOk(contents.isWhole(THING, glob));
    server.unsubscribe(THING, glob, LISTENER, 0);
    pump();
    t.match(send(['y/a', 'y/b']), /y\/b/);
    t.equal(contents.answerFor(THING, nameOf(thing('c', 'y/b'))), 'timed_out');
    contents.restart();
    t.equal(
      contents.answerFor(THING, nameOf(thing('c', 'y/b'))),
      'requested',
      'a new stream says it anew',
    );
    t.equal(contents.refuse(THING, nameOf(thing('c', 'z/b'))), undefined, 'no group asked');
    t.end();
  },
);

t.test('a source that is closed counts no more', (t) => {
  const total = new ContentTotal();
  const { server, send, ask } = start({ maxResources: 9, maxBytes: Infinity }, total);
  ask('x/a');
  send(['x/a']);
  t.ok(total.bytes > KIB);
  server.close('gone');
  t.equal(total.bytes, 0);
  t.end();
});

t.test(
  'what was refused for lack of room is requested on a new stream once all of it has room',
  (t) => {
    const { server, send, ask, pump } = start({ maxResources: 3, maxBytes: Infinity });
    ask('x/*');
    ask('y/a');
    send(['y/a', 'x/a', 'x/b', 'x/c', 'x/d']);
    t.same(server.contents.unroomed, { resources: 2, bytes: 2 * KIB });
    const { epoch } = server.health;
    send([], ['x/a']);
    server.handleTimer(60_000);
    t.equal(server.health.kind, 'live', 'room for one of two');
    server.unsubscribe(THING, nameOf(thing('c', 'y/a')), LISTENER, 60_001);
    pump();
    server.handleTimer(119_999);
    t.equal(server.health.kind, 'live', 'not before a minute is over');
    t.ok((server.nextDeadlineMs() ?? Infinity) <= 120_000);
    server.handleTimer(120_000);
    t.match(server.takeEffects(120_000), [
      { kind: 'hang_up', reason: 'resources were refused, and there is room' },
      { kind: 'lost', end: { detectedBy: 'gateway' } },
    ]);
    server.handleTimer(121_000);
    t.equal(server.health.epoch, epoch + 1);
    t.same(server.contents.unroomed, { resources: 0, bytes: 0 });
    server.handleAttemptEvent(server.health.epoch, { kind: 'writable' }, 121_000);
    pump();
    t.equal(send(['x/c', 'x/d']), undefined);
    t.equal(server.contents.budget.resources, 3, 'x/b is held, and was not sent again');
    t.end();
  },
);

t.test('a source gets no new stream for what it has mended or what is too large', (t) => {
  let isShort = true;
  const total = new ContentTotal(Infinity, () => isShort);
  const { server, send, ask } = start({ maxResources: 9, maxBytes: Infinity }, total);
  ask('x/a');
  ask('x/b');
  t.match(send(['x/a', 'x/b']), /short of memory/);
  send([], ['x/b']);
  t.same(server.contents.unroomed, { resources: 1, bytes: KIB });
  server.handleTimer(60_000);
  t.equal(server.health.kind, 'live', 'memory is short');
  isShort = false;
  t.equal(send(['x/a']), undefined);
  server.handleTimer(120_000);
  t.equal(server.health.kind, 'live', 'the source sent it again by itself');
  t.equal(server.nextDeadlineMs(), undefined, 'nothing to look for');
  t.end();
});

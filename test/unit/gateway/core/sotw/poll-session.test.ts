/**
 * Goal: a client that polls gets the contents of a state-of-the-world stream, request by request, and
 * never a response that leaves out content only because it is not known yet.
 * Method: polling sessions on the cache of an `Instance`, with a manual clock.
 */
import { wholeOf } from '../../../../../protos/discovery-fields.js';
import t from 'tap';
import { PollSession } from '../../../../../gateway/core/sotw/poll-session.js';
import type { StreamNames } from '../../../../../gateway/core/quotas/stream-names.js';
import { SotwSession } from '../../../../../gateway/core/sotw/sotw-session.js';
import { decodeSotwResponse, type SotwResponse } from '../../../../support/discovery-messages.js';
import { CDS, EDS, cds, eds } from '../../../../support/mesh-names.js';
import { GUARD_WAIT_MS, Instance, SWITCH_WAIT_MS } from '../../../../support/session-driver.js';
import { WRAPPING_NODE } from '../../../../support/sotw-driver.js';

const WAIT_MS = 5_000;
const LEASE_MS = 300_000;

/** A polling client of one type and list of names. */
class Poller {
  readonly #instance: Instance;
  readonly #typeUrl: string;
  readonly #names: readonly string[];
  readonly session: PollSession;
  ready = 0;
  versionInfo = '';

  constructor(instance: Instance, typeUrl: string, ...names: readonly string[]) {
    this.#instance = instance;
    this.#typeUrl = typeUrl;
    this.#names = names;
    const { cache, settings } = instance;
    const onReady = (): void => {
      this.ready++;
    };
    this.session = new PollSession({
      contents: new SotwSession({
        ...settings,
        cache,
        chunkBytes: Infinity,
        placeholderAfterMs: undefined,
        unanswerableAfterMs: undefined,
        onReady,
      }),
      waitMs: WAIT_MS,
      leaseMs: LEASE_MS,
      onReady,
    });
  }

  request(versionInfo = this.versionInfo): void {
    const rest = { responseNonce: '', errorDetail: undefined, node: WRAPPING_NODE };
    const request = { ...rest, typeUrl: this.#typeUrl, names: this.#names, versionInfo };
    this.session.handleRequest(request, this.#instance.nowMs);
  }

  /** What the request has led to until now: the names of a response, a result without one, or nothing. */
  result(): readonly (string | undefined)[] | string | undefined {
    const sent = this.session.takeResponse(this.#instance.nowMs);
    const polled = this.session.takeEvents().find((event) => event.kind === 'polled');
    if (!sent) return polled?.kind === 'polled' ? polled.result : undefined;
    const response: SotwResponse = decodeSotwResponse(wholeOf(sent.chunks));
    this.versionInfo = response.versionInfo;
    t.match(polled, { result: 'sent' });
    return response.resources.map(({ name }) => name).sort();
  }

  ask(): ReturnType<Poller['result']> {
    this.request();
    return this.result();
  }
}

t.test('a request is answered once, and then the version of the client is unchanged', (t) => {
  const instance = new Instance();
  instance.directory.put(CDS, cds('a'), 'v1');
  const poller = new Poller(instance, CDS, cds('a'));
  t.equal(poller.ask(), undefined, 'the source has not answered');
  const { ready } = poller;
  instance.directory.answer();
  t.ok(
    poller.ready > ready,
    'the session says so when it has: the request does not wait until its time is over',
  );
  t.strictSame(poller.result(), [cds('a')]);
  t.equal(poller.result(), undefined, 'there is no request');
  t.equal(poller.ask(), 'unchanged');
  instance.directory.put(CDS, cds('a'), 'v2');
  t.equal(poller.result(), undefined, 'there is no request');
  t.strictSame(poller.ask(), [cds('a')]);
  t.equal(poller.ask(), 'unchanged');
  t.end();
});

t.test(
  'a request waits for its first content, and gets the known part when its time is over (invariant 19)',
  (t) => {
    const instance = new Instance();
    instance.directory.put(EDS, eds('a'), 'v1');
    const poller = new Poller(instance, EDS, eds('a'), eds('b', 'silent'));
    poller.request();
    instance.directory.answer(({ authority }) => authority !== 'silent');
    instance.advance(WAIT_MS - 1);
    t.equal(poller.result(), undefined);
    t.equal(poller.session.nextDeadlineMs, WAIT_MS);
    instance.advance(1);
    t.strictSame(poller.result(), [eds('a')]);
    instance.directory.put(EDS, eds('b', 'silent'), 'v1');
    instance.directory.answer();
    t.strictSame(poller.ask(), [eds('b', 'silent')], 'the next one gets what came since');
    t.end();
  },
);

t.test('a request of unknown content ends as unknown, and the next one goes on waiting', (t) => {
  const instance = new Instance();
  const poller = new Poller(instance, CDS, cds('*'));
  poller.request();
  instance.advance(WAIT_MS);
  t.equal(poller.result(), 'unknown');
  t.ok(poller.session.goesOnWith(''));
  poller.request();
  instance.directory.put(CDS, cds('a'), 'v1');
  instance.directory.answer();
  t.strictSame(poller.result(), [cds('a')]);
  t.end();
});

t.test(
  'a client that holds clusters gets no response that lacks one which is not known yet (invariants 3, 19)',
  (t) => {
    const first = new Instance();
    for (const id of ['a', 'b']) first.directory.put(CDS, cds(id), 'v1');
    const held = new Poller(first, CDS, cds('a'), cds('b', 'slow'));
    first.directory.put(CDS, cds('b', 'slow'), 'v1');
    held.request();
    first.directory.answer();
    t.strictSame(held.result(), [cds('a'), cds('b', 'slow')]);

    // Another process, which knows nothing.
    const second = new Instance({ directory: first.directory });
    const poller = new Poller(second, CDS, cds('a'), cds('b', 'slow'));
    poller.request(held.versionInfo);
    second.directory.answer(({ authority }) => authority !== 'slow');
    second.advance(WAIT_MS);
    t.equal(poller.result(), 'unknown', 'it keeps both');
    poller.request(held.versionInfo);
    second.directory.answer();
    t.equal(poller.result(), 'unchanged', 'both are known, and are what it holds');
    t.end();
  },
);

t.test(
  'deletions reach a polling client, also of all that it holds, and by a deletion guard no later than the guard (invariants 2, 3)',
  (t) => {
    const instance = new Instance();
    const ids = Array.from({ length: 30 }, (_, id) => `g/${id}`);
    for (const id of ids) instance.directory.put(CDS, cds(id), 'v1');
    const poller = new Poller(instance, CDS, cds('g/*'));
    poller.request();
    instance.directory.answer();
    t.equal(poller.result()?.length, 30);
    t.equal(poller.ask(), 'unchanged');
    for (const id of ids.slice(1)) instance.directory.remove(CDS, cds(id));
    instance.advance(1_000);
    t.strictSame(poller.ask(), [cds('g/0')], 'this process knows what the client holds');

    const restarted = new Instance({ directory: instance.directory });
    const again = new Poller(restarted, CDS, cds('g/*'));
    const held = poller.versionInfo;
    for (const id of ids.slice(0, 1)) instance.directory.remove(CDS, cds(id));
    again.request(held);
    restarted.directory.answer();
    let waitedMs = 0;
    for (; waitedMs < GUARD_WAIT_MS + 2 * SWITCH_WAIT_MS + 3 * WAIT_MS; waitedMs += 1_000) {
      const result = again.result();
      if (Array.isArray(result)) break;
      if (result !== undefined) again.request(held);
      restarted.advance(1_000);
    }
    t.ok(waitedMs >= GUARD_WAIT_MS, 'the guard held it back');
    t.ok(again.versionInfo !== '' && again.versionInfo !== held, 'and then it was deleted');
    t.end();
  },
);

t.test('a removal that waits for a quiet moment is waited for', (t) => {
  const instance = new Instance();
  for (const id of ['a', 'b']) instance.directory.put(CDS, cds(id), 'v1');
  const poller = new Poller(instance, CDS, cds('a'), cds('b'));
  poller.request();
  instance.directory.answer();
  t.equal(poller.result()?.length, 2);
  instance.directory.remove(CDS, cds('b'));
  t.equal(poller.ask(), undefined, 'its ACK came just now');
  instance.advance(poller.session.nextDeadlineMs! - instance.nowMs);
  t.strictSame(poller.result(), [cds('a')]);
  t.end();
});

t.test(
  'every request calls for a turn, and its ACK is not an event: it says nothing of how fast the client was',
  (t) => {
    const instance = new Instance();
    instance.directory.put(CDS, cds('a'), 'v1');
    const poller = new Poller(instance, CDS, cds('a'));
    poller.request();
    instance.directory.answer();
    poller.result();
    const before = poller.ready;
    poller.request();
    t.equal(poller.ready, before + 1, 'although nothing changed');
    poller.session.takeResponse(instance.nowMs);
    t.strictSame(poller.session.takeEvents(), [{ kind: 'polled', result: 'unchanged' }]);
    t.end();
  },
);

t.test('a session goes on only with the version that it sent last', (t) => {
  const instance = new Instance();
  instance.directory.put(CDS, cds('a'), 'v1');
  const poller = new Poller(instance, CDS, cds('a'));
  t.notOk(poller.session.goesOnWith(''), 'there was no request');
  poller.request();
  t.notOk(poller.session.goesOnWith(''), 'a request waits');
  instance.directory.answer();
  poller.result();
  t.ok(poller.session.goesOnWith(poller.versionInfo));
  t.notOk(poller.session.goesOnWith(''), 'the client started anew, or did not get the response');
  t.end();
});

t.test('a cancelled request costs nothing: the next one gets its response', (t) => {
  const instance = new Instance();
  instance.directory.put(CDS, cds('a'), 'v1');
  const poller = new Poller(instance, CDS, cds('a'));
  poller.request();
  t.equal(poller.session.nextDeadlineMs, WAIT_MS);
  poller.session.cancel();
  t.equal(poller.session.nextDeadlineMs, undefined, 'it calls for no turn any more');
  instance.directory.answer();
  t.equal(poller.result(), undefined);
  t.ok(poller.session.goesOnWith(''));
  t.strictSame(poller.ask(), [cds('a')]);
  t.end();
});

t.test('the lease ends after the last request, and not while a request waits', (t) => {
  const instance = new Instance();
  const poller = new Poller(instance, CDS, cds('a'));
  poller.request();
  instance.advance(LEASE_MS);
  t.equal(poller.session.endStatus(instance.nowMs), undefined, 'a request waits');
  t.equal(poller.result(), 'unknown');
  poller.request();
  poller.session.cancel();
  instance.advance(LEASE_MS - 1);
  t.equal(poller.session.endStatus(instance.nowMs), undefined);
  instance.advance(1);
  t.ok(poller.session.endStatus(instance.nowMs));
  poller.session.close(instance.nowMs);
  instance.advance(instance.settings.unsubscribedLingerMs);
  t.equal(instance.cache.nameCount, 0, 'the name is unsubscribed');
  t.end();
});

t.test('between two requests a change is not encoded, and calls for one turn at most', (t) => {
  const instance = new Instance();
  instance.directory.put(CDS, cds('a'), 'v1');
  const poller = new Poller(instance, CDS, cds('a'));
  poller.request();
  instance.directory.answer();
  poller.result();
  const before = poller.ready;
  for (const content of ['v2', 'v3', 'v4']) {
    instance.directory.put(CDS, cds('a'), content);
    t.equal(poller.result(), undefined);
  }
  t.equal(poller.ready, before + 1);
  t.strictSame(poller.ask(), [cds('a')]);
  t.end();
});

t.test('a client with the current version of a process that it never polled is unchanged', (t) => {
  const first = new Instance();
  first.directory.put(CDS, cds('g/a'), 'v1');
  const one = new Poller(first, CDS, cds('g/*'));
  one.request();
  first.directory.answer();
  one.result();
  const second = new Instance({ directory: first.directory });
  const other = new Poller(second, CDS, cds('g/*'));
  other.request(one.versionInfo);
  second.directory.answer();
  t.equal(other.result(), 'unchanged');
  t.end();
});

t.test(
  'an operator sees of a polling client what its requests led to: subscriptions, node group, withheld resources (GRPC 12)',
  (t) => {
    const group = { kind: 'scope', scope: '{"id":"a"}' } as const;
    const instance = new Instance({ scopeOf: () => group, maxMessageBytes: () => 1_000 });
    instance.directory.put(EDS, eds('a'), 'v1');
    instance.directory.put(EDS, eds('b'), 'x'.repeat(2_000));
    const poller = new Poller(instance, EDS, eds('a'), eds('b'), 'old-style');
    const { session } = poller;
    t.strictSame([session.allSubscriptions, session.nameCount], [[], 0]);
    t.equal(session.scope, undefined, 'it has not asked for an old-style name');
    poller.request();
    t.match(session.allSubscriptions, [{ typeUrl: EDS, nameCount: 3 }]);
    t.equal(session.nameCount, 3, 'limits of names count those of polling clients');
    t.strictSame(session.scope, group);
    instance.directory.answer();
    t.strictSame(poller.result(), [eds('a')]);
    t.equal(session.limit.maxBytes, 1_000);
    t.match(session.limit.withheld, [{ typeUrl: EDS, name: eds('b'), maxBytes: 1_000 }]);
    session.close(instance.nowMs);
    t.strictSame(session.allSubscriptions, []);
    t.end();
  },
);

t.test('names that had no room begin anew once there is room', (t) => {
  const again = { code: 14, message: 'room again' };
  const none = (): undefined => undefined;
  const room = {
    take: none,
    takeType: none,
    leave: none,
    setCounts: none,
    changeUpstream: none,
  };
  const names = { ...room, endStatus: () => again } as unknown as StreamNames;
  const poller = new Poller(new Instance({ nameQuota: names }), EDS);
  poller.request();
  t.equal(poller.session.endStatus(0), undefined, 'a request is pending');
  poller.session.cancel();
  t.equal(poller.session.endStatus(0), again);
  t.end();
});

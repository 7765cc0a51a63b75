/**
 * Goal: a request of many names is handled in portions, and the client and the quotas see one step
 * (docs/SPEC.md, "Long requests").
 * Method: sessions of both flavours with two names to a portion. The model tests of the flavours do the same with random
 * histories.
 */
import t from 'tap';
import { SotwSession } from '../../../../../gateway/core/sotw/sotw-session.js';
import { PollSession } from '../../../../../gateway/core/sotw/poll-session.js';
import type { StreamSession } from '../../../../../gateway/core/session/stream-session.js';
import { DeltaSession } from '../../../../../gateway/core/delta/delta-session.js';
import { wholeOf } from '../../../../../protos/discovery-fields.js';
import { STATUS_CODE, type SotwRequest } from '../../../../../protos/discovery.js';
import { decodeSotwResponse, type SotwResponse } from '../../../../support/discovery-messages.js';
import { CDS, cds, EDS, eds, LDS, lds } from '../../../../support/mesh-names.js';
import { ModelClient, request } from '../../../../support/model-client.js';
import { Instance } from '../../../../support/session-driver.js';
import { WRAPPING_NODE } from '../../../../support/sotw-driver.js';

const IDS = ['a', 'b', 'c', 'd', 'e'];
const NAMES = IDS.map((id) => eds(id));

function instanceWithNames(): Instance {
  const instance = new Instance({ namesPerPortion: 1 });
  for (const id of IDS) instance.directory.put(EDS, eds(id), id);
  return instance;
}

function open(instance: Instance) {
  const ready = { calls: 0 };
  const onReady = (): void => {
    ready.calls++;
  };
  const { settings, cache } = instance;
  const sotw = {
    ...settings,
    cache,
    onReady,
    placeholderAfterMs: undefined,
    unanswerableAfterMs: undefined,
  };
  return {
    ready,
    delta: () => new DeltaSession({ ...settings, cache, onReady }),
    sotw: () => new SotwSession(sotw),
    poll: () =>
      new PollSession({ contents: new SotwSession(sotw), waitMs: 5, leaseMs: 1_000, onReady }),
  };
}

const sotwRequest = (names: readonly string[], parts: Partial<SotwRequest> = {}): SotwRequest => ({
  typeUrl: EDS,
  names,
  versionInfo: '',
  node: WRAPPING_NODE,
  responseNonce: '',
  errorDetail: undefined,
  ...parts,
});

/** @returns the number of portions after the first */
function finish(session: StreamSession<never>): number {
  let portions = 0;
  for (; session.isMidRequest; portions++) session.continueRequest(0);
  return portions;
}

t.test('a delta request is answered as a whole, when all of its names are known', (t) => {
  const instance = instanceWithNames();
  const { delta, ready } = open(instance);
  const session = delta();
  const model = new ModelClient();
  t.equal(session.handleRequest(model.change(EDS, NAMES), 0), undefined);
  t.ok(session.isMidRequest);
  t.equal(instance.cache.nameCount, 2, 'the rest is not subscribed yet');
  instance.directory.answer();
  session.handleRightsChanged();
  t.equal(session.takeResponse(0), undefined, 'not in the middle of a request');
  t.equal(ready.calls, 0, 'and no client asks for it');
  t.equal(finish(session), 2);
  t.equal(ready.calls, 1);
  instance.directory.answer();
  const response = model.receive(wholeOf(session.takeResponse(0)!.chunks));
  t.strictSame(
    response.resources.map(({ name }) => name),
    NAMES,
  );
  session.handleRequest(model.change(EDS, [], NAMES), 0);
  t.equal(instance.cache.nameCount, 5, 'unsubscribed names linger');
  t.ok(session.isMidRequest);
  t.equal(finish(session), 2);
  t.equal(session.nameCount, 0);
  t.end();
});

t.test('locators of a request are refused in portions too (TP2)', (t) => {
  const session = open(instanceWithNames()).delta();
  const subscribe = ['a', 'b', 'c'].map((name) => ({ name, parameters: 'env=prod' }));
  const locators = { subscribe, unsubscribe: [] };
  session.handleRequest(request({ typeUrl: EDS, locators }), 0);
  t.ok(session.isMidRequest);
  t.equal(finish(session), 1);
  const { errors } = new ModelClient().receive(wholeOf(session.takeResponse(0)!.chunks));
  t.strictSame(
    errors.map(({ name }) => name),
    ['a', 'b', 'c'],
  );
  t.end();
});

t.test('versions that a client resumes with count for the whole request', (t) => {
  const instance = instanceWithNames();
  const session = open(instance).delta();
  const held = new Map(IDS.map((id) => [eds(`g/${id}`), 'outdated']));
  const glob = eds('g/*');
  const resumed = request({ typeUrl: EDS, subscribe: [glob], initialVersions: held });
  session.handleRequest(resumed, 0);
  t.ok(session.isMidRequest, 'the members count, too');
  instance.directory.put(EDS, eds('g/a'), 'new');
  instance.directory.answer();
  t.equal(session.takeResponse(0), undefined);
  t.equal(finish(session), 3);
  const response = new ModelClient({ resumesMembers: true }).receive(
    wholeOf(session.takeResponse(0)!.chunks),
  );
  t.strictSame(
    response.resources.map(({ name }) => name),
    [eds('g/a')],
  );
  t.end();
});

t.test('a stream that exceeds its names ends after the last portion', (t) => {
  const instance = new Instance({ namesPerPortion: 1, maxNames: 4 });
  const { delta, sotw } = open(instance);
  const session = delta();
  t.equal(session.handleRequest(request({ typeUrl: EDS, subscribe: NAMES }), 0), undefined);
  t.equal(session.continueRequest(0), undefined);
  t.match(session.continueRequest(0), { code: STATUS_CODE.resourceExhausted });
  const other = sotw();
  t.equal(other.handleRequest(sotwRequest(NAMES), 0), undefined);
  t.equal(other.continueRequest(0), undefined);
  t.match(other.continueRequest(0), { code: STATUS_CODE.resourceExhausted });
  t.end();
});

t.test('a stream that ends in the middle of a request leaves no name', (t) => {
  const instance = instanceWithNames();
  const { delta, sotw } = open(instance);
  const one = delta();
  const other = sotw();
  one.handleRequest(request({ typeUrl: EDS, subscribe: NAMES }), 0);
  other.handleRequest(sotwRequest(NAMES), 0);
  for (const session of [one, other]) {
    t.ok(session.isMidRequest);
    session.close(0);
    t.notOk(session.isMidRequest);
    t.equal(session.continueRequest(0), undefined);
  }
  instance.advance(instance.settings.unsubscribedLingerMs);
  t.equal(instance.cache.nameCount, 0);
  t.strictSame(instance.directory.watched, []);
  t.end();
});

t.test('a set of names is replaced in portions, and an ACK that repeats it is one step', (t) => {
  const instance = instanceWithNames();
  const { sotw, ready } = open(instance);
  const session = sotw();
  session.handleRequest(sotwRequest(NAMES), 0);
  instance.directory.answer();
  t.equal(session.takeResponse(0), undefined, 'not in the middle of a request');
  t.equal(ready.calls, 0);
  t.equal(finish(session), 2);
  t.equal(ready.calls, 1);
  instance.directory.answer();
  const response = decodeSotwResponse(wholeOf(session.takeResponse(0)!.chunks));
  t.equal(response.resources.length, 5);
  const { versionInfo, nonce: responseNonce } = response;
  session.handleRequest(sotwRequest(NAMES, { versionInfo, responseNonce }), 0);
  t.notOk(session.isMidRequest, 'all names are known');
  session.handleRequest(sotwRequest([eds('a')], { versionInfo, responseNonce }), 0);
  t.ok(session.isMidRequest, 'four names go');
  t.equal(finish(session), 2);
  t.equal(session.nameCount, 1);
  t.end();
});

t.test(
  'a change between two portions is sent after the last one, also without further news',
  (t) => {
    const instance = instanceWithNames();
    const { sotw, ready } = open(instance);
    const session = sotw();
    session.handleRequest(sotwRequest(NAMES), 0);
    finish(session);
    t.equal(session.takeResponse(0), undefined, 'no source has answered');
    const before = ready.calls;
    session.handleRequest(sotwRequest([eds('a')]), 0);
    t.ok(session.isMidRequest, 'four names go');
    session.handleRightsChanged();
    t.equal(ready.calls, before);
    finish(session);
    t.equal(ready.calls, before + 1);
    t.end();
  },
);

t.test('a client that polls gets its reply after the last portion (invariant 19)', (t) => {
  const instance = instanceWithNames();
  const session = open(instance).poll();
  session.handleRequest(sotwRequest(NAMES), 0);
  t.ok(session.isMidRequest);
  instance.directory.answer();
  t.equal(session.takeResponse(1_000), undefined, 'even after the time for a reply');
  t.equal(session.nextDeadlineMs, undefined);
  t.strictSame(session.takeEvents(), []);
  t.equal(finish(session), 2);
  instance.directory.answer();
  t.equal(decodeSotwResponse(wholeOf(session.takeResponse(0)!.chunks)).resources.length, 5);
  t.end();
});

t.test(
  'a large set is prepared in portions, and comes whole (docs/SPEC.md, "Long requests")',
  (t) => {
    const instance = new Instance({ membersPerPortion: 1 });
    for (const id of IDS) instance.directory.put(CDS, cds(`g/${id}`), id);
    const { sotw, ready } = open(instance);
    const session = sotw();
    let nowMs = 0;
    /** @returns the number of resources in the next response, and of the polls until it came */
    const next = (): readonly [number, number] => {
      for (let polls = 1; ; polls++) {
        const before = ready.calls;
        const response = session.takeResponse(nowMs);
        t.equal(session.isPreparing, response === undefined);
        if (response) return [decodeSotwResponse(wholeOf(response.chunks)).resources.length, polls];
        t.equal(ready.calls - before, 1, 'it is to be polled again');
      }
    };
    session.handleRequest(sotwRequest([cds('g/*')], { typeUrl: CDS }), nowMs);
    instance.directory.answer();
    const [resources, polls] = next();
    t.equal(resources, IDS.length);
    t.ok(polls > IDS.length);
    instance.directory.remove(CDS, cds('g/a'));
    nowMs = 2_000;
    t.match(next(), [IDS.length - 1, 2], 'a removal too');
    t.end();
  },
);

t.test('a request of a polling client waits while its set is prepared in portions', (t) => {
  const instance = new Instance({ membersPerPortion: 1 });
  for (const id of IDS) instance.directory.put(CDS, cds(`g/${id}`), id);
  const { poll } = open(instance);
  const session = poll();
  const ask = (versionInfo: string): void => {
    session.handleRequest(sotwRequest([cds('g/*')], { typeUrl: CDS, versionInfo }), 0);
  };
  const next = (): SotwResponse => {
    for (let polls = 0; polls < 100; polls++) {
      const response = session.takeResponse(0);
      if (response) return decodeSotwResponse(wholeOf(response.chunks));
      t.notOk(
        session.takeEvents().some(({ kind }) => kind === 'polled'),
        'no result yet',
      );
    }
    throw new Error('no response');
  };
  ask('');
  instance.directory.answer();
  const first = next();
  t.equal(first.resources.length, IDS.length);
  session.takeEvents();
  instance.directory.put(CDS, cds('g/a'), 'changed');
  ask(first.versionInfo);
  t.ok(next().resources.some(({ body }) => body.toString() === 'changed'));
  t.end();
});

for (const [what, globs] of [
  ['collections', Array.from({ length: 1_500 }, (_, at) => cds(`dir${at}/*`))],
  ['authorities', Array.from({ length: 1_500 }, (_, at) => cds('dir/*', `a${at}`))],
] as const) {
  t.test(`a client of 1,500 ${what} that wait is looked at in several turns`, (t) => {
    const instance = new Instance({ maxNames: 2_000, looksPerPortion: 500 });
    const client = instance.connect();
    client.subscribe(CDS, ...globs);
    const ready = client.readyCalls;
    t.equal(client.poll(), undefined);
    t.equal(client.readyCalls, ready + 1, 'it asks for another turn');
    t.strictSame(client.settle(), []);
    for (const glob of globs) instance.directory.put(CDS, glob.replace('*', 'one'), 'v1');
    instance.directory.answer();
    const names = client.settle().flatMap(({ resources }) => resources.map(({ name }) => name));
    t.equal(new Set(names).size, globs.length);
    t.equal(names.length, globs.length, 'each once');
    t.end();
  });
}

// Found by the simulation, seed 2641.
t.test('what changes before the place where a look goes on is not missed', (t) => {
  const instance = new Instance({ looksPerPortion: 1 });
  const client = instance.connect();
  client.subscribe(CDS, cds('g/*', 'a'), cds('g/*', 'b'));
  t.equal(client.poll(), undefined, 'it goes on with authority b');
  instance.directory.put(CDS, cds('g/one', 'a'), 'v1');
  instance.directory.answer(({ authority }) => authority === 'a');
  const names = client.pollAll().flatMap(({ resources }) => resources.map(({ name }) => name));
  t.strictSame(names, [cds('g/one', 'a')]);
  t.end();
});

t.test(
  'listeners wait for clusters that come between two looks at them, if none of them was sent (seed 48530)',
  (t) => {
    const instance = new Instance({ looksPerPortion: 1 });
    const { directory } = instance;
    const client = instance.connect();
    client.subscribe(CDS, cds('g/*'));
    client.subscribe(LDS, lds('f/*'), lds('g/*'));
    directory.put(LDS, lds('g/l'), 'v1');
    directory.answer((_name, typeUrl) => typeUrl === LDS);
    t.equal(client.poll(), undefined, 'it goes on with the second collection of listeners');
    directory.put(CDS, cds('g/c'), 'v1');
    directory.answer();
    t.strictSame(
      client.pollAll().map(({ typeUrl }) => typeUrl),
      [CDS],
    );
    client.ack(CDS);
    t.strictSame(
      client.pollAll().map(({ typeUrl }) => typeUrl),
      [LDS],
    );
    t.end();
  },
);

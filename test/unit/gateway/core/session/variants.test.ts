/** Clients that request names with dynamic parameters (TP2), in both flavours. */
import t from 'tap';
import { wholeOf } from '../../../../../protos/discovery-fields.js';
import { decodeDeltaResponse } from '../../../../../protos/delta-codec.js';
import {
  STATUS_CODE,
  type DeltaRequest,
  type DeltaResponse,
  type WireResource,
} from '../../../../../protos/discovery.js';
import { readConstraints } from '../../../../../protos/parameter-constraints.js';
import { decodeSotwResponse } from '../../../../../protos/sotw-codec.js';
import { DeltaSession } from '../../../../../gateway/core/delta/delta-session.js';
import { locatorText } from '../../../../../gateway/core/session/asked-name.js';
import type { MessageLimit } from '../../../../../gateway/core/session/message-limit.js';
import { Draft } from '../../../../../gateway/core/session/response-draft.js';
import { withParameters } from '../../../../../protos/resource-name.js';
import { forParameters, readResource } from '../../../../../authorities/core/projection.js';
import { encodeConstraints, onlyFor } from '../../../../support/discovery-messages.js';
import { nameOf } from '../../../../support/fake-directory.js';
import { CDS, cds, EDS, eds, LDS, SDS, sds } from '../../../../support/mesh-names.js';
import { request } from '../../../../support/model-client.js';
import { Instance } from '../../../../support/session-driver.js';
import { placeholderCluster } from '../../../../../gateway/core/sotw/placeholder.js';
import { SotwClient } from '../../../../support/sotw-driver.js';

const A = sds('a');
const PROD = 'env=prod';
const TEST = 'env=test';
const key = (parameters: string, name = A): string => `\t${parameters}\t${name}`;
const textOf = (constraints: Uint8Array | undefined): string => {
  const read = readConstraints(constraints ?? new Uint8Array());
  return typeof read === 'object' ? ` (${read.text})` : '';
};
const wordOf = ({ name, constraints, body }: WireResource): string =>
  `${name}${textOf(constraints)} ${Buffer.from(body ?? []).toString()}`;

type Locators = NonNullable<DeltaRequest['locators']>;
const locators = (all: readonly string[], left: readonly string[] = [], name = A): Locators => ({
  subscribe: all.map((parameters) => ({ name, parameters })),
  unsubscribe: left.map((parameters) => ({ name, parameters })),
});

function setUp(instance = new Instance()) {
  const { directory } = instance;
  const session = new DeltaSession({
    ...instance.settings,
    cache: instance.cache,
    onReady: () => undefined,
  });
  const responses: DeltaResponse[] = [];
  /** ACKs all responses, and returns them as words: `-` marks a removal, `!` an error. */
  const settle = (): readonly (readonly string[])[] => {
    directory.answer();
    const all: (readonly string[])[] = [];
    for (
      let next = session.takeResponse(instance.nowMs);
      next;
      next = session.takeResponse(instance.nowMs)
    ) {
      const decoded = decodeDeltaResponse(wholeOf(next.chunks), 100);
      if (!decoded.ok) throw new Error(decoded.reason);
      const { typeUrl, nonce, resources, removed, removedVariants = [], errors } = decoded.message;
      responses.push(decoded.message);
      all.push([
        ...resources.map(wordOf),
        ...removed.map((name) => `-${name}`),
        ...removedVariants.map(
          ({ name, constraints }) => `-${name}${textOf(constraints) || ' ()'}`,
        ),
        ...errors.map(({ name, status }) => `!${name} ${status.code}`),
      ]);
      session.handleRequest(request({ typeUrl, responseNonce: nonce }), instance.nowMs);
    }
    return all;
  };
  const send = (parts: Parameters<typeof request>[0]): void => {
    session.handleRequest(request(parts), instance.nowMs);
  };
  const putFor = (env: string, content: string, parameters = `env=${env}`): void => {
    directory.put(SDS, key(parameters), content, undefined, onlyFor('env', env));
  };
  return { instance, directory, session, settle, send, putFor, responses };
}

t.test(
  'a client is sent its variant with the constraints, and names without as before (TP2)',
  (t) => {
    const { directory, settle, send, putFor } = setUp();
    putFor('prod', 'P');
    directory.put(SDS, key(TEST, sds('b')), 'B');
    send({ typeUrl: SDS, locators: locators([PROD]) });
    send({ typeUrl: SDS, locators: locators([TEST], [], sds('b')) });
    t.strictSame(settle(), [[`${A} (env=prod) P`, `${sds('b')} B`]]);
    t.strictSame(directory.watched, [key(PROD), key(TEST, sds('b'))]);
    t.end();
  },
);

t.test('another variant comes with the removal of the one before, in one response (TP2)', (t) => {
  const { directory, settle, send, putFor } = setUp();
  putFor('prod', 'P');
  const both = 'env=prod&version=v1';
  send({ typeUrl: SDS, locators: locators([both]) });
  putFor('prod', 'P', both);
  t.strictSame(settle(), [[`${A} (env=prod) P`]]);
  putFor('prod', 'P2', both);
  t.strictSame(settle(), [[`${A} (env=prod) P2`]], 'the same variant changed');
  directory.put(SDS, key(both), 'P2', undefined, onlyFor('version', 'v1'));
  t.strictSame(settle(), [[`${A} (version=v1) P2`, `-${A} (env=prod)`]], 'also with equal content');
  directory.put(SDS, key(both), 'U');
  t.strictSame(settle(), [[`${A} U`, `-${A} (version=v1)`]]);
  directory.put(SDS, key(both), 'P', undefined, onlyFor('env', 'prod'));
  t.strictSame(
    settle(),
    [[`${A} (env=prod) P`, `-${A} ()`]],
    'the variant without constraints goes',
  );
  t.end();
});

t.test(
  'a variant is removed with its constraints, and a name without them by its name (TP2)',
  (t) => {
    const { directory, settle, send, putFor } = setUp();
    putFor('prod', 'P');
    directory.put(SDS, key(PROD, sds('b')), 'B');
    send({ typeUrl: SDS, locators: locators([PROD]) });
    send({ typeUrl: SDS, locators: locators([PROD], [], sds('b')) });
    send({ typeUrl: SDS, locators: locators([TEST]) });
    t.strictSame(settle(), [[`${A} (env=prod) P`, `${sds('b')} B`, `-${A}`]], 'one is absent');
    directory.remove(SDS, key(PROD));
    directory.remove(SDS, key(PROD, sds('b')));
    t.strictSame(settle(), [[`-${sds('b')}`, `-${A} (env=prod)`]]);
    putFor('prod', 'P');
    t.strictSame(settle(), [[`${A} (env=prod) P`]], 'it is back');
    t.end();
  },
);

t.test(
  'one variant for several sets of parameters is sent once, and stays for the last (TP2)',
  (t) => {
    const { directory, settle, send } = setUp();
    const only = onlyFor('env', 'prod');
    const [v1, v2] = ['env=prod&v=1', 'env=prod&v=2'];
    send({ typeUrl: SDS, locators: locators([v1, v2]) });
    for (const one of [v1, v2]) directory.put(SDS, key(one), 'P', undefined, only);
    t.strictSame(settle(), [[`${A} (env=prod) P`]]);
    directory.put(SDS, key(v1), 'V', undefined, onlyFor('v', '1'));
    t.strictSame(settle(), [[`${A} (v=1) V`]], 'the other still has it');
    directory.remove(SDS, key(v2));
    t.strictSame(settle(), [[`-${A} (env=prod)`]]);
    t.end();
  },
);

t.test('what a client gets by another subscription is not taken from it (TP2)', (t) => {
  const { directory, settle, send } = setUp();
  send({ typeUrl: SDS, subscribe: [A], locators: locators([PROD]) });
  directory.put(SDS, A, 'plain');
  t.strictSame(settle(), [[`${A} plain`, `!${A} ${STATUS_CODE.notFound}`]]);
  directory.put(SDS, key(PROD), 'plain');
  t.strictSame(settle(), [[`${A} plain`]], 'without constraints both are the same');
  directory.remove(SDS, key(PROD));
  t.strictSame(settle(), [[`!${A} ${STATUS_CODE.notFound}`]]);
  directory.remove(SDS, A);
  t.strictSame(settle(), [[`-${A}`]]);
  t.end();
});

t.test('a member of a collection is not sent twice, nor removed for a variant (TP2)', (t) => {
  const { directory, settle, send } = setUp();
  directory.put(SDS, A, 'member');
  directory.put(SDS, key(PROD), 'member');
  send({ typeUrl: SDS, subscribe: [sds('*')], locators: locators([PROD, TEST]) });
  t.strictSame(settle(), [[`${A} member`, `!${A} ${STATUS_CODE.notFound}`]]);
  t.end();
});

t.test(
  'locators are unsubscribed with their parameters, and one without any is a name (TP2)',
  (t) => {
    const { directory, settle, send, putFor, session } = setUp();
    putFor('prod', 'P');
    putFor('test', 'T');
    send({ typeUrl: SDS, locators: locators([PROD, TEST, '']) });
    t.strictSame(directory.watched, [key(PROD), key(TEST), A]);
    t.equal(session.nameCount, 3);
    send({ typeUrl: SDS, locators: locators([], [PROD, '']) });
    t.equal(session.nameCount, 1);
    t.strictSame(settle(), [[`${A} (env=test) T`]]);
    t.end();
  },
);

t.test('a resuming client that has its variant is sent nothing (TP2)', (t) => {
  const first = setUp();
  first.putFor('prod', 'P');
  first.send({ typeUrl: SDS, locators: locators([PROD]) });
  first.settle();
  const version = first.responses[0]?.resources[0]?.version ?? '';
  first.session.close(0);
  const resume = (text: string) => {
    const next = setUp(first.instance);
    const initialVersions = new Map([[A, text]]);
    next.send({ typeUrl: SDS, locators: locators([PROD]), initialVersions });
    return next;
  };
  const current = resume(version);
  t.strictSame(current.settle(), [[]], 'the empty first response');
  current.putFor('prod', 'P2');
  t.strictSame(current.settle(), [[`${A} (env=prod) P2`]]);
  t.strictSame(
    resume(version).settle(),
    [[`${A} (env=prod) P2`]],
    'which variant it has is unknown',
  );
  t.end();
});

t.test('what a resuming client may hold by another subscription is not removed (TP2)', (t) => {
  const { instance, directory, settle, send } = setUp();
  const initialVersions = new Map([[A, 'v']]);
  send({ typeUrl: SDS, locators: locators([PROD, TEST]), initialVersions });
  const status = { code: STATUS_CODE.permissionDenied, message: 'no' };
  instance.cache.onDoesNotExist(SDS, nameOf(key(PROD)), status);
  directory.answer = () => undefined;
  t.strictSame(settle(), [[`!${A} 7`, `!${A} 5`]], 'no source has answered for the other');
  t.end();
});

t.test('endpoints of a cluster with parameters have its parameters (TP2, ENVOY 5)', (t) => {
  const { directory, settle, send } = setUp();
  const [c, e] = [cds('c'), eds('e')];
  send({ typeUrl: CDS, locators: locators([PROD], [], c) });
  send({ typeUrl: EDS, locators: locators([PROD], [], e) });
  directory.put(CDS, key(PROD, c), 'C1', key(PROD, e));
  directory.put(EDS, key(PROD, e), 'E');
  t.strictSame(settle(), [[`${c} C1`], [`${e} E`]]);
  directory.put(CDS, key(PROD, c), 'C2', key(PROD, e));
  t.strictSame(settle(), [[`${c} C2`], [`${e} E`]], 'Envoy waits for endpoints after each change');
  t.end();
});

t.test(
  'a client is sent constraints of its names too, once it has requested a variant (TP2)',
  (t) => {
    const { directory, settle, send, putFor } = setUp();
    const forOthers = { not_constraints: onlyFor('env', 'prod') };
    send({ typeUrl: SDS, subscribe: [A, sds('b')] });
    directory.put(SDS, A, 'D', undefined, forOthers);
    directory.put(SDS, sds('b'), 'B');
    t.strictSame(settle(), [[`${A} D`, `${sds('b')} B`]], 'it may not know them');
    putFor('prod', 'P');
    send({ typeUrl: SDS, locators: locators([PROD]) });
    t.strictSame(settle(), [[`${A} (not (env=prod)) D`, `${A} (env=prod) P`, `-${A} ()`]]);
    directory.remove(SDS, A);
    t.strictSame(settle(), [[`-${A} (not (env=prod))`]]);
    t.end();
  },
);

t.test('a response removes the variant without constraints once, in either form (TP2)', (t) => {
  const limit = { exceeds: () => false } as unknown as MessageLimit;
  const none = { name: A, constraints: new Uint8Array() };
  const prod = { name: A, constraints: encodeConstraints(onlyFor('env', 'prod')) };
  for (const isNameFirst of [true, false]) {
    const draft = new Draft(1_000, limit, true);
    if (isNameFirst) draft.remove(A);
    draft.removeVariant(none);
    draft.removeVariant(prod);
    draft.removeVariant(prod);
    if (!isNameFirst) draft.remove(A);
    t.equal(draft.removedCount, 2);
    t.match(draft.finish(), { removed: [], removedVariants: [none, prod] });
  }
  t.end();
});

t.test('a response is full once it has met as many subscriptions as resources (TP2)', (t) => {
  const limit = { exceeds: () => false } as unknown as MessageLimit;
  const draft = new Draft(Infinity, limit, true);
  const name = nameOf(A);
  const read = readResource(name, SDS, SDS, Buffer.alloc(0));
  if (!read.ok) throw new Error(read.reason);
  const all = Array.from({ length: 2_500 }, (_, at) => withParameters(name, `at=${at}`));
  for (const one of all) {
    t.notOk(draft.isFull);
    draft.add(forParameters(read.projection, one), '', true);
  }
  t.ok(draft.isFull);
  t.equal(draft.finish()?.resourceCount, 1);
  t.end();
});

t.test(
  'a client may request a name with 100 sets of parameters, and leave some for others (TP2)',
  (t) => {
    const { session, send, settle } = setUp();
    const all = Array.from({ length: 102 }, (_, at) => `at=${at}`);
    send({ typeUrl: SDS, locators: locators(all) });
    t.equal(session.nameCount, 100);
    const [first] = settle();
    t.strictSame(first?.slice(0, 2), [`!${A} 3`], 'one error for the name');
    send({ typeUrl: SDS, locators: locators(all.slice(100), all.slice(0, 2)) });
    t.equal(session.nameCount, 100);
    t.end();
  },
);

t.test(
  'a name that is subscribed again is sent again, in place of the variant before (TP2)',
  (t) => {
    const { directory, settle, send, putFor } = setUp();
    const both = 'env=prod&version=v1';
    putFor('prod', 'P', both);
    send({ typeUrl: SDS, locators: locators([both]) });
    t.strictSame(settle(), [[`${A} (env=prod) P`]]);
    directory.put(SDS, key(both), 'V', undefined, onlyFor('version', 'v1'));
    send({ typeUrl: SDS, locators: locators([both]) });
    t.strictSame(settle(), [[`${A} (version=v1) V`, `-${A} (env=prod)`]]);
    directory.put(SDS, key(both), 'U');
    t.strictSame(settle(), [[`${A} U`, `-${A} (version=v1)`]]);
    putFor('prod', 'P', both);
    send({ typeUrl: SDS, locators: locators([both]) });
    t.strictSame(settle(), [[`${A} (env=prod) P`, `-${A} ()`]]);
    t.end();
  },
);

t.test('clients together request a name with 1,000 sets of parameters at most (TP2)', (t) => {
  const { instance } = setUp();
  const more = (from: number) => {
    const client = setUp(instance);
    const all = Array.from({ length: 100 }, (_, at) => `at=${from + at}`);
    client.send({ typeUrl: SDS, locators: locators(all) });
    return client;
  };
  const clients = Array.from({ length: 10 }, (_, at) => more(100 * at));
  t.ok(clients.every(({ session }) => session.nameCount === 100));
  const late = more(950);
  t.equal(late.session.nameCount, 50, 'those that others request too');
  t.strictSame(late.settle()[0]?.slice(0, 1), [`!${A} ${STATUS_CODE.unavailable}`]);
  const state = new SotwClient(instance);
  const one = { name: A, parameters: 'at=5000' };
  state.send({ typeUrl: SDS, names: [sds('b')], locators: [one] });
  t.match(state.pollAll(), [{ errors: [{ name: A, code: STATUS_CODE.unavailable }] }]);
  for (const { session } of clients) session.close(instance.nowMs);
  instance.advance(60_000);
  t.equal(more(2_000).session.nameCount, 100);
  t.end();
});

// ---- state of the world -----------------------------------------------------------------------

function sotw() {
  const instance = new Instance();
  const client = new SotwClient(instance);
  let nonce = '';
  const versions = new Map<string, string>();
  const send = (
    typeUrl: string,
    names: readonly string[],
    parameters: readonly string[],
    of = A,
  ): void => {
    client.send({
      typeUrl,
      node: undefined,
      names,
      locators: parameters.map((one) => ({ name: of, parameters: one })),
      responseNonce: nonce,
      versionInfo: versions.get(typeUrl) ?? '',
    });
  };
  const poll = (): readonly string[] | undefined => {
    instance.directory.answer();
    const response = client.session.takeResponse(instance.nowMs);
    if (!response) return undefined;
    const decoded = decodeSotwResponse(wholeOf(response.chunks), 100);
    if (!decoded.ok) throw new Error(decoded.reason);
    const { resources, errors, typeUrl, versionInfo } = decoded.message;
    ({ nonce } = decoded.message);
    versions.set(typeUrl, versionInfo);
    const said = errors.map(({ name, status }) => `!${name} ${status.code}`);
    return [...resources.map(wordOf), ...said];
  };
  return { directory: instance.directory, client, send, poll };
}

t.test('a state-of-the-world client with locators is sent wrapped variants (TP2)', (t) => {
  const { directory, client, send, poll } = sotw();
  directory.put(SDS, key(PROD), 'P', undefined, onlyFor('env', 'prod'));
  send(SDS, [sds('b')], [PROD, TEST]);
  directory.put(SDS, sds('b'), 'B');
  t.strictSame(poll(), [`${sds('b')} B`, `${A} (env=prod) P`, `!${A} ${STATUS_CODE.notFound}`]);
  send(SDS, [sds('b')], [PROD, TEST]);
  t.equal(poll(), undefined, 'the ACK repeats the locators');
  directory.put(SDS, key(TEST), 'T', undefined, onlyFor('env', 'test'));
  t.strictSame(poll(), [`${A} (env=test) T`]);
  send(SDS, [], [TEST]);
  t.equal(client.session.nameCount, 1);
  t.end();
});

t.test('one variant for several sets of parameters is in a set once (TP2)', (t) => {
  const { directory, send, poll } = sotw();
  const c = cds('c');
  const [v1, v2, v3] = ['env=prod&v=1', 'env=prod&v=2', 'v=3'];
  send(CDS, [cds('*')], [v1, v2, v3], c);
  directory.put(CDS, c, 'plain');
  for (const one of [v1, v2])
    directory.put(CDS, key(one, c), 'P', undefined, onlyFor('env', 'prod'));
  directory.put(CDS, key(v3, c), 'plain');
  t.strictSame(poll()?.toSorted(), [`${c} (env=prod) P`, `${c} plain`].sort());
  t.end();
});

t.test('a locator of a wildcard with parameters is refused, and other names are served', (t) => {
  const { send, poll } = sotw();
  send(LDS, [], [PROD], '*');
  t.match(poll(), [`!* ${STATUS_CODE.unimplemented}`]);
  t.end();
});

t.test('no client can send the text of a locator as a name', (t) => {
  const text = locatorText({ name: A, parameters: PROD });
  t.not(Buffer.from(text).toString(), text, 'UTF-8 cannot encode it');
  t.equal(locatorText({ name: A, parameters: '' }), A);
  t.end();
});

t.test(
  'a state-of-the-world client with locators is sent constraints of its names too (TP2)',
  (t) => {
    const { directory, send, poll } = sotw();
    directory.put(SDS, sds('b'), 'B', undefined, { not_constraints: onlyFor('env', 'prod') });
    send(SDS, [sds('b')], [PROD]);
    t.strictSame(poll(), [`${sds('b')} (not (env=prod)) B`, `!${A} ${STATUS_CODE.notFound}`]);
    t.end();
  },
);

t.test('the placeholder of a cluster with parameters has no key in its text (TP2, GRPC 8)', (t) => {
  const { edsKey, field } = placeholderCluster(nameOf(key(PROD, cds('c'))));
  t.equal(edsKey, key(PROD, eds('c')));
  t.ok(field.bytes.includes(eds('c')));
  t.notOk(field.bytes.includes('\t'));
  t.end();
});

/**
 * Goal: each result of a poll has its HTTP response, and a response that JSON cannot carry in full is
 * an error, not a part of it.
 * Method: scripted polls.
 */
import t from 'tap';
import { Turns } from '../../../../authorities/index.js';
import { DEFAULT_LIMITS } from '../../../../config/limits.js';
import { quotaLimitsOf } from '../../../../gateway/core/quotas/limits.js';
import { Quotas } from '../../../../gateway/core/quotas/quotas.js';
import type { PollReply, Polls } from '../../../../gateway/clients/polls.js';
import { RestDiscovery, type RestResponse } from '../../../../gateway/clients/rest-discovery.js';
import { sizeOf, wholeOf, type Chunks } from '../../../../protos/discovery-fields.js';
import { STATUS_CODE } from '../../../../protos/discovery.js';
import { bareResourceOf, encodeResourceField } from '../../../../protos/resource-field.js';
import { encodeSotwResponse } from '../../../../protos/sotw-codec.js';
import { CDS } from '../../../support/mesh-names.js';

const PEER = {
  peer: '127.0.0.1:1',
  address: '',
  identity: '127.0.0.1',
  quotaKey: '127.0.0.1',
  userAgent: '',
  headerValues: () => [],
  certificate: undefined,
};

const quotas = new Quotas(quotaLimitsOf(DEFAULT_LIMITS));
const account = quotas.account('peer');

/** Polls that get these replies, one after the other. */
function restWith(...replies: readonly PollReply[]) {
  const unwritable: (readonly [string, string])[] = [];
  const left = [...replies];
  const polls: Pick<Polls, 'poll'> = {
    poll: (_service, _bytes, _peer, onReply) => {
      onReply(left.shift()!);
      return () => undefined;
    },
  };
  const rest = new RestDiscovery({
    polls,
    maxBodyBytes: 100_000,
    maxNamesPerRequest: 10,
    quotas,
    turns: new Turns((error) => {
      throw error;
    }),
    onRequest: () => undefined,
    onUnwritable: (...what) => unwritable.push(what),
  });
  const poll = (onResponse: (response: RestResponse) => void): (() => void) =>
    rest.handle('/v3/discovery:clusters', Buffer.from('{}'), PEER, {
      onRead: () => undefined,
      onResponse,
    });
  return { poll, rest, unwritable };
}

async function respondTo(reply: PollReply) {
  const { poll, unwritable } = restWith(reply);
  const { status, body } = await new Promise<RestResponse>(poll);
  return { status, body: wholeOf(body).toString(), unwritable };
}

const withBody = (typeUrl: string): Chunks =>
  encodeSotwResponse({
    typeUrl: CDS,
    nonce: '1',
    versionInfo: 'v',
    errors: [],
    resources: [bareResourceOf(encodeResourceField('one', 'v', typeUrl, Buffer.alloc(0)))],
  });

t.test('a response that JSON cannot carry in full is 500, and reported', async (t) => {
  const { status, body, unwritable } = await respondTo({
    kind: 'response',
    account,
    message: withBody('type.googleapis.com/no.such.Type'),
  });
  t.equal(status, 500);
  t.match(body, 'no.such.Type');
  t.strictSame(unwritable, [[CDS, 'the built-in Envoy API lacks the type no.such.Type']]);
});

for (const [reply, status] of [
  [{ kind: 'response', account, message: withBody(CDS) }, 200],
  [{ kind: 'unchanged' }, 304],
  [{ kind: 'unknown' }, 503],
  [{ kind: 'refused', status: { code: STATUS_CODE.invalidArgument, message: 'x' } }, 400],
  [{ kind: 'refused', status: { code: STATUS_CODE.resourceExhausted, message: 'x' } }, 429],
  [{ kind: 'refused', status: { code: STATUS_CODE.unavailable, message: 'x' } }, 503],
  [{ kind: 'refused', status: { code: STATUS_CODE.internal, message: 'x' } }, 500],
] as const) {
  const what = reply.kind === 'refused' ? `a refusal with code ${reply.status.code}` : reply.kind;
  t.test(`${what} is HTTP ${status}`, async (t) => {
    t.equal((await respondTo(reply)).status, status);
  });
}

t.test(
  'clients that are due the same response share its JSON, which counts once for their peer',
  async (t) => {
    const reply = { kind: 'response', account, message: withBody(CDS) } as const;
    const { poll } = restWith(reply, reply, reply, reply);
    const cancel = poll(() => t.fail('cancelled'));
    const together = [1, 2].map(() => new Promise<RestResponse>(poll));
    cancel();
    const responses = [...(await Promise.all(together)), await new Promise<RestResponse>(poll)];
    for (const { body } of responses) t.equal(body, responses[0]!.body);
    const letGo = responses.map(({ holdUnread }) => holdUnread!());
    t.equal(account.held('buffered'), sizeOf(responses[0]!.body));
    for (const each of letGo) each();
    t.equal(account.held('buffered'), 0);
  },
);

t.test(
  "a body counts for the client's peer from its head on, and is refused while the peer has used up its share",
  (t) => {
    const { rest } = restWith();
    const head = {
      method: 'POST',
      path: '/v3/discovery:clusters',
      contentType: 'application/json',
    };
    const full = quotas.account('full');
    full.change('buffered', DEFAULT_LIMITS.maxBufferedBytes);
    const long = { ...head, contentLength: 70_000, quotaKey: 'full' };
    t.match(rest.refusal(long), { status: 429, headers: { 'retry-after': '1' } });
    t.match(rest.refusal({ ...long, contentLength: 10 }), { status: 429 }, 'a short one too');
    full.change('buffered', -DEFAULT_LIMITS.maxBufferedBytes);
    t.equal(rest.refusal(long), undefined);
    const letGo = rest.holdBody(long);
    t.equal(full.held('buffered'), 70_000);
    letGo();
    const letShortGo = rest.holdBody({ ...long, contentLength: 10 });
    t.equal(full.held('buffered'), 65_536, 'a short one, with its stream');
    letShortGo();
    rest.holdBody({ ...long, contentLength: undefined });
    t.equal(full.held('buffered'), rest.maxBodyBytes, 'without a length, as much as it may become');
    t.end();
  },
);

t.test(
  'a long body counts while it waits for its turn, and a bug is answered with 500',
  async (t) => {
    const waiting = { ...PEER, quotaKey: 'waiting' };
    const used = quotas.account('waiting');
    const errors: unknown[] = [];
    const rest = new RestDiscovery({
      polls: {
        poll: () => {
          throw new Error('a bug');
        },
      },
      maxBodyBytes: 100_000,
      maxNamesPerRequest: 10,
      quotas,
      turns: new Turns((error) => errors.push(error)),
      onRequest: () => undefined,
      onUnwritable: () => undefined,
    });
    const body = Buffer.from(JSON.stringify({ node: { id: 'x'.repeat(90_000) } }));
    const slow = (): void => {
      const untilMs = performance.now() + 5;
      while (performance.now() < untilMs);
    };
    const responses: RestResponse[] = [];
    const read = new Set<number>();
    const last = new Promise<void>((resolve) => {
      for (let at = 0; at < 3; at++) {
        const onResponse = (response: RestResponse): void => {
          responses.push(response);
          slow();
          if (responses.length === 2) resolve();
        };
        rest.handle('/v3/discovery:clusters', body, waiting, {
          onRead: () => read.add(at),
          onResponse,
        });
        if (at === 0) t.equal(used.held('buffered'), 0, 'the first one is read at once');
        if (at === 2) t.equal(used.held('buffered'), 2 * body.length);
        t.strictSame([...read], [0]);
      }
    });
    await last;
    t.equal(used.held('buffered'), body.length);
    t.strictSame([...read], [0, 1]);
    t.equal(responses[0]?.status, 500);
    t.match(errors, [{ message: 'a bug' }]);
  },
);

t.test('a response without clients is not written further', async (t) => {
  const [gone, kept] = [withBody(CDS), withBody(CDS)];
  const { poll } = restWith(
    { kind: 'response', account, message: gone },
    { kind: 'response', account, message: kept },
    { kind: 'response', account, message: gone },
  );
  poll(() => t.fail('cancelled'))();
  t.equal((await new Promise<RestResponse>(poll)).status, 200);
  t.equal((await new Promise<RestResponse>(poll)).status, 200, 'a later client gets it');
});

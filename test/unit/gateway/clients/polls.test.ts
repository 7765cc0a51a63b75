/**
 * Goal: the session of a client that polls stays only while it is of use (docs/SPEC.md, "Clients that poll").
 * Method: `Polls` with sessions that the test plays.
 */
import t from 'tap';
import { DEFAULT_LIMITS } from '../../../../config/limits.js';
import type { ClientStream, StreamPort } from '../../../../gateway/clients/client-stream.js';
import { Polls, type PollPeer, type PollReply } from '../../../../gateway/clients/polls.js';
import { ClientAccounts } from '../../../../gateway/core/quotas/client-accounts.js';
import { quotaLimitsOf } from '../../../../gateway/core/quotas/limits.js';
import { Quotas } from '../../../../gateway/core/quotas/quotas.js';
import { ANONYMOUS } from '../../../../gateway/core/rights/requester.js';
import type { PollSession } from '../../../../gateway/core/sotw/poll-session.js';
import { DISCOVERY_SERVICES } from '../../../../protos/discovery-services.js';
import { STATUS_CODE } from '../../../../protos/discovery.js';
import { encodeSotwRequest } from '../../../support/discovery-messages.js';
import { CDS } from '../../../support/mesh-names.js';

const CLUSTERS = DISCOVERY_SERVICES.find(({ typeUrl }) => typeUrl === CDS)!;
const PEER: PollPeer = {
  peer: '127.0.0.1:1',
  address: '127.0.0.1',
  identity: '127.0.0.1',
  quotaKey: '127.0.0.1',
  userAgent: '',
  headerValues: () => [],
  certificate: undefined,
};

function start() {
  const quotas = new Quotas(quotaLimitsOf(DEFAULT_LIMITS));
  const sessions: { readonly port: StreamPort; isOver: boolean }[] = [];
  const polls = new Polls({
    ...DEFAULT_LIMITS,
    open: (_service, port) => {
      const made = { port, isOver: false };
      sessions.push(made);
      const stream = { handleMessage: () => undefined, end: () => (made.isOver = true) };
      const session = { nameCount: 1, goesOnWith: () => false, cancel: () => undefined };
      return {
        stream: stream as unknown as ClientStream,
        session: session as unknown as PollSession,
      };
    },
    identify: () => ({ ok: true, requester: { identity: ANONYMOUS, address: PEER.address } }),
    onError: (error) => {
      throw error;
    },
    forwardedHeaders: () => [],
    paceMs: () => 0,
    refusal: () => undefined,
    accounts: new ClientAccounts(quotas, () => undefined),
  });
  const replies: PollReply[] = [];
  const request = Buffer.from(encodeSotwRequest({ typeUrl: CDS, names: [] }));
  const poll = (): (() => void) =>
    polls.poll(CLUSTERS, request, PEER, (reply) => replies.push(reply));
  return { polls, sessions, replies, poll, account: quotas.account(PEER.quotaKey) };
}

t.test('a poll that is refused when its response is due leaves an idle session', (t) => {
  const { polls, sessions, replies, poll, account } = start();
  poll();
  account.change('buffered', DEFAULT_LIMITS.maxBufferedBytes);
  sessions[0]!.port.write([Buffer.alloc(1)]);
  t.match(replies, [{ kind: 'refused', status: { code: STATUS_CODE.resourceExhausted } }]);
  t.ok(polls.hasIdle, 'which gives way to a new client');
  account.change('buffered', -DEFAULT_LIMITS.maxBufferedBytes);
  poll();
  sessions[1]!.port.write([Buffer.alloc(1)]);
  t.match(replies, [{}, { kind: 'response' }]);
  t.ok(sessions[0]!.isOver, 'the next session for the same names takes its place');
  t.equal(polls.size, 1);
  t.ok(polls.giveWay());
  t.notOk(polls.giveWay());
  t.equal(account.held('streams'), 0);
  t.end();
});

t.test('what a session has to say after its client left leaves it as it is', (t) => {
  const { polls, sessions, poll, account } = start();
  poll()();
  account.change('buffered', DEFAULT_LIMITS.maxBufferedBytes);
  sessions[0]!.port.write([Buffer.alloc(1)]);
  t.equal(polls.size, 1);
  t.notOk(sessions[0]!.isOver);
  t.end();
});

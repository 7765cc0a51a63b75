/**
 * Goal: each result of a poll has its HTTP response, and a response that JSON cannot carry in full is
 * an error, not a part of it.
 * Method: scripted polls.
 */
import t from 'tap';
import type { PollReply, Polls } from '../../../../gateway/clients/polls.js';
import { RestDiscovery, type RestResponse } from '../../../../gateway/clients/rest-discovery.js';
import type { Chunks } from '../../../../protos/discovery-fields.js';
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

function respondTo(reply: PollReply) {
  const unwritable: (readonly [string, string])[] = [];
  const polls: Pick<Polls, 'poll'> = {
    poll: (_service, _bytes, _peer, onReply) => {
      onReply(reply);
      return () => undefined;
    },
  };
  const rest = new RestDiscovery({
    polls,
    maxBodyBytes: 100,
    onRequest: () => undefined,
    onUnwritable: (...what) => unwritable.push(what),
  });
  const responses: RestResponse[] = [];
  rest.handle('/v3/discovery:clusters', Buffer.from('{}'), PEER, (one) => responses.push(one));
  t.equal(responses.length, 1);
  return { ...responses[0]!, unwritable };
}

const withBody = (typeUrl: string): Chunks =>
  encodeSotwResponse({
    typeUrl: CDS,
    nonce: '1',
    versionInfo: 'v',
    errors: [],
    resources: [bareResourceOf(encodeResourceField('one', 'v', typeUrl, Buffer.alloc(0)))],
  });

t.test('a response that JSON cannot carry in full is 500, and reported', (t) => {
  const { status, body, unwritable } = respondTo({
    kind: 'response',
    message: withBody('type.googleapis.com/no.such.Type'),
  });
  t.equal(status, 500);
  t.match(body, 'no.such.Type');
  t.strictSame(unwritable, [[CDS, 'the built-in Envoy API lacks the type no.such.Type']]);
  t.end();
});

for (const [reply, status] of [
  [{ kind: 'response', message: withBody(CDS) }, 200],
  [{ kind: 'unchanged' }, 304],
  [{ kind: 'unknown' }, 503],
  [{ kind: 'refused', status: { code: STATUS_CODE.invalidArgument, message: 'x' } }, 400],
  [{ kind: 'refused', status: { code: STATUS_CODE.resourceExhausted, message: 'x' } }, 429],
  [{ kind: 'refused', status: { code: STATUS_CODE.unavailable, message: 'x' } }, 503],
  [{ kind: 'refused', status: { code: STATUS_CODE.internal, message: 'x' } }, 500],
] as const) {
  const what = reply.kind === 'refused' ? `a refusal with code ${reply.status.code}` : reply.kind;
  t.test(`${what} is HTTP ${status}`, (t) => {
    t.equal(respondTo(reply).status, status);
    t.end();
  });
}

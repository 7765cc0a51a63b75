/**
 * Goal: the stream of a client whose token is verified first behaves as any other.
 * Method: a call that waits, with handlers that note what they get.
 */
import t from 'tap';
import { ClientAuthentication } from '../../../../gateway/clients/client-authentication.js';
import type { CallHandlers, GrpcCall } from '../../../../gateway/clients/grpc-call.js';
import { STATUS_CODE } from '../../../../protos/discovery.js';

t.test('a stream learns why it was closed, also that of a client with a token', async (t) => {
  const token = { ok: true, claims: {}, validForMs: 1 } as const;
  const authentication = new ClientAuthentication({ verify: () => Promise.resolve(token) });
  const closed: unknown[] = [];
  const handlers: CallHandlers = {
    onMessage: () => undefined,
    onDrain: () => undefined,
    onEnd: () => undefined,
    onClosed: (...why) => closed.push(why),
  };
  let found: Promise<void> | undefined;
  const call = {
    address: '',
    certificate: undefined,
    headerValues: () => ['Bearer x'],
    holdUntil: (identified: Promise<unknown>, take: (client: unknown) => void) => {
      found = identified.then(take);
    },
  } as unknown as GrpcCall;
  const port = authentication.open(call, () => handlers);
  await found;
  port.onClosed('the request is too large', STATUS_CODE.resourceExhausted);
  t.strictSame(closed, [['the request is too large', STATUS_CODE.resourceExhausted]]);
});

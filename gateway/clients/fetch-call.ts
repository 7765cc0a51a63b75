/** Fetch over gRPC: one request, one response (`FetchClusters` and so on). */
import { STATUS_CODE, type RpcStatus } from '../../protos/discovery.js';
import type { DiscoveryService } from '../../protos/discovery-services.js';
import { LONG_REQUEST_BYTES, type Quotas } from '../core/quotas/quotas.js';
import type { CallHandlers, GrpcCall, Method } from './grpc-call.js';
import { peerOf } from './peer.js';
import { refusalOfBuffered, UNKNOWN_YET, type PollReply, type Polls } from './polls.js';

/**
 * If nothing changed since the version of a request, the client gets this status and no message:
 * any DiscoveryResponse would mean something else (an empty one would delete all listeners). gRPC
 * has no status like HTTP's 304. A request without a version always gets the content.
 */
const UNCHANGED: RpcStatus = {
  code: STATUS_CODE.failedPrecondition,
  message: 'nothing changed since the version_info of the request',
};
const NOT_ONE_MESSAGE: RpcStatus = {
  code: STATUS_CODE.internal,
  message: 'a unary call has exactly one message',
};

const NOTHING_HELD = (): void => undefined;

export function fetchMethod(
  service: DiscoveryService,
  polls: Polls,
  quotas: Quotas,
  onRequest: () => void,
): Method {
  return {
    // The limit of clients is checked with the message, since a known client does not count again.
    refusal: (quotaKey) => refusalOfBuffered(quotas.account(quotaKey)),
    open: (call) => {
      let cancel: (() => void) | undefined;
      let letUnreadGo = NOTHING_HELD;
      // Until it has come it may be as long as any that is not counted by itself.
      const letRequestGo = quotas.account(call.quotaKey).holdRequest(LONG_REQUEST_BYTES);
      // The call drops its headers once it is open.
      const peer = peerOf(call.socket, call.certificate, call.keepHeaders());
      const handlers: CallHandlers = {
        onMessage: (bytes) => {
          onRequest();
          letRequestGo();
          if (cancel) {
            cancel();
            call.end(NOT_ONE_MESSAGE);
            return;
          }
          cancel = polls.poll(service, bytes, peer, (reply) => {
            letUnreadGo = respond(call, reply);
          });
        },
        // A unary call has one message only.
        onDrain: () => undefined,
        onEnd: () => {
          if (!cancel) call.end(NOT_ONE_MESSAGE);
        },
        onClosed: () => {
          cancel?.();
          letRequestGo();
          letUnreadGo();
        },
      };
      return handlers;
    },
  };
}

/** @returns call it when the call is over: the client has read the response then, or never will */
function respond(call: GrpcCall, reply: PollReply): () => void {
  switch (reply.kind) {
    case 'response': {
      const { message, account } = reply;
      call.write(message);
      call.end(undefined);
      return account.holdUnread(message);
    }
    case 'unchanged':
      call.end(UNCHANGED);
      return NOTHING_HELD;
    case 'unknown':
      call.end(UNKNOWN_YET);
      return NOTHING_HELD;
    case 'refused':
      call.end(reply.status);
      return NOTHING_HELD;
  }
}

/**
 * The client status service (CSDS, `envoy.service.status.v3.ClientStatusDiscoveryService`), as a management
 * server serves it: what each client of the gateway holds.
 */
import type { sendUnaryData, ServerDuplexStream, ServerUnaryCall } from '@grpc/grpc-js';
import { CLIENT_STATUS_SERVICE, decodeClientStatusRequest } from '../../../protos/client-status.js';
import { STATUS_CODE } from '../../../protos/discovery.js';
import { INTERNAL_ERROR } from '../../clients/call-statuses.js';
import type { GatewayView } from '../../gateway-view.js';
import { clientStatus, type StatusReply } from './client-configs.js';
import { errorOf, rawMethod } from './raw-method.js';

/** Responses in the making, of all operators. Each may take 4 MB. A count. */
const MAX_UNDER_WAY = 2;

export const CSDS_DEFINITION = {
  FetchClientStatus: rawMethod(CLIENT_STATUS_SERVICE, 'FetchClientStatus', {
    requestStream: false,
    responseStream: false,
  }),
  StreamClientStatus: rawMethod(CLIENT_STATUS_SERVICE, 'StreamClientStatus', {
    requestStream: true,
    responseStream: true,
  }),
};

/** @param onError code of the gateway threw; the call ends, the process continues */
export function clientStatusHandlers(
  gateway: Pick<GatewayView, 'server'>,
  onError: (error: unknown) => void,
) {
  let underWay = 0;
  const answer = async (bytes: Buffer): Promise<StatusReply> => {
    const decoded = decodeClientStatusRequest(bytes);
    if (!decoded.ok) {
      return refused(STATUS_CODE.invalidArgument, `ClientStatusRequest: ${decoded.reason}`);
    }
    if (underWay >= MAX_UNDER_WAY) {
      return refused(STATUS_CODE.resourceExhausted, 'other requests are under way: try again');
    }
    underWay++;
    try {
      return await clientStatus(gateway, decoded.message);
    } catch (error) {
      onError(error);
      return { ok: false, status: INTERNAL_ERROR };
    } finally {
      underWay--;
    }
  };
  return {
    FetchClientStatus: (
      { request }: ServerUnaryCall<Buffer, Buffer>,
      callback: sendUnaryData<Buffer>,
    ): void => {
      void answer(request).then((reply) => {
        if (reply.ok) callback(null, reply.bytes);
        else callback(errorOf(reply.status));
      });
    },
    /** One response for each request, in their order. */
    StreamClientStatus: (call: ServerDuplexStream<Buffer, Buffer>): void => {
      let isAnswering = false;
      let hasEnded = false;
      call.on('data', (request: Buffer) => {
        call.pause();
        isAnswering = true;
        void answer(request).then((reply) => {
          isAnswering = false;
          if (!reply.ok) {
            call.emit('error', errorOf(reply.status));
            return;
          }
          call.write(reply.bytes);
          if (hasEnded) call.end();
          else call.resume();
        });
      });
      // Also of a paused stream, once its last request was read.
      call.on('end', () => {
        hasEnded = true;
        if (!isAnswering) call.end();
      });
    },
  };
}

const refused = (code: number, message: string): StatusReply => ({
  ok: false,
  status: { code, message },
});

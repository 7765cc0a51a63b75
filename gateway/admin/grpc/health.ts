/** The health service on the admin port: the same answers as on the port for clients. */
import type { sendUnaryData, ServerUnaryCall, ServerWritableStream } from '@grpc/grpc-js';
import { wholeOf, type Chunks } from '../../../protos/discovery-fields.js';
import type { RpcStatus } from '../../../protos/discovery.js';
import { HEALTH_SERVICE } from '../../../protos/health.js';
import type { HealthService } from '../../clients/health-service.js';
import { errorOf, rawMethod } from './raw-method.js';

export const HEALTH_DEFINITION = {
  Check: rawMethod(HEALTH_SERVICE, 'Check', { requestStream: false, responseStream: false }),
  Watch: rawMethod(HEALTH_SERVICE, 'Watch', { requestStream: false, responseStream: true }),
};

export function healthHandlers(health: HealthService) {
  return {
    Check: (
      { request }: ServerUnaryCall<Buffer, Buffer>,
      callback: sendUnaryData<Buffer>,
    ): void => {
      let response: Buffer | null = null;
      const call = {
        write: (message: Chunks) => {
          response = wholeOf(message);
          return true;
        },
        end: (status: RpcStatus | undefined) => {
          callback(status ? errorOf(status) : null, response);
        },
      };
      health.check(call).onMessage(request);
    },
    Watch: (call: ServerWritableStream<Buffer, Buffer>): void => {
      const handlers = health.watch({
        write: (message) => call.write(wholeOf(message)),
        end: (status) => {
          if (status) call.emit('error', errorOf(status));
          else call.end();
        },
      });
      call.on('drain', () => {
        handlers.onDrain();
      });
      call.on('cancelled', () => {
        handlers.onClosed('cancelled');
      });
      handlers.onMessage(call.request);
    },
  };
}

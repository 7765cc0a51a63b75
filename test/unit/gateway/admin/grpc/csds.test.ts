/** Goal: each request on a stream of CSDS is answered, whenever the client ends its side. */
import { once } from 'node:events';
import { Duplex } from 'node:stream';
import type { ServerDuplexStream } from '@grpc/grpc-js';
import t from 'tap';
import { clientStatusHandlers } from '../../../../../gateway/admin/grpc/csds.js';
import type { GatewayView } from '../../../../../gateway/gateway-view.js';
import { within } from '../../../../support/until.js';

const NO_CLIENTS = { server: { clients: () => [] } } as unknown as Pick<GatewayView, 'server'>;

t.test(
  'a stream whose client ended with its last request gets all responses, then its end',
  async (t) => {
    const responses: Buffer[] = [];
    const call = new Duplex({
      objectMode: true,
      read: () => undefined,
      write: (chunk: Buffer, _encoding, done) => {
        responses.push(chunk);
        done();
      },
    });
    const { StreamClientStatus } = clientStatusHandlers(NO_CLIENTS, (error) => {
      throw error;
    });
    StreamClientStatus(call as unknown as ServerDuplexStream<Buffer, Buffer>);
    for (let count = 0; count < 2; count++) call.push(Buffer.alloc(0));
    call.push(null);
    await within('the end', 5_000, once(call, 'finish'));
    t.equal(responses.length, 2);
  },
);

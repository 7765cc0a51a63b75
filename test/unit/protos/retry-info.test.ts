/**
 * Goal: a refused call tells its client when to come again, as clients of gRPC read it.
 * Method: the bytes of google/rpc/status.proto and google/rpc/error_details.proto, written by hand.
 */
import t from 'tap';
import { encodeRetryStatus } from '../../../protos/retry-info.js';
import { lengthDelimited } from '../../sim/names.js';

t.test('the status has the delay as a google.rpc.RetryInfo', (t) => {
  // 1 s and 500,000,000 ns.
  const duration = Buffer.from([0x08, 1, 0x10, 0x80, 0xca, 0xb5, 0xee, 0x01]);
  const any = Buffer.concat([
    lengthDelimited(1, Buffer.from('type.googleapis.com/google.rpc.RetryInfo')),
    lengthDelimited(2, lengthDelimited(1, duration)),
  ]);
  const status = Buffer.concat([
    Buffer.from([0x08, 8]),
    lengthDelimited(2, Buffer.from('slower')),
    lengthDelimited(3, any),
  ]);
  const encoded = encodeRetryStatus({ code: 8, message: 'slower' }, 1_500);
  t.equal(Buffer.from(encoded).toString('hex'), status.toString('hex'));
  t.end();
});

/** Goal: the messages of a health check are read and written as health.proto has them. */
import fc from 'fast-check';
import t from 'tap';
import { decodeHealthRequest, encodeHealthResponse } from '../../../protos/health.js';

const asRequest = (service: string): Buffer =>
  Buffer.concat([Buffer.from([0x0a, Buffer.byteLength(service)]), Buffer.from(service)]);

t.test('a request names a service; an empty one means the whole server', (t) => {
  t.strictSame(decodeHealthRequest(Buffer.alloc(0)), { ok: true, message: '' });
  t.strictSame(decodeHealthRequest(asRequest('a.B')), { ok: true, message: 'a.B' });
  const unknownField = Buffer.concat([Buffer.from([0x10, 0x01]), asRequest('a.B')]);
  t.strictSame(decodeHealthRequest(unknownField), { ok: true, message: 'a.B' });
  const otherWire = Buffer.from([0x08, 0x01]);
  t.strictSame(decodeHealthRequest(otherWire), { ok: true, message: '' });
  t.end();
});

t.test('no bytes make the decoder throw, and too many fields are refused', (t) => {
  t.match(decodeHealthRequest(Buffer.from([0x0a, 0x05, 0x61])), { ok: false, code: 'malformed' });
  const many = Buffer.alloc(4_000, Buffer.from([0x10, 0x01]));
  t.match(decodeHealthRequest(many), { ok: false, code: 'too_many' });
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
      decodeHealthRequest(bytes);
    }),
  );
  t.end();
});

t.test('each status has its number of HealthCheckResponse.ServingStatus', (t) => {
  t.strictSame([...encodeHealthResponse('SERVING')], [0x08, 1]);
  t.strictSame([...encodeHealthResponse('NOT_SERVING')], [0x08, 2]);
  t.strictSame([...encodeHealthResponse('SERVICE_UNKNOWN')], [0x08, 3]);
  t.end();
});

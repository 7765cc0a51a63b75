/** Goal: bytes that come in parts take little memory beside themselves, however small the parts are. */
import fc from 'fast-check';
import t from 'tap';
import { CollectedBytes } from '../../../protos/collected-bytes.js';

const MAX_BYTES = 4_096;

t.test('what is taken equals the parts in their order, and takes twice its size at most', (t) => {
  const parts = fc.array(fc.uint8Array({ maxLength: 64 }), { maxLength: 64 });
  fc.assert(
    fc.property(parts, (all) => {
      const collected = new CollectedBytes();
      for (const part of all) collected.append(Buffer.from(part), MAX_BYTES);
      const whole = Buffer.concat(all);
      t.ok(collected.bufferBytes <= 2 * whole.length);
      t.equal(collected.length, whole.length);
      t.ok(collected.take().equals(whole));
      t.strictSame([collected.length, collected.bufferBytes], [0, 0]);
      t.equal(collected.take().length, 0);
    }),
  );
  t.end();
});

t.test('the buffer does not grow beyond what will come at most', (t) => {
  const collected = new CollectedBytes();
  const part = Buffer.alloc(1, 'a');
  for (let at = 0; at < MAX_BYTES; at++) collected.append(part, MAX_BYTES);
  t.equal(collected.bufferBytes, MAX_BYTES);
  t.ok(collected.take().equals(Buffer.alloc(MAX_BYTES, 'a')));
  t.end();
});

t.test('a part is copied, so that it pins no other bytes', (t) => {
  const collected = new CollectedBytes();
  const part = Buffer.from('abc');
  collected.append(part, MAX_BYTES);
  part.fill('x');
  t.equal(collected.take().toString(), 'abc');
  t.end();
});

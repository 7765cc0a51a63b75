/**
 * Goal: the writer pauses for a client that leaves too many bytes unread, and resumes once.
 * Method: a fake call that completes writes when the test does.
 */
import t from 'tap';
import { DEFAULT_LIMITS } from '../../../../config/limits.js';
import { CallWriter } from '../../../../gateway/clients/call-writer.js';

const KIB = 1_024;
const MIB = 1_024 * KIB;

class FakeCall {
  writableNeedDrain = false;
  readonly waiting: (() => void)[] = [];
  write(_bytes: Buffer, onWritten?: () => void): boolean {
    if (onWritten) this.waiting.push(onWritten);
    return !this.writableNeedDrain;
  }
}

function start(maxUnreadBytes = DEFAULT_LIMITS.writeAheadBytes): {
  call: FakeCall;
  writer: CallWriter;
  drains: () => number;
} {
  let drains = 0;
  const call = new FakeCall();
  const writer = new CallWriter(call, maxUnreadBytes, () => drains++);
  return { call, writer, drains: () => drains };
}

t.test('more than 256 KiB unread pauses the writer; half of it read resumes it, once', (t) => {
  const { call, writer, drains } = start();
  const chunk = Buffer.alloc(128 * KIB);
  t.equal(writer.write(chunk), true);
  t.equal(writer.write(chunk), true);
  t.equal(writer.write(chunk), false);
  t.equal(writer.write(Buffer.alloc(1)), false, 'nothing else is written meanwhile');
  writer.handleDrain();
  t.equal(drains(), 0, 'accepted by the call does not mean read by the client');
  call.waiting.shift()?.();
  t.equal(drains(), 0);
  call.waiting.shift()?.();
  t.equal(drains(), 1);
  call.waiting.shift()?.();
  t.equal(drains(), 1);
  t.equal(writer.write(chunk), true);
  t.end();
});

t.test('`limits.write_ahead` sets how many bytes may be unread', (t) => {
  const { call, writer, drains } = start(64 * KIB);
  const chunk = Buffer.alloc(32 * KIB);
  t.equal(writer.write(chunk), true);
  t.equal(writer.write(chunk), true);
  t.equal(writer.write(chunk), false);
  for (const written of call.waiting.splice(0, 2)) written();
  t.equal(drains(), 1);
  t.end();
});

t.test('one response of any size goes out, and the next one after it was read', (t) => {
  const { call, writer, drains } = start();
  t.equal(writer.write(Buffer.alloc(2 * MIB)), false);
  call.waiting.shift()?.();
  t.equal(drains(), 1);
  t.equal(writer.write(Buffer.alloc(2 * MIB)), false);
  t.end();
});

t.test('the backpressure of the call itself pauses the writer too', (t) => {
  const { call, writer, drains } = start();
  call.writableNeedDrain = true;
  t.equal(writer.write(Buffer.alloc(10)), false);
  for (let n = 0; n < 3; n++) writer.write(Buffer.alloc(2 * MIB));
  for (const written of call.waiting) written();
  t.equal(drains(), 0, 'it still waits for the call');
  call.writableNeedDrain = false;
  writer.handleDrain();
  t.equal(drains(), 1);
  t.end();
});

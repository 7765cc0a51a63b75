/** Goal: a connection that begins with a flood of frames is found before Node handles them (docs/SECURITY.md). */
import t from 'tap';
import { isFlood } from '../../../../gateway/clients/connection-preface.js';

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const PING = Buffer.concat([Buffer.from([0, 0, 8, 6, 1, 0, 0, 0, 0]), Buffer.alloc(8)]);
const RESET = Buffer.from([0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8]);
const LONG_DATA = Buffer.concat([
  Buffer.from([0, 0x40, 0, 0, 0, 0, 0, 0, 1]),
  Buffer.alloc(0x4000),
]);
const beginning = (count: number, frame: Buffer): Buffer =>
  Buffer.concat([PREFACE, ...Array.from({ length: count }, () => frame)]);

t.test('3,000 frames may come with the preface, and no more', (t) => {
  t.notOk(isFlood(PREFACE));
  t.notOk(isFlood(beginning(3_000, PING)));
  t.ok(isFlood(beginning(3_001, PING)));
  t.notOk(isFlood(beginning(20, LONG_DATA)), 'however long they are');
  t.notOk(isFlood(beginning(2, LONG_DATA).subarray(0, -100)), 'the last one may be cut');
  t.end();
});

t.test('100 resets may come with the preface, and no more', (t) => {
  t.notOk(isFlood(beginning(100, RESET)));
  t.ok(isFlood(beginning(101, RESET)));
  t.end();
});

/** Goal: a file that is not UTF-8 is refused with the place of its first wrong byte. */
import t from 'tap';
import { decodeUtf8 } from '../../../config/utf8.js';

t.test('UTF-8 is read; Latin-1 and a cut sequence have a line and a column', (t) => {
  t.strictSame(decodeUtf8(Buffer.from('a: ü\nb')), { ok: true, text: 'a: ü\nb' });
  t.strictSame(decodeUtf8(Buffer.from('')), { ok: true, text: '' });
  t.strictSame(
    decodeUtf8(Buffer.from('\uFEFF- a')),
    { ok: true, text: '- a' },
    'a byte order mark',
  );
  const latin1 = Buffer.from('a: ok\nname: Zürich\nb: ß\n', 'latin1');
  t.strictSame(decodeUtf8(latin1), { ok: false, line: 2, column: 8 });
  const cut = Buffer.concat([Buffer.from('ü: '), Buffer.from('ü').subarray(0, 1)]);
  t.strictSame(decodeUtf8(cut), { ok: false, line: 1, column: 5 });
  t.end();
});

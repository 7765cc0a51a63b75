/** Goal: tables for people line up, and no text of a client controls the terminal. */
import t from 'tap';
import { tableText } from '../../../../gateway/cli/table.js';

t.test('columns are as wide as their widest cell', (t) => {
  t.equal(
    tableText([
      ['A', 'B'],
      ['one', ''],
      ['', 'two'],
    ]),
    'A    B\none\n     two\n',
  );
  t.end();
});

t.test('control characters and line breaks of clients are shown, not sent (SECURITY)', (t) => {
  const text = tableText([['NODE'], ['a\u001b[31m\nb']]);
  t.equal(text, 'NODE\na\\u{1b}[31m b\n');
  t.end();
});

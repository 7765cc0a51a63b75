/**
 * Goal: docs/SPEC.md shows the table by which the gateway judges whether a source has answered a
 * subscription in full, and the table has the properties on which the rest relies.
 * Method: reads the table of the document and compares each cell with the code.
 */
import { readFileSync } from 'node:fs';
import t from 'tap';
import {
  EVIDENCE,
  type AnswerEvent,
  type Evidence,
} from '../../../../../authorities/core/sources/answers.js';

const rows = Object.keys(EVIDENCE) as Evidence[];
const events = Object.keys(EVIDENCE.none) as AnswerEvent[];

const cellsOf = (line: string): readonly string[] =>
  line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim().split(':')[0]!.replaceAll('`', ''));

t.test('every evidence × every event is as docs/SPEC.md says', (t) => {
  const spec = readFileSync('docs/SPEC.md', 'utf8');
  const [, section = ''] = spec.split('### When a collection is answered');
  const [table = ''] = section.split('\n## ');
  const lines = table.split('\n').filter((line) => line.startsWith('|'));
  const [head = '', , ...body] = lines;
  t.strictSame(cellsOf(head).slice(1), events);
  t.equal(body.length, rows.length);
  for (const line of body) {
    const [evidence, ...cells] = cellsOf(line);
    const row = EVIDENCE[evidence as Evidence];
    events.forEach((event, at) => {
      t.equal(row[event], cells[at] === '' ? evidence : cells[at], `${evidence} × ${event}`);
    });
  }
  t.end();
});

t.test(
  'no event makes an answered subscription unanswered, and every wait ends in an answer',
  (t) => {
    for (const event of events) t.equal(EVIDENCE.definite[event], 'definite');
    for (const evidence of rows.filter((one) => one !== 'none')) {
      t.equal(EVIDENCE[evidence].due, 'definite', evidence);
    }
    t.end();
  },
);

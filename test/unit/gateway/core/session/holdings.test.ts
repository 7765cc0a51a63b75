/**
 * Goal: docs/SPEC.md shows the table by which both flavours decide what is due to a client.
 * Method: reads the table of the document and compares each cell with the code.
 */
import { readFileSync } from 'node:fs';
import t from 'tap';
import type { Reported } from '../../../../../gateway/core/cache/entries.js';
import {
  DUTIES,
  dutyOf,
  MAYBE_HELD,
  NOT_HELD,
  PossiblyHeld,
  type HeldKind,
} from '../../../../../gateway/core/session/holdings.js';

const cellsOf = (line: string): readonly string[] =>
  line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim().split(':')[0]!.replaceAll('`', ''));

t.test('what the sources say × what a client holds is as docs/SPEC.md says', (t) => {
  const [, table = ''] = readFileSync('docs/SPEC.md', 'utf8').split('## What a client is sent');
  const [head = '', , ...body] = table
    .split('\n## ')[0]!
    .split('\n')
    .filter((line) => line.startsWith('|'));
  const kinds = cellsOf(head).slice(1) as HeldKind[];
  t.strictSame(kinds, Object.keys(DUTIES.present));
  t.equal(body.length, Object.keys(DUTIES).length);
  for (const line of body) {
    const [wanted, ...cells] = cellsOf(line);
    kinds.forEach((kind, at) => {
      t.equal(DUTIES[wanted as Reported][kind], cells[at], `${wanted} × ${kind}`);
    });
  }
  t.end();
});

t.test(
  'a version that the client holds is compared with the version that the sources have',
  (t) => {
    t.equal(dutyOf('present', 'v1', 'v1'), 'nothing');
    t.equal(dutyOf('present', 'v1', 'v2'), 'send');
    t.equal(dutyOf('absent', 'v1'), 'remove');
    t.equal(dutyOf('absent', MAYBE_HELD), 'remove');
    t.equal(dutyOf('absent', NOT_HELD), 'deny');
    t.end();
  },
);

t.test('a collection subscribed again forgets versions, but not that a member may be held', (t) => {
  const possibly = new PossiblyHeld();
  possibly.note('g/*', 'g/a', { held: 'v1', isClaim: true });
  possibly.note('g/*', 'g/b', { held: NOT_HELD, isClaim: false });
  possibly.forgetVersions('g/*');
  t.strictSame(possibly.of('g/*')?.get('g/a'), { held: MAYBE_HELD, isClaim: true });
  t.equal(possibly.of('g/*')?.get('g/b')?.held, NOT_HELD);
  t.end();
});

/** Goal: `explain` of an old-style name says why a source does not serve it (docs/guides/troubleshooting.md). */
import t from 'tap';
import type { CandidateRow, GroupRow } from '../../../../gateway/admin/authorities.js';
import { oldStyleText } from '../../../../gateway/admin/explain-old-style.js';

const since = '2026-11-23T10:00:00.000Z';
const cloud: CandidateRow = { source: 'cloud', authority: 'n', live: true, tripped: false };
const onprem: CandidateRow = { ...cloud, source: 'onprem' };

const shown = (row: Partial<GroupRow>): readonly string[] =>
  oldStyleText({
    name: 'shop',
    typeUrl: 't',
    differBy: ['id'],
    entries: [{ entry: 'old-style/0', sources: ['cloud', 'onprem'] }],
    nodeGroups: [
      {
        nodeGroup: 'n',
        shadowed: [],
        entries: [
          {
            authority: 'old-style/0',
            group: 'old-style/0 n',
            state: 'primary',
            since,
            why: 'first_response',
            active: 'cloud',
            candidates: [cloud, onprem],
            wanted: 1,
            served: 0,
            guarded: 0,
            holdMs: 30_000,
            ...row,
          },
        ],
      },
    ],
  })
    .trimEnd()
    .split('\n')
    .slice(6);

t.test('explain of an old-style name: a source without trouble has no line', (t) => {
  t.strictSame(shown({}), [`    old-style/0 primary since ${since}, from cloud`]);
  const waiting = shown({ active: null, state: 'idle', candidates: [{ ...cloud, live: false }] });
  t.strictSame(waiting, [`    old-style/0 idle since ${since}, from no source`]);
  t.end();
});

t.test('explain of an old-style name: a lost source has its error and its next attempt', (t) => {
  const lost: CandidateRow = {
    ...cloud,
    live: false,
    tripped: true,
    breaker: 'open',
    lostSince: since,
    lastError: 'certificate has expired',
    nextAttempt: since,
  };
  t.strictSame(shown({ state: 'alt', active: 'onprem', candidates: [lost, onprem] }), [
    `    old-style/0 alt since ${since}, from onprem`,
    '      cloud: not connected, counts as down, breaker open',
    `        lost since ${since}: certificate has expired`,
    `        next attempt at ${since}`,
  ]);
  t.end();
});

t.test('explain of an old-style name: names wait until the primary is stable', (t) => {
  t.strictSame(shown({ state: 'alt', active: 'onprem' }), [
    `    old-style/0 alt since ${since}, from onprem`,
    '      cloud: connected, names return to it 30s after its connection',
  ]);
  t.end();
});

t.test('explain of an old-style name: what a source has said, unless it has sent the name', (t) => {
  const saying = (answer: CandidateRow['answer']): readonly string[] =>
    shown({ candidates: [{ ...cloud, ...(answer && { answer }) }] }).slice(1);
  for (const answer of ['sent', 'not requested', undefined] as const)
    t.strictSame(saying(answer), []);
  t.match(saying('rejected'), [
    '      cloud: connected',
    /^ {8}answer: sent, and refused by the gateway/,
  ]);
  t.strictSame(saying('absent').slice(1), ['        answer: there is no such resource']);
  t.end();
});

/** Goal: an operator reads why a name is served as it is (docs/OPERATIONS.md, `tributary explain`). */
import t from 'tap';
import type { CandidateRow } from '../../../../gateway/admin/authorities.js';
import { healthWords, troubleLines } from '../../../../gateway/admin/source-words.js';

const row = (fields: Partial<CandidateRow>): CandidateRow => ({
  source: 'a1',
  authority: 'a.test',
  live: true,
  tripped: false,
  ...fields,
});

t.test('the words say whether a source is connected, counts as down, and has a breaker', (t) => {
  t.strictSame(healthWords(row({})), ['connected'], 'a directory has no breaker');
  t.strictSame(healthWords(row({ breaker: 'closed' })), ['connected', 'breaker closed']);
  t.strictSame(healthWords(row({ live: false, tripped: true, breaker: 'open' })), [
    'not connected',
    'counts as down',
    'breaker open',
  ]);
  // It answers again, and its hold is not over (docs/FAILOVER.md).
  t.strictSame(healthWords(row({ tripped: true })), ['connected', 'counts as down']);
  t.end();
});

t.test('each trouble has a line: the last loss, the next attempt, wrong files', (t) => {
  t.strictSame(troubleLines(row({})), []);
  const lastError = '14 unavailable';
  t.strictSame(troubleLines(row({ lastError })), ['lost since the start: 14 unavailable']);
  t.strictSame(troubleLines(row({ lostSince: '10:00', lastError, nextAttempt: '10:05' })), [
    'lost since 10:00: 14 unavailable',
    'next attempt at 10:05',
  ]);
  t.strictSame(troubleLines(row({ problems: ['a.yaml:1:1: wrong', 'b.yaml:2:1: wrong'] })), [
    'a.yaml:1:1: wrong',
    'b.yaml:2:1: wrong',
  ]);
  t.end();
});

/** Goal: the status of one resource follows from what the client holds of it and from the last answer (CSDS). */
import t from 'tap';
import {
  resourceStatusOf,
  type Holding,
} from '../../../../../gateway/core/session/resource-status.js';
import type { SyncState } from '../../../../../gateway/core/session/sync-state.js';

const KINDS: readonly SyncState['kind'][] = ['SYNCED', 'STALE', 'NACK', 'NOT SENT'];
const rowOf = (holding: Holding) => KINDS.map((kind) => resourceStatusOf(holding, kind));

t.test('a resource that the client has not been sent is NOT_SENT, whatever the rest', (t) => {
  t.strictSame(rowOf('unsent'), ['NOT_SENT', 'NOT_SENT', 'NOT_SENT', 'NOT_SENT']);
  t.end();
});

t.test('a resource that is sent shares the ACK or NACK of its response', (t) => {
  t.strictSame(rowOf('current'), ['SYNCED', 'STALE', 'ERROR', 'SYNCED']);
  t.end();
});

t.test('another version than the served one is never SYNCED', (t) => {
  t.strictSame(rowOf('older'), ['STALE', 'STALE', 'ERROR', 'STALE']);
  t.end();
});

t.test('a resource that does not exist is not an error of the client', (t) => {
  t.strictSame(rowOf('absent'), ['SYNCED', 'STALE', 'SYNCED', 'NOT_SENT']);
  t.end();
});

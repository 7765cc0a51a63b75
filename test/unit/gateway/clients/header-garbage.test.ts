/** Goal: V8 frees the header values of few streams at a time. */
import t from 'tap';
import { beginFullCollection, HeaderGarbage } from '../../../../gateway/clients/header-garbage.js';
import { watchFullCollections } from '../../../../gateway/clients/full-collections.js';
import { until } from '../../../support/until.js';

const MOST_VALUES = 40_000;

t.test('a collection begins whenever so many values have come since the last one', (t) => {
  let collections = 0;
  let nowMs = 0;
  let isWatched = true;
  let handleCollected = (): void => undefined;
  const garbage = new HeaderGarbage(
    (onCollected) => {
      handleCollected = onCollected;
      return () => {
        isWatched = false;
      };
    },
    () => collections++,
    () => nowMs,
  );
  garbage.note(MOST_VALUES - 1);
  t.equal(collections, 0);
  garbage.note(1);
  t.equal(collections, 1);
  garbage.note(MOST_VALUES - 1);
  handleCollected();
  garbage.note(MOST_VALUES - 1);
  t.equal(collections, 1, 'V8 has collected by itself meanwhile');
  garbage.note(8);
  t.equal(collections, 1, 'V8 has had no time for another one');
  nowMs = 60_000;
  garbage.note(8);
  t.equal(collections, 2);
  garbage.close();
  t.equal(isWatched, false);
  t.end();
});

t.test('V8 collects the whole heap soon after it was made to begin', async (t) => {
  let collections = 0;
  const stop = watchFullCollections(() => collections++);
  t.teardown(stop);
  beginFullCollection();
  // By itself it would take longer.
  await until('the collection has ended', () => collections > 0, { timeoutMs: 5_000 });
});

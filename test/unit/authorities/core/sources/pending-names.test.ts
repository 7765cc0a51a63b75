/**
 * Goal: the names of one request are bounded, and each name is sent once.
 * Method: one PendingNames, taken from until it is empty.
 */
import t from 'tap';
import { PendingNames } from '../../../../../authorities/core/sources/pending-names.js';
import { SourceContents } from '../../../../../authorities/core/sources/source-contents.js';
import { nameOf, THING, thing } from '../../../../support/federation-driver.js';

t.test('many new names go in several requests, each once, and a name that left first', (t) => {
  const contents = new SourceContents();
  const pending = new PendingNames(500);
  const texts = Array.from({ length: 1_001 }, (_, at) => thing('cloud', `x/${at}`));
  const subscriptions = texts.map((text) => contents.subscribe(THING, nameOf(text), {})!);
  for (const one of subscriptions) pending.subscribe(one);
  const former = thing('cloud', 'x/former');
  pending.unsubscribe(contents.subscribe(THING, nameOf(former), {})!);

  const taken = [pending.take(1_000_000), pending.take(1_000_000), pending.take(1_000_000)];
  t.equal(pending.take(1_000_000), undefined);
  t.ok(pending.isEmpty);
  t.strictSame(
    taken.map((request) => request?.asked.length),
    [500, 500, 1],
  );
  t.strictSame(
    taken.flatMap((request) => request?.asked ?? []),
    texts,
  );
  t.strictSame(
    taken.flatMap((request) => request?.added ?? []),
    subscriptions,
  );
  t.strictSame(taken[0]?.left, [former]);
  t.end();
});

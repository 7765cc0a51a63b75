/**
 * Goal: node groups and entries that share sources, streams and types do not affect one another.
 * Method: as in node-group.test.ts.
 */
import t from 'tap';
import { isOldStyleEntry } from '../../../../../authorities/core/node-groups/node-group.js';
import { RecordingWatcher, THING } from '../../../../support/federation-driver.js';
import { at, driverOf, heldBy, toldTo } from '../../../../support/node-groups.js';

const OTHER = 'type.googleapis.com/test.v1.Other';

t.test(
  'forgetting a node group that shares its stream with others leaves the stream to them',
  (t) => {
    const driver = driverOf([{ sources: ['s'] }], { nodes: { s: { id: 'own', cluster: '' } } });
    driver.server('s').set(THING, 'x', '1');
    const [a, b] = ['a', 'b'].map((id) => driver.watching(at(id, 'x')));
    driver.unwatch(at('a', 'x'), a!);
    driver.advance(60_000);
    driver.publish('s', 'x', '2');
    t.strictSame(heldBy(b!), { x: '2' });
    t.equal(driver.dials.length, 1);
    t.end();
  },
);

t.test('a type is requested only at the entries that serve it', (t) => {
  const driver = driverOf([{ sources: ['things'], types: [THING] }, { sources: ['others'] }]);
  driver.server('others').set(OTHER, 'x', '1');
  const watcher = new RecordingWatcher();
  driver.watch(at('a', 'x'), watcher, OTHER);
  t.strictSame(heldBy(watcher), { x: '1' });
  t.notOk(driver.dials.some(({ source }) => source.startsWith('things')));
  t.ok(driver.federation.groups.every(({ spec }) => isOldStyleEntry(spec)));
  t.end();
});

t.test('content that came and went before the flush is not notified', (t) => {
  const driver = driverOf([{ sources: ['s'] }]);
  const watcher = driver.watching(at('a', 'x'), at('a', '*'));
  toldTo(watcher);
  const [stream] = driver.streamsOf('s');
  const body = Buffer.from('1');
  stream?.send({ typeUrl: THING, nonce: '1', resources: [{ name: 'x', version: '1', body }] });
  stream?.send({ typeUrl: THING, nonce: '2', removed: ['x'] });
  driver.pump();
  t.notOk(toldTo(watcher).some((line) => line.startsWith('changed')));
  t.end();
});

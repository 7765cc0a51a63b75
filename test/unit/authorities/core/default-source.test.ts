/**
 * Goal: `default_config_source` answers names of authorities that the map does not have, and an
 * authority of the map beats it (TP1, "Authority resolution").
 * Method: a federation on fake servers with a manual clock.
 */
import t from 'tap';
import type { AuthorityMap } from '../../../../config/model.js';
import {
  FederationDriver,
  mapOf,
  nameOf,
  THING,
  thing,
  type MapSketch,
} from '../../../support/federation-driver.js';

const GROUP = 'default/config_source';
const own = thing('cloud', 'a');
const other = thing('other', 'a');
const more = thing('more', 'a');
const glob = thing('more', '*');

const base = { cloud: { sources: ['c'] } } as const;
const map = (
  authorities: MapSketch['authorities'] = base,
  defaultSource: MapSketch['defaultSource'] = { sources: ['d', 'e'] },
): AuthorityMap =>
  mapOf({ authorities: { spare: { sources: ['c', 'd', 'e'] }, ...authorities }, defaultSource });

function started(first: AuthorityMap = map()): FederationDriver {
  const driver = new FederationDriver(first);
  for (const name of [own, other, more]) {
    for (const source of ['c', 'd', 'e']) driver.server(source).set(THING, name, source);
  }
  return driver;
}

t.test('names of all authorities that the map does not have move as one group', (t) => {
  const driver = started();
  const watcher = driver.watching(own, other, more, glob);
  driver.advance(30_000);
  t.strictSame(Object.fromEntries(watcher.held), { [own]: 'c', [other]: 'd', [more]: 'd' });
  t.ok(watcher.told.includes(`complete ${glob}`));
  t.strictSame(
    driver.federation.groups.map(({ id }) => id).sort(),
    ['cloud', GROUP].sort(),
    'authorities that clients invent cost no group',
  );
  watcher.take();
  driver.server('d').reachability = 'refuse';
  driver.cut('d');
  driver.advance(60_000);
  t.strictSame(Object.fromEntries(watcher.held), { [own]: 'c', [other]: 'e', [more]: 'e' });
  t.notMatch(watcher.told.join(), /removed|absent|error/);
  driver.delete('e', other);
  driver.advance(120_000);
  t.notOk(watcher.held.has(other), 'a deletion is one');
  t.end();
});

t.test(
  'an authority of the map has only its own sources, also while they fail (invariant 11)',
  (t) => {
    const driver = started(mapOf({ authorities: base, defaultSource: { sources: ['d'] } }));
    const watcher = driver.watching(own, other);
    driver.cut('c');
    driver.server('c').reachability = 'refuse';
    driver.advance(60_000);
    t.strictSame(Object.fromEntries(watcher.held), { [own]: 'c', [other]: 'd' });
    driver.publish('d', own, 'stolen');
    t.equal(watcher.held.get(own), 'c');
    t.end();
  },
);

t.test('reload: a new authority takes its names from the default source, without a gap', (t) => {
  const driver = started();
  const watcher = driver.watching(other, more);
  driver.advance(10_000);
  watcher.take();
  driver.reload(map({ ...base, other: { sources: ['c'] } }));
  driver.advance(120_000);
  t.strictSame(Object.fromEntries(watcher.held), { [other]: 'c', [more]: 'd' });
  t.equal(driver.federation.groupFor(nameOf(other))?.id, 'other');
  driver.reload(map());
  driver.advance(120_000);
  t.strictSame(Object.fromEntries(watcher.held), { [other]: 'd', [more]: 'd' });
  t.notMatch(watcher.told.join(), /removed|absent|error/);
  t.end();
});

t.test(
  'reload: one authority in place of another gives and takes names of the default source',
  (t) => {
    const driver = started(map({ ...base, other: { sources: ['c'] } }));
    const watcher = driver.watching(other, more);
    driver.advance(10_000);
    t.strictSame(Object.fromEntries(watcher.held), { [other]: 'c', [more]: 'd' });
    watcher.take();
    driver.reload(map({ ...base, more: { sources: ['c'] } }));
    driver.advance(120_000);
    t.strictSame(Object.fromEntries(watcher.held), { [other]: 'd', [more]: 'c' });
    t.notMatch(watcher.told.join(), /removed|absent|error/);
    t.end();
  },
);

t.test('reload: names lose a default source that leaves, and get one that comes', (t) => {
  const driver = started();
  const watcher = driver.watching(own, other);
  driver.advance(10_000);
  watcher.take();
  driver.reload(mapOf({ authorities: base }));
  t.strictSame([...watcher.told].sort(), [`error 5 ${other}`, `removed ${other}`]);
  driver.reload(map());
  driver.advance(10_000);
  t.strictSame(Object.fromEntries(watcher.held), { [own]: 'c', [other]: 'd' });
  t.end();
});

t.test('no name of the map may lead to an authority that only the default source has', (t) => {
  const driver = started();
  driver.redirect('c', thing('cloud', 'r'), other);
  driver.redirect('d', thing('other', 'r'), other);
  const watcher = driver.watching(thing('cloud', 'r'), thing('other', 'r'));
  driver.advance(10_000);
  t.strictSame([...watcher.held.keys()], [thing('other', 'r')], 'within the authority it may');
  t.end();
});
